"""Stalls: the reasons why a query delivers nothing, and remedies."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import format_age, span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND, describe
from rxtemporal.engine.stage import Meter, RowHolder, Stage
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.side_source import SideSource, find_origin, lacks_common_time
from rxtemporal.operators.plan import Node
from rxtemporal.reactive.clock import TOLERANCE, RepeatingTimer
from rxtemporal.run.execution import Execution
from rxtemporal.run.reader import Reader
from rxtemporal.sinks.sink import Sink


def format_time(time: int | None, form: TimeForm) -> str:
    """Return a time as text, in the form that the sources use."""
    if time is None or time <= MIN_TIME:
        return "-"
    return str(time) if form == "ticks" and time < MAX_TIME else describe(time)


@dataclasses.dataclass(frozen=True, slots=True)
class Stall:
    """One reason why a query delivers nothing: the CTI that it waits for.

    ``stream`` is the input stream that has to advance; None if the query waits for an open row to
    end, which starts at ``next_due``. ``operator`` and ``side`` name the input of a two-input
    operator that is behind the other one, if one is waiting; ``direct`` is True if the stream
    itself is that input. ``cti`` (ticks) is the CTI that does not advance, and ``cti_age`` for how
    many seconds of the wall clock. ``rows`` wait in the whole query; the CTI has to pass
    ``next_due`` before the first of them can leave. ``ended``: the stream has ended before the end
    of time, so it will not advance again. ``imports`` is the stream from which it takes its CTIs if
    that one has ended: then none will come either. ``needs_fields``: its fields are not known
    before its first event. ``others`` are the query's other streams.

    ``lacks_time``: the query reads late events or rejected rows beside the stream, in which each
    device has its own time, and no CTI holds for all of them before the end.

    ``sink`` is one that has had no answer for ``cti_age`` seconds; then no stream is named.
    """

    query: str
    stream: str | None
    operator: str | None
    side: str | None
    direct: bool
    cti: int
    cti_age: float
    rows: int
    next_due: int | None
    ended: bool
    others: tuple[str, ...]
    time: TimeForm
    needs_fields: bool = False
    imports: str | None = None
    sink: str | None = None
    lacks_time: bool = False

    def __str__(self) -> str:
        """Return the stall as a sentence."""
        if self.sink is not None:
            return (
                f"query {self.query!r} is held up by {self.sink}, which has had no answer for "
                f"{format_age(self.cti_age)} and tries again"
            )
        due, rows = format_time(self.next_due, self.time), _count_rows(self.rows)
        if self.lacks_time:
            return (
                f"query {self.query!r} waits for the end of stream {self.stream!r}, in which each "
                f"device has its own time and no CTI holds for all of them; {rows}"
            )
        if self.stream is None:
            return (
                f"query {self.query!r} waits for the end of an open row that starts at {due}; "
                f"{rows}: in interval shape rows leave complete, in order of start"
            )
        if self.needs_fields:
            why = "whose fields are not known before its first event"
            return f"{self._waiting_part()}, {why}; {rows}"
        first = "" if self.next_due is None else f", the first for a CTI above {due}"
        return f"{self._waiting_part()}, {self._cti_part()}; {rows}{first}"

    def _waiting_part(self) -> str:
        if self.operator is None:
            return f"query {self.query!r} waits for stream {self.stream!r}"
        comes = "" if self.direct else "which comes from "
        return f"{self.operator} waits for its {self.side} input, {comes}stream {self.stream!r}"

    def _cti_part(self) -> str:
        cti, age = format_time(self.cti, self.time), format_age(self.cti_age)
        if self.ended:
            return f"which ended at CTI {cti} and will not advance again"
        if self.imports is not None:
            where = "without a CTI" if self.cti <= MIN_TIME else f"at CTI {cti}"
            return (
                f"which imports the CTIs of stream {self.imports!r}, which has ended {where}, and "
                "the end of time is not imported"
            )
        if self.cti <= MIN_TIME:
            return f"which has had no CTI for {age}"
        return f"whose CTI has been at {cti} for {age}"

    @property
    def remedies(self) -> tuple[str, ...]:
        """The changes that usually help, as text."""
        if self.sink is not None:
            return (
                "look at what the sink writes to; it tries again by itself",
                "hand_off=rxt.HandOff() where the streams are made: they take rows meanwhile",
            )
        if self.lacks_time:
            return (f"behind= where {self.stream!r} is made: how far a device may be behind",)
        if self.stream is None:
            return ("run with EventShape.EDGE, which shows starts at once", "send end edges")
        if self.needs_fields:
            return (f"schema= where {self.stream!r} is made",)
        if self.imports is not None:
            return (
                f"a generation beside imports= in the settings of {self.stream!r}, whose own "
                "events then advance it too",
                f"CTIs that the source of {self.stream!r} sends",
            )
        other = repr(self.others[0]) if self.others else "a faster stream"
        return (
            f"advance_time= settings with a delay on {self.stream!r}",
            f"imports=AdvanceTimeImportSettings({other}) in those of {self.stream!r}",
            f"heartbeat= or idle_after= where {self.stream!r} is made, if it falls silent",
        )


def _count_rows(n: int) -> str:
    return {0: "no row waits", 1: "1 row waits"}.get(n, f"{n:,} rows wait")


SIDES = ("left", "right")


def find_stalls(
    execution: Execution, queries: Sequence[str], sinks: Sequence[Sink | None] = ()
) -> tuple[Stall, ...]:
    """Return the stalls of all queries that have not reached the end of time.

    ``sinks`` are those of the queries. They are called one at a time, so all wait for one of them.
    """
    found: list[Stall] = []
    searches = [
        _Search(execution, name, node, leaf)
        for name, (node, leaf) in zip(queries, execution.wiring.leaves, strict=True)
        if leaf.cti < MAX_TIME
    ]
    for name, sink in zip(queries, sinks, strict=False):
        if sink is not None and (since := sink.away_since) is not None:
            seconds = max(monotonic() - since, 0.0)
            where = f"the sink {sink.describe()} of query {name!r}"
            return tuple(each.wait_for(where, seconds) for each in searches)
    for each in searches:
        found += each.find()
    return tuple(found)


@dataclasses.dataclass(frozen=True, slots=True)
class _Input:
    """The input of a two-input operator that is behind the other one."""

    node: Node
    side: int

    @property
    def place(self) -> str:
        """The operator and the line that composed it."""
        assert self.node.operator is not None
        return f"{self.node.operator.name} ({Path(self.node.operator.line).name})"

    @property
    def is_source(self) -> bool:
        """True if a source is this input, with no operator between."""
        return self.node.inputs[self.side].source is not None


class _Search:
    """Search of one query, upstream from its output."""

    def __init__(self, execution: Execution, query: str, output: Node, leaf: Stage) -> None:
        self._query = query
        self._output = output
        self._leaf = leaf
        self._stages = execution.wiring.stages
        self._now = execution.clock.elapsed()
        self._time = execution.time
        self._flow = execution.flow
        self._readers = {id(reader.source): reader for reader in execution.readers}
        nodes = output.list_nodes()
        stages = [self._stages[each] for each in nodes if each.operator is not None]
        readers = [self._reader(each) for each in nodes if each.source is not None]
        self._names = [each.name for each in readers]
        holders: list[RowHolder] = [*stages, *readers, leaf]
        self._rows = sum(each.rows for each in holders)
        due = [each.next_due for each in holders]
        self._due = min((each for each in due if each is not None), default=None)

    def _reader(self, node: Node) -> Reader:
        """Return the reader of a source; late events are read with their original stream."""
        source = find_origin(node.source)
        return self._readers[id(source)]

    def wait_for(self, sink: str, seconds: float) -> Stall:
        """Return the stall of a query that waits for a sink."""
        stall = self._stall(None, self._leaf)
        return dataclasses.replace(stall, sink=sink, cti_age=seconds)

    def find(self) -> list[Stall]:
        """Return the stalls of the query."""
        leaf = self._leaf
        if leaf.cti < leaf.inputs[0].cti and leaf.rows:
            return [self._stall(None, leaf, due=leaf.next_due)]
        return self._trace(self._output, None)

    def _trace(self, node: Node, behind: _Input | None) -> list[Stall]:
        """Return the stalls of a stream; ``behind`` is the last input on the way that is behind."""
        if node.source is not None:
            lacks_time = isinstance(node.source, SideSource) and lacks_common_time(node.source)
            stalls = self._at_source(self._reader(node), behind)
            return [dataclasses.replace(each, lacks_time=lacks_time) for each in stalls]
        missing = self._stages[node].missing
        # if the plan knows the fields, a CTI is enough to begin
        if missing is not None and node.inputs[missing].schema is None:
            return [self._without_fields(_Input(node, missing))]
        # read once, since the run continues meanwhile
        ctis = [meter.cti for meter in self._stages[node].inputs]
        lowest = [side for side, cti in enumerate(ctis) if cti == min(ctis)]
        if len(lowest) < len(ctis):
            behind = _Input(node, lowest[0])
        # both sides may come from one stream, which is reported once
        found = {
            (each.stream, each.operator): each
            for side in lowest
            for each in self._trace(node.inputs[side], behind)
        }
        return list(found.values())

    def _without_fields(self, behind: _Input) -> Stall:
        """Return the stall of an operator that cannot begin before it knows an input's fields."""
        node, side = behind.node, behind.side
        sources = [each for each in node.inputs[side].list_nodes() if each.source is not None]
        unknown = [each for each in sources if each.schema is None] or sources
        meter = self._stages[node].inputs[side]
        found = self._stall(self._reader(unknown[0]), meter, behind=behind)
        return dataclasses.replace(found, needs_fields=True)

    def _at_source(self, reader: Reader, behind: _Input | None) -> list[Stall]:
        meter: Meter = reader.meter
        due = None
        if behind is not None:
            stage = self._stages[behind.node]
            meter, due = stage.inputs[behind.side], stage.next_due
        if meter.cti >= MAX_TIME:
            return []
        return [self._stall(reader, meter, due=due, behind=behind)]

    def _stall(
        self,
        reader: Reader | None,
        meter: Meter,
        *,
        due: int | None = None,
        behind: _Input | None = None,
    ) -> Stall:
        stream = None if reader is None else reader.name
        return Stall(
            query=self._query,
            stream=stream,
            operator=None if behind is None else behind.place,
            side=None if behind is None else SIDES[behind.side],
            direct=behind is None or behind.is_source,
            cti=meter.cti if reader is None or reader.source.clock is None else reader.door.reached,
            cti_age=max(self._now - meter.moved, 0.0),
            rows=self._rows,
            next_due=self._due if due is None else due,
            ended=reader is not None and reader.ended,
            imports=None if reader is None else self._find_ended_import(reader),
            others=tuple(name for name in self._names if name != stream),
            time=self._time,
        )

    def _find_ended_import(self, reader: Reader) -> str | None:
        """Return the ended stream from which a stream without CTIs of its own takes all it has."""
        seen: set[Reader] = set()
        while reader not in seen and not reader.ended:
            seen.add(reader)
            settings, imported = reader.source.settings, self._flow.imported_by(reader)
            if imported is None or settings is None or settings.generation is not None:
                return None
            reader = imported
        return reader.name if reader.ended and seen else None


_log = get_logger(__name__)


class Watched(Protocol):
    """The results of a query: their name, their CTI, and when the last of them came."""

    @property
    def name(self) -> str:
        """The name of the query."""

    @property
    def cti(self) -> int:
        """The CTI of the results."""

    @property
    def wrote(self) -> float:
        """Seconds of the wall clock at the last result."""

    @property
    def sink(self) -> Sink | None:
        """The sink; None for a subscriber."""


class StallWatch:
    """Timer that warns when a query has delivered neither rows nor a CTI for ``warn_after``.

    There is one warning for each stall; a query is watched again after its next result.
    ``warn_after`` is a timedelta or ticks of the wall clock; with None no timer runs.
    """

    def __init__(
        self,
        process: str,
        execution: Execution,
        outlets: Sequence[Watched],
        warn_after: Any,
        log: Any = _log,
    ) -> None:
        if isinstance(warn_after, bool):
            raise ArgumentError(
                f"warn_after is a timedelta, a text such as '30s', or None, got {warn_after!r}"
            )
        length = None if warn_after is None else span(warn_after, "warn_after", least=1)
        self._seconds = None if length is None else length / TICKS_PER_SECOND
        self._process, self._log = process, log
        self._execution = execution
        self._outlets = outlets
        # for each query with a warning, the time of its last result
        self._warned: dict[str, float] = {}
        self._timer = RepeatingTimer(execution.clock, self._check)

    def start(self) -> None:
        """Start to watch."""
        if self._seconds is not None:
            self._timer.start(self._seconds)

    def dispose(self) -> None:
        """Stop watching."""
        self._timer.dispose()

    def _check(self) -> float | None:
        """Warn of each query that has been silent for long enough; return when to check again."""
        assert self._seconds is not None
        now, again = self._execution.clock.elapsed(), [self._seconds]
        for outlet in self._outlets:
            left = outlet.wrote + self._seconds - now
            if outlet.cti >= MAX_TIME:
                continue
            if left > TOLERANCE:
                again.append(left)
            elif self._warned.get(outlet.name) != outlet.wrote:
                self._warned[outlet.name] = outlet.wrote
                self._warn(outlet.name, now - outlet.wrote)
        return min(again)

    def _warn(self, query: str, seconds: float) -> None:
        self._execution.fetch_waiting()
        names, sinks = [each.name for each in self._outlets], [each.sink for each in self._outlets]
        found = find_stalls(self._execution, names, sinks)
        stalls = [each for each in found if each.query == query]
        if stalls:
            self._log.warning("nothing has come out for a while", **self._fields(stalls, seconds))

    def _fields(self, stalls: Sequence[Stall], seconds: float) -> dict[str, Any]:
        first = stalls[0]
        due = None if first.next_due is None else format_time(first.next_due, first.time)
        return {
            "process": self._process,
            "query": first.query,
            "seconds": round(seconds),
            "input": first.stream,
            "has_to_pass": due,
            "because": "; and ".join(map(str, stalls)),
            "remedies": "; or ".join(first.remedies),
        }
