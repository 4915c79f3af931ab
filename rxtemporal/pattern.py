"""Functions of a match, for the conditions and measures of ``detect``.

``from rxtemporal import pattern as pt``. Each gives a polars expression. In a condition they are
over the rows matched so far, and the row that is tested counts as a row of the variable that is
tested. In a measure they are over all rows of the match. ``"A.temp"`` is the field ``temp`` of the
rows of the variable ``A``, and ``"A.start"`` the start of these rows. Nulls are left out of
``sum``, ``mean``, ``min`` and ``max``; over no values the sum is 0, and all others are null.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.detect.functions import Function, Kind, split_name
from rxtemporal.operators.detect.text import NAME

__all__ = [
    "count",
    "first",
    "last",
    "match_start",
    "max",
    "mean",
    "min",
    "prev",
    "sum",
    "variable",
]


def prev(field: str, n: int = 1) -> pl.Expr:
    """Return the field of the row before in the key, in the match or not.

    Of the ``n``-th row before with ``n``; null if the key has no such row. In a measure it is the
    row before the last one of the match; with ``rows="all"``, before each one. ``prev("start")`` is
    the start of that row.
    """
    if not isinstance(field, str) or not field:
        raise ArgumentError(
            f"pt.prev takes the name of a field, got {brief(field)}. Hint: pt.prev('temp'); "
            "pt.prev('start') is the start of the row before."
        )
    return _make(Function("prev", "", field, _check_number(n, "prev", 1)))


def first(name: str) -> pl.Expr:
    """Return the field of the first row of a variable: ``first("A.temp")``."""
    return _make(Function("first", *_split("first", name)))


def last(name: str, n: int = 0) -> pl.Expr:
    """Return the field of the last row of a variable, with ``n`` of the n-th row before that."""
    return _make(Function("last", *_split("last", name), _check_number(n, "last", 0)))


def count(name: str) -> pl.Expr:
    """Return the number of rows of a variable; with a field, as ``"A.temp"``, of those not null."""
    if isinstance(name, str) and NAME.fullmatch(name):
        return _make(Function("count", name))
    return _make(Function("count", *_split("count", name)))


def sum(name: str) -> pl.Expr:
    """Return the sum of a field over the rows of a variable.

    A sum of integers that overflows Int64 is a ``SchemaError``.
    """
    return _make(Function("sum", *_split("sum", name)))


def mean(name: str) -> pl.Expr:
    """Return the mean of a field over the rows of a variable.

    In a condition it is a ``SchemaError`` if the sum of the integers overflows Int64.
    """
    return _make(Function("mean", *_split("mean", name)))


def min(name: str) -> pl.Expr:
    """Return the least value of a field over the rows of a variable.

    It is NaN only if all values are NaN.
    """
    return _make(Function("min", *_split("min", name)))


def max(name: str) -> pl.Expr:
    """Return the greatest value of a field over the rows of a variable.

    It is NaN only if all values are NaN.
    """
    return _make(Function("max", *_split("max", name)))


def variable() -> pl.Expr:
    """Return the variable of a row, in a measure: of the match's last row, or of each row."""
    return _make(Function("variable"))


def match_start() -> pl.Expr:
    """Return the start of the first row of the match."""
    return _make(Function("match_start"))


def _make(function: Function) -> pl.Expr:
    return pl.col(function.column)


def _check_number(n: Any, who: str, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < least:
        raise ArgumentError(
            f"n of pt.{who} says how many rows to go back, from {least} on, got {n!r}. "
            f"Hint: pt.{who}('{'temp' if who == 'prev' else 'A.temp'}', {least + 1})."
        )
    return n


def _split(kind: Kind, name: Any) -> tuple[str, str]:
    """Return a variable and its field, written as ``A.temp``."""
    parts = split_name(name) if isinstance(name, str) else None
    if parts is None:
        raise ArgumentError(
            f"pt.{kind} takes a variable and a field of its rows, got {brief(name)}. "
            f"Hint: pt.{kind}('A.temp') is about the field temp of the rows of the variable A, and "
            f"pt.{kind}('A.start') about their starts."
        )
    return parts
