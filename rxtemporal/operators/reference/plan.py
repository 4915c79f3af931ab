"""Rows that are valid from their start until the next row of their key: the operator of reference.

Its streams carry a field beside the payload: the time from which a row says that it is so, which is
before its start if it was told late.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.causes.carried_rows import carry, match_output
from rxtemporal.operators.causes.causes import BOUNDARY, Causes
from rxtemporal.operators.causes.history import History, code_rows, find_at
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step

# the time from which a row says that it is so; null: its start
SINCE = "_since"
SINCE_TYPE = pl.Datetime("us", "UTC")


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Reference(Operator):
    """Of the rows of each key that have begun, the one that is about the latest time."""

    takes_late_rows = True
    name = "reference"
    holds = "the valid row of each key, and rows that have not begun"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the payload's fields."""
        return pl.Schema({name: dtype for name, dtype in schema.items() if name != SINCE})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, self.output(schemas[0], keys))

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.reference.step import ReferenceStep

        return ReferenceStep(SINCE, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_valid_rows(self, inputs, output, rows)


def find_valid_rows(
    operator: Reference, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row the one that was told, and the valid one of its key that follows."""
    made = carry(operator, inputs)
    of, at = match_output(output, made, rows)
    number = made.numbers[0][at]
    names = list(inputs[0].keys)
    key, valid = code_rows(inputs[0].payload.select(names), made.payload.select(names))
    ends = output.end[of] < MAX_TIME
    # of rows that begin together one alone is valid: the one that left
    whose, by = find_at(of[ends], key[number[ends]], output.end[of[ends]], valid, made.start)
    follow = Causes.of_pairs(whose, made.numbers[0][by], role=BOUNDARY)
    return Causes.concat([Causes.of_pairs(of, number), follow])
