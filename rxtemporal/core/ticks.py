"""Application time: int64 ticks of one microsecond since 1970-01-01T00:00:00Z.

``MIN_TIME`` and ``MAX_TIME`` are the first and last instants of the proleptic Gregorian calendar
and stand for minus and plus infinity: adding to them does not change them, and any other sum
saturates at them. Nothing wraps.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.spans import SECOND, count_microseconds
from rxtemporal.errors import ArgumentError, EventError

Time: TypeAlias = datetime | int
# a time that somebody gives: also an ISO 8601 text with an offset
TimeLike: TypeAlias = Time | str

TICK = 1
TICKS_PER_SECOND = SECOND
MIN_TIME = -62_135_596_800_000_000
MAX_TIME = 253_402_300_799_999_999

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86_400 * SECOND


def ticks(value: datetime | timedelta) -> int:
    """Return an aware datetime as ticks since the epoch, or a timedelta as a number of ticks.

    Anything finer than a tick is floored. A naive datetime is an error, since it names no instant.

    >>> from datetime import datetime, timedelta, UTC
    >>> ticks(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)), ticks(timedelta(minutes=1))
    (1000000, 60000000)
    """
    if isinstance(value, timedelta):
        return count_microseconds(value)
    if isinstance(value, datetime):
        if value.tzinfo is None or value.utcoffset() is None:
            raise EventError(
                f"naive datetime {value.isoformat()} names no instant. "
                "Hint: give it a time zone, for example datetime(..., tzinfo=UTC)."
            )
        return count_microseconds(value - _EPOCH)
    raise ArgumentError(
        f"ticks() takes an aware datetime or a timedelta, got {value!r} ({type(value).__name__})"
    )


def to_datetime(tick: int) -> datetime:
    """Return ticks as an aware datetime in UTC.

    >>> to_datetime(1_000_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    if not MIN_TIME <= tick <= MAX_TIME:
        raise ArgumentError(
            f"{tick} ticks lie outside of time, which goes from {MIN_TIME} to {MAX_TIME}"
        )
    return _EPOCH + timedelta(microseconds=tick)


def parse_time(text: str) -> datetime:
    """Return an ISO 8601 text with an offset as an aware datetime.

    >>> parse_time("2026-05-01T12:00:00Z").hour
    12
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise EventError(
            f"{brief(text)} is not a valid time. Hint: write it in ISO 8601 with its offset, as in "
            "'2026-05-01T12:00:00Z'; or give an aware datetime, or an int of ticks."
        ) from None
    if time.utcoffset() is None:
        raise EventError(
            f"{brief(text)} has no offset and names no instant. Hint: write it with its offset, "
            f"as in '{time.isoformat()}Z' for UTC or '{time.isoformat()}+02:00'."
        )
    return time


def time_ticks(value: TimeLike) -> int:
    """Return a time, given as an aware datetime, an ISO 8601 text or ticks, as ticks."""
    if type(value) is int and MIN_TIME <= value <= MAX_TIME:  # the common case first
        return value
    if isinstance(value, datetime):
        return ticks(value)
    if isinstance(value, str):
        return ticks(parse_time(value))
    # columns contain numpy integers; a bool is a mistake
    if hasattr(value, "__index__") and not isinstance(value, bool):
        tick = value.__index__()
        if MIN_TIME <= tick <= MAX_TIME:
            return tick
        raise EventError(
            f"{tick} ticks lie outside of time, from {MIN_TIME} to {MAX_TIME}. Hint: a tick is a "
            "microsecond; write a Unix time of nanoseconds as a datetime."
        )
    from rxtemporal.core.safe_text import hint_time

    raise EventError(
        "a time is an aware datetime, an ISO 8601 text with an offset, or an int of ticks, got "
        f"{brief(value)} ({type_name(value)}). {hint_time(value)}"
    )


def add(time: int, length: int) -> int:
    """Return ``time + length``, saturating; MIN_TIME and MAX_TIME do not move.

    >>> add(MAX_TIME, -5) == MAX_TIME, add(MAX_TIME - 1, 5) == MAX_TIME
    (True, True)
    """
    if time in (MIN_TIME, MAX_TIME):
        return time
    return min(max(time + length, MIN_TIME), MAX_TIME)


def match_form(tick: int, like: Time) -> Time:
    """Return ticks in the form of ``like``: as ticks, or as a datetime in the zone of ``like``."""
    if not isinstance(like, datetime):
        return tick
    if MIN_TIME < tick < MAX_TIME:
        try:
            return to_datetime(tick).astimezone(like.tzinfo)
        except OverflowError:  # near the end of time another zone may have no such date
            pass
    return to_datetime(tick)


def describe(tick: int) -> str:
    """Return ticks as text for messages: an ISO time, or the name of an end of time.

    A time in the days around 1970-01-01T00:00:00Z is a number: give such times as ticks.

    >>> describe(5), describe(86_400_000_000), describe(MAX_TIME)
    ('5', '1970-01-02T00:00:00Z', 'the end of time')
    """
    if tick >= MAX_TIME:
        return "the end of time"
    if tick <= MIN_TIME:
        return "the beginning of time"
    if abs(tick) < _DAY:
        return str(tick)
    return to_datetime(tick).isoformat().replace("+00:00", "Z")
