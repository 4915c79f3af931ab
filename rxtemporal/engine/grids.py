"""Grids of bounds along the axis of time: regular ones, and those of calendars."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.calendars import (
    BoundTable,
    Calendar,
    Line,
    make_usual_table,
    make_whole_table,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels import lifetimes
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.places import find_bounds, find_end_places, find_places

# so many bounds are kept that were asked for one by one
_MOST_KNOWN = 256
# the pieces of lifetimes: row, start and end of each, by row and then in order of time
Pieces = tuple[Int64s, Int64s, Int64s]


class BoundGrid(Protocol):
    """Bounds along the axis of time. Times are ``int64[n]``; each method is O(n)."""

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""

    def find_upto(self, times: Int64s) -> Int64s:
        """Return for each time the last bound that is not above it."""

    def is_bound(self, times: Int64s) -> Bools:
        """Return the mask of the times that are bounds."""

    def count_pieces(self, start: Int64s, end: Int64s) -> Int64s:
        """Count the pieces of each ``[start, end)``, cut at bounds strictly inside."""

    def cut(self, start: Int64s, end: Int64s) -> Pieces:
        """Return the pieces of each ``[start, end)``. O(n + pieces)."""


class RegularGrid:
    """The bounds ``offset + n * period``."""

    def __init__(self, period: int, offset: int) -> None:
        self.period, self.offset = lifetimes.reduce_grid(period, offset)

    def __str__(self) -> str:
        """Return a description in words."""
        return f"a period of {self.period} ticks"

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""
        return lifetimes.find_boundary_after(times, self.period, self.offset)

    def find_upto(self, times: Int64s) -> Int64s:
        """Return for each time the last bound that is not above it."""
        return times - (times - self.offset) % self.period

    def is_bound(self, times: Int64s) -> Bools:
        """Return the mask of the times that are bounds."""
        mask: Bools = (times - self.offset) % self.period == 0
        return mask

    def count_pieces(self, start: Int64s, end: Int64s) -> Int64s:
        """Count the pieces of each ``[start, end)``, cut at bounds strictly inside."""
        return lifetimes.count_pieces(start, end, self.period, self.offset)

    def cut(self, start: Int64s, end: Int64s) -> Pieces:
        """Return the pieces of each ``[start, end)``."""
        return lifetimes.cut(start, end, self.period, self.offset)


class CalendarGrid:
    """The bounds of a calendar, which are numbered.

    Times have *places*: that of bound number n is 2 n, and that of all times between this and the
    next bound 2 n + 1. So what holds of bounds 2 apart holds of those of the calendar.
    """

    def __init__(self, calendar: Calendar) -> None:
        self.calendar = calendar
        # the number of a bound, the bound, and the next one: those around the last single time
        self._number, self._low, self._high = 0, MAX_TIME, MIN_TIME
        # the bounds around the last stretch of time that are equally far apart
        self._line = Line(MAX_TIME, MIN_TIME, 0, 1)
        # some bounds by number
        self._known: dict[int, int] = {}

    def __str__(self) -> str:
        """Return a description in words."""
        return f"a period of {self.calendar}"

    def find_places(self, times: Int64s) -> Int64s:
        """Return the places of times; the end of time stays as it is."""
        places, inside = self._search(find_places, times, usual=True)
        return places if inside else self._search(find_places, times, usual=False)[0]

    def find_end_places(self, times: Int64s) -> Int64s:
        """Return the places of the ends of rows, which do not reach a unit that begins there."""
        places, inside = self._search(find_end_places, times, usual=True)
        return places if inside else self._search(find_end_places, times, usual=False)[0]

    def find_place(self, time: int) -> int:
        """Return the place of one time; cheap if it lies between the same bounds as the last."""
        if not self._low <= time < self._high:
            self._number = int(self.find_places(np.array([time]))[0]) // 2
            self._low, self._high = map(self.find_bound, (self._number, self._number + 1))
        return 2 * self._number + int(time != self._low)

    def find_line(self, low: int, high: int) -> Line | None:
        """Return bounds that are equally far apart, if those around ``[low, high]`` are.

        The number of the last bound that is not above a time is its number among these.
        """
        if not self._line.begin <= low < self._line.end:
            line = make_usual_table(self.calendar).find_line(low)
            if line is None:
                return None
            self._line = line
        return self._line if high <= self._line.end else None

    def find_bounds(self, numbers: Int64s) -> Int64s:
        """Return the bounds of these numbers, at most an end of time."""
        bounds, inside = self._search(find_bounds, numbers, usual=True)
        if not inside:
            bounds, _ = self._search(find_bounds, numbers, usual=False)
        return np.clip(bounds, MIN_TIME, MAX_TIME)

    def find_bound(self, number: int) -> int:
        """Return one bound; cheap if it has been found before."""
        known = self._known.get(number)
        if known is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            known = self._known[number] = int(self.find_bounds(np.array([number]))[0])
        return known

    def _search(self, search: object, values: Int64s, *, usual: bool) -> tuple[Int64s, bool]:
        make = make_usual_table if usual else make_whole_table
        table: BoundTable = make(self.calendar)
        found: tuple[Int64s, bool] = search(  # type: ignore[operator]
            freeze(values), table.bounds, table.numbers, table.step
        )
        return found

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""
        return self.find_bounds(self.find_places(times) // 2 + 1)

    def find_upto(self, times: Int64s) -> Int64s:
        """Return for each time the last bound that is not above it."""
        return self.find_bounds(self.find_places(times) // 2)

    def is_bound(self, times: Int64s) -> Bools:
        """Return the mask of the times that are bounds."""
        mask: Bools = self.find_places(times) % 2 == 0
        return mask

    def count_pieces(self, start: Int64s, end: Int64s) -> Int64s:
        """Count the pieces of each ``[start, end)``, cut at bounds strictly inside."""
        return self._count(self._find_first(start), end)

    def _find_first(self, start: Int64s) -> Int64s:
        """Return the number of the first bound above each start."""
        return self.find_places(start) // 2 + 1

    def _count(self, first: Int64s, end: Int64s) -> Int64s:
        # the last bound below the end
        last = (self.find_end_places(end) - 1) // 2
        count: Int64s = np.maximum(last - first + 1, 0) + 1
        return count

    def cut(self, start: Int64s, end: Int64s) -> Pieces:
        """Return the pieces of each ``[start, end)``."""
        first = self._find_first(start)
        count = self._count(first, end)
        row = np.repeat(np.arange(len(start)), count)
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        bounds = self.find_bounds(first[row] + number)  # the end of each piece but the last
        begins = np.where(number == 0, start[row], np.concatenate([[0], bounds[:-1]]))
        ends = np.where(number == count[row] - 1, end[row], bounds)
        # a unit that the zone leaves out is empty
        some = begins < ends
        return (row, begins, ends) if some.all() else (row[some], begins[some], ends[some])
