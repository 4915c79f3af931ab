"""Arithmetic and casts as polars does them: integers wrap, a division by zero is null or infinite.

By a constant polars divides floats as a multiplication with its inverse. In a batch of one row it
does not, and so gives another last bit than in a batch of two; here every batch is as of two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import polars as pl

from rxtemporal.core.columns import Array, Bools, physical_type
from rxtemporal.engine.expressions.parts import (
    Constant,
    Function,
    Pair,
    Part,
    both,
    lift,
    lift_pairs,
    lift_two,
    require,
)
from rxtemporal.engine.expressions.tree import Term

_UFUNCS = {"Plus": np.add, "Minus": np.subtract, "Multiply": np.multiply}
# the highest power of floats that is computed by multiplications
_MAX_POWER = 3


def translate_arithmetic(term: Term, parts: list[Part]) -> Part:
    """Translate + - *, of numbers, and of times and spans of one unit."""
    left, right = parts
    if term.dtype.is_numeric():
        require(left.dtype == right.dtype == term.dtype)
        return _compute(term.name, left, right)
    require(_is_span_sum(term.name, left.dtype, right.dtype, term.dtype))
    return lift_two(_UFUNCS[term.name], left, right, term.dtype)


def translate_fused(term: Term, parts: list[Part]) -> Part:
    """Translate a product and the sum or difference with it, which polars computes together."""
    require(all(part.dtype == term.dtype for part in parts) and term.dtype.is_numeric())
    first, second, third = parts
    kind = term.options[0]
    require(kind in ("fma", "fms", "fsm"))
    if kind == "fsm":
        return _compute("Minus", first, _compute("Multiply", second, third))
    name = "Plus" if kind == "fma" else "Minus"
    return _compute(name, _compute("Multiply", first, second), third)


def _compute(name: str, left: Part, right: Part) -> Part:
    """Return the sum, difference or product of numbers; polars adds no zero to a float."""
    if left.dtype.is_float() and name != "Multiply":
        if _is_zero(right):
            return left
        if _is_zero(left):
            return right if name == "Plus" else lift(np.negative, right, right.dtype)
    return lift_two(_UFUNCS[name], left, right, left.dtype)


def _is_zero(part: Part) -> bool:
    return isinstance(part, Constant) and part.value is not None and not part.value


def _is_span_sum(name: str, left: pl.DataType, right: pl.DataType, result: pl.DataType) -> bool:
    """Return True if a sum or difference of times and spans is one of their integers."""
    types = (left, right, result)
    if name == "Multiply" or not all(
        isinstance(each, (pl.Datetime, pl.Duration)) for each in types
    ):
        return False
    if name == "Minus" and isinstance(left, pl.Duration) and isinstance(right, pl.Datetime):
        return False
    if any(dtype.time_unit != "us" for dtype in types):  # type: ignore[attr-defined]
        return False
    zones = {dtype.time_zone for dtype in types if isinstance(dtype, pl.Datetime)}
    return zones <= {None} or zones <= {"UTC"}


def translate_division(term: Term, parts: list[Part]) -> Part:
    """Translate / of numbers: the quotient is a float."""
    left, right = (part.dtype for part in parts)
    require(term.dtype.is_float() and left.is_numeric() and right.is_numeric())
    physical = physical_type(term.dtype)
    numerator, divisor = (_to_float(part, term.dtype) for part in parts)
    if isinstance(divisor, Constant) and divisor.value is not None:
        return lift_two(np.multiply, numerator, _invert(divisor, physical), term.dtype)
    return lift_two(np.divide, numerator, divisor, term.dtype)


def _to_float(part: Part, dtype: pl.DataType) -> Part:
    if part.dtype == dtype:
        return part
    physical = np.dtype(physical_type(dtype))
    return lift(lambda values: values.astype(physical), part, dtype)


def _invert(constant: Constant, physical: Any) -> Constant:
    with np.errstate(all="ignore"):
        return Constant(np.asarray(np.ones((), physical) / constant.value), constant.dtype)


def translate_floor_division(term: Term, parts: list[Part]) -> Part:
    """Translate //, which rounds down; of integers by zero it is null."""
    require(term.dtype.is_numeric())
    require(all(part.dtype == term.dtype for part in parts))
    if term.dtype.is_integer():
        return _divide_integers(np.floor_divide, term, parts)
    return _divide_floats(_floor, _floor_inverse, term, parts)


def translate_modulo(term: Term, parts: list[Part]) -> Part:
    """Translate %, with the sign of the divisor; of integers by zero it is null."""
    require(term.dtype.is_numeric())
    require(all(part.dtype == term.dtype for part in parts))
    if term.dtype.is_integer():
        return _divide_integers(np.remainder, term, parts)
    return _divide_floats(_modulo, _modulo_inverse, term, parts)


def _floor(values: Array, divisor: Array) -> Array:
    quotient: Array = values / divisor
    return np.asarray(np.floor(quotient, quotient))


def _floor_inverse(values: Array, divisor: Array, inverse: Array) -> Array:
    quotient: Array = values * inverse
    return np.asarray(np.floor(quotient, quotient))


def _modulo(values: Array, divisor: Array) -> Array:
    return np.asarray(values - divisor * _floor(values, divisor))


def _modulo_inverse(values: Array, divisor: Array, inverse: Array) -> Array:
    return np.asarray(values - divisor * _floor_inverse(values, divisor, inverse))


def _divide_floats(
    function: Callable[[Array, Array], Array],
    by_constant: Callable[[Array, Array, Array], Array],
    term: Term,
    parts: list[Part],
) -> Part:
    left, right = parts
    if not isinstance(right, Constant) or right.value is None:
        return lift_two(function, left, right, term.dtype)
    divisor, inverse = right.value, _invert(right, physical_type(term.dtype)).value
    return lift(lambda values: by_constant(values, divisor, inverse), left, term.dtype)  # type: ignore[arg-type]


def _divide_integers(ufunc: Any, term: Term, parts: list[Part]) -> Part:
    left, right = parts
    if isinstance(right, Constant):
        if right.value is None or not right.value:
            return Constant(None, term.dtype)
        return lift_two(ufunc, left, right, term.dtype)

    def divide(one: Pair, two: Pair) -> Pair:
        divisors, valid = two
        valid = both(one[1], valid)
        if np.count_nonzero(divisors) != len(divisors):
            valid = both(divisors != 0, valid)
        return ufunc(one[0], divisors), valid

    return lift_pairs(divide, parts, term.dtype)


def translate_power(term: Term, parts: list[Part]) -> Part:
    """Translate a power of a constant exponent: a square, a cube, of floats a root too."""
    base, exponent = parts
    require(base.dtype == term.dtype and isinstance(exponent, Constant))
    assert isinstance(exponent, Constant)
    require(exponent.value is not None)
    power = float(exponent.value)  # type: ignore[arg-type]
    if power == 2:
        return lift(lambda values: values * values, base, term.dtype)
    require(power == _MAX_POWER and term.dtype.is_numeric())
    return lift(lambda values: values * values * values, base, term.dtype)


def translate_unary(term: Term, parts: list[Part]) -> Part:
    """Translate negation, the absolute value, and the square root."""
    (part,) = parts
    require(part.dtype == term.dtype)
    require(term.dtype.is_numeric() or isinstance(term.dtype, pl.Duration))
    require(term.dtype.is_numeric() or term.name != "sign")
    if term.name == "abs" and term.dtype.is_unsigned_integer():
        return part
    if term.name == "negate":
        require(not term.dtype.is_unsigned_integer())
    if term.name in ("sqrt", "floor", "ceil"):
        require(term.dtype.is_float())
    return lift(_UNARY[term.name], part, term.dtype)


def _take_sign(values: Array) -> Array:
    # a zero keeps its sign
    signs = np.sign(values)
    return np.where(values == 0, values, signs) if values.dtype.kind == "f" else signs


_UNARY: dict[str, Function] = {
    "negate": np.negative,
    "abs": np.abs,
    "sign": _take_sign,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
}


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
        require(is_utc(source))
        return lift(lambda values: (values // _DAY).astype(np.int32), part, dtype)
    if source == pl.Date() and isinstance(dtype, pl.Datetime):
        require(is_utc(dtype))
        return lift(_days_to_microseconds, part, dtype)
    require(source == pl.Int64() or dtype == pl.Int64())
    require(pl.Date() not in (source, dtype) and pl.Time() != dtype)
    return lift(lambda values: values, part, dtype, fresh=False)


def is_utc(dtype: pl.Datetime) -> bool:
    """Return True for times as rows have them: in microseconds, of UTC or without a zone."""
    return dtype.time_unit == "us" and dtype.time_zone in (None, "UTC")


def _days_to_microseconds(days: Array) -> Array:
    if len(days) and (int(days.max()) > _LAST_DAY or int(days.min()) < -_LAST_DAY):
        raise UnfitRowsError
    return days * np.int64(_DAY)


# the last day whose microseconds 64 bits hold
_LAST_DAY = (2**63 - 1) // _DAY
