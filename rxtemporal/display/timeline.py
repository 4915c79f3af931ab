"""Timelines as values: lanes of bars over application time, which SVG, text and charts draw.

All times are ints of one unit, ticks or microseconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

from rxtemporal.display.plain_text import shorten
from rxtemporal.display.time_axis import Form


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
        parts = [f"{rows:,} {'row' if rows == 1 else 'rows'}"]
        if late:
            parts.append(f"{late:,} late")
        if self.ctis:
            parts.append(f"{len(self.ctis):,} {'CTI' if len(self.ctis) == 1 else 'CTIs'}")
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
