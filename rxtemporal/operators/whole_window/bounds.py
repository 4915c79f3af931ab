"""Bounds of the window over all time."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.operators.snapshot_window.bounds import SnapshotBounds
from rxtemporal.operators.windows.kernels.changes import find_changes


class WholeBounds(SnapshotBounds):
    """Bounds of one window over all time: a snapshot of rows that are alive all the time."""

    def __init__(self) -> None:
        super().__init__(finished=True)

    def find_changes(
        self, batch: EventBatch, first: int, lists: bool, span: int
    ) -> tuple[Int64s, Int64s, bool]:
        """Return the changes of points: each begins where time does, and never ends."""
        count = len(batch)
        begin, end = (np.full(count, time) for time in (MIN_TIME, MAX_TIME))
        return find_changes(first, begin, end, np.zeros(count, np.int64), lists)

    def find_places(self, batch: EventBatch) -> tuple[Int64s, Int64s]:
        """Return the same places for all rows."""
        same = freeze(np.zeros(len(batch), np.int64))
        return same, same

    def find_ends(self, batch: EventBatch) -> Int64s:
        """Return the end of time for each row."""
        return np.full(len(batch), MAX_TIME)

    def find_next_due(self, at: int | None) -> int | None:
        """Return the end of time if there is a row."""
        return None if at is None and not self._state[:, 0].any() else MAX_TIME

    def find_since(self) -> None:
        """Return None: the output CTI is the same for all keys."""

    def cti(self, cti: int) -> int:
        """Return the beginning of time, until that ends."""
        return cti if cti == MAX_TIME else MIN_TIME
