"""Trace of a row through a flow, down to the arrivals, as an explanation."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, Int64s, TimeForm
from rxtemporal.core.columns import time_series
from rxtemporal.lineage.explanation import (
    MOST_ROWS,
    CausedRow,
    ExplainedStep,
    Explanation,
    name_role,
)
from rxtemporal.lineage.flow import Flow
from rxtemporal.operators.causes.causes import BOUNDARY, ROW
from rxtemporal.operators.causes.history import History

KIND_NAMES = pl.Series(["point", "interval", "edge start", "edge end", "cti"])
VERDICT_NAMES = pl.Series(["accepted", "adjusted", "late", "cti"])


def explain_row(flow: Flow, row: int) -> Explanation:
    """Return on which rows a row of the result stands, by its number in the result's history."""
    found = trace_roles(flow, flow.output, row)
    causes, bounds, arrivals = {}, {}, {}
    for number in _list_sources(flow):
        history, roles = flow.histories[number], found.get(number, {})
        rows = np.array(sorted(each for each in roles if roles[each] != BOUNDARY), np.int64)
        others = np.array(sorted(each for each in roles if roles[each] == BOUNDARY), np.int64)
        causes[history.name] = to_frame(history, rows, flow.time)
        bounds[history.name] = to_frame(history, others, flow.time)
        arrivals[history.name] = _list_arrivals(flow, history, rows)
    (first,) = to_frame(flow.result, np.array([row]), flow.time).to_dicts()
    steps = [_describe(flow.histories[each], found[each]) for each in sorted(found, reverse=True)]
    return Explanation(first, causes, bounds, arrivals, tuple(steps), flow.time)


def _list_sources(flow: Flow) -> list[int]:
    """Return the sources that the result reads, directly or not."""
    read = {flow.output}
    for number in range(flow.output, -1, -1):
        if number in read:
            read.update(flow.histories[number].inputs)
    return [number for number in sorted(read) if flow.histories[number].origin]


def trace_roles(flow: Flow, number: int, row: int) -> dict[int, dict[int, int]]:
    """Return for each node the rows on which a row stands, with the strongest role of each.

    What a boundary stands on is no more than a boundary itself.
    """
    found: dict[int, dict[int, int]] = {number: {row: ROW}}
    for each in range(number, -1, -1):  # inputs have lower numbers
        causes = flow.causes(each, list(found.get(each, ())))
        for side, below in enumerate(flow.histories[each].inputs):
            mine = causes.side == side
            pairs = (causes.of[mine], causes.row[mine], causes.role[mine])
            for of, other, role in zip(*(part.tolist() for part in pairs), strict=True):
                roles = found.setdefault(below, {})
                weaker = max(role, found[each][of])
                roles[other] = min(weaker, roles.get(other, weaker))
    return found


def to_frame(history: History, rows: Int64s, time: TimeForm) -> pl.DataFrame:
    """Return rows of a node as a frame: ``start_time``, ``end_time`` (null: never), the payload."""
    payload = history.payload[rows]
    if not payload.width:
        payload = pl.DataFrame(height=len(rows))
    start, end = history.start[rows], history.end[rows]
    if {START, END} & set(payload.columns):  # inside a query a field may have such a name
        payload = payload.rename({name: f"{name} (field)" for name in payload.columns})
    return EventBatch.of_rows(start, end, payload, 0).to_polars(time)


def _describe(history: History, roles: dict[int, int]) -> ExplainedStep:
    # rows before those that only bound it or came before
    rows = sorted(roles, key=lambda row: (roles[row], row))
    shown = [
        CausedRow(
            int(history.start[row]),
            int(history.end[row]),
            history.payload.row(row, named=True) if history.payload.width else {},
            name_role(roles[row]),
        )
        for row in rows[:MOST_ROWS]
    ]
    return ExplainedStep(
        history.number, history.name, history.line, history.inputs, len(rows), tuple(shown)
    )


def _list_arrivals(flow: Flow, history: History, rows: Int64s) -> pl.DataFrame:
    """Return the arrivals that brought rows of a source."""
    arrivals = flow.arrivals[history.origin]
    at = flow.find_arrivals(history.number, rows)
    if history.name == history.origin:
        cause = np.searchsorted(rows, arrivals.row[at])
    else:  # of a stream of late events each row is one arrival
        cause = np.arange(len(at))
    late_by: Any = pl.Series("late_by", arrivals.by[at])
    return pl.DataFrame(
        [
            pl.Series("cause", cause, pl.Int64),
            pl.Series("position", arrivals.position[at], pl.Int64),
            KIND_NAMES.gather(arrivals.kind[at].tolist()).alias("kind"),
            time_series(START, arrivals.start[at], flow.time),
            time_series(END, arrivals.end[at], flow.time, endless=True),
            VERDICT_NAMES.gather(arrivals.verdict[at].tolist()).alias("verdict"),
            arrivals.reason.gather(at.tolist()).alias("reason"),
            late_by if flow.time == "ticks" else late_by.cast(pl.Duration("us")),
            arrivals.input.gather(at.tolist()).alias("input"),
        ]
    )
