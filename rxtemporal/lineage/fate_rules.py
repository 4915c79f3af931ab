"""Reasons why no row of an operator stands on a row of its input, for each family."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.operators.anti_join.plan import LeftAntiJoin
from rxtemporal.operators.causes.fate import Fate
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import LostRow
from rxtemporal.operators.causes.row_text import write_expression, write_span, write_values
from rxtemporal.operators.clip.plan import Clip
from rxtemporal.operators.explode.plan import Explode
from rxtemporal.operators.join.causes import code_keys, find_pairs
from rxtemporal.operators.join.plan import Join, Matcher
from rxtemporal.operators.where.plan import Where, WhereRow

MOST_OTHERS = 3


@singledispatch
def explain_end(operator: Any, lost: LostRow) -> Fate:
    """Return the reason why a row has not come out of an operator."""
    if lost.start >= lost.cti:
        return lost.wait(lost.start + 1)
    return lost.tell("ended", f"no row of {lost.place} stands on it")


@explain_end.register
def _explain_where(operator: Where, lost: LostRow) -> Fate:
    names = operator.predicate.meta.root_names()
    values = {name: value for name, value in lost.payload.items() if name in names}
    return lost.tell(
        "dropped",
        f"dropped by {lost.place}: {write_values(values)} does not satisfy "
        f"{write_expression(operator.predicate)}",
        values=values,
    )


@explain_end.register
def _explain_where_row(operator: WhereRow, lost: LostRow) -> Fate:
    name = getattr(operator.predicate, "__name__", "the function")
    values = lost.payload
    return lost.tell(
        "dropped", f"dropped by {lost.place}: {name} is not true of {write_values(values)}",
        values=values,
    )  # fmt: skip


@explain_end.register
def _explain_explode(operator: Explode, lost: LostRow) -> Fate:
    values = {operator.field: lost.payload[operator.field]}
    return lost.tell("dropped", f"{lost.place} gives no row for {write_values(values)}",
                     values=values)  # fmt: skip


@explain_end.register
def _explain_join(operator: Join, lost: LostRow) -> Fate:
    """Return that no row matched: the key that no row has, or the nearest one with the key."""
    other = lost.inputs[1 - lost.side]
    values, partners = _find_partners(operator, lost)
    if len(partners) and (found := _explain_overlap(operator, lost, partners)) is not None:
        return found
    missing = f"no partner in {lost.place}: "
    side = ("left", "right")[1 - lost.side]
    if None in values.values():
        return lost.tell("no partner", f"{missing}{write_values(values)}, and null matches nothing",
                         values=values)  # fmt: skip
    if not len(partners):
        of = f" with {write_values(values)}" if values else ""
        return lost.tell("no partner", f"{missing}no row of the {side} stream{of}", values=values)
    nearest = lost.order_by_stretch(other, partners)[:MOST_OTHERS]
    first = int(nearest[0])
    return lost.tell(
        "no partner",
        f"{missing}the nearest row of the {side} stream{_write_keys(values)} is "
        f"{lost.write_row(other, first)}, {_write_gap(lost, other, first)}",
        values=values,
        others=lost.frame(other, nearest),
    )


def _write_keys(values: dict[str, Any]) -> str:
    return f" with {write_values(values)}" if values else ""


def _write_gap(lost: LostRow, other: History, row: int) -> str:
    """Return how far another row is from the time asked about, or from the lost row, as text."""
    start, end = int(other.start[row]), int(other.end[row])
    low, high = lost.stretch
    if start >= high:
        gap, word = start - high + 1, "after" if high - low == 1 else "later"
    else:
        gap, word = low - end + 1, "before" if high - low == 1 else "earlier"
    span = f"{write_span(gap, lost.form)} {word}"
    return f"{span} {lost.write(low)}" if high - low == 1 else span


def _explain_overlap(operator: Join, lost: LostRow, partners: Int64s) -> Fate | None:
    """Return why there is no pair with the partners that are alive at the same time."""
    other = lost.inputs[1 - lost.side]
    alive = lost.find_alive(other, partners)
    if not len(alive):
        return None
    begin = int(np.maximum(other.start[alive], lost.start).min())
    if begin >= lost.cti:
        return lost.wait(begin + 1)
    if operator.where is None:  # the run has failed before
        return explain_end.dispatch(object)(operator, lost)
    nearest = alive[:MOST_OTHERS]
    return lost.tell(
        "no partner",
        f"no partner in {lost.place}: {lost.write_row(other, int(alive[0]))} does not satisfy "
        f"where={write_expression(operator.where)}",
        others=lost.frame(other, nearest),
    )


@explain_end.register
def _explain_anti_join(operator: LeftAntiJoin, lost: LostRow) -> Fate:
    """Return the rows that removed a left row, or those that a right row removes."""
    other = lost.inputs[1 - lost.side]
    pairs = find_pairs(operator, lost.inputs).numbers
    alive = lost.find_alive(other, np.unique(pairs[1 - lost.side][pairs[lost.side] == lost.row]))
    if lost.side == 1:
        return _tell_removal(lost, alive, "removes")
    if not len(alive):
        return explain_end.dispatch(object)(operator, lost)
    return lost.tell(
        "removed",
        f"removed by {lost.place}: {_list_rows(lost, other, alive)}",
        others=lost.frame(other, alive[:MOST_OTHERS]),
    )


@explain_end.register
def _explain_clip(operator: Clip, lost: LostRow) -> Fate:
    """Return the left rows that end where a right row begins."""
    if lost.side == 0:
        return explain_end.dispatch(object)(operator, lost)
    left, right = lost.inputs
    codes = code_keys(operator, lost.inputs)
    code, begin = codes[1][lost.row], lost.start
    before = right.start[(codes[1] == code) & (right.start < begin)].max(initial=MIN_TIME)
    alive = (left.start >= before) & (left.start < begin) & (left.end > begin)
    return _tell_removal(lost, np.flatnonzero(alive & (codes[0] == code) & (code >= 0)), "ends")


def _tell_removal(lost: LostRow, rows: Int64s, verb: str) -> Fate:
    """Return the left rows that a right row removes or ends; it gives no row itself."""
    shown = _list_rows(lost, lost.inputs[0], rows) if len(rows) else "no row"
    return lost.tell(
        "removes",
        f"gives no row in {lost.place}: it {verb} {shown}",
        others=lost.frame(lost.inputs[0], rows[:MOST_OTHERS]),
    )


def _list_rows(lost: LostRow, history: History, rows: Int64s) -> str:
    shown = ", ".join(lost.write_row(history, row) for row in rows[:MOST_OTHERS].tolist())
    more = f" and {len(rows) - MOST_OTHERS:,} more" if len(rows) > MOST_OTHERS else ""
    return shown + more


def _find_partners(operator: Matcher, lost: LostRow) -> tuple[dict[str, Any], Int64s]:
    """Return the values of the row's key, under the other side's names, and the rows with it."""
    codes = code_keys(operator, lost.inputs)
    pairs = [*((key, key) for key in lost.source.keys), *operator.on]
    values = {pair[1 - lost.side]: lost.payload[pair[lost.side]] for pair in pairs}
    code = codes[lost.side][lost.row]
    found = np.flatnonzero(codes[1 - lost.side] == code) if code >= 0 else np.empty(0, np.int64)
    return values, found
