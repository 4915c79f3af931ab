"""explode: a row for each element of a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.schema import check_field
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.causes.lost_row import Fate, LostRow, write_values
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_row

if TYPE_CHECKING:
    from rxtemporal.engine.step import Step


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Explode(Operator):
    """One row for each element of a list field."""

    name = "explode"
    field: str
    holds = "open rows, until they end"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema with the type of the elements in place of the list type."""
        check_field(self.field, schema, "explode")
        dtype = schema[self.field]
        if not isinstance(dtype, pl.List):
            raise SchemaError(
                f"explode takes a list field, and {self.field!r} is {dtype}. Hint: make a list "
                "with select, for example pl.col('words').str.split(' ')."
            )
        return pl.Schema({**schema, self.field: dtype.inner})

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone, and the other fields are kept."""
        return partition_by_row(name for name in schemas[0] if name != self.field)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.explode.step import ExplodeStep

        return ExplodeStep(self.field, schema)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        return find_lists(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        return explain_empty_list(self, lost)


def explode(field: str) -> Explode:
    """Return each row once for each element of a list field.

    The element replaces the list; an empty or null list gives no row. Lists exist only inside a
    query: ``select`` and ``with_columns`` make them. Lifetimes and CTIs pass unchanged; the rows of
    an open row are open and end with it. Held: open rows, until they end. A field that
    is not a list is a ``SchemaError``.

    >>> import polars as pl
    >>> import rxtemporal as rxt
    >>> notes = rxt.from_events([rxt.PointEvent(1, {"text": "to be or"})])
    >>> notes.select(word=pl.col("text").str.split(" ")).explode("word").to_polars().rows()
    [(1, 2, 'to'), (1, 2, 'be'), (1, 2, 'or')]
    """
    if not isinstance(field, str):
        raise ArgumentError(f"explode takes the name of a field, got {field!r}")
    return Explode(field=field)


def find_lists(
    operator: Explode, inputs: Sequence[History], output: History, rows: Int64s
) -> Causes:
    """Return for each element its row: elements leave in the order of rows."""
    lengths = inputs[0].payload.get_column(operator.field).list.len().fill_null(0)
    row = np.repeat(np.arange(len(inputs[0])), lengths.cast(pl.Int64).to_numpy())
    return Causes.of_pairs(rows, row[rows])


def explain_empty_list(operator: Explode, lost: LostRow) -> Fate:
    """Return that the list of a row is empty or null."""
    values = {operator.field: lost.payload[operator.field]}
    return lost.tell("dropped", f"{lost.place} gives no row for {write_values(values)}",
                     values=values)  # fmt: skip
