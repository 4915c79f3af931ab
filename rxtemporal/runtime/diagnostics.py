"""Diagnostics of a process: its counters and what it waits for, as values and as text."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.safe_text import show
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.display.html import escape, section, table
from rxtemporal.display.text_table import align
from rxtemporal.engine.stage import Stage
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.operators.plan import Node
from rxtemporal.runtime.diagnostics_tables import Line, drop_empty_columns, list_tables
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.part_diagnostics import (
    InputDiagnostics,
    OperatorDiagnostics,
    QueryDiagnostics,
    StreamDiagnostics,
)
from rxtemporal.runtime.plain_values import to_plain
from rxtemporal.runtime.reader import Reader
from rxtemporal.runtime.stall_search import SIDES, find_stalls
from rxtemporal.runtime.stalls import Stall
from rxtemporal.storage.event_log.storage_diagnostics import StorageDiagnostics

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
    events = f"{of.events_in:,} {'event' if of.events_in == 1 else 'events'} in"
    rows = f"{of.rows_out:,} {'row' if of.rows_out == 1 else 'rows'} out"
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
    leaving = [stage for _, stage in execution.wiring.leaving]
    stages = execution.wiring.stages.items()
    return Diagnostics(
        name=name,
        running=running,
        events_in=sum(stream.events_in for stream in streams),
        late=dict(late),
        largest_lateness=max(stream.largest_lateness for stream in streams),
        rows_out=sum(outlet.rows for outlet in outlets),
        batches_out=sum(outlet.batches for outlet in outlets),
        cti=min(outlet.cti for outlet in outlets),
        operators=tuple(_describe_operator(node, stage, now) for node, stage in stages),
        streams=streams,
        queries=tuple(_describe_query(*each, now) for each in zip(outlets, leaving, strict=True)),
        stalls=find_stalls(execution, [outlet.name for outlet in outlets]),
        time=execution.time,
        ended=ended,
        error=None if error is None else f"{type(error).__name__}: {error}",
        storage=None if execution.event_log is None else execution.event_log.store.diagnostics(),
    )


def _describe_stream(reader: Reader, now: float) -> StreamDiagnostics:
    door, inputs = reader.door, reader.source.inputs()
    return StreamDiagnostics(
        name=door.source,
        events_in=door.events,
        late={reason: n for reason, n in door.late.items() if n},
        largest_lateness=max(
            door.largest_lateness, *(each.largest_lateness for each in inputs.values()), 0
        ),
        cti=max(door.cti, MIN_TIME),
        late_by_import=door.late_by_import,
        rows_out=reader.meter.rows,
        rows=reader.packer.rows,
        next_due=reader.packer.next_due,
        open_rows=len(door.rows),
        cti_age=max(now - reader.meter.moved, 0.0),
        idle=reader.idle,
        ended=reader.ended,
        hand_off=None if reader.queue is None else reader.queue.diagnostics(),
        inputs=inputs,
        ahead=sum(each.ahead for each in inputs.values()) if inputs else reader.ahead,
        lateness=tuple(door.lateness.counts),
        total_lateness=door.lateness.total,
    )


def _describe_operator(node: Node, stage: Stage, now: float) -> OperatorDiagnostics:
    assert node.operator is not None
    names = SIDES if len(stage.inputs) > 1 else ("input",)
    inputs = tuple(
        InputDiagnostics(name, meter.rows, meter.cti, max(now - meter.moved, 0.0))
        for name, meter in zip(names, stage.inputs, strict=True)
    )
    return OperatorDiagnostics(
        name=node.operator.name,
        line=node.operator.line,
        rows=stage.rows,
        rows_out=stage.output.rows,
        cti=stage.output.cti,
        cti_age=max(now - stage.output.moved, 0.0),
        next_due=stage.next_due,
        inputs=inputs,
    )


def _describe_query(outlet: Outlet, leaving: Stage, now: float) -> QueryDiagnostics:
    return QueryDiagnostics(
        name=outlet.name,
        rows_out=outlet.rows,
        batches_out=outlet.batches,
        cti=outlet.cti,
        rows=leaving.rows,
        next_due=leaving.next_due,
        cti_age=max(now - leaving.output.moved, 0.0),
        sink_restarts=outlet.sink.restarts,
    )
