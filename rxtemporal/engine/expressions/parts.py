"""Parts of a program: constants and computations, and how a function of arrays becomes one.

A function of arrays sees the values alone. What is null in an operand is null in the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Column, Nullable, physical_type
from rxtemporal.engine.expressions.tree import UnknownExpressionError

Run: TypeAlias = Callable[[Sequence[Column]], Any]
Function: TypeAlias = Callable[..., Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Constant:
    """A value for all rows, as an array without dimensions; None is null."""

    value: Array | None
    dtype: pl.DataType


@dataclasses.dataclass(frozen=True, slots=True)
class Computation:
    """A function from the columns of a batch to one column.

    ``fresh``: its values are always an array of its own, into which the next one may write.
    """

    run: Run
    dtype: pl.DataType
    fresh: bool = False


Part: TypeAlias = Constant | Computation


def make_constant(value: Any, dtype: pl.DataType) -> Constant:
    """Return a constant of a Python value, which has this type in polars."""
    if value is None:
        return Constant(None, dtype)
    physical = physical_type(dtype)
    if physical is None:
        raise UnknownExpressionError(f"a literal of type {dtype}")
    if dtype.is_temporal() and not isinstance(value, int):
        if getattr(dtype, "time_unit", "us") != "us" or dtype == pl.Time():
            raise UnknownExpressionError(f"a literal of type {dtype}")
        value = pl.Series([value], dtype=dtype).to_physical().item()
    return Constant(np.array(value, physical), dtype)


def is_array(dtype: pl.DataType) -> bool:
    """Return True if values of a type are held as an array."""
    return physical_type(dtype) is not None


def require(condition: bool) -> None:
    """Leave the expression to polars unless the condition holds."""
    if not condition:
        raise UnknownExpressionError


def lift(function: Function, part: Part, dtype: pl.DataType, *, fresh: bool = True) -> Part:
    """Return the part that applies a function of one array; null gives null.

    ``fresh``: the function returns an array of its own.
    """
    if isinstance(part, Constant):
        return Constant(None if part.value is None else np.asarray(function(part.value)), dtype)
    run = part.run
    if _is_in_place(function, part, dtype):
        function = _write_in_place(function)

    def compute(columns: Sequence[Column]) -> Column:
        value = run(columns)
        if type(value) is np.ndarray:
            return function(value)  # type: ignore[no-any-return]
        return Nullable(function(value.values), value.valid)

    return Computation(compute, dtype, fresh)


def _is_in_place(function: Function, part: Part, dtype: pl.DataType) -> bool:
    """Return True if a function of numpy may write its result over the values of a part."""
    fresh = isinstance(part, Computation) and part.fresh
    return (
        fresh
        and isinstance(function, np.ufunc)
        and physical_type(part.dtype) == physical_type(dtype)
    )


def _write_in_place(ufunc: Function) -> Function:
    """Return the function that writes over its first operand: memory that is new costs more."""
    if ufunc.nin == 1:  # type: ignore[attr-defined]
        return lambda one: ufunc(one, one)
    return lambda one, two: ufunc(one, two, one)


def lift_two(function: Function, left: Part, right: Part, dtype: pl.DataType) -> Part:
    """Return the part that applies a function of two arrays; null gives null."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        if left.value is None or right.value is None:
            return Constant(None, dtype)
        return Constant(np.asarray(function(left.value, right.value)), dtype)
    if isinstance(right, Constant):
        return _lift_right(function, left, right, dtype)
    if isinstance(left, Constant):
        return _lift_right(_swap(function), right, left, dtype)
    if _is_in_place(function, left, dtype):
        function = _write_in_place(function)
    return Computation(_pair(function, left.run, right.run), dtype, fresh=True)


def _pair(function: Function, left: Run, right: Run) -> Run:
    def compute(columns: Sequence[Column]) -> Column:
        one, two = left(columns), right(columns)
        if type(one) is np.ndarray:
            if type(two) is np.ndarray:
                return function(one, two)  # type: ignore[no-any-return]
            return Nullable(function(one, two.values), two.valid)
        if type(two) is np.ndarray:
            return Nullable(function(one.values, two), one.valid)
        return Nullable(function(one.values, two.values), one.valid & two.valid)

    return compute


def _swap(function: Function) -> Function:
    def swap(right: Any, left: Any) -> Any:
        return function(left, right)

    return swap


def _lift_right(function: Function, part: Part, constant: Constant, dtype: pl.DataType) -> Part:
    if constant.value is None or isinstance(part, Constant):
        return Constant(None, dtype)
    value, run = constant.value, part.run
    if _is_in_place(function, part, dtype):
        function = _write_in_place(function)

    def compute(columns: Sequence[Column]) -> Column:
        one = run(columns)
        if type(one) is np.ndarray:
            return function(one, value)  # type: ignore[no-any-return]
        return Nullable(function(one.values, value), one.valid)

    return Computation(compute, dtype, fresh=True)


Pair: TypeAlias = tuple[Any, Any]
"""Values and their validity; the validity is True if no value is null."""


def lift_pair(function: Callable[..., Pair], plain: Function, left: Part, right: Part) -> Part:
    """Return the part of two operands of a type that applies a function of values with validity.

    Where neither has nulls, ``plain`` is applied to the values, in half the time.
    """
    if isinstance(left, Constant) or isinstance(right, Constant):
        return lift_pairs(function, [left, right], left.dtype)
    one, two = left.run, right.run

    def compute(columns: Sequence[Column]) -> Column:
        mine, other = one(columns), two(columns)
        if type(mine) is np.ndarray and type(other) is np.ndarray:
            return plain(mine, other)  # type: ignore[no-any-return]
        return Nullable(*function(_split(mine), _split(other)))

    return Computation(compute, left.dtype, fresh=True)


def _split(value: Any) -> Pair:
    return (value, True) if type(value) is np.ndarray else (value.values, value.valid)


def lift_pairs(function: Callable[..., Pair], parts: Sequence[Part], dtype: pl.DataType) -> Part:
    """Return the part that applies a function of values with validity, which gives the like."""
    readers = [_pair_reader(part) for part in parts]

    def compute(columns: Sequence[Column]) -> Column:
        values, valid = function(*[read(columns) for read in readers])
        if valid is True:
            return values  # type: ignore[no-any-return]
        if type(valid) is not np.ndarray:  # a null constant
            valid = np.full(len(values), valid)
        return Nullable(values, valid)

    require(any(isinstance(part, Computation) for part in parts))
    return Computation(compute, dtype)


def _pair_reader(part: Part) -> Callable[[Sequence[Column]], Pair]:
    if isinstance(part, Constant):
        if part.value is not None:
            pair: Pair = (part.value, True)
        else:
            pair = (np.zeros((), physical_type(part.dtype)), np.False_)
        return lambda columns: pair
    run = part.run
    return lambda columns: _split(run(columns))


def both(one: Any, two: Any) -> Any:
    """Return the validity of what needs both; each is a mask, or True."""
    if one is True:
        return two
    return one if two is True else one & two
