"""Search for the reasons why a result does not have a row."""

from __future__ import annotations

import dataclasses

import polars as pl

from rxtemporal.lineage.absence import MOST_RESULTS, Absence
from rxtemporal.lineage.candidates import Wanted, find_nearest, find_nearest_arrivals
from rxtemporal.lineage.flow import Flow
from rxtemporal.lineage.forward import Forward
from rxtemporal.operators.causes.fate import Candidate, Fate, make_frame
from rxtemporal.operators.causes.history import ADJUSTED, CTI, EDGE_END, LATE, Arrivals, History
from rxtemporal.operators.causes.row_text import (
    write_delay,
    write_expression,
    write_span,
    write_time,
    write_values,
)

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
        return tuple(
            self._make(name, arrivals, source, number, mismatches)
            for number, mismatches in zip(found[0].tolist(), found[1].tolist(), strict=True)
        )

    def _make(
        self, name: str, arrivals: Arrivals, source: History | None, number: int, mismatches: int
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
            mismatches=mismatches,
            fate=fate,
        )

    def _explain_late(self, arrivals: Arrivals, source: History | None, number: int) -> Fate:
        """Return by how much an event was late, and the delay that would have kept it."""
        by, form = int(arrivals.by[number]), self._flow.time
        cti = int(arrivals.start[number]) + by
        message = f"late by {write_span(by, form)}: the CTI was {write_time(cti, form)}"
        delay = None if source is None else source.node.cti_delay
        if delay is not None:
            delay += by
            message += f"; a delay of {write_delay(delay, form)} would have kept it"
        reason = arrivals.reason[number]
        return Fate("late", message, values={"reason": reason}, late_by=by, delay=delay)

    def _note_adjusted(self, fate: Fate, by: int) -> Fate:
        span = write_span(by, self._flow.time)
        return dataclasses.replace(
            fate, message=f"late by {span}, its start was moved; {fate.message}", late_by=by
        )


def _write_wanted(wanted: Wanted) -> str:
    parts = []
    if wanted.at is not None:
        parts.append(f"at {write_time(wanted.at, wanted.form)}")
    if isinstance(wanted.where, pl.Expr):
        parts.append(f"where {write_expression(wanted.where)}")
    elif wanted.where is not None:
        parts.append(f"with {write_values(wanted.where)}")
    return " ".join(parts)
