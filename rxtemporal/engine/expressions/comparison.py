"""Comparisons as polars does them: NaN is equal to NaN and above all; -0.0 is equal to 0.0."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Bools, Column, SeriesColumn, make_column, physical_type
from rxtemporal.engine.expressions.logic import combine
from rxtemporal.engine.expressions.numbers import UnfitRowsError
from rxtemporal.engine.expressions.parts import (
    Computation,
    Constant,
    Function,
    Pair,
    Part,
    is_array,
    lift,
    lift_pairs,
    lift_two,
    make_constant,
    require,
)
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


def translate_replacement(term: Term, parts: list[Part]) -> Part:
    """Translate replace_strict of integers by numbers; what is not in the table is the default.

    Without a default polars gets the batch, and raises.
    """
    part, *tables = parts
    require(part.dtype.is_integer() and term.dtype.is_numeric())
    old, new = (_read_list(table) for table in tables[:2])
    inner = [table.dtype.inner for table in tables[:2] if isinstance(table.dtype, pl.List)]
    require(inner == [part.dtype, term.dtype] and len(old) == len(new) == len(set(old)) > 0)
    keys = np.array(sorted(old), physical_type(part.dtype))
    order = sorted(range(len(old)), key=old.__getitem__)
    values = np.array([new[number] for number in order], physical_type(term.dtype))
    default = _read_default(term, tables[2:])

    def find(numbers: Array) -> tuple[Array, Bools]:
        places = np.minimum(keys.searchsorted(numbers), len(keys) - 1)
        return values.take(places), np.asarray(keys.take(places) == numbers)

    def replace(one: Pair) -> Pair:
        result, known = find(one[0])
        if default is not None:
            return np.where(known if one[1] is True else known & one[1], result, default), True
        if not (known if one[1] is True else known | ~one[1]).all():
            raise UnfitRowsError
        return result, one[1]

    return lift_pairs(replace, [part], term.dtype)


def _read_list(part: Part) -> list[Any]:
    require(isinstance(part, Constant) and isinstance(part.dtype, pl.List))
    assert isinstance(part, Constant)
    listed: Any = part.value
    require(listed is not None and None not in listed)
    return list(listed)


def _read_default(term: Term, rest: list[Part]) -> Array | None:
    if not rest:
        return None
    (default,) = rest
    require(isinstance(default, Constant) and default.dtype.is_numeric())
    assert isinstance(default, Constant)
    require(default.value is not None)
    require(default.dtype == term.dtype or default.dtype == pl.Int32())  # as of a Python int
    return np.asarray(default.value, physical_type(term.dtype))


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
