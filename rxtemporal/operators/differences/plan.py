"""Differences between neighbouring readings of a key, for aggregates over windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.errors import SchemaError
from rxtemporal.operators.causes.causes import HISTORY, Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.expressions import describe, infer_field_type
from rxtemporal.operators.operator import Keys, Operator, RowExpression
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_keys

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.scan.ordered_rows import OrderedRows

# a rise since the reading before, or from zero after a fall; 1 for a fall; 1 for another value
DifferenceKind = Literal["increase", "resets", "changes"]


@dataclasses.dataclass(frozen=True, eq=False)
class RowDifference:
    """A difference of each reading from the one before, as a field of its row."""

    kind: DifferenceKind
    reads: pl.Expr

    @property
    def field(self) -> str:
        """The name of the field."""
        names = self.reads.meta.root_names()
        is_field = len(names) == 1 and self.reads.meta.eq(pl.col(names[0]))
        return f"{self.kind}({names[0] if is_field else describe(self.reads)})"

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the type of the field; raise if the difference is not defined."""
        given = infer_field_type(self.reads, schema)
        if self.kind == "changes":
            return pl.Int64()
        if not (given.is_float() or given.is_integer()):
            raise SchemaError(
                f"{self.kind}({self.reads}) is about a counter, which is a number, and the field "
                f"has the type {given}. Hint: cast it to a number; agg.changes counts how often a "
                "value of any type changes."
            )
        return pl.Float64() if self.kind == "increase" and given.is_float() else pl.Int64()


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Differences(Operator):
    """Each row with its differences from the row before of its key."""

    name = "differences"
    differences: tuple[RowDifference, ...]
    holds = "rows not yet committed, rows that are open, and the last values of each key"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields, then the differences; raise if there is a field of such a name."""
        for difference in self.differences:
            if difference.field in schema:
                raise SchemaError(
                    f"agg.{difference.kind} needs the name {difference.field!r}. Hint: rename this "
                    "field."
                )
        return pl.Schema({**schema, **{d.field: d.dtype(schema) for d in self.differences}})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: rows of one key are seen together."""
        return partition_by_keys(keys, schemas[0])

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.differences.step import DifferencesStep

        each = [(d.kind, d.reads, d.field) for d in self.differences]
        return DifferencesStep(each, self.output(schema, keys), schema, keys)

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return what the differences read."""
        return [RowExpression(d.kind, d.reads, schemas[0]) for d in self.differences]

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_neighbours(self, inputs, output, rows)


def find_neighbours(
    operator: Differences, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each row that row, and those of its key from which it differs.

    For each difference this is the last row before that is a reading of its field.
    """
    from rxtemporal.engine.expressions.evaluator import Evaluator
    from rxtemporal.operators.scan.ordered_rows import OrderedRows

    (given,) = inputs
    ordered = OrderedRows.of(given)
    of, row, own = ordered.match_output(output, rows)
    columns, found = Columns.from_frame(given.payload), [Causes.of_pairs(of, own)]
    for difference in operator.differences:
        values = Evaluator(difference.reads, given.payload.schema).make_series(columns)
        counts = there = values.is_not_null()
        if difference.kind != "changes" and values.dtype.is_float():
            counts = there & values.is_not_nan().fill_null(False)
        before = _find_before(ordered, counts.to_numpy())[row]
        wanted = (before >= 0) & there.to_numpy()[row]
        found.append(Causes.of_pairs(of[wanted], before[wanted], role=HISTORY))
    return Causes.concat(found)


def _find_before(ordered: OrderedRows, counts: Bools) -> Int64s:
    """Return for each row the last one before it of its key that counts; -1 if there is none."""
    order = ordered.order
    places = np.arange(len(order))
    last = np.maximum.accumulate(np.where(counts[order], places, -1))
    begins = np.flatnonzero(np.diff(ordered.code[order], prepend=-1))
    first = np.repeat(begins, np.diff(begins, append=len(order)))
    at = np.concatenate([[-1], last[:-1]]) if len(order) else last
    before = np.full(len(order), -1)
    there = at >= first
    before[order[there]] = order[at[there]]
    return before
