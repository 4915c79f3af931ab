"""Boolean logic of three values, bits of integers, nulls, and choices."""

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
    lift_pair,
    lift_pairs,
    lift_two,
    require,
)
from rxtemporal.engine.expressions.tree import Term

_BOOL = pl.Boolean()
_BITS = {"And": np.bitwise_and, "Or": np.bitwise_or, "Xor": np.bitwise_xor}


def translate_logic(term: Term, parts: list[Part]) -> Part:
    """Translate & | ^ of booleans or integers."""
    require(all(part.dtype == term.dtype for part in parts))
    name = term.name.removeprefix("Logical")
    if term.dtype == _BOOL and name != "Xor":
        return combine(name, parts)
    require(term.dtype == _BOOL or term.dtype.is_integer())
    left, right = parts
    return lift_two(_BITS[name], left, right, term.dtype)


def combine(name: str, parts: list[Part]) -> Part:
    """Return the conjunction or disjunction of two booleans: one that decides makes up for null."""
    left, right = parts
    if isinstance(left, Constant) and isinstance(right, Constant):
        require(left.value is not None and right.value is not None)
        return lift_two(_BITS[name], left, right, _BOOL)
    return lift_pair(_conjoin if name == "And" else _disjoin, _BITS[name], left, right)


def _conjoin(one: Pair, two: Pair) -> Pair:
    (left, has_left), (right, has_right) = one, two
    values = left & right
    if has_left is True and has_right is True:
        return values, True
    decided = (has_left & ~left) | (has_right & ~right)
    return values, (has_left & has_right) | decided


def _disjoin(one: Pair, two: Pair) -> Pair:
    (left, has_left), (right, has_right) = one, two
    values = left | right
    if has_left is True and has_right is True:
        return values, True
    decided = (has_left & left) | (has_right & right)
    return values, (has_left & has_right) | decided


def translate_not(term: Term, parts: list[Part]) -> Part:
    """Translate ~ of booleans or integers."""
    require(term.dtype == _BOOL or term.dtype.is_integer())
    require(parts[0].dtype == term.dtype)
    return lift(np.invert, parts[0], term.dtype)


def translate_horizontal_logic(term: Term, parts: list[Part]) -> Part:
    """Translate all_horizontal and any_horizontal."""
    require(all(part.dtype == _BOOL for part in parts) and len(parts) > 0)
    name = "And" if term.name.endswith("AllHorizontal") else "Or"
    result = parts[0]
    for part in parts[1:]:
        result = combine(name, [result, part])
    return result


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
