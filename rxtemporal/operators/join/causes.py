"""Causes of the rows of joins: a row of each side; and the pairs of rows of two streams."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.expressions.predicate import Predicate
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import Causes, find_causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.join.keys import KeyMatcher
from rxtemporal.operators.join.plan import Join, Matcher


@find_causes.register
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
