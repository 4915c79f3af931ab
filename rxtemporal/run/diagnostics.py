"""Diagnostics of a process: its counters and what it waits for, as values and as text."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import Enum
from typing import Any

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.safe_text import show
from rxtemporal.core.spans import format_age
from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND, to_datetime
from rxtemporal.engine.stage import Stage
from rxtemporal.ingress.input_state import ClockStats, SourceStats
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import HandOffDiagnostics
from rxtemporal.operators.plan import Node
from rxtemporal.run.execution import Execution
from rxtemporal.run.outlet import Outlet
from rxtemporal.run.reader import Reader
from rxtemporal.run.stalls import SIDES, Stall, find_stalls, format_time
from rxtemporal.storage.event_log.verification import StorageDiagnostics
from rxtemporal.text.html import escape, section, table
from rxtemporal.text.plain_text import align, count_noun

# the fields that are ticks: instants, and spans
TIMES = frozenset({"cti", "next_due", "fleet"})
SPANS = frozenset(
    {"largest_lateness", "total_lateness", "lag", "clock_offset", "distance", "distances"}
)


def to_plain(value: Any, form: TimeForm, field: str = "") -> Any:
    """Return a value of a field as str, int, float, bool, None, or a list or dict of such.

    An instant becomes an ISO string, a span a number of seconds; both stay ticks if that is the
    form of the sources' times. The beginning of time, which means that there was none yet, becomes
    None. An Enum becomes its value, also as a key.
    """
    if dataclasses.is_dataclass(value):
        each = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {name: to_plain(part, form, name) for name, part in each.items()}
    if isinstance(value, Mapping):
        return {_key(key): to_plain(part, form) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(part, form, field) for part in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if value is not None and field in TIMES:
        return _to_time(int(value), form)
    if value is not None and field in SPANS:
        return int(value) if form == "ticks" else int(value) / TICKS_PER_SECOND
    # a device may be named by a date, or by bytes
    return value if isinstance(value, str | int | float | None) else str(value)


def _key(key: Any) -> str:
    return str(key.value if isinstance(key, Enum) else key)


def _to_time(time: int, form: TimeForm) -> str | int | None:
    if time <= MIN_TIME:
        return None
    return time if form == "ticks" else to_datetime(time).isoformat().replace("+00:00", "Z")


@dataclasses.dataclass(frozen=True, slots=True)
class InputDiagnostics:
    """Diagnostics of one input of an operator: its rows, its CTI (ticks) and the CTI's age.

    ``name`` is ``left`` or ``right``, or ``input`` if there is only one. ``cti_age`` is in seconds
    of the wall clock, since the CTI last advanced or since the start.
    """

    name: str
    rows_in: int
    cti: int
    cti_age: float


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorDiagnostics:
    """Diagnostics of one operator of a running query: its line of source code, and its counters.

    ``rows`` is the number of rows it holds. ``next_due`` is the earliest start or end (of a window,
    its end) that the CTI has to pass before any held row can leave; None if no row waits. ``late``
    counts the rows that came too late for ``synchronize``, and ``counts`` what else the operator
    counts in this life of the run, by name. Where each device has its own time, ``cti`` is that of
    the devices furthest ahead.
    """

    name: str
    line: str
    rows: int
    rows_out: int = 0
    cti: int = MIN_TIME
    cti_age: float = 0.0
    next_due: int | None = None
    inputs: tuple[InputDiagnostics, ...] = ()
    late: dict[LateReason, int] = dataclasses.field(default_factory=dict)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def rows_in(self) -> int:
        """The number of rows received, on all inputs."""
        return sum(each.rows_in for each in self.inputs)

    @property
    def held_back_by(self) -> InputDiagnostics | None:
        """The input of two with the lower CTI; None if they are equal."""
        if len({each.cti for each in self.inputs}) < 2:
            return None
        return min(self.inputs, key=lambda each: each.cti)


@dataclasses.dataclass(frozen=True, slots=True)
class StreamDiagnostics:
    """Diagnostics of one input stream: its events, the late ones, and its CTI (ticks).

    ``largest_lateness`` is the delay, in ticks, that would have lost nothing: the smallest one with
    which no event would have been late by a CTI of this stream. ``late_by_import`` counts the
    events that are late only because of a CTI from outside (imported, from a heartbeat, or while
    idle), against which no delay of this stream helps. ``ahead`` counts the rows and CTIs that the
    clock guard found ahead of the wall clock. ``inputs`` has the counters of each input, if the
    source merges several: a subject in front of the run, or a ``PushSource``; events that a subject
    has dropped are counted there alone. ``rows_out`` have entered the query; ``rows`` wait for a
    CTI, the oldest at ``next_due``; ``open_rows`` are start edges without an end edge. ``cti_age``
    is in seconds of the wall clock, since the stream last passed on a CTI or since the start.
    ``hand_off`` has the counters of the stream's hand-off, if it has one. ``lateness`` has the
    numbers of the late events in this life of the run by how late they were, in the buckets of the
    metric of that name; ``total_lateness`` is the sum of their distances from the CTI, in ticks.
    ``clocks`` tells of the clocks of devices, if each has its own; ``cti`` is then the highest one.
    """

    name: str
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    cti: int
    late_by_import: int = 0
    rows_out: int = 0
    rows: int = 0
    next_due: int | None = None
    open_rows: int = 0
    cti_age: float = 0.0
    idle: bool = False
    ended: bool = False
    hand_off: HandOffDiagnostics | None = None
    inputs: Mapping[str, SourceStats] = dataclasses.field(default_factory=dict)
    ahead: int = 0
    lateness: tuple[int, ...] = ()
    total_lateness: int = 0
    clocks: ClockStats | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class QueryDiagnostics:
    """Diagnostics of one query: the rows delivered to its sink, and its CTI (ticks).

    In interval shape ``rows`` wait for an open row to end; the oldest of them starts at
    ``next_due``. ``sink_restarts`` is how often the sink has restarted what it writes to, or has
    tried again; ``sink_lag`` for how many seconds it has held rows that are not delivered yet.
    """

    name: str
    rows_out: int
    batches_out: int
    cti: int
    rows: int = 0
    next_due: int | None = None
    cti_age: float = 0.0
    sink_restarts: int = 0
    sink_lag: float = 0.0


# the inputs of a stream that the table has: those with most late events, then those furthest behind
MOST_INPUTS = 8
Line = tuple[str, ...]


def drop_empty_columns(rows: list[Line]) -> list[Line]:
    """Return a table without the columns in which nothing stands."""
    columns = [column for column in zip(*rows, strict=True) if any(column)]
    return [*zip(*columns, strict=True)]


def list_tables(
    streams: Sequence[StreamDiagnostics],
    operators: Sequence[OperatorDiagnostics],
    queries: Sequence[QueryDiagnostics],
    time: TimeForm,
) -> list[list[Line]]:
    """Return the tables that have rows: streams, inputs, clocks, operators, queries."""
    kinds = (
        _stream_lines(streams, time),
        _input_lines(streams, time),
        _clock_lines(streams, time),
        _operator_lines(operators, time),
        _query_lines(queries, time),
    )
    return [rows for rows in map(list, kinds) if len(rows) > 1]


def _stream_lines(streams: Sequence[StreamDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("stream", "in", "late", "out", "waiting", "oldest", "CTI", "for")
    for each in streams:
        state = " (ended)" if each.ended else " (idle)" if each.idle else ""
        late = sum(each.late.values())
        counts = _counts(each.events_in, late, each.rows_out, each.rows)
        yield (each.name + state, *counts, *_times(each, time))


def _input_lines(streams: Sequence[StreamDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("input", "in", "late", "lag", "largest lateness")
    for stream in streams:
        heard = [each for each in stream.inputs.values() if each.lag is not None]
        worst = sorted(heard, key=lambda each: (-each.late, -(each.lag or 0)))
        for each in worst[:MOST_INPUTS]:
            name = f"{stream.name}: {each.name}{'' if each.open else ' (closed)'}"
            spans = _span(time, each.lag), _span(time, each.largest_lateness)
            yield (name, *_counts(each.events, each.late), *spans)
        if len(worst) > MOST_INPUTS:
            yield (f"{stream.name}: {len(worst) - MOST_INPUTS:,} more", "", "", "", "")


def _clock_lines(streams: Sequence[StreamDiagnostics], time: TimeForm) -> Iterator[Line]:
    """Yield how many devices there are, and those that are furthest behind."""
    yield ("clocks", "devices", "behind", "silent", "CTI", "behind by")
    for stream in streams:
        if (of := stream.clocks) is None:
            continue
        yield (stream.name, *_counts(of.devices, of.behind, of.silent),
               format_time(of.fleet, time), "-")  # fmt: skip
        for each in of.furthest:
            if each.distance:
                standing = format_time(each.cti, time), _span(time, each.distance)
                yield (f"{stream.name}: {each.device}", "", "", "", *standing)


def _span(time: TimeForm, length: int | None) -> str:
    if length is None:
        return "-"
    return f"{length:,}" if time == "ticks" else str(timedelta(microseconds=length))


def _operator_lines(operators: Sequence[OperatorDiagnostics], time: TimeForm) -> Iterator[Line]:
    is_late = any(each.late for each in operators)
    yield ("operator", "in", "late" if is_late else "", "out", "held", "oldest", "CTI", "for")
    for each in operators:
        line = each.line.rsplit("/", 1)[-1]
        late = f"{sum(each.late.values()):,}" if is_late else ""
        yield (f"{each.name} ({line})", f"{each.rows_in:,}", late,
               *_counts(each.rows_out, each.rows), *_times(each, time))  # fmt: skip
        for side in each.inputs if len(each.inputs) > 1 else ():
            name = f"  {side.name}{' (behind)' if side is each.held_back_by else ''}"
            standing = format_time(side.cti, time), format_age(side.cti_age)
            yield (name, f"{side.rows_in:,}", "", "", "", "", *standing)


def _query_lines(queries: Sequence[QueryDiagnostics], time: TimeForm) -> Iterator[Line]:
    yield ("query", "", "", "out", "waiting", "oldest", "CTI", "for")
    for each in queries:
        yield (each.name, "", "", *_counts(each.rows_out, each.rows), *_times(each, time))


def _times(
    each: StreamDiagnostics | OperatorDiagnostics | QueryDiagnostics, time: TimeForm
) -> tuple[str, str, str]:
    due, cti = format_time(each.next_due, time), format_time(each.cti, time)
    return due, cti, format_age(each.cti_age)


def _counts(*numbers: int) -> Line:
    return tuple(f"{number:,}" for number in numbers)


# rows of a table in HTML
MOST_ROWS = 100


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostics:
    """Counters of a process, its state and its stalls.

    The counters are the sums over all streams and queries; ``largest_lateness`` is the highest of
    the streams and the CTI the lowest of the queries. ``streams``, ``operators`` and ``queries``
    have the counters of each. ``error`` is the type and the message of the error that ended the
    process; ``running`` is False from then on, ``ended`` True once its sinks are closed.
    ``storage`` has the figures of the folder of ``log=`` or ``resume=``. Printed, it is a table
    that begins with the stalls.

    Attributes that are times or spans are ticks. ``to_dict`` and the table have them in the form
    that the sources use, ``time``: as datetimes or as ticks.
    """

    name: str
    running: bool
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    rows_out: int
    batches_out: int
    cti: int
    operators: tuple[OperatorDiagnostics, ...] = ()
    streams: tuple[StreamDiagnostics, ...] = ()
    queries: tuple[QueryDiagnostics, ...] = ()
    stalls: tuple[Stall, ...] = ()
    time: TimeForm = "datetime"
    ended: bool = False
    error: str | None = None
    storage: StorageDiagnostics | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of this as plain values, for JSON.

        Where the sources give datetimes, a time is an ISO string and a span a number of seconds; a
        CTI before the first is None. ``holding_back`` has the stalls as sentences.

        >>> import json
        >>> import rxtemporal as rxt
        >>> process = rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect())
        >>> process.wait()
        True
        >>> there = json.loads(json.dumps(process.diagnostics().to_dict()))
        >>> there["name"], there["ended"], there["error"], there["events_in"]
        ('query', True, None, 1)
        """
        sentences = [str(each) for each in self.holding_back()]
        return {**to_plain(self, self.time), "holding_back": sentences}

    def holding_back(self) -> tuple[Stall, ...]:
        """Return the stall of each waiting query, printable as a sentence; empty if none waits."""
        return self.stalls if self.running else ()

    def __str__(self) -> str:
        """Return the stalls, then streams, operators and queries as tables."""
        lines = [self._summary, *(f"  {each}" for each in self.holding_back())]
        for rows in self._list_tables():
            lines += align(rows, right=range(1, len(rows[0])))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        stalls = [f"<p>{escape(str(each))}</p>" for each in self.holding_back()]
        tables = [
            table(head, rows, most=MOST_ROWS, right=range(1, len(head)))
            for head, *rows in map(drop_empty_columns, self._list_tables())
        ]
        return section(self._summary, *stalls, *tables)

    @property
    def _summary(self) -> str:
        state = "runs" if self.running else "has ended" if self.ended else "is ending"
        if self.error is not None:
            state = f"has failed ({self.error})"
        return (
            f"process {self.name!r} {state}: {self.events_in:,} events in, "
            f"{sum(self.late.values()):,} late, {self.rows_out:,} rows out"
        )

    def _list_tables(self) -> list[list[Line]]:
        return list_tables(self.streams, self.operators, self.queries, self.time)


def describe_process(of: Diagnostics, error: BaseException | None) -> str:
    """Return the name, the state and the counters of a process in a few words, for its ``repr``."""
    state = "running" if of.running else "ended" if of.ended else "ending"
    if error is not None:
        state = f"failed: {show(error)}"
    events = f"{count_noun(of.events_in, 'event')} in"
    rows = f"{count_noun(of.rows_out, 'row')} out"
    return f"{of.name!r}, {state}, {events}, {sum(of.late.values()):,} late, {rows}"


def diagnose(
    name: str,
    running: bool,
    ended: bool,
    error: BaseException | None,
    execution: Execution,
    outlets: Sequence[Outlet],
) -> Diagnostics:
    """Return the current counters. Takes no lock under which the query runs: a sink may be busy."""
    now = execution.clock.elapsed()
    execution.fetch_waiting()
    streams = tuple(_describe_stream(each, now) for each in execution.readers)
    late: Counter[LateReason] = Counter()
    for stream in streams:
        late.update(stream.late)
    leaves = [leaf for _, leaf in execution.wiring.leaves]
    stages = execution.wiring.stages.items()
    operators = tuple(_describe_operator(node, stage, now) for node, stage in stages)
    for each in operators:
        late.update(each.late)
    return Diagnostics(
        name=name,
        running=running,
        events_in=sum(stream.events_in for stream in streams),
        late=dict(late),
        largest_lateness=max(stream.largest_lateness for stream in streams),
        rows_out=sum(outlet.rows for outlet in outlets),
        batches_out=sum(outlet.batches for outlet in outlets),
        cti=min(outlet.cti for outlet in outlets),
        operators=operators,
        streams=streams,
        queries=tuple(_describe_query(*each, now) for each in zip(outlets, leaves, strict=True)),
        stalls=find_stalls(
            execution, [each.name for each in outlets], [each.sink for each in outlets]
        ),
        time=execution.time,
        ended=ended,
        error=None if error is None else f"{type(error).__name__}: {error}",
        storage=None if execution.event_log is None else execution.event_log.store.diagnostics(),
    )


def _describe_stream(reader: Reader, now: float) -> StreamDiagnostics:
    door, inputs = reader.door, reader.list_inputs()
    return StreamDiagnostics(
        name=door.source,
        events_in=door.events,
        late={reason: n for reason, n in door.late.items() if n},
        largest_lateness=max(
            door.largest_lateness, *(each.largest_lateness for each in inputs.values()), 0
        ),
        cti=max(door.reached, MIN_TIME),
        late_by_import=door.late_by_import,
        rows_out=reader.meter.rows_out,
        rows=door.rows,
        next_due=door.next_due,
        open_rows=len(door.open_rows),
        cti_age=max(now - reader.meter.moved, 0.0),
        idle=reader.idle,
        ended=reader.ended,
        hand_off=None if reader.queue is None else reader.queue.diagnostics(),
        inputs=inputs,
        ahead=sum(each.ahead for each in inputs.values()) if inputs else reader.ahead,
        lateness=tuple(door.lateness.counts),
        total_lateness=door.lateness.total,
        clocks=door.get_clock_stats(),
    )


def _describe_operator(node: Node, stage: Stage, now: float) -> OperatorDiagnostics:
    assert node.operator is not None
    names = SIDES if len(stage.inputs) > 1 else ("input",)
    inputs = tuple(
        InputDiagnostics(name, meter.rows_out, meter.cti, max(now - meter.moved, 0.0))
        for name, meter in zip(names, stage.inputs, strict=True)
    )
    return OperatorDiagnostics(
        name=node.operator.name,
        line=node.operator.line,
        rows=stage.rows,
        rows_out=stage.rows_out,
        cti=stage.cti,
        cti_age=max(now - stage.moved, 0.0),
        next_due=stage.next_due,
        inputs=inputs,
        late=dict(getattr(stage, "late", {})),
        counts=dict(getattr(stage.step, "counts", {})),
    )


def _describe_query(outlet: Outlet, leaf: Stage, now: float) -> QueryDiagnostics:
    since = outlet.sink.undelivered_since
    return QueryDiagnostics(
        name=outlet.name,
        rows_out=outlet.rows,
        batches_out=outlet.batches,
        cti=outlet.cti,
        rows=leaf.rows,
        next_due=leaf.next_due,
        cti_age=max(now - leaf.moved, 0.0),
        sink_restarts=outlet.sink.restarts,
        sink_lag=0.0 if since is None else max(time.monotonic() - since, 0.0),
    )
