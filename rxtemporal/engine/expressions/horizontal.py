"""The least and the greatest: of several columns, where nulls and NaN give way; and bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, physical_type
from rxtemporal.engine.expressions.parts import (
    Constant,
    Function,
    Pair,
    Part,
    is_array,
    lift,
    lift_pairs,
    require,
)
from rxtemporal.engine.expressions.tree import Term


def translate_extreme(term: Term, parts: list[Part]) -> Part:
    """Translate min_horizontal and max_horizontal."""
    require(all(part.dtype == term.dtype for part in parts) and is_array(term.dtype))
    function = _FUNCTIONS[term.name, term.dtype.is_float()]
    result = parts[0]
    for part in parts[1:]:
        result = lift_pairs(_make_choice(function), [result, part], term.dtype)
    return result


def _make_choice(function: Function) -> Function:
    def choose(one: Pair, two: Pair) -> Pair:
        chosen = function(one[0], two[0])
        if one[1] is True and two[1] is True:
            return chosen, True
        only_one = one[1] & ~two[1] if two[1] is not True else np.False_
        only_two = two[1] & ~one[1] if one[1] is not True else np.False_
        values = np.where(only_one, one[0], np.where(only_two, two[0], chosen))
        return values, one[1] | two[1]

    return choose


def _least(one: Array, two: Array) -> Any:
    # of equal ones, as -0.0 and 0.0, the second
    return np.where((one < two) | np.isnan(two), one, two)


def _greatest(one: Array, two: Array) -> Any:
    return np.where((one > two) | np.isnan(two), one, two)


def translate_clip(term: Term, parts: list[Part]) -> Part:
    """Translate clip to constant bounds; NaN stays."""
    part, *bounds = parts
    require(part.dtype == term.dtype and term.dtype.is_numeric() and all(term.options))
    low, high = (_read_bound(bound, term.dtype) for bound in bounds)

    def clip(values: Array) -> Array:
        return np.where(values < low, low, np.where(values > high, high, values))

    return lift(clip, part, term.dtype)


def _read_bound(bound: Part, dtype: pl.DataType) -> Array:
    require(isinstance(bound, Constant) and bound.value is not None)
    assert isinstance(bound, Constant)
    assert bound.value is not None
    value = bound.value.item()
    if dtype.is_integer():
        limits = np.iinfo(np.dtype(physical_type(dtype)))
        require(isinstance(value, int) and limits.min <= value <= limits.max)
    require(value == value)  # not NaN
    return np.array(value, physical_type(dtype))


_FUNCTIONS: dict[tuple[str, bool], Function] = {
    ("min_horizontal", False): np.minimum,
    ("max_horizontal", False): np.maximum,
    ("min_horizontal", True): _least,
    ("max_horizontal", True): _greatest,
}
