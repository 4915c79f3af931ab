"""Causes of the rows of joins: a row of each side; and the pairs of rows of two streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import (
    MOST_OTHERS,
    Fate,
    LostRow,
    write_expression,
    write_span,
    write_values,
)
from rxtemporal.operators.join.keys import KeyMatcher
from rxtemporal.operators.join.plan import Join, Matcher


def find_joined_rows(
    operator: Join, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its pair: a row of the left input and one of the right."""
    made = find_pairs(operator, inputs)
    of, at = match_output(output, made, rows)
    return of_both_sides(of, made.take(at))


def of_both_sides(of: Int64s, pairs: CarriedRows) -> Causes:
    """Return the two rows of a pair as the causes of each row."""
    left, right = pairs.numbers
    side = np.repeat([0, 1], len(of))
    return Causes.of_pairs(np.tile(of, 2), np.concatenate([left, right]), side=side)


def find_pairs(operator: Matcher, inputs: Sequence[History]) -> CarriedRows:
    """Return the pairs of rows that match and are alive together, with the time of that."""
    join = Join(
        on=operator.on, where=operator.where, suffix=operator.suffix or "_right", line=operator.line
    )
    where = operator.where
    if where is None or '"Selector":' not in where.meta.serialize(format="json"):
        return carry(join, inputs)
    # such a predicate would see the fields that carry the row numbers
    pairs = carry(dataclasses.replace(join, where=None), inputs)
    matches = Predicate(where, pairs.payload.schema)
    return pairs.take(matches(Columns.from_frame(pairs.payload)))


def code_keys(operator: Matcher, inputs: Sequence[History]) -> tuple[Int64s, Int64s]:
    """Return a number for the key of each row of both inputs; -1 for rows that match nothing."""
    left, right = (each.payload for each in inputs)
    keys = inputs[0].keys
    matcher = KeyMatcher(keys, operator.on, operator.key_types(left.schema, right.schema, keys))
    columns = (Columns.from_frame(each) for each in (left, right))
    first, second = (matcher.encode(side, each) for side, each in enumerate(columns))
    return first, second


def explain_no_partner(operator: Join, lost: LostRow) -> Fate:
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
        return lost.tell_end()
    nearest = alive[:MOST_OTHERS]
    return lost.tell(
        "no partner",
        f"no partner in {lost.place}: {lost.write_row(other, int(alive[0]))} does not satisfy "
        f"where={write_expression(operator.where)}",
        others=lost.frame(other, nearest),
    )


def _find_partners(operator: Matcher, lost: LostRow) -> tuple[dict[str, Any], Int64s]:
    """Return the values of the row's key, under the other side's names, and the rows with it."""
    codes = code_keys(operator, lost.inputs)
    pairs = [*((key, key) for key in lost.source.keys), *operator.on]
    values = {pair[1 - lost.side]: lost.payload[pair[lost.side]] for pair in pairs}
    code = codes[lost.side][lost.row]
    found = np.flatnonzero(codes[1 - lost.side] == code) if code >= 0 else np.empty(0, np.int64)
    return values, found
