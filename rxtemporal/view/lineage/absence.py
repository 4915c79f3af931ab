"""The answer to "why is there no such row": the nearest events and what became of each."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.core.ticks import MIN_TIME, describe, time_ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.operators.causes.causes import BOUNDARY
from rxtemporal.operators.causes.history import ADJUSTED, CTI, EDGE_END, LATE, Arrivals, History
from rxtemporal.operators.causes.lost_row import (
    Candidate,
    Fate,
    LostRow,
    make_frame,
    write_delay,
    write_expression,
    write_lifetime,
    write_span,
    write_time,
    write_values,
)
from rxtemporal.text import html
from rxtemporal.text.plain_text import make_visible
from rxtemporal.view.lineage.flow import Flow

Where = Mapping[str, Any] | pl.Expr | None


@dataclasses.dataclass(frozen=True, eq=False)
class Wanted:
    """The row that is missing: a time that its lifetime should contain, and its fields.

    ``at`` is in ticks; with ``begins`` its lifetime should begin then. ``where`` is a mapping from
    field to value, or a predicate over the fields of the result with ``start_time`` and
    ``end_time``.
    """

    at: int | None
    where: Where
    form: TimeForm
    begins: bool = False

    def measure(self, start: Int64s, end: Int64s) -> Int64s:
        """Return how far each lifetime is from the time, 0 if it contains it, or begins then."""
        if self.at is None:
            return np.zeros(len(start), np.int64)
        if self.begins:
            return np.abs(start - self.at)
        return np.maximum(np.maximum(start - self.at, self.at - (end - 1)), 0)

    @property
    def verb(self) -> str:
        """The way in which a lifetime that fits has the time, as a verb."""
        return "begin at" if self.begins else "contain"

    def count_mismatches(self, rows: pl.DataFrame, start: Int64s, end: Int64s) -> Int64s:
        """Return for each row how many fields have other values; unknown fields do not count.

        For a predicate it is 1 if the row has the fields of the predicate and does not satisfy it.
        """
        count = np.zeros(rows.height, np.int64)
        if isinstance(self.where, pl.Expr):
            frame = _add_times(rows, start, end, self.form)
            if set(self.where.meta.root_names()) <= set(frame.columns):
                count += ~_evaluate(frame, self.where)
        elif self.where is not None:
            for name, value in self.where.items():
                if name in rows.columns:
                    count += ~_evaluate(rows, _equals(name, value))
        return count

    def check(self, result: pl.DataFrame) -> None:
        """Raise an error if ``where`` names a field that the result does not have."""
        if isinstance(self.where, pl.Expr):
            names = set(self.where.meta.root_names()) - {"start_time", "end_time"}
        else:
            names = set(self.where or {})
        if missing := names - set(result.columns):
            raise ArgumentError(
                f"where names {min(missing)!r}, which the result does not have; it has the fields "
                f"{result.columns}"
            )


def _equals(name: str, value: Any) -> pl.Expr:
    return pl.col(name).eq_missing(pl.lit(value))


def _evaluate(rows: pl.DataFrame, predicate: pl.Expr) -> Any:
    try:
        series = rows.select(predicate.alias("is")).to_series()
        if series.dtype not in (pl.Boolean, pl.Null):
            raise ArgumentError(
                f"where takes a predicate, got {predicate} of type {series.dtype}. "
                'Hint: pl.col("temp") > 20 for example, or a mapping {"room": "lab"}.'
            )
        return series.cast(pl.Boolean).fill_null(False).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise ArgumentError(f"where does not fit the fields {dict(rows.schema)}: {error}") from None


def _add_times(rows: pl.DataFrame, start: Int64s, end: Int64s, form: TimeForm) -> pl.DataFrame:
    times = time_series("start_time", start, form), time_series("end_time", end, form, endless=True)
    return rows.with_columns(*times)


def find_nearest(wanted: Wanted, history: History, most: int) -> tuple[Int64s, Int64s]:
    """Return the rows of a history that are nearest to the missing one, and their mismatches."""
    mismatches = wanted.count_mismatches(history.payload, history.start, history.end)
    distance = wanted.measure(history.start, history.end)
    rows = np.lexsort((distance, mismatches))[:most]
    return rows, mismatches[rows]


def find_nearest_arrivals(
    wanted: Wanted, arrivals: Arrivals, history: History | None, most: int
) -> Int64s:
    """Return the numbers of the events that are nearest to the missing row.

    The end of a start edge is that of its row.
    """
    events = np.flatnonzero((arrivals.kind != CTI) & (arrivals.kind != EDGE_END))
    start, end, row = arrivals.start[events], arrivals.end[events], arrivals.row[events]
    if history is not None:
        entered = row >= 0
        end = end.copy()
        end[entered] = history.end[row[entered]]
    mismatches = wanted.count_mismatches(arrivals.payload[events], start, end)
    order = np.lexsort((wanted.measure(start, end), mismatches))[:most]
    return events[order]


# a worse end has a greater rank: whether the row could only have removed others, distance from the
# time, in a result, steps from the output
Rank: TypeAlias = tuple[bool, int, bool, int]
End: TypeAlias = tuple[Rank, Fate]


def find_nearest_end(ends: list[End]) -> End:
    """Return the end that is nearest to the missing row."""
    return min(ends, key=lambda end: end[0])


def choose_ways(ways: list[list[End]]) -> list[End]:
    """Return the ends that count, of all ways on which a stream is read.

    A row that is in the result by one way has not been lost: the end of another way is only
    mentioned. If that other way alone is alive at the time asked about, it counts, and the result
    is mentioned. A way on which the row waits, or removes other rows, is ranked as it is.
    """
    nearest = [find_nearest_end(way) for way in ways]
    results = [end for end in nearest if end[0][2] and not end[0][0]]
    lost = [end for end in nearest if _is_lost(end)]
    if not results or not lost:
        return [end for way in ways for end in way]
    result, other = find_nearest_end(results), find_nearest_end(lost)
    if other[0][1] == 0 < result[0][1]:
        chosen = _mention(other, f"; another way is {result[1]}")
    else:
        chosen = _mention(result, f"; another way ended: {other[1]}")
    return [chosen, *(end for end in nearest if end is not result and not _is_lost(end))]


def _is_lost(end: End) -> bool:
    removes, _, is_result, _ = end[0]
    return not removes and not is_result and end[1].kind != "waiting"


def _mention(end: End, text: str) -> End:
    return end[0], dataclasses.replace(end[1], message=end[1].message + text)


# rows of an operator's output that are looked at in one go, and in all
FEW_ROWS, MOST_ROWS = 16, 1 << 20
# results of one row that are followed
MOST_BRANCHES = 4
NO_ROWS = np.empty(0, np.int64)


class Forward:
    """Search for the ends of rows of one run, for one missing row."""

    def __init__(self, flow: Flow, wanted: Wanted) -> None:
        self._flow, self._wanted = flow, wanted
        self._readers: dict[int, list[tuple[History, int]]] = defaultdict(list)
        for history in _list_ancestors(flow):
            for side, below in enumerate(history.inputs):
                self._readers[below].append((history, side))
        self._giving = _list_giving(flow)
        self._ends: dict[tuple[int, int], list[End]] = {}

    def find_fate(self, number: int, row: int) -> Fate:
        """Return the end of a row's way; of several that nearest to the missing row.

        Of the ways of a stream that is read twice, one into the result counts before one that ends,
        unless only the latter is alive at the time asked about.
        """
        return find_nearest_end(self._follow(number, row))[1]

    def _follow(self, number: int, row: int) -> list[End]:
        if (number, row) not in self._ends:
            ways = [list(self._go_on(*reads, row)) for reads in self._readers[number]]
            if number == self._flow.output:
                ways.append([self._arrive(row)])
            self._ends[number, row] = choose_ways([each for each in ways if each])
        return self._ends[number, row]

    def _arrive(self, row: int) -> End:
        """Return the end of a row that is in the result."""
        distance = self._measure(self._flow.result, np.array([row])).tolist()[0]
        return (False, distance, True, 0), self._tell_result(self._flow.result, row)

    def _go_on(self, reader: History, side: int, row: int) -> Iterator[End]:
        """Return the ends of a row's ways through one of the operators that read it."""
        inputs = tuple(self._flow.histories[each] for each in reader.inputs)
        lost = LostRow(reader, inputs, side, row, self._wanted.at, self._flow.time)
        removes = _only_removes(reader, side)
        gives = reader.number in self._giving and not removes
        distance = self._measure(lost.source, np.array([row])).tolist()[0]
        effects = NO_ROWS if removes else self._find_effects(reader, lost)
        if not len(effects) or self._is_missing(reader, effects, distance):
            steps = self._flow.output - reader.number
            yield (not gives, distance, False, steps), self._explain(reader, lost)
        for each in effects.tolist():
            for rank, fate in self._follow(reader.number, each):
                yield (not gives or rank[0], *rank[1:]), fate

    def _explain(self, reader: History, lost: LostRow) -> Fate:
        """Return why a row has not come out; a predicate may not have seen it before an error."""
        if self._flow.error is not None and reader.node.operator.filters:
            passed = int(reader.ctis[-1]) if len(reader.ctis) else MIN_TIME
            if lost.start >= passed:
                return lost.tell("ended", f"the run ended before {lost.place} gave a row for it")
        fate: Fate = reader.node.operator.explain_loss(lost)
        return fate

    def _is_missing(self, reader: History, effects: Int64s, distance: int) -> bool:
        """Return True if a row alive at the time is in no row of a join at that time."""
        if self._wanted.at is None or distance:
            return False
        return reader.node.operator.pairs_rows and bool(self._measure(reader, effects).min())

    def _measure(self, history: History, rows: Int64s) -> Int64s:
        return self._wanted.measure(history.start[rows], history.end[rows])

    def _find_effects(self, reader: History, lost: LostRow) -> Int64s:
        """Return the rows of an operator that stand on a row, those nearest to the time first.

        Rows near the row in time are looked at first, and as many at once as have few causes.
        """
        order = lost.order_by_distance(reader, np.arange(len(reader)))
        done, size = 0, FEW_ROWS
        while done < min(len(order), MOST_ROWS):
            some = order[done : done + size]
            causes = self._flow.causes(reader.number, some)
            hit = (causes.side == lost.side) & (causes.row == lost.row)
            if hit.any():
                inside = hit & (causes.role != BOUNDARY)
                found = np.unique(causes.of[inside if inside.any() else hit])
                near = np.argsort(self._measure(reader, found), kind="stable")
                return found[near[:MOST_BRANCHES]]
            done += len(some)
            size *= 4 if len(causes) < 8 * size else 1
        return NO_ROWS

    def _tell_result(self, history: History, row: int) -> Fate:
        """Return that a row is in a result, and in what this one differs from the missing one."""
        form, at = self._flow.time, self._wanted.at
        start, end = int(history.start[row]), int(history.end[row])
        lifetime = write_lifetime(start, end, form)
        text = f"in the result {lifetime} {write_values(history.payload.row(row, named=True))}"
        differs = []
        if at is not None and self._measure(history, np.array([row]))[0]:
            differs.append(f"which does not {self._wanted.verb} {write_time(at, form)}")
        rows = history.payload[[row]]
        if self._wanted.count_mismatches(rows, history.start[[row]], history.end[[row]])[0]:
            differs.append("whose fields differ")
        message = ", ".join([text, *differs[:1]]) + "".join(f" and {each}" for each in differs[1:])
        others = make_frame(history, np.array([row]), form)
        return Fate("elsewhere", message, history.name, history.line, others=others)


def _only_removes(reader: History, side: int) -> bool:
    """Return True if the rows of an input only end or remove those of the other one."""
    return bool(reader.node.operator.only_removes(side))


def _list_giving(flow: Flow) -> set[int]:
    """Return the numbers of the histories whose rows may be in the result."""
    found, waiting = {flow.output}, [flow.output]
    while waiting:
        reader = flow.histories[waiting.pop()]
        for side, below in enumerate(reader.inputs):
            if below not in found and not _only_removes(reader, side):
                found.add(below)
                waiting.append(below)
    return found


def _list_ancestors(flow: Flow) -> list[History]:
    """Return the histories on which the result may stand, itself included."""
    found, waiting = {flow.output}, [flow.output]
    while waiting:
        for below in flow.histories[waiting.pop()].inputs:
            if below not in found:
                found.add(below)
                waiting.append(below)
    return [flow.histories[each] for each in sorted(found)]


MOST_RESULTS = 3


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Absence:
    """Answer to "why is there no such row in the result", by ``why_not``.

    ``exists`` is True if there is such a row after all: then ``results`` has it, of several such
    rows the first three. Otherwise ``results`` has the three rows of the result that are nearest to
    the missing one, and ``candidates`` the nearest events of each stream with the ``fate`` of each,
    by stream. ``holding_back`` are sentences that say who holds back results that are not final,
    and ``error`` is the error that ended the run. It prints as text and shows as HTML.
    """

    wanted: str
    exists: bool
    results: pl.DataFrame
    candidates: Mapping[str, tuple[Candidate, ...]]
    counts: Mapping[str, int]
    holding_back: tuple[str, ...]
    error: BaseException | None
    time: TimeForm

    def __str__(self) -> str:
        lines = [self._write_head()]
        for stream, candidates in self.candidates.items():
            lines.append(self._write_stream(stream, len(candidates)))
            for each in candidates:
                lines += [f"  {self._write_event(each)}", f"    {make_visible(str(each.fate))}"]
        if self.results.height:
            lines.append("the result has it:" if self.exists else "nearest results:")
            lines += [f"  {self._write_result(row)}" for row in self.results.iter_rows(named=True)]
        return "\n".join([*lines, *self._list_ends()])

    def _repr_html_(self) -> str:
        tables = []
        for stream, candidates in self.candidates.items():
            rows = [[self._write_event(each), str(each.fate)] for each in candidates]
            caption = self._write_stream(stream, len(candidates))
            tables.append(html.table(["event", "fate"], rows, caption=caption))
        if self.results.height:
            caption = "the result has it" if self.exists else "nearest results"
            rows = [[self._write_result(row)] for row in self.results.iter_rows(named=True)]
            tables.append(html.table(["row"], rows, caption=caption))
        ends = [html.fixed_width(each) for each in self._list_ends()]
        return html.section(self._write_head(), *tables, *ends)

    def _write_head(self) -> str:
        if self.exists:
            return f"the result has a row {self.wanted}"
        return f"the result has no row {self.wanted}"

    def _write_stream(self, stream: str, shown: int) -> str:
        count = self.counts[stream]
        if not count:
            return f"{make_visible(stream)}: no events"
        return f"{make_visible(stream)}: {shown} of {count:,} events, the nearest first"

    def _write_event(self, candidate: Candidate) -> str:
        lifetime = write_lifetime(candidate.start, candidate.end, self.time)
        return f"{lifetime} {write_values(candidate.payload)} (event {candidate.position:,})"

    def _write_result(self, row: dict[str, object]) -> str:
        start, end = row.pop("start_time"), row.pop("end_time")
        times = [self._write_time(start), "never ends" if end is None else self._write_time(end)]
        return f"[{times[0]}, {times[1]}) {write_values(row)}"

    def _write_time(self, time: object) -> str:
        if isinstance(time, int):
            return write_time(time, self.time)
        return describe(time_ticks(time))  # type: ignore[arg-type]

    def _list_ends(self) -> list[str]:
        ends = [f"held back: {each}" for each in self.holding_back]
        if self.error is not None:
            ends.append(f"the run ended with {type(self.error).__name__}: {self.error}")
        return [make_visible(each) for each in ends]


MOST_CANDIDATES = 3


def find_absence(flow: Flow, wanted: Wanted, *, most: int = MOST_CANDIDATES) -> Absence:
    """Return why the result of a run does not have a row, or the row if it has it.

    ``most`` events of each stream are followed, those with the fewest other values first, and of
    these the nearest in time.
    """
    if flow.error is None or len(flow.result):
        wanted.check(flow.result.payload)
    nearest, mismatches = find_nearest(wanted, flow.result, MOST_RESULTS)
    distance = wanted.measure(flow.result.start[nearest], flow.result.end[nearest])
    hits = nearest[(mismatches == 0) & (distance == 0)]
    found = _Candidates(flow, wanted, most)
    return Absence(
        wanted=_write_wanted(wanted),
        exists=bool(len(hits)),
        results=make_frame(flow.result, hits if len(hits) else nearest, flow.time),
        candidates={} if len(hits) else found.find(),
        counts={name: found.count(each) for name, each in flow.arrivals.items()},
        holding_back=flow.holding_back,
        error=flow.error,
        time=flow.time,
    )


class _Candidates:
    """Search for the events of each stream that are nearest to a missing row."""

    def __init__(self, flow: Flow, wanted: Wanted, most: int) -> None:
        self._flow, self._wanted, self._most = flow, wanted, most
        self._forward = Forward(flow, wanted)
        self._sources = {each.name: each for each in flow.histories if each.name == each.origin}

    def count(self, arrivals: Arrivals) -> int:
        """Return the number of events, without CTIs and end edges."""
        return int(((arrivals.kind != CTI) & (arrivals.kind != EDGE_END)).sum())

    def find(self) -> dict[str, tuple[Candidate, ...]]:
        """Return the nearest events of each stream."""
        return {name: self._find_in(name, each) for name, each in self._flow.arrivals.items()}

    def _find_in(self, name: str, arrivals: Arrivals) -> tuple[Candidate, ...]:
        source = self._sources.get(name)
        found = find_nearest_arrivals(self._wanted, arrivals, source, self._most)
        return tuple(self._make(name, arrivals, source, number) for number in found.tolist())

    def _make(
        self, name: str, arrivals: Arrivals, source: History | None, number: int
    ) -> Candidate:
        row = int(arrivals.row[number])
        end = int(arrivals.end[number] if row < 0 or source is None else source.end[row])
        if arrivals.verdict[number] == LATE:
            fate = self._explain_late(arrivals, source, number)
        elif row < 0 or source is None:
            fate = Fate("ended", "it did not enter the query")
        else:
            fate = self._forward.find_fate(source.number, row)
        if arrivals.verdict[number] == ADJUSTED:
            fate = self._note_adjusted(fate, int(arrivals.by[number]))
        return Candidate(
            stream=name,
            position=int(arrivals.position[number]),
            input=arrivals.input[number],
            start=int(arrivals.start[number]),
            end=end,
            payload=arrivals.payload.row(number, named=True),
            fate=fate,
        )

    def _explain_late(self, arrivals: Arrivals, source: History | None, number: int) -> Fate:
        """Return by how much an event was late, and the delay that would have kept it."""
        by, form = int(arrivals.by[number]), self._flow.time
        cti, reason = int(arrivals.start[number]) + by, arrivals.reason[number]
        door = None if source is None else source.node.source
        clock = None if door is None else door.clock
        whose = "the CTI"
        if clock is not None:
            of = [arrivals.payload.get_column(name)[number] for name in clock.fields]
            whose = f"the CTI of device {(of[0] if len(of) == 1 else tuple(of))!r}"
        message = f"late by {write_span(by, form)}: {whose} was {write_time(cti, form)}"
        delay = None if source is None else source.node.cti_delay
        if reason in _BY_OTHERS:
            delay = None
            message += f", {_BY_OTHERS[reason]}"
        elif delay is not None:
            delay += by
            message += f"; a delay of {write_delay(delay, form)} would have kept it"
        return Fate("late", message, values={"reason": reason}, late_by=by, delay=delay)

    def _note_adjusted(self, fate: Fate, by: int) -> Fate:
        span = write_span(by, self._flow.time)
        return dataclasses.replace(
            fate, message=f"late by {span}, its start was moved; {fate.message}", late_by=by
        )


# why other devices have moved the CTI of one, by the reason of the rows that were late for that
_BY_OTHERS = {
    LateReason.BEHIND.value: "since behind= allows it to be no further behind the others",
    LateReason.SILENT.value: "since it had been silent for longer than silent_after= or "
    "forget_after= says",
}


def _write_wanted(wanted: Wanted) -> str:
    parts = []
    if wanted.at is not None:
        begins = "that begins " if wanted.begins else ""
        parts.append(f"{begins}at {write_time(wanted.at, wanted.form)}")
    if isinstance(wanted.where, pl.Expr):
        parts.append(f"where {write_expression(wanted.where)}")
    elif wanted.where is not None:
        parts.append(f"with {write_values(wanted.where)}")
    return " ".join(parts)
