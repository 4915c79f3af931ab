"""What holds a query back: the input whose CTI everything behind it waits for."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICKS_PER_SECOND, describe, span
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.operators.plan import Node
from rxtemporal.reactive.clock import TOLERANCE, RepeatingTimer
from rxtemporal.reactive.meters import Gauge, Meter, RowHolder
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.reader import Reading

SIDES = ("left", "right")


def time_told(time: int | None, form: TimeForm) -> str:
    """Return a time for people, in the form in which the sources give theirs."""
    if time is None or time <= MIN_TIME:
        return "-"
    return str(time) if form == "ticks" and time < MAX_TIME else describe(time)


def seconds_told(seconds: float) -> str:
    """Return a span of the wall clock for people."""
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def place_of(node: Node) -> str:
    """Return an operator and the line that composed it, for people."""
    assert node.operator is not None
    return f"{node.operator.name} ({Path(node.operator.line).name})"


@dataclasses.dataclass(frozen=True, slots=True)
class Hold:
    """One reason why nothing comes out of a query: whose CTI it waits for, and since when.

    ``stream`` is the input stream that has to advance; ``operator`` and ``side`` name the input of
    a two-input operator that lies behind the other one, where that is what waits. ``cti`` (ticks)
    is the one that stands still, and ``cti_age`` for how many seconds of the wall it has. ``rows``
    wait in the whole query; the CTI has to pass ``next_due`` before the first of them can leave.
    ``ended``: the stream has ended without the end of time, and will never advance. Without a
    stream the way out waits for a row that is open: its start is ``next_due``. ``fieldless``: it is
    the stream's first event that is waited for, since its fields are not known before.
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
    fieldless: bool = False

    def __str__(self) -> str:
        """Return it as a sentence."""
        due = time_told(self.next_due, self.time)
        if self.stream is None:
            return (
                f"query {self.query!r} waits on its way out for the end of a row that begins at "
                f"{due}; {_rows(self.rows)} in interval shape, where rows leave complete and in "
                "order of start"
            )
        if self.fieldless:
            return f"{self._who()}, to show its fields in a first event; {_rows(self.rows)}"
        first = f", the first for a CTI above {due}" if self.next_due is not None else ""
        return f"{self._who()}, {self._standing()}; {_rows(self.rows)}{first}"

    def _who(self) -> str:
        if self.operator is None:
            return f"query {self.query!r} waits for stream {self.stream!r}"
        of = "" if self.direct else "which comes of "
        return f"{self.operator} waits for its {self.side} input, {of}stream {self.stream!r}"

    def _standing(self) -> str:
        if self.ended:
            return f"which ended with CTI {time_told(self.cti, self.time)} and never advances"
        age = seconds_told(self.cti_age)
        if self.cti <= MIN_TIME:
            return f"which has had no CTI for {age}"
        return f"whose CTI has been at {time_told(self.cti, self.time)} for {age}"

    @property
    def remedies(self) -> tuple[str, ...]:
        """What usually helps, in words."""
        if self.stream is None:
            return ("run with EventShape.EDGE, which shows starts at once", "send end edges")
        if self.fieldless:
            return (f"schema= where {self.stream!r} is made",)
        other = repr(self.others[0]) if self.others else "a faster stream"
        return (
            f"advance_time= settings with a delay on {self.stream!r}",
            f"imports=AdvanceTimeImportSettings({other}) in those of {self.stream!r}",
            f"heartbeat= or idle_after= where {self.stream!r} is made, if it falls silent",
        )


def _rows(n: int) -> str:
    return {0: "no row waits", 1: "1 row waits"}.get(n, f"{n:,} rows wait")


def holds(execution: Execution, queries: Sequence[str]) -> tuple[Hold, ...]:
    """Return what holds the queries back, those that have not come to the end of time."""
    found: list[Hold] = []
    for name, (node, gauge) in zip(queries, execution.leaving, strict=True):
        if gauge.output.cti < MAX_TIME:
            found += _Search(execution, name, node, gauge).found()
    return tuple(found)


class _Search:
    """From a query's way out against the stream, to the sources that it waits for."""

    def __init__(self, execution: Execution, query: str, output: Node, leaving: Gauge) -> None:
        self._query = query
        self._output = output
        self._leaving = leaving
        self._gauges = execution.wiring.gauges
        self._now = execution.clock.elapsed()
        self._time = execution.time
        self._readings: dict[int, Reading] = {id(r.source): r for r in execution.readings}
        nodes = output.every()
        holding = [self._gauges[each] for each in nodes if each.operator is not None]
        sources = [self._reading(each) for each in nodes if each.source is not None]
        self._names = [each.name for each in sources]
        holders: list[RowHolder] = [*holding, *sources, leaving]
        self._rows = sum(each.rows for each in holders)
        due = [each.next_due for each in holders]
        self._due = min((each for each in due if each is not None), default=None)

    def _reading(self, node: Node) -> Reading:
        """Return what reads a source; late events are read with what they were late on."""
        source = node.source.of if isinstance(node.source, LateSource) else node.source
        return self._readings[id(source)]

    def found(self) -> list[Hold]:
        """Return what the query waits for."""
        meter = self._leaving.inputs[0]
        if self._leaving.output.cti < meter.cti and self._leaving.rows:
            moved = self._now - self._leaving.output.moved
            return [self._hold(None, self._leaving.output.cti, moved, due=self._leaving.next_due)]
        return self._behind(self._output, None, 0)

    def _behind(self, node: Node, waiting: Node | None, side: int) -> list[Hold]:
        """Return whose CTI a stream waits for; ``waiting`` is the last join of two that differ."""
        if node.source is not None:
            return self._at_source(self._reading(node), waiting, side)
        missing = self._gauges[node].missing
        # where the plan knows the fields, a CTI alone will show them
        if missing is not None and node.inputs[missing].schema is None:
            return [self._unseen(node, missing)]
        # read once: a run goes on while it is looked at
        ctis = [meter.cti for meter in self._gauges[node].inputs]
        lowest = min(ctis)
        behind = [i for i, cti in enumerate(ctis) if cti == lowest]
        if len(behind) < len(ctis):
            waiting, side = node, behind[0]
        # a stream that both sides come of is told once
        found = {
            (each.stream, each.operator): each
            for i in behind
            for each in self._behind(node.inputs[i], waiting, side)
        }
        return list(found.values())

    def _unseen(self, node: Node, side: int) -> Hold:
        """Return that an operator waits for the fields of one of its inputs."""
        sources = [each for each in node.inputs[side].every() if each.source is not None]
        unknown = [each for each in sources if each.schema is None] or sources
        reading, meter = self._reading(unknown[0]), self._gauges[node].inputs[side]
        found = self._hold(
            reading, meter.cti, self._now - meter.moved, due=None, waiting=node, side=side
        )
        return dataclasses.replace(found, fieldless=True)

    def _at_source(self, reading: Reading, waiting: Node | None, side: int) -> list[Hold]:
        meter: Meter = reading.meter
        due = None
        if waiting is not None:
            gauge = self._gauges[waiting]
            meter, due = gauge.inputs[side], gauge.next_due
        if meter.cti >= MAX_TIME:
            return []
        age = self._now - meter.moved
        return [self._hold(reading, meter.cti, age, due=due, waiting=waiting, side=side)]

    def _hold(
        self,
        reading: Reading | None,
        cti: int,
        age: float,
        *,
        due: int | None,
        waiting: Node | None = None,
        side: int = 0,
    ) -> Hold:
        stream = None if reading is None else reading.name
        return Hold(
            query=self._query,
            stream=stream,
            operator=None if waiting is None else place_of(waiting),
            side=None if waiting is None else SIDES[side],
            direct=waiting is None or waiting.inputs[side].source is not None,
            cti=cti,
            cti_age=max(age, 0.0),
            rows=self._rows,
            next_due=self._due if due is None else due,
            ended=reading is not None and reading.ended,
            others=tuple(name for name in self._names if name != stream),
            time=self._time,
        )


_log = get_logger(__name__)


class StallWatch:
    """Warns once for each time that a query falls silent: what it waits for, and what helps.

    Neither rows nor time have come out for ``warn_after`` (a timedelta, or ticks of the wall). It
    looks again when something has come out since. With None it never warns, and no timer runs.
    """

    def __init__(
        self, process: str, execution: Execution, outlets: Sequence[Outlet], warn_after: Any
    ) -> None:
        if isinstance(warn_after, bool):
            raise ArgumentError(f"warn_after is a timedelta or None, got {warn_after!r}")
        length = None if warn_after is None else span(warn_after, "warn_after", least=1)
        self._seconds = None if length is None else length / TICKS_PER_SECOND
        self._process = process
        self._execution = execution
        self._outlets = outlets
        # when something had last come out of a query as it was told of
        self._told: dict[str, float] = {}
        self._timer = RepeatingTimer(execution.clock, self._look)

    def begin(self) -> None:
        """Begin to watch."""
        if self._seconds is not None:
            self._timer.start(self._seconds)

    def dispose(self) -> None:
        """Watch no longer."""
        self._timer.dispose()

    def _look(self) -> float | None:
        """Warn of who has been silent for long enough; return when to look again."""
        assert self._seconds is not None
        now, again = self._execution.clock.elapsed(), [self._seconds]
        for outlet in self._outlets:
            left = outlet.wrote + self._seconds - now
            if outlet.cti >= MAX_TIME:
                continue
            if left > TOLERANCE:
                again.append(left)
            elif self._told.get(outlet.name) != outlet.wrote:
                self._told[outlet.name] = outlet.wrote
                self._warn(outlet, now - outlet.wrote)
        return min(again)

    def _warn(self, outlet: Outlet, seconds: float) -> None:
        found = holds(self._execution, [each.name for each in self._outlets])
        reasons = [each for each in found if each.query == outlet.name]
        if reasons:
            _log.warning("nothing has come out for a while", **self._told_of(reasons, seconds))

    def _told_of(self, reasons: Sequence[Hold], seconds: float) -> dict[str, Any]:
        first = reasons[0]
        due = None if first.next_due is None else time_told(first.next_due, first.time)
        return {
            "process": self._process,
            "query": first.query,
            "seconds": round(seconds),
            "input": first.stream,
            "has_to_pass": due,
            "because": "; and ".join(map(str, reasons)),
            "remedies": "; or ".join(first.remedies),
        }
