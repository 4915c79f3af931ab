"""Boolean logic of three values, and bits of integers."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.engine.expressions.parts import (
    Constant,
    Pair,
    Part,
    lift,
    lift_pair,
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
