"""Spans of time: timedeltas, texts such as ``2h30m``, or ticks."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Any, TypeAlias

from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.errors import ArgumentError

Span: TypeAlias = timedelta | int | str

SECOND = 1_000_000
# the units of a text, in ticks
UNITS = {
    "w": 7 * 86_400 * SECOND,
    "d": 86_400 * SECOND,
    "h": 3_600 * SECOND,
    "m": 60 * SECOND,
    "min": 60 * SECOND,
    "s": SECOND,
    "ms": SECOND // 1_000,
    "us": 1,
}
LONGEST = 2**62
_SHOWN = (
    ("d", UNITS["d"]),
    ("h", UNITS["h"]),
    ("min", UNITS["min"]),
    ("s", SECOND),
    ("ms", UNITS["ms"]),
)
_NAMES = (
    "w (weeks), d (days), h (hours), m or min (minutes), s (seconds), ms, us (microseconds); "
    "windows also have mo (months) and y (years), alone"
)
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.ASCII)
_MOST_CHARACTERS = 64


def count_microseconds(delta: timedelta) -> int:
    """Return a timedelta as a number of ticks, exactly."""
    return (delta.days * 86_400 + delta.seconds) * SECOND + delta.microseconds


def parse_span(text: str, name: str) -> int:
    """Return a text such as ``90s``, ``2h30m`` or ``-1.5 d`` as ticks.

    ``ArgumentError`` if it has no such form or is not a whole number of ticks; ``name`` is the
    argument's, for the message.

    >>> parse_span("500ms", "delay"), parse_span("1h30m", "delay") == 90 * 60 * SECOND
    (500000, True)
    """
    sign, rest = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text.strip())
    total, at = Fraction(0), 0
    while rest and len(rest) <= _MOST_CHARACTERS and (part := _PART.match(rest, at)):
        number, unit = part.groups()
        if unit not in UNITS:
            raise _make_text_error(text, name, f"{unit!r} is not a unit. ")
        total += Fraction(number) * UNITS[unit]
        at = part.end()
        if at == len(rest):
            return sign * _check_whole(total, text, name)
    raise _make_text_error(text, name, "")


def _check_whole(total: Fraction, text: str, name: str) -> int:
    if total.denominator != 1:
        raise ArgumentError(
            f"{name}={brief(text)} is not a whole number of microseconds. Hint: round it."
        )
    return total.numerator


def _make_text_error(text: str, name: str, reason: str) -> ArgumentError:
    return ArgumentError(
        f"{name}={brief(text)} is not a span of time. {reason}Hint: write numbers with units, for "
        f"example '5m' or '2h30m'. The units are {_NAMES}."
    )


def span(value: Any, name: str, *, least: int | None = None) -> int:
    """Return a span of time, given as a timedelta, a text or ticks, as ticks.

    ``least`` is the smallest number of ticks allowed; ``name`` is the argument's, for the message.
    """
    if isinstance(value, bool) or not isinstance(value, (int, timedelta, str)):
        raise ArgumentError(
            f"{name} is a timedelta, a text such as '5m', or an int of ticks, got {brief(value)} "
            f"({type_name(value)})"
        )
    length = _count(value, name)
    if least is not None and length < least:
        bound = "be positive" if least == 1 else "not be negative" if least == 0 else f">= {least}"
        raise ArgumentError(f"{name} must {bound}, got {value}")
    if abs(length) > LONGEST:
        raise ArgumentError(
            f"{name} is too long: {brief(value)}. Hint: all of time, from year 1 to 9999, is "
            "3,652,059 days; leave the argument out if there is no limit."
        )
    return length


def _count(value: Any, name: str) -> int:
    if isinstance(value, timedelta):
        return count_microseconds(value)
    return parse_span(value, name) if isinstance(value, str) else int(value)


def describe_span(length: int) -> str:
    """Return a span as text for messages, in the largest unit of which it is a multiple.

    >>> describe_span(90_000_000), describe_span(3_600_000_000), describe_span(-1)
    ('90 s', '1 h', '-1 tick')
    """
    for unit, size in _SHOWN:
        if length and length % size == 0:
            return f"{length // size} {unit}"
    return f"{length} tick{'' if abs(length) == 1 else 's'}"


def format_delay(delay: int) -> str:
    """Return a delay in two units at most, rounded up to tenths of the smaller.

    >>> format_delay(852_000_001), format_delay(5), format_delay(90_000_000)
    ('14 min 12.1 s', '5 ticks', '1 min 30 s')
    """
    if delay < 100_000:
        return describe_span(delay)
    tenths = -(-delay // 100_000)
    minutes, tenths = divmod(tenths, 600)
    if minutes >= 600:
        return f"{-(-(minutes + (tenths > 0)) // 60)} h"
    seconds = f"{tenths / 10:g} s"
    if not minutes:
        return seconds
    return f"{minutes} min {seconds}" if tenths else f"{minutes} min"


def format_age(seconds: float) -> str:
    """Return a span of the wall clock as text."""
    return f"{seconds:.0f} s" if seconds < 600 else f"{seconds / 60:.0f} min"
