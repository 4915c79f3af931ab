"""Axes of application time: round marks and their texts, for datetimes and for ticks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

Form = Literal["datetime", "ticks"]

SECOND = 1_000_000
DAY = 86_400 * SECOND
_STEPS: list[int] = [
    *(10**power * size for power in range(6) for size in (1, 2, 5)),
    *(each * SECOND for each in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800)),
    *(each * 3_600 * SECOND for each in (1, 2, 3, 6, 12)),
    *(each * DAY for each in (1, 2, 7, 14, 28, 91, 182, 365)),
]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def find_marks(low: int, high: int, form: Form, most: int = 8) -> list[int]:
    """Return round times from ``low`` to ``high``, at most about ``most``.

    >>> find_marks(0, 20, "ticks", 5)
    [0, 5, 10, 15, 20]
    """
    step = _find_step(max(high - low, 1) / max(most, 1), form)
    first = -(-low // step) * step
    return list(range(first, high + 1, step))


def _find_step(least: float, form: Form) -> int:
    if form == "datetime" and least <= _STEPS[-1]:
        return _STEPS[bisect_left(_STEPS, least)]
    if form == "datetime":
        least /= _STEPS[-1]
        return _STEPS[-1] * _find_decimal(least)
    return _find_decimal(least)


def _find_decimal(least: float) -> int:
    """Return the lowest of 1, 2, 5, 10, 20 … that is no lower than ``least``."""
    power = 1
    while power * 10 < least:
        power *= 10
    return power * next(digit for digit in (1, 2, 5, 10) if power * digit >= least)


def format_marks(marks: list[int], form: Form) -> list[str]:
    """Return marks as short texts: no finer than the step between them.

    >>> format_marks([0, 60_000_000], "datetime")
    ['00:00', '00:01']
    """
    if form == "ticks":
        return [f"{mark:,}" for mark in marks]
    return [_format_mark(mark, marks) for mark in marks]


def _format_mark(mark: int, marks: list[int]) -> str:
    time = _EPOCH + timedelta(microseconds=mark)
    if all(each % DAY == 0 for each in marks):
        spans_years = len(marks) > 1 and marks[-1] - marks[0] > 300 * DAY
        return time.strftime("%Y-%m-%d") if spans_years else time.strftime("%m-%d")
    return clock_text(mark)


def clock_text(tick: int) -> str:
    """Return the time of day of a time, no finer than it is.

    >>> clock_text(0), clock_text(1_500_000)
    ('00:00', '00:00:01.5')
    """
    time = _EPOCH + timedelta(microseconds=tick)
    if tick % SECOND:
        return time.strftime("%H:%M:%S.%f").rstrip("0")
    return time.strftime("%H:%M:%S") if tick % (60 * SECOND) else time.strftime("%H:%M")


def format_time(tick: int | None, form: Form) -> str:
    """Return a time as text; None is the end of time.

    >>> format_time(5, "ticks"), format_time(0, "datetime"), format_time(None, "ticks")
    ('5', '1970-01-01T00:00:00Z', '∞')
    """
    if tick is None:
        return "∞"
    if form == "ticks":
        return f"{tick:,}"
    return (_EPOCH + timedelta(microseconds=tick)).isoformat().replace("+00:00", "Z")


def format_brief(tick: int | None, form: Form) -> str:
    """Return a time as the text of a mark: the time of day, without the date."""
    return format_time(tick, form) if tick is None or form == "ticks" else clock_text(tick)


def describe_axis(times: Iterable[int], form: Form) -> str:
    """Return the name of an axis: the unit, with the date if all times are of one day."""
    if form == "ticks":
        return "time in ticks"
    days = {each // DAY for each in times}
    if len(days) != 1:
        return "time (UTC)"
    day = _EPOCH + timedelta(days=days.pop())
    return f"{day:%Y-%m-%d} (UTC)"
