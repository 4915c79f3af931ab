"""Times and sequence numbers of pushed rows, one and many."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.fields import UnfitError
from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, ticks, to_datetime
from rxtemporal.core.time_forms import TimeForm, Unit, read_number, read_number_column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# time zones whose code is not the user's own
_ZONES = frozenset({timezone, ZoneInfo})
# in an array of sequence numbers: the row has none
NO_SEQ = -1
_MOST_SEQ = np.iinfo(np.int64).max
# fewer times are plain arithmetic: a series has fixed costs
_MANY = 1_000
_HINT = (
    "a time is an aware datetime, an ISO 8601 text with an offset, or an int: of ticks, or with "
    "unit= a Unix time"
)


def plain_time(value: Any, name: str, unit: Unit | None = None) -> Time:
    """Return a time as ticks or as an aware datetime whose code is Python's own.

    A number of a ``unit`` is a datetime. ``UnfitError`` if it is no time or names no instant; it
    may still lie outside of time.
    """
    kind = type(value)
    if unit not in (None, "ticks") and _is_number(value):
        return to_datetime(read_number(value, unit))
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is datetime:
        return _plain_datetime(value)
    if isinstance(value, str):
        return _parse(value, name)
    if isinstance(value, datetime):
        return to_datetime(ticks(value))
    if hasattr(value, "__index__") and kind is not bool:
        return int(value.__index__())
    raise UnfitError(f"{name!r} is no time: {brief(value)} ({type_name(value)}). Hint: {_HINT}.")


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, float) or hasattr(value, "__index__")
    return is_number and not isinstance(value, bool)


def _plain_datetime(value: datetime) -> datetime:
    zone = value.tzinfo
    if zone is UTC or zone is None or type(zone) in _ZONES:
        return value  # what is naive is refused by the event
    return to_datetime(ticks(value))


def _parse(text: str, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(str.__str__(text))
    except ValueError:
        raise UnfitError(f"{name!r} is no time: {brief(text)}. Hint: {_HINT}.") from None
    if time.tzinfo is None:
        raise UnfitError(
            f"{name!r} has no offset and names no instant: {brief(text)}. "
            "Hint: write it with its offset, as in 2026-05-01T12:00:00Z."
        )
    return time


def check_seq(value: Any, name: str) -> int | None:
    """Return a sequence number, or None for a row without one; ``UnfitError`` for another value."""
    if value is None:
        return None
    if type(value) is int and 0 <= value <= _MOST_SEQ:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int.__int__(value) if isinstance(value, int) else int(value)
        if 0 <= number <= _MOST_SEQ:
            return number
    raise UnfitError(
        f"{name!r} is no sequence number, an int from 0 to {_MOST_SEQ}: "
        f"{brief(value)} ({type_name(value)})"
    )


def read_times(values: Sequence[Any], unit: Unit | None = None) -> tuple[Int64s, TimeForm]:
    """Return times of one kind as ticks, and their form; raise if one is no time."""
    kinds = set(map(type, values))
    if unit not in (None, "ticks") and (kinds == {int} or kinds == {float}):
        instants = read_number_column(pl.Series(values, strict=True), unit)
        return instants.to_physical().to_numpy(writable=True), "datetime"
    if kinds == {int}:
        return np.array(values, np.int64), "ticks"
    if kinds == {str}:
        values = list(map(datetime.fromisoformat, values))
    elif kinds != {datetime}:
        raise UnfitError("times of several kinds")
    # a naive one cannot be subtracted
    since = [time - _EPOCH for time in values]
    if len(since) < _MANY:
        days = [each.days * 86_400_000_000 for each in since]
        parts = [each.seconds * 1_000_000 + each.microseconds for each in since]
        return np.array(days, np.int64) + np.array(parts, np.int64), "datetime"
    # polars is ten times as fast at this as numpy
    spans = pl.Series(since, dtype=pl.Duration("us"))
    return spans.to_physical().to_numpy(writable=True), "datetime"


def check_lifetimes(start: Int64s, end: Int64s) -> None:
    """Raise if a lifetime is empty or lies outside of time."""
    if not len(start):
        return
    inside = start.min() >= MIN_TIME and start.max() < MAX_TIME and end.max() <= MAX_TIME
    if not inside or not (start < end).all():
        raise UnfitError("a lifetime is empty or lies outside of time")
