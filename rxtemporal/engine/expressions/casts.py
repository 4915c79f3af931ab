"""Casts between numbers, booleans and times.

A strict cast that fails leaves the batch to polars, which knows the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Bools, physical_type
from rxtemporal.engine.expressions.parts import (
    Constant,
    Pair,
    Part,
    both,
    lift,
    lift_pairs,
    require,
)
from rxtemporal.engine.expressions.tree import Term

Mode = Literal["strict", "lenient", "wrap"]
_BOOL = pl.Boolean()
_DAY = 86_400_000_000


class UnfitRowsError(Exception):
    """Rows of a batch that are left to polars."""


def translate_cast(term: Term, parts: list[Part]) -> Part:
    """Translate a cast."""
    return cast(parts[0], term.dtype, term.options[0])


def translate_date(term: Term, parts: list[Part]) -> Part:
    """Translate dt.date."""
    return cast(parts[0], term.dtype, "strict")


def cast(part: Part, dtype: pl.DataType, mode: Mode) -> Part:
    """Return the part cast to a type."""
    source = part.dtype
    if source == dtype:
        return part
    require(physical_type(dtype) is not None)
    if isinstance(part, Constant) and part.value is None:
        return Constant(None, dtype)
    require(physical_type(source) is not None and not isinstance(part, Constant))
    if source.is_temporal() or dtype.is_temporal():
        return _cast_times(part, dtype)
    if dtype == _BOOL:
        return lift(lambda values: np.not_equal(values, 0), part, dtype)
    if source == _BOOL or dtype.is_float():
        return _convert(part, dtype)
    if source.is_float():
        require(mode != "wrap")
        return _cast_checked(_float_limits(source, dtype), part, dtype, mode)
    limits = None if mode == "wrap" else _integer_limits(source, dtype)
    return _convert(part, dtype) if limits is None else _cast_checked(limits, part, dtype, mode)


def _convert(part: Part, dtype: pl.DataType) -> Part:
    physical = np.dtype(physical_type(dtype))
    return lift(lambda values: values.astype(physical), part, dtype)


Limits = Callable[[Array], Bools]


def _integer_limits(source: pl.DataType, dtype: pl.DataType) -> Limits | None:
    """Return the check of which integers fit a type; None if all do."""
    have: Any = np.iinfo(np.dtype(physical_type(source)))
    want: Any = np.iinfo(np.dtype(physical_type(dtype)))
    low = np.array(want.min, have.dtype) if want.min > have.min else None
    high = np.array(want.max, have.dtype) if want.max < have.max else None
    if low is None and high is None:
        return None

    if low is None:
        return lambda values: values <= high
    if high is None:
        return lambda values: values >= low
    return lambda values: (values >= low) & (values <= high)


def _float_limits(source: pl.DataType, dtype: pl.DataType) -> Limits:
    """Return the check of which floats fit an integer type when cut to their whole part."""
    want = np.iinfo(np.dtype(physical_type(dtype)))
    high = float(want.max) + 1 if want.bits < 64 else float(want.max)  # the power of 2 in any case
    low = float(want.min) - 1

    def fits(values: Array) -> Bools:
        exact = values if values.dtype == np.float64 else values.astype(np.float64)
        # below a minimum of 64 bits there is no float that is less than 1 below
        return np.asarray(((exact > low) | (exact == want.min)) & (exact < high))

    return fits


def _cast_checked(fits: Limits, part: Part, dtype: pl.DataType, mode: Mode) -> Part:
    physical = np.dtype(physical_type(dtype))

    def check(one: Pair) -> Pair:
        values, valid = one
        fitting = fits(values)
        if np.count_nonzero(fitting) == len(fitting):
            return values.astype(physical), valid
        if mode == "strict" and (valid is True or (valid & ~fitting).any()):
            raise UnfitRowsError
        return values.astype(physical), both(valid, fitting)

    return lift_pairs(check, [part], dtype)


def _cast_times(part: Part, dtype: pl.DataType) -> Part:
    """Return a cast between times, or between times and their 64-bit integers."""
    source = part.dtype
    if isinstance(source, pl.Datetime) and dtype == pl.Date():
        require(_is_utc(source))
        return lift(lambda values: (values // _DAY).astype(np.int32), part, dtype)
    if source == pl.Date() and isinstance(dtype, pl.Datetime):
        require(_is_utc(dtype))
        return lift(_days_to_microseconds, part, dtype)
    require(source == pl.Int64() or dtype == pl.Int64())
    require(pl.Date() not in (source, dtype) and pl.Time() != dtype)
    return lift(lambda values: values, part, dtype, fresh=False)


def _is_utc(dtype: pl.Datetime) -> bool:
    return dtype.time_unit == "us" and dtype.time_zone in (None, "UTC")


def _days_to_microseconds(days: Array) -> Array:
    if len(days) and (int(days.max()) > _LAST_DAY or int(days.min()) < -_LAST_DAY):
        raise UnfitRowsError
    return days * np.int64(_DAY)


# the last day whose microseconds 64 bits hold
_LAST_DAY = (2**63 - 1) // _DAY
