"""Timelines as values, and axes of time: what SVG, text and charts draw.

All times are ints of one unit, ticks or microseconds.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from rxtemporal.text.plain_text import count_noun, shorten

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


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A row of a timeline.

    ``end`` is None for a row that never ends or whose end is not known; a row of one tick is a
    point. ``label`` stands in the bar, ``detail`` in its tooltip. ``broken_cti`` is the CTI that a
    late event broke. ``key`` chooses the colour.
    """

    start: int
    end: int | None
    label: str = ""
    detail: str = ""
    broken_cti: int | None = None
    key: int = 0

    @property
    def is_point(self) -> bool:
        """True if the row lives for one tick."""
        return self.end is not None and self.end - self.start <= 1


@dataclasses.dataclass(frozen=True, slots=True)
class Lane:
    """Rows under one name, with the CTIs of their stream (None: the end of time), and windows.

    ``note`` stands below the name. ``more`` rows are not shown. A ``result`` is set apart from the
    lanes above it.
    """

    name: str
    bars: tuple[Bar, ...] = ()
    ctis: tuple[int | None, ...] = ()
    windows: tuple[tuple[int, int], ...] = ()
    note: str = ""
    more: int = 0
    result: bool = False

    def describe(self) -> str:
        """Return the numbers of rows, late events and CTIs in one sentence."""
        late = sum(bar.broken_cti is not None for bar in self.bars)
        rows = len(self.bars) - late + self.more
        parts = [count_noun(rows, "row")]
        if late:
            parts.append(f"{late:,} late")
        if self.ctis:
            parts.append(count_noun(len(self.ctis), "CTI"))
        return f"{shorten(self.name, 60)}: {', '.join(parts)}."


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """Lanes over one axis of time, with a title."""

    lanes: tuple[Lane, ...]
    form: Form = "ticks"
    title: str = ""

    def list_times(self) -> Iterator[int]:
        """Yield all times that are drawn."""
        for lane in self.lanes:
            dots = find_dots(lane, self.form)
            for bar in lane.bars:
                yield bar.start
                # a dot takes no room
                if bar.end is not None and bar not in dots:
                    yield bar.end
                if bar.broken_cti is not None:
                    yield bar.broken_cti
            yield from (cti for cti in lane.ctis if cti is not None)
            for window in lane.windows:
                yield from window

    def describe(self) -> str:
        """Return the content in one sentence for each lane, for readers who do not see it."""
        return " ".join(lane.describe() for lane in self.lanes)


def find_dots(lane: Lane, form: Form) -> set[Bar]:
    """Return the rows that are drawn as dots: those of one tick.

    Among ticks, one that touches a longer row is a bar like that one.
    """
    points = {bar for bar in lane.bars if bar.is_point}
    if form == "datetime" or not points:
        return points
    longer = [bar for bar in lane.bars if not bar.is_point and bar.broken_cti is None]
    begins, ends = {bar.start for bar in longer}, {bar.end for bar in longer}
    return {
        bar
        for bar in points
        if bar.broken_cti is not None or not (bar.start in ends or bar.end in begins)
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale from times to places."""

    low: int
    high: int
    left: float
    right: float

    def place(self, time: int) -> float:
        """Return the place of a time, cut off at the ends of the scale."""
        share = (time - self.low) / max(self.high - self.low, 1)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)


def find_range(times: Iterable[int], least: int = 1) -> tuple[int, int]:
    """Return the first and the last time; 0 and ``least`` if there are none."""
    listed = sorted(times)
    if not listed:
        return 0, least
    return listed[0], max(listed[-1], listed[0] + least)


def place_rows(
    bars: Sequence[Bar], extent: Callable[[Bar], tuple[float, float]]
) -> list[tuple[Bar, int]]:
    """Return each bar with the number of the first row in which it covers no other bar.

    ``extent`` returns the places at which a bar begins and ends.
    """
    ends: list[float] = []
    placed = []
    for bar in sorted(bars, key=lambda each: (each.start, each.broken_cti is not None)):
        begin, end = extent(bar)
        row = next((row for row, taken in enumerate(ends) if taken <= begin), len(ends))
        ends[row : row + 1] = [end]
        placed.append((bar, row))
    return placed
