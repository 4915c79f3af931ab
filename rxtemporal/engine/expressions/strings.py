"""Comparisons of strings with a constant, which the series does by itself in a few microseconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from rxtemporal.core.columns import Column, SeriesColumn, make_column
from rxtemporal.engine.expressions.parts import Computation, Constant, Part, require
from rxtemporal.engine.expressions.tree import Term

_BOOL = pl.Boolean()


def translate_string_comparison(term: Term, parts: list[Part]) -> Part:
    """Translate == and != of two strings, one of which may be a constant."""
    left, right = parts
    require(term.name in ("Eq", "NotEq") and left.dtype == pl.String())
    if isinstance(left, Constant):
        left, right = right, left
    require(isinstance(left, Computation))
    if isinstance(right, Computation):
        return _compare_two(term.name == "NotEq", left, right)
    require(right.value is not None)
    return equal_string(left, right.value, negates=term.name == "NotEq")


def equal_string(part: Part, text: Any, *, negates: bool = False) -> Part:
    """Return the comparison of strings with one."""
    assert isinstance(part, Computation)
    run = part.run

    def compute(columns: Sequence[Column]) -> Column:
        series = _series(run(columns))
        return make_column(series != text if negates else series == text)

    return Computation(compute, _BOOL)


def _compare_two(negates: bool, left: Part, right: Part) -> Part:
    assert isinstance(left, Computation)
    assert isinstance(right, Computation)
    one, two = left.run, right.run

    def compute(columns: Sequence[Column]) -> Column:
        mine, other = _series(one(columns)), _series(two(columns))
        return make_column(mine != other if negates else mine == other)

    return Computation(compute, _BOOL)


def _series(column: Column) -> pl.Series:
    assert isinstance(column, SeriesColumn)
    return column.series
