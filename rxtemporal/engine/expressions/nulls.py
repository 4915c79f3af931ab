"""Nulls: asked for, filled; and choices, whose predicate may be null."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Bools, Column, Nullable, get_valid
from rxtemporal.engine.expressions.parts import (
    Computation,
    Constant,
    Pair,
    Part,
    is_array,
    lift,
    lift_pairs,
    require,
)
from rxtemporal.engine.expressions.tree import Term

_BOOL = pl.Boolean()


def translate_is_null(term: Term, parts: list[Part]) -> Part:
    """Translate is_null and is_not_null, of any type."""
    (part,) = parts
    negates = term.name.endswith("IsNull")
    if isinstance(part, Constant):
        return Constant(np.array((part.value is None) == negates), _BOOL)
    run = part.run

    def compute(columns: Sequence[Column]) -> Bools:
        value = run(columns)
        if type(value) is np.ndarray:
            return np.zeros(len(value), np.bool_) if negates else np.ones(len(value), np.bool_)
        valid = get_valid(value)
        return ~valid if negates else valid

    return Computation(compute, _BOOL)


def translate_float_check(term: Term, parts: list[Part]) -> Part:
    """Translate is_nan, is_not_nan, is_finite and is_infinite of floats."""
    require(parts[0].dtype.is_float())
    return lift(_CHECKS[term.name], parts[0], _BOOL)


_CHECKS: dict[str, Callable[..., Any]] = {
    "BooleanFunction.IsNan": np.isnan,
    "BooleanFunction.IsNotNan": lambda values: np.equal(values, values),
    "BooleanFunction.IsFinite": np.isfinite,
    "BooleanFunction.IsInfinite": np.isinf,
}


def translate_fill(term: Term, parts: list[Part]) -> Part:
    """Translate fill_null by a value and coalesce: the first that is not null."""
    require(all(part.dtype == term.dtype for part in parts) and is_array(term.dtype))
    result = parts[0]
    for part in parts[1:]:
        result = _fill(result, part)
    return result


def _fill(part: Part, filler: Part) -> Part:
    if isinstance(part, Constant):
        return filler if part.value is None else part
    if isinstance(filler, Constant) and filler.value is None:
        return part

    def fill(one: Pair, two: Pair) -> Pair:
        values, valid = one
        if valid is True:
            return values, True
        filled = choose_values(valid, values, two[0])
        return filled, True if two[1] is True else valid | two[1]

    return lift_pairs(fill, [part, filler], part.dtype)


def translate_choice(term: Term, parts: list[Part]) -> Part:
    """Translate when/then/otherwise; a predicate that is null is false."""
    predicate, truthy, falsy = parts
    require(predicate.dtype == _BOOL and truthy.dtype == falsy.dtype == term.dtype)
    require(is_array(term.dtype))
    require(not isinstance(predicate, Constant))

    def choose(check: Pair, one: Pair, two: Pair) -> Pair:
        chosen = check[0] if check[1] is True else check[0] & check[1]
        values = choose_values(chosen, one[0], two[0])
        if one[1] is True and two[1] is True:
            return values, True
        return values, np.where(chosen, one[1], two[1])

    return lift_pairs(choose, parts, term.dtype)


def choose_values(chosen: Bools, one: Array, two: Array) -> Array:
    """Return the values of one array where chosen, of the other elsewhere; each may be constant."""
    size = one.dtype.itemsize
    if len(chosen) < _MANY or size == 1:
        return np.where(chosen, one, two)
    # by their bits, three times as fast as np.where, which takes a branch for each row
    bits = _INTEGERS[size]
    mask = np.negative(chosen.view(np.int8)).astype(bits)
    second = two.view(bits)
    mask &= one.view(bits) ^ second
    mask ^= second
    return mask.view(one.dtype)


_MANY = 2_048
_INTEGERS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}


def drop_nulls(column: Column) -> Bools:
    """Return the values of a column of booleans, False where it is null."""
    if isinstance(column, Nullable):
        return column.values & column.valid
    assert isinstance(column, np.ndarray)
    return column
