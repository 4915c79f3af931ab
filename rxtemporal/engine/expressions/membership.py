"""is_in with constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, physical_type
from rxtemporal.engine.expressions.logic import combine
from rxtemporal.engine.expressions.parts import (
    Computation,
    Constant,
    Function,
    Pair,
    Part,
    lift,
    lift_pairs,
    make_constant,
    require,
)
from rxtemporal.engine.expressions.strings import equal_string
from rxtemporal.engine.expressions.tree import Term

_BOOL = pl.Boolean()
# up to this many constants one comparison each is cheaper than a search
_FEW = 4
# up to this distance between the least and the greatest, a table of all between them is kept
_WIDE = 65_536


def translate_is_in(term: Term, parts: list[Part]) -> Part:
    """Translate is_in with a list of constants."""
    part, constants = parts
    dtype = constants.dtype
    require(isinstance(dtype, pl.List) and dtype.inner == part.dtype)
    require(isinstance(part, Computation) and isinstance(constants, Constant))
    assert isinstance(constants, Constant)
    require(constants.value is not None)
    listed: Any = constants.value
    values = [value for value in listed if value is not None]
    (nulls_equal,) = term.options
    if part.dtype == pl.String():
        return _find_strings(part, values, nulls_equal)
    require(physical_type(part.dtype) is not None)
    found = lift(_make_search(values, part.dtype), part, _BOOL)
    return _judge_nulls(found, len(values) < len(listed)) if nulls_equal else found


def _find_strings(part: Part, values: list[str], nulls_equal: bool) -> Part:
    require(0 < len(values) <= _FEW and not nulls_equal)
    result = equal_string(part, values[0])
    for value in values[1:]:
        result = combine("Or", [result, equal_string(part, value)])
    return result


def _judge_nulls(found: Part, has_null: bool) -> Part:
    def judge(one: Pair) -> Pair:
        values, valid = one
        return (values if valid is True else np.where(valid, values, has_null)), True

    return lift_pairs(judge, [found], _BOOL)


def _make_search(values: list[Any], dtype: pl.DataType) -> Function:
    constants = [make_constant(value, dtype).value for value in values]
    numbers = [each for each in constants if each is not None and not np.isnan(each)]
    has_nan = len(numbers) < len(constants)
    search = _choose_search(numbers)
    if not has_nan:
        return search
    return lambda values: search(values) | np.isnan(values)


def _choose_search(numbers: list[Array]) -> Function:
    if len(numbers) <= _FEW:
        return _search_few(numbers)
    if numbers[0].dtype.kind == "i" and int(max(numbers)) - int(min(numbers)) < _WIDE:
        return _look_up(numbers)
    return _search_many(numbers)


def _look_up(numbers: list[Array]) -> Function:
    """Return the search for integers that lie close together, by a table of what lies between."""
    least = min(numbers)
    table = np.zeros(int(max(numbers)) - int(least) + 2, np.bool_)  # the last for all outside
    table[[int(number) - int(least) for number in numbers]] = True
    unsigned = np.dtype(f"u{least.dtype.itemsize}")
    outside = np.array(min(len(table) - 1, np.iinfo(unsigned).max), unsigned)

    def search(values: Array) -> Array:
        distances = np.subtract(values, least).view(unsigned)
        return np.asarray(table.take(np.minimum(distances, outside).astype(np.intp)))

    return search


def _search_few(numbers: list[Array]) -> Function:
    def search(values: Array) -> Array:
        if not numbers:
            return np.zeros(values.shape, np.bool_)
        found = np.equal(values, numbers[0])
        for number in numbers[1:]:
            found |= values == number
        return np.asarray(found)

    return search


def _search_many(numbers: list[Array]) -> Function:
    table = np.unique(np.array(numbers))

    def search(values: Array) -> Array:
        return np.asarray(table.take(table.searchsorted(values), mode="clip") == values)

    return search
