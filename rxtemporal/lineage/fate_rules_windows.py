"""Reasons why no result of a window stands on a row."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.lineage.fate_rules import MOST_OTHERS, explain_end
from rxtemporal.operators.causes.fate import Fate
from rxtemporal.operators.causes.lost_row import LostRow
from rxtemporal.operators.causes.row_text import write_expression, write_values
from rxtemporal.operators.count_window.plan import CountWindows
from rxtemporal.operators.hopping_window.plan import HoppingWindows
from rxtemporal.operators.sessions.plan import SessionWindows
from rxtemporal.operators.sessions.table import SessionTable
from rxtemporal.operators.snap.plan import SnapToWindowIntervals
from rxtemporal.operators.snapshot_window.plan import SnapshotWindows
from rxtemporal.operators.windows.members import Asked, code_keys
from rxtemporal.operators.windows.results_plan import Apply, ResultSpec, TopK


@explain_end.register(HoppingWindows)
@explain_end.register(SnapToWindowIntervals)
def _explain_hopping(operator: HoppingWindows | SnapToWindowIntervals, lost: LostRow) -> Fate:
    """Return that the row lies between windows, or which window has not ended."""
    first = (lost.start - operator.alignment - operator.duration) // operator.period + 1
    begin = operator.alignment + first * operator.period
    if begin >= lost.end:
        return lost.tell(
            "outside",
            f"outside every window of {lost.place}: the next one begins at {lost.write(begin)}",
        )
    if begin + operator.duration > lost.cti:
        return lost.wait(begin + operator.duration)
    if isinstance(operator, SnapToWindowIntervals):
        return explain_end.dispatch(object)(operator, lost)
    return _explain_result(operator.result, lost)


@explain_end.register
def _explain_snapshot(operator: SnapshotWindows, lost: LostRow) -> Fate:
    """Return that the snapshot is not known, or that its results do not have the row."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    return _explain_result(operator.result, lost)


@explain_end.register
def _explain_session(operator: SessionWindows, lost: LostRow) -> Fate:
    """Return until when the session may be prolonged."""
    codes, _ = code_keys(lost.source, lost.source.payload.head(0))
    table = SessionTable.of(lost.source, codes, operator.timeout, operator.max_duration)
    row = np.array([lost.row])
    session = table.at(codes[row], lost.source.start[row])[0]
    end = int(table.end[session])
    return lost.wait(end) if end > lost.cti else _explain_result(operator.result, lost)


@explain_end.register
def _explain_count(operator: CountWindows, lost: LostRow) -> Fate:
    """Return how many starts there are, if they are too few."""
    codes, _ = code_keys(lost.source, lost.source.payload.head(0))
    same = codes == codes[lost.row]
    starts = np.unique(lost.source.start[same])
    committed = int((starts < lost.cti).sum())
    if committed < operator.n:
        values = {key: lost.payload[key] for key in lost.source.keys}
        of = f" of {write_values(values)}" if values else ""
        return lost.tell(
            "outside",
            f"in no window of {lost.place}: it takes {operator.n} starts, and there are "
            f"{committed}{of}",
            values=values,
        )
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    return _explain_result(operator.result, lost)


def _explain_result(result: ResultSpec, lost: LostRow) -> Fate:
    """Return why the results of the row's windows do not have the row."""
    if isinstance(result, TopK):
        return _explain_rank(result, lost)
    if isinstance(result, Apply):
        name = getattr(result.function, "__name__", "the function")
        return lost.tell("dropped", f"{name} of {lost.place} returned nothing for its window")
    return explain_end.dispatch(object)(result, lost)


def _explain_rank(result: TopK, lost: LostRow) -> Fate:
    """Return the rows that ranked before it."""
    others = _find_results(lost)
    value = lost.source.payload[lost.row].select(result.expression.alias("by")).item()
    by = result.by if isinstance(result.by, str) else write_expression(result.by)
    better = ", ".join(lost.write_row(lost.output, row) for row in others[:MOST_OTHERS].tolist())
    return lost.tell(
        "worse",
        f"not among the {result.k} best by {by} in {lost.place}: {write_values({by: value})}"
        + (f"; there are {better}" if better else ""),
        values={by: value},
        others=lost.frame(lost.output, others[:MOST_OTHERS]),
    )


def _find_results(lost: LostRow) -> Int64s:
    """Return the results of the row's key, the nearest in time first."""
    asked = Asked.of(lost.source, lost.output, np.arange(len(lost.output)))
    return lost.order_by_distance(lost.output, np.flatnonzero(asked.key == asked.codes[lost.row]))
