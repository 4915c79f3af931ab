"""hopping_window, tumbling_window and hopping_window2: windows of a regular grid."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.calendars import Calendar, find_monday, names_calendar, read_calendar
from rxtemporal.core.events import WindowOutput
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import ADDED_LATER, Chain, Keys
from rxtemporal.operators.snap.plan import snap_to_window_intervals
from rxtemporal.operators.snapshot_window.plan import SnapshotWindows
from rxtemporal.operators.windows.overlaps import Overlaps, add_overlap
from rxtemporal.operators.windows.plan import TimeWindows, Windowed, windows
from rxtemporal.operators.windows.results_plan import Aggregates, ResultSpec

if TYPE_CHECKING:
    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.grids import CalendarGrid
    from rxtemporal.engine.step import Step
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow
    from rxtemporal.operators.hopping_window.slices import SliceBounds
    from rxtemporal.operators.windows.bounds import Bounds


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class HoppingWindows(TimeWindows):
    """One result for each window of a regular grid that is not empty."""

    knows_ends = True
    duration: int
    period: int
    alignment: int
    at: WindowOutput
    # its units are the period, and the duration is so many of them
    calendar: Calendar | None = dataclasses.field(default=None, metadata=ADDED_LATER)

    @property
    def window(self) -> str:
        """The method that made the window; a window tumbles if its period is its duration."""
        return "tumbling_window()" if self.duration == self.period else "hopping_window()"

    @property
    def cti_rule(self) -> str:
        """The CTI held back by windows that have not ended, whose results begin at their starts."""
        return "t" if self.points else "start of the earliest window that ends after t"

    @property
    def passes_time(self) -> bool:
        """False unless results are points: the first row has results that begin before it."""
        return self.points

    @property
    def moves_time(self) -> bool:
        """True if there are gaps between windows: the next one begins later than the CTI."""
        return not self.points and self.period > self.duration

    @property
    def points(self) -> bool:
        """True if results are points at the windows' ends."""
        return self.at is WindowOutput.POINT_AT_END

    def bounds(self) -> Bounds:
        """Return new bounds."""
        from rxtemporal.operators.hopping_window.bounds import CalendarBounds, HoppingBounds

        if self.calendar is not None:
            return CalendarBounds(self.grid, self.duration, points=self.points)
        return HoppingBounds(self.duration, self.period, self.alignment, points=self.points)

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step, which cuts rows at the bounds of windows if results are by time."""
        if not isinstance(self.result, Aggregates) or not self.result.by_time:
            return super().make(schema, keys)
        from rxtemporal.operators.hopping_window.slices import (
            LocalBounds,
            RegularBounds,
            SlicedWindowStep,
        )

        slicing = self.result.plan_slices(schema, overlapping=self.duration > self.period)
        results = self.result.make(schema, keys, Overlaps.PIECES, slicing)
        windows = self.make_step(results, add_overlap(schema), keys, self.output(schema, keys))
        bounds: SliceBounds = RegularBounds(self.duration, self.period, self.alignment)
        if self.calendar is not None:
            bounds = LocalBounds(self.grid)
        return SlicedWindowStep(windows, slicing, bounds, schema, keys)

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        from rxtemporal.operators.hopping_window.causes import find_window_rows

        return find_window_rows(self, inputs, output, rows)

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why a row of an input has given no row."""
        from rxtemporal.operators.hopping_window.causes import explain_gap

        return explain_gap(self, lost)

    @property
    def grid(self) -> CalendarGrid:
        """The bounds of the calendar."""
        from rxtemporal.engine.grids import CalendarGrid

        assert self.calendar is not None
        return CalendarGrid(self.calendar)

    def find_windows(self, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s] | None:
        """Return the windows, also of points, which begin where their windows end."""
        return (self.find_begins(start), start) if self.points else (start, end)

    def find_begins(self, ends: Int64s) -> Int64s:
        """Return the starts of the windows that end at these times."""
        if self.calendar is None:
            return ends - self.duration
        return self.grid.find_bounds(self.grid.find_end_places(ends) // 2 - self.duration)

    def list_around(self, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s, Int64s]:
        """Return all windows in which each of the lifetimes lies: of which, start and end."""
        from rxtemporal.operators.causes.history import expand

        if self.calendar is None:
            first = -((self.alignment + self.duration - end) // self.period)
            of, number = expand(first, (start - self.alignment) // self.period + 1)
            begin = self.alignment + number * self.period
            return of, begin, begin + self.duration
        grid = self.grid
        first = (grid.find_end_places(end) + 1) // 2 - self.duration
        of, number = expand(first, grid.find_places(start) // 2 + 1)
        return of, grid.find_bounds(number), grid.find_bounds(number + self.duration)


def hopping_window(
    duration: Span,
    period: Span,
    alignment: TimeLike | timedelta = 0,
    *,
    output: WindowOutput = WindowOutput.WINDOW,
    time_zone: str | None = None,
) -> Windowed[Chain]:
    """Cut time into the windows ``[a + np, a + np + d)`` for every integer n.

    ``a`` is the alignment, ``p`` the period and ``d`` the duration. A row belongs to each window
    that overlaps its lifetime; empty windows give no result. By default a result lives for its
    window, and the output CTI is the start of the earliest window that ends after the input CTI.
    With ``output=WindowOutput.POINT_AT_END`` a result is a point that starts at the window's end,
    and the CTI passes unchanged. The default alignment is 1970-01-01T00:00:00Z, a Thursday; of a
    period in weeks, as ``"1w"``, it is a Monday. A row that never ends has results for the windows
    up to the CTI. If it is still open at the end of time, this is an ``UnboundedWindowError``; use
    ``hopping_window2`` for such rows. Source: StreamInsight's hopping windows.

    With ``time_zone`` windows begin at local midnights: days have 23, 24 or 25 hours. The period is
    a number of days (``"1d"``), weeks (``"1w"``), months (``"1mo"``) or years (``"1y"``), and the
    duration a multiple of it. Weeks begin on Monday, months and years on their first day; months
    and years without a zone are those of UTC. A local time that a change of clocks leaves out is
    the time of the change, and of one that comes twice it is the first. Then the alignment is how
    long after midnight of the first day a window begins, as ``"6h"``, or the start of one window.
    """
    if not isinstance(output, WindowOutput):
        raise ArgumentError(f"output is rxt.WindowOutput.WINDOW or POINT_AT_END, got {output!r}")
    if names_calendar(duration, time_zone) or names_calendar(period, time_zone):
        return _make_local_windows(duration, period, alignment, output, time_zone)
    at = find_monday(period) if alignment == 0 else alignment
    grid = partial(
        HoppingWindows,
        duration=span(duration, "duration", least=1),
        period=span(period, "period", least=1),
        alignment=time_ticks(at),  # type: ignore[arg-type]
        time=find_span_form(duration, period, alignment),
        at=output,
    )
    return windows(lambda result: grid(result=result))


def _make_local_windows(
    duration: Span,
    period: Span,
    alignment: TimeLike | timedelta,
    output: WindowOutput,
    time_zone: str | None,
) -> Windowed[Chain]:
    """Return the windows of a calendar."""
    name = "duration" if duration == period else "period"  # tumbling_window has no period
    calendar = read_calendar(period, time_zone, alignment, name)
    units = 1
    if duration != period:
        longer = read_calendar(duration, time_zone, 0, "duration")
        units, rest = divmod(longer.count, calendar.count)
        if longer.unit != calendar.unit or calendar.unit == "ticks" or rest:
            raise ArgumentError(
                f"with a calendar the duration is a number of periods of days, weeks, months or "
                f"years, got {duration!r} and {period!r}. Hint: hopping_window('7d', '1d', "
                "time_zone=…)."
            )
    local = partial(
        HoppingWindows,
        duration=units, period=1, alignment=0, at=output, calendar=calendar, time="datetime",
    )  # fmt: skip
    return windows(lambda result: local(result=result))


def tumbling_window(
    duration: Span,
    alignment: TimeLike | timedelta = 0,
    *,
    output: WindowOutput = WindowOutput.WINDOW,
    time_zone: str | None = None,
) -> Windowed[Chain]:
    """Cut time into adjacent windows: ``hopping_window`` with p = d.

    The output CTI is the start of the window that contains the input CTI, since a result lives for
    its window; with ``output=WindowOutput.POINT_AT_END`` the CTI passes unchanged.

    Over datetimes the duration has a unit, as in ``tumbling_window("5s")``; over ticks it is a
    number. With ``time_zone`` windows are local days, weeks, months or years, as described there; a
    duration shorter than a day, as ``"1h"``, counts from each local midnight, so the last window
    before a midnight may be shorter.
    """
    return hopping_window(duration, duration, alignment, output=output, time_zone=time_zone)


def hopping_window2(duration: Span, period: Span, alignment: TimeLike = 0) -> Windowed[Chain]:
    """Cut time into hopping windows with results only where the input changes.

    This is ``snap_to_window_intervals`` followed by ``snapshot_window``. Each result lives for the
    interval assigned to its window: it begins at the window's end and lasts one period. Consecutive
    windows with the same rows share one result, so a row that never ends gives one result, not
    one for each window. The output CTI is the end of the earliest window that ends after the
    input CTI, so it is later than the input CTI. The default alignment is that of
    ``hopping_window``.

    ``first``, ``last``, ``expr`` and functions of a window get its rows in order of the moved
    starts, so rows of one window that began in the same period are in order of payload.
    ``rxt.start()``, and with it ``top_k`` by it and ``increase``, is the start that a row had
    before. Hint: ``top_k(1, rxt.start())`` is the latest row.

    It holds every row until the last window that the row overlaps has been left. ``hopping_window``
    holds running results instead of points where the duration is one to eight whole periods.
    Source: *Taming Hopping Windows*, ``HoppingWindow2``.
    """
    snapped = snap_to_window_intervals(duration, period, alignment)

    def over(result: ResultSpec) -> Chain:
        if result.reads_window:
            raise ArgumentError(
                "an aggregate by time, at a bound or a rate depends on where its window begins and "
                "ends, and hopping_window2 moves lifetimes to whole windows first. Hint: "
                "hopping_window behind to_signal(max_gap=…), or snapshot_window for a result "
                "wherever something changes."
            )
        return Chain((snapped, SnapshotWindows(window="hopping_window2()", result=result)))

    return windows(over)
