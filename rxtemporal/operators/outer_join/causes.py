"""Causes of the rows of outer joins: a pair, or a row without a partner and what ends its gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.operators.anti_join.causes import find_gaps
from rxtemporal.operators.anti_join.plan import LeftAntiJoin
from rxtemporal.operators.causes.carried_rows import CarriedRows, carry, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.join.causes import find_pairs, of_both_sides
from rxtemporal.operators.outer_join.plan import OuterJoin
from rxtemporal.operators.outer_join.step import NullFields


def find_outer_rows(
    operator: OuterJoin, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row its pair, or the causes that it would have in an anti join."""
    pairs = find_pairs(operator, inputs)
    parts = [pairs, *_find_lonely(operator, inputs, output.payload.schema)]
    sizes = [len(each) for each in parts]
    everything = CarriedRows(
        np.concatenate([each.start for each in parts]),
        np.concatenate([each.end for each in parts]),
        pl.concat([each.payload.select(output.payload.columns) for each in parts]),
        (np.repeat(np.arange(len(parts)), sizes), np.concatenate([np.arange(n) for n in sizes])),
    )
    of, at = match_output(output, everything, rows)
    part, place = everything.numbers[0][at], everything.numbers[1][at]
    found = [of_both_sides(of[part == 0], pairs.take(place[part == 0]))]
    for own, pieces in enumerate(parts[1:]):
        mine = part == own + 1
        found.append(find_gaps(of[mine], pieces.take(place[mine]), pairs, own=own))
    return Causes.concat(found)


def _find_lonely(
    operator: OuterJoin, inputs: Sequence[History], schema: pl.Schema
) -> list[CarriedRows]:
    """Return the pieces of each side that nothing covers, with the fields of the join."""
    left, right = inputs
    alone = LeftAntiJoin(
        on=operator.on, where=operator.where, suffix=operator.suffix, line=operator.line
    )
    parts = [_fill(carry(alone, inputs), {name: name for name in left.payload.columns}, schema)]
    if operator.full:
        schemas = left.payload.schema, right.payload.schema
        taken, _ = operator.merge_fields(*schemas, left.keys)
        both = {mine for mine, other in operator.on if mine == other} | set(left.keys)
        swapped = carry(_Swapped(operator), [right, left])
        parts.append(_fill(swapped, {name: name for name in both} | taken, schema))
    return parts


class _Swapped:
    """The anti join of the right input with the left one."""

    def __init__(self, operator: OuterJoin) -> None:
        self._operator = operator

    def make(self, right: pl.Schema, left: pl.Schema, keys: tuple[str, ...]) -> object:
        """Return a new step."""
        return self._operator._swap(left, right, keys).make(right, left, keys)


def _fill(pieces: CarriedRows, names: dict[str, str], schema: pl.Schema) -> CarriedRows:
    """Return pieces with the fields of the join, null where they have none."""
    payload = NullFields(names, schema)(Columns.from_frame(pieces.payload)).frame
    return CarriedRows(pieces.start, pieces.end, payload, pieces.numbers)
