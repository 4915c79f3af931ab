"""The least and the greatest of several columns: nulls and NaN give way to numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rxtemporal.core.columns import Array
from rxtemporal.engine.expressions.parts import Function, Pair, Part, is_array, lift_pairs, require
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


_FUNCTIONS: dict[tuple[str, bool], Function] = {
    ("min_horizontal", False): np.minimum,
    ("max_horizontal", False): np.maximum,
    ("min_horizontal", True): _least,
    ("max_horizontal", True): _greatest,
}
