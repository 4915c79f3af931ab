"""What an aggregate is: what it reads, what type it gives, and how it is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.expressions import row_by_row

if TYPE_CHECKING:
    from rxtemporal.engine.steps.aggregates import Running
    from rxtemporal.engine.steps.window_rows import Listed


class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    reads: pl.Expr | None = None

    def check(self) -> None:
        """Refuse what is wrong of itself, whatever fields there are."""

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the result's type for rows of this schema; refuse what has no such aggregate."""
        raise NotImplementedError

    def make(self, name: str, schema: pl.Schema) -> Running | Listed | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        raise NotImplementedError


def reading(field: Any, who: str) -> pl.Expr:
    """Return what an aggregate reads: a field by its name, or an expression of each row."""
    if isinstance(field, str):
        return pl.col(field)
    if isinstance(field, pl.Expr):
        return row_by_row(field, f"agg.{who}")
    raise ArgumentError(f"agg.{who} takes a field's name or a polars expression, got {field!r}")
