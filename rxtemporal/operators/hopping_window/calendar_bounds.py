"""Bounds of windows of a calendar, which are found among its numbered bounds."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.grids import CalendarGrid
from rxtemporal.operators.hopping_window.bounds import HoppingBounds
from rxtemporal.operators.windows.aggregates import SumInput
from rxtemporal.operators.windows.bounds import Due, Windows


class CalendarBounds(HoppingBounds):
    """Bounds of the windows of ``units`` units of a calendar that hold any row.

    They are those of regular windows over the places of times, where units are 2 apart.
    """

    def __init__(self, grid: CalendarGrid, units: int, *, points: bool) -> None:
        super().__init__(2 * units, 2, 0, points=points)
        self._grid = grid

    def _place(self, batch: EventBatch) -> EventBatch:
        """Return a batch with the places of its times; points stay points."""
        start = self._grid.find_places(batch.start)
        end = None if batch.are_points else self._grid.find_end_places(batch.end)
        edge = batch.edge if batch.has_edges else None
        return EventBatch(start, end, edge, batch.columns, batch.cti, (), batch.in_order)

    def _place_cti(self, cti: int) -> int:
        """Return the place of a CTI; the ends of time stay."""
        return cti if cti in (MIN_TIME, MAX_TIME) else self._grid.find_place(cti)

    def find_changes(
        self, batch: EventBatch, first: int, lists: bool, span: int
    ) -> tuple[Int64s, Int64s, bool]:
        """Return the rows' changes, at the numbers of windows."""
        return super().find_changes(self._place(batch), first, lists, span)

    def find_due_points(self, batch: EventBatch, limit: int) -> Int64s | None:
        """Return the places of points in order, if each is a single change below the limit."""
        if not batch.in_order or not batch.are_points:
            return None
        return super().find_due_points(self._place(batch), limit)

    def _limit(self, cti: int) -> int:
        return super()._limit(self._place_cti(cti))

    def find_next_due(self, at: int | None) -> int | None:
        """Return the end of window number ``at``, or of the next one that already holds a row."""
        due = super().find_next_due(at)
        return due if due is None or due == MAX_TIME else self._grid.find_bound(due // 2)

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Return the windows that end by the CTI and hold any row."""
        windows = super().cut(due, keys, cti, sums)
        windows.start = self._grid.find_bounds(windows.start // 2)
        windows.end = self._grid.find_bounds(windows.end // 2)
        there = windows.start < windows.end  # a zone may leave out a day
        if self._points:
            there &= windows.end < MAX_TIME
        return windows if there.all() else windows.take(there)

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; for points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        return int(np.clip(self._grid.find_bound(self._limit(cti)), MIN_TIME, MAX_TIME))
