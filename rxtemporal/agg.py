"""Aggregates: what ``aggregate(name=agg.…)`` computes over the rows of a window.

Nulls are ignored; ``count()`` counts rows, ``count(x)`` values that are not null. The sum of
nothing is 0; ``avg``, ``min`` and ``max`` of nothing are null.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import polars as pl

from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.expressions import field_type, row_by_row

if TYPE_CHECKING:
    from rxtemporal.steps.running import Running

__all__ = ["Aggregate", "avg", "count", "max", "min", "sum"]

Kind = Literal["count", "sum", "avg", "min", "max"]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """One aggregate, of a field or of an expression computed row by row."""

    kind: Kind
    reads: pl.Expr | None

    def __repr__(self) -> str:
        return f"{self.kind}({'' if self.reads is None else self.reads})"

    def dtype(self, schema: pl.Schema) -> pl.DataType:
        """Return the result's type for rows of this schema; refuse what has no such aggregate."""
        if self.reads is None or self.kind == "count":
            if self.reads is not None:
                field_type(self.reads, schema)
            return pl.Int64()
        dtype = field_type(self.reads, schema)
        if self.kind in ("min", "max"):
            return dtype
        if dtype.is_float():
            return pl.Float64()
        if dtype.is_integer() or dtype in (pl.Boolean, pl.Null):
            return pl.Int64() if self.kind == "sum" else pl.Float64()
        units = "take a number of units of it first, such as .dt.total_seconds()"
        advice = units if dtype.is_temporal() else "cast it to Float64"
        raise SchemaError(f"{self!r} of type {dtype} is not defined. Hint: {advice}.")

    def running(self, name: str, schema: pl.Schema) -> Running | None:
        """Return a new state for this aggregate; None for the count of rows, which needs none."""
        from rxtemporal.steps import ordered, running

        if self.reads is None:
            return None
        if self.kind == "count":
            return running.Count()
        dtype = field_type(self.reads, schema)
        if self.kind == "avg":
            return running.Average()
        if self.kind == "sum":
            return running.FloatSum() if dtype.is_float() else running.IntegerSum(name)
        greatest = self.kind == "max"
        if dtype in (pl.String, pl.Binary, pl.Decimal):
            return ordered.ObjectExtreme(greatest=greatest)
        return running.Extreme(dtype, greatest=greatest)


def _of(kind: Kind, field: str | pl.Expr) -> Aggregate:
    if isinstance(field, str):
        return Aggregate(kind, pl.col(field))
    if isinstance(field, pl.Expr):
        return Aggregate(kind, row_by_row(field, f"agg.{kind}"))
    raise ArgumentError(f"agg.{kind} takes a field's name or a polars expression, got {field!r}")


def count(field: str | pl.Expr | None = None) -> Aggregate:
    """Count the rows, or the values of a field that are not null. Int64."""
    return Aggregate("count", None) if field is None else _of("count", field)


def sum(field: str | pl.Expr) -> Aggregate:
    """Add up a field. Int64 of integers and bools (overflow is an error), Float64 of floats."""
    return _of("sum", field)


def avg(field: str | pl.Expr) -> Aggregate:
    """Return the mean of a field. Float64, null of nothing."""
    return _of("avg", field)


def min(field: str | pl.Expr) -> Aggregate:
    """Return the least value of a field, in the field's type; NaN only if there is nothing else."""
    return _of("min", field)


def max(field: str | pl.Expr) -> Aggregate:
    """Return the greatest value of a field, in its type; NaN only if there is nothing else."""
    return _of("max", field)
