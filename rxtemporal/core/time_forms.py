"""The form of times: ticks or datetimes, and Unix times, the numbers that have a unit.

A stream has times of one form: datetimes, or ticks, which are plain numbers. The form is unknown
(None) until a declaration, a span or a row shows it. Times and spans of 0 belong to both forms, and
so do both ends of time.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Literal, TypeAlias

import polars as pl

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, to_datetime
from rxtemporal.errors import ArgumentError, EventError

TimeForm: TypeAlias = Literal["datetime", "ticks"]
Unit: TypeAlias = Literal["s", "ms", "us", "ns", "ticks"]

# how many ticks a number of the unit stands for
_TICKS = {
    "s": Fraction(1_000_000), "ms": Fraction(1_000), "us": Fraction(1), "ns": Fraction(1, 1_000),
}  # fmt: skip
UNITS = (*_TICKS, "ticks")
# as texts in messages
FORMS = {"ticks": "numbers of ticks", "datetime": "datetimes"}
ONE = {"ticks": "a number", "datetime": "a datetime"}
_IN_BOTH = (0, MIN_TIME, MAX_TIME)
# a number is likely to be a time from 1980 to 2100, in ticks
_USUAL = (315_532_800_000_000, 4_102_444_800_000_000)


def check_time_form(time: Any) -> None:
    """Raise an error if this is not a form of times."""
    if time not in (None, "ticks", "datetime"):
        raise ArgumentError(f"time is 'ticks' or 'datetime', got {brief(time)}")


def find_time_form(time: Any) -> TimeForm | None:
    """Return the form of a time; None for one that belongs to both.

    >>> find_time_form(5), find_time_form("2026-05-01T12:00:00Z"), find_time_form(0)
    ('ticks', 'datetime', None)
    """
    if isinstance(time, datetime | str):
        return "datetime"
    return None if time in _IN_BOTH else "ticks"


def find_span_form(*spans: Any) -> TimeForm | None:
    """Return the form of the streams over which these spans are meant; None if of both.

    A text or a timedelta is a span of datetimes, a number one of ticks. ``ArgumentError`` if there
    are both. What is neither, as an expression, says nothing.

    >>> find_span_form("5m", 0), find_span_form(5), find_span_form(0, None)
    ('datetime', 'ticks', None)
    """
    forms = {form: each for each in spans if (form := _find_one(each)) is not None}
    if len(forms) > 1:
        raise ArgumentError(
            f"spans and times of one operator have one form, got {brief(forms['ticks'])}, a number "
            f"of ticks, and {brief(forms['datetime'])}. Hint: over datetimes write each with its "
            f"unit, for example '{forms['ticks']}s'; over ticks write numbers."
        )
    return next(iter(forms), None)


def _find_one(value: Any) -> TimeForm | None:
    if isinstance(value, timedelta):
        return "datetime" if value else None
    if isinstance(value, datetime):
        return "datetime"
    if isinstance(value, str):
        return "datetime"
    is_number = hasattr(value, "__index__") and value not in _IN_BOTH
    return "ticks" if is_number else None


def check_unit(unit: Any) -> Unit | None:
    """Return the argument ``unit=``; raise if it is not a unit."""
    if unit is not None and unit not in UNITS:
        raise ArgumentError(f"unit is one of {', '.join(UNITS)}, got {brief(unit)}")
    return unit  # type: ignore[no-any-return]


def find_unit_form(unit: Unit | None) -> TimeForm | None:
    """Return the form of a stream whose numbers have this unit; None without one."""
    if unit is None:
        return None
    return "ticks" if unit == "ticks" else "datetime"


def read_number(number: Any, unit: Unit) -> int:
    """Return a number of a unit as ticks: an integer of ``ns`` floored, a float rounded.

    ``EventError`` if it is not a time in this unit.

    >>> read_number(1.5, "s"), read_number(1_999, "ns")
    (1500000, 1)
    """
    if unit == "ticks" or isinstance(number, bool):
        return check_range(number, number, unit)
    if isinstance(number, float):
        finite = number - number == 0
        exact = Fraction(number) * _TICKS[unit] if finite else None
        return check_range(None if exact is None else round(exact), number, unit)
    one = _TICKS[unit]  # not multiplied by it: integers take a third of the time
    return check_range(int(number) * one.numerator // one.denominator, number, unit)


def count_unit(ticks: int, unit: Unit) -> int:
    """Return ticks as the greatest number of a unit that is not later.

    >>> count_unit(1_999_999, "s"), count_unit(1, "ns")
    (1, 1999)
    """
    if unit == "ticks" or ticks in (MIN_TIME, MAX_TIME):
        return ticks
    return int((ticks + 1) / _TICKS[unit] - 1) if unit == "ns" else int(ticks / _TICKS[unit] // 1)


def check_range(ticks: Any, number: Any, unit: Unit) -> int:
    """Return ticks that lie inside of time; raise an error that shows the number in each unit."""
    if type(ticks) is int and MIN_TIME <= ticks <= MAX_TIME:
        return ticks
    raise EventError(
        f"{brief(number)} ({type_name(number)}) is not a valid time in the unit {unit!r}. "
        f"{explain_units(number)}"
    )


def explain_units(number: Any) -> str:
    """Return a hint: the instant that each unit makes of a number, usual instants first.

    >>> print(explain_units(1795457564))
    Hint: unit='s' makes 1795457564 the time 2026-11-23T18:12:44Z, unit='ms' \
1970-01-21T18:44:17.564000Z, unit='us' 1970-01-01T00:29:55.457564Z, unit='ns' \
1970-01-01T00:00:01.795457Z. They count from 1970-01-01T00:00:00Z.
    """
    found = {unit: ticks for unit in _TICKS if (ticks := _try_unit(number, unit)) is not None}
    if not found:
        units = ", ".join(map(repr, _TICKS))
        return f"Hint: unit= says what numbers count from 1970-01-01T00:00:00Z: {units}."
    first, *others = sorted(found, key=lambda unit: not _USUAL[0] <= found[unit] < _USUAL[1])
    shown = "".join(f", unit={unit!r} {_show(found[unit])}" for unit in others)
    return (
        f"Hint: unit={first!r} makes {number} the time {_show(found[first])}{shown}. They count "
        "from 1970-01-01T00:00:00Z."
    )


def _try_unit(number: Any, unit: str) -> int | None:
    try:
        ticks = int(Fraction(number) * _TICKS[unit] // 1)
    except (TypeError, ValueError, OverflowError):
        return None
    return ticks if MIN_TIME <= ticks <= MAX_TIME else None


def _show(ticks: int) -> str:
    return to_datetime(ticks).isoformat().replace("+00:00", "Z")


def read_number_column(column: pl.Series, unit: Unit) -> pl.Series:
    """Return a column of numbers of a unit as instants, or as ticks, by ``read_number``'s rules.

    ``EventError`` if one is not a time in this unit.
    """
    if unit == "ticks":
        return column.cast(pl.Int64)
    factor = _TICKS[unit]
    inside = column.is_between(float(MIN_TIME / factor), float(MAX_TIME / factor))
    if not inside.all():
        value = column.filter(~inside)[0]
        check_range(None, value, unit)
    if column.dtype.is_float():
        ticks = (column * float(factor)).round().cast(pl.Int64)
    elif unit == "ns":
        ticks = column.cast(pl.Int64) // 1_000
    else:
        ticks = column.cast(pl.Int64) * int(factor)
    return ticks.cast(pl.Datetime("us")).dt.replace_time_zone("UTC")


def unite_forms(forms: Iterable[TimeForm | None]) -> TimeForm | None:
    """Return the form of streams that meet; None if none is known; ``ValueError`` if they differ.

    >>> unite_forms([None, "ticks"]), unite_forms([])
    ('ticks', None)
    """
    known = {form for form in forms if form is not None}
    if len(known) > 1:
        raise ValueError("streams of both forms")
    return next(iter(known), None)
