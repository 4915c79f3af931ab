"""Fields whose values move along straight lines during the lifetimes of rows.

A row of a linear signal carries the line of a field ``x``: that has the value ``x`` at
``x_line_start``, and ``x_after`` at ``x_line_end``. Both times and values stay as they are where
the row is cut, so each piece knows the line that it is a part of.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

_AFTER, _START, _END = "_after", "_line_start", "_line_end"


def name_after(field: str) -> str:
    """Return the name of the field with the value at the end of a field's line."""
    return f"{field}{_AFTER}"


def name_bounds(field: str) -> tuple[str, str]:
    """Return the names of the fields with the times at which a field's line starts and ends."""
    return f"{field}{_START}", f"{field}{_END}"


def list_parts(field: str) -> tuple[str, ...]:
    """Return the names of the fields that say how a field moves."""
    return (name_after(field), *name_bounds(field))


def is_linear(field: str, schema: Iterable[str]) -> bool:
    """Return True if a field moves along a line.

    >>> is_linear("x", ["x", "x_after", "x_line_start", "x_line_end"])
    True
    """
    return all(name in schema for name in (field, *list_parts(field)))


def list_linear(schema: Iterable[str]) -> list[str]:
    """Return the fields that move along lines."""
    return [name for name in schema if is_linear(name, schema)]


def find_owners(schema: Iterable[str]) -> dict[str, str]:
    """Return for each field that is a part of a line the field that moves along it."""
    return {part: name for name in list_linear(schema) for part in list_parts(name)}


def drop_lines(schema: pl.Schema) -> pl.Schema:
    """Return the fields of rows at one time: those that moved along lines are plain numbers."""
    owners = find_owners(schema)
    linear = set(owners.values())
    return pl.Schema({
        name: pl.Float64() if name in linear else dtype
        for name, dtype in schema.items()
        if name not in owners
    })  # fmt: skip


def find_linear(expression: pl.Expr, schema: Mapping[str, Any]) -> str | None:
    """Return the field that an expression is, if that moves along a line; else None."""
    names = expression.meta.root_names()
    if len(names) != 1 or not expression.meta.eq(pl.col(names[0])):
        return None
    return names[0] if is_linear(names[0], schema) else None


def span_line(field: str) -> pl.Expr:
    """Return the expression of the length of a field's line, in ticks."""
    start, end = (pl.col(name).cast(pl.Int64) for name in name_bounds(field))
    return (end - start).cast(pl.Float64)


def interpolate(field: str, at: pl.Expr, more: pl.Expr | int = 0) -> pl.Expr:
    """Return the expression of the value of a field at a time in ticks, and some ticks more.

    A line with an end that is not finite is NaN.
    """
    before = pl.col(field).cast(pl.Float64)
    rise = pl.col(name_after(field)).cast(pl.Float64) - before
    rise = pl.when(rise.is_infinite()).then(math.nan).otherwise(rise)
    start, _ = name_bounds(field)
    # a difference of integers first: times have more digits than a float
    passed = (at.cast(pl.Int64) - pl.col(start).cast(pl.Int64)).cast(pl.Float64) + more
    return before + rise * (passed / span_line(field))


def measure_rise(field: str) -> pl.Expr:
    """Return the expression of the rise of a counter along its line; from zero after a fall."""
    before = pl.col(field).cast(pl.Float64)
    after = pl.col(name_after(field)).cast(pl.Float64)
    fell = (after < before) & before.is_not_nan()
    return pl.when(fell).then(after).otherwise(after - before)
