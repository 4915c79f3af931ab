"""Rows that are valid from their start until the next row of their key: the operator of reference.

Its streams carry a field beside the payload: the time from which a row says that it is so, which is
before its start if it was told late.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History

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
        from rxtemporal.operators.reference.causes import find_valid_rows

        return find_valid_rows(self, inputs, output, rows)
