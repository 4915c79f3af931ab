"""Comparisons as polars does them: NaN equals NaN and is above all; -0.0 equals 0.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array
from rxtemporal.engine.expressions.parts import (
    Constant,
    Pair,
    Part,
    is_array,
    lift,
    lift_pairs,
    lift_two,
    require,
)
from rxtemporal.engine.expressions.strings import translate_string_comparison
from rxtemporal.engine.expressions.tree import Term

_BOOL = pl.Boolean()
_UFUNCS = {
    "Eq": np.equal,
    "NotEq": np.not_equal,
    "Lt": np.less,
    "LtEq": np.less_equal,
    "Gt": np.greater,
    "GtEq": np.greater_equal,
}
_MIRRORS = {"Eq": "Eq", "NotEq": "NotEq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}


def translate_comparison(term: Term, parts: list[Part]) -> Part:
    """Translate == != < <= > >= of two operands of one type."""
    left, right = parts
    require(left.dtype == right.dtype)
    if not is_array(left.dtype):
        return translate_string_comparison(term, parts)
    return compare(term.name, left, right)


def compare(name: str, left: Part, right: Part) -> Part:
    """Return the comparison of two parts of one type."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        name, left, right = _MIRRORS[name], right, left
    if not left.dtype.is_float():
        return lift_two(_UFUNCS[name], left, right, _BOOL)
    if isinstance(right, Constant) and right.value is not None:
        if np.isnan(right.value):
            return lift(_BY_NAN[name], left, _BOOL)
        return lift_two(_BY_NUMBER[name], left, right, _BOOL)
    return lift_two(_OF_FLOATS[name], left, right, _BOOL)


def _invert(mask: Any) -> Any:
    """Return the opposite of a mask of one's own."""
    return np.logical_not(mask, mask) if type(mask) is np.ndarray else ~mask


def _above(values: Array, number: Array) -> Any:
    return _invert(np.less_equal(values, number))


def _not_below(values: Array, number: Array) -> Any:
    return _invert(np.less(values, number))


# with a number that is not NaN
_BY_NUMBER: dict[str, Callable[..., Any]] = {**_UFUNCS, "Gt": _above, "GtEq": _not_below}


def _is_number(values: Array) -> Any:
    return np.equal(values, values)


def _is_anything(values: Array) -> Any:
    return np.ones(values.shape, np.bool_)


def _is_nothing(values: Array) -> Any:
    return np.zeros(values.shape, np.bool_)


_BY_NAN: dict[str, Callable[[Array], Any]] = {
    "Eq": np.isnan,
    "NotEq": _is_number,
    "Lt": _is_number,
    "LtEq": _is_anything,
    "Gt": _is_nothing,
    "GtEq": np.isnan,
}


def equal_floats(one: Array, two: Array) -> Any:
    """Return where floats are equal, NaN to NaN too."""
    return np.equal(one, two) | (np.isnan(one) & np.isnan(two))


def _less(one: Array, two: Array) -> Any:
    return _invert(np.greater_equal(one, two)) & np.equal(one, one)


def _less_or_equal(one: Array, two: Array) -> Any:
    return np.less_equal(one, two) | np.isnan(two)


_OF_FLOATS: dict[str, Callable[[Array, Array], Any]] = {
    "Eq": equal_floats,
    "NotEq": lambda one, two: _invert(equal_floats(one, two)),
    "Lt": _less,
    "LtEq": _less_or_equal,
    "Gt": lambda one, two: _less(two, one),
    "GtEq": lambda one, two: _less_or_equal(two, one),
}


def translate_missing_comparison(term: Term, parts: list[Part]) -> Part:
    """Translate eq_missing and ne_missing, for which null equals null."""
    left, right = parts
    require(left.dtype == right.dtype and is_array(left.dtype))
    equal = equal_floats if left.dtype.is_float() else np.equal
    differs = term.name == "NotEqValidity"

    def compare_missing(one: Pair, two: Pair) -> Pair:
        same = equal(one[0], two[0])
        if one[1] is not True or two[1] is not True:
            same = np.where(one[1] & two[1], same, ~(one[1] | two[1]))
        return ~same if differs else same, True

    return lift_pairs(compare_missing, parts, _BOOL)


def translate_between(term: Term, parts: list[Part]) -> Part:
    """Translate is_between."""
    from rxtemporal.engine.expressions.logic import combine

    value, low, high = parts
    require(value.dtype == low.dtype == high.dtype and is_array(value.dtype))
    closed = term.options[0]
    above = compare("GtEq" if closed in ("both", "left") else "Gt", value, low)
    below = compare("LtEq" if closed in ("both", "right") else "Lt", value, high)
    return combine("And", [above, below])
