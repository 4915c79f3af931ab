"""Bounds of windows of a calendar, which are found among its numbered bounds."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.calendars import Line
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.grids import CalendarGrid
from rxtemporal.engine.kernels.exact_sums import WRITTEN
from rxtemporal.operators.hopping_window.bounds import Grid, HoppingBounds
from rxtemporal.operators.windows.aggregates import SumInput
from rxtemporal.operators.windows.bounds import Due, Windows


class CalendarBounds(HoppingBounds):
    """Bounds of the windows of ``units`` units of a calendar that hold any row.

    They are those of regular windows over the places of times, where units are 2 apart.
    """

    def __init__(self, grid: CalendarGrid, units: int, *, points: bool) -> None:
        super().__init__(2 * units, 2, 0, points=points)
        self._grid = grid

    def _fit(self, batch: EventBatch) -> tuple[EventBatch, Grid]:
        """Return rows, and regular windows that hold them as the windows hold those of a batch.

        They are the batch itself between two changes of clocks, and else the places of its times.
        """
        line = self._find_line(batch) if len(batch) else None
        if line is not None:
            return batch, (self._duration // 2 * line.spacing, line.spacing, line.origin)
        start = self._grid.find_places(batch.start)
        end = None if batch.are_points else self._grid.find_end_places(batch.end)
        edge = batch.edge if batch.has_edges else None
        rows = EventBatch(start, end, edge, batch.columns, batch.cti, (), batch.in_order)
        return super()._fit(rows)

    def _find_line(self, batch: EventBatch) -> Line | None:
        """Return bounds that are equally far apart, if those around all rows are."""
        end = batch.highest_start + TICK if batch.are_points else int(batch.end.max())
        return self._grid.find_line(batch.lowest_start, end)

    def _place_cti(self, cti: int) -> int:
        """Return the place of a CTI; the ends of time stay."""
        return cti if cti in (MIN_TIME, MAX_TIME) else self._grid.find_place(cti)

    def _limit(self, cti: int) -> int:
        return super()._limit(self._place_cti(cti))

    def find_next_due(self, at: int | None) -> int | None:
        """Return the end of window number ``at``, or of the next one that already holds a row."""
        due = super().find_next_due(at)
        return due if due is None or due == MAX_TIME else self._grid.find_bound(due // 2)

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Return the windows that end by the CTI and hold any row."""
        windows = super().cut(due, keys, cti, sums)
        if not len(windows):
            return windows
        windows.start = self._grid.find_bounds(windows.start // 2)
        windows.end = self._grid.find_bounds(windows.end // 2)
        there = windows.start < windows.end  # a zone may leave out a day
        if self._points:
            there &= windows.end < MAX_TIME
        if there.all():
            return windows
        if sums is not None:  # a sum that has stopped goes on behind those that are written
            *_, progress, _ = sums
            progress[WRITTEN] -= np.count_nonzero(~there[: progress[WRITTEN]])
        return windows.take(there)

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; for points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        return self._grid.find_bound(self._limit(cti))
