"""Lifetimes whose ends are moved to earlier, so that some rows vanish."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, add
from rxtemporal.engine.kernels.lifetimes import shift
from rxtemporal.engine.open_rows import WaitingRows
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import find_earliest_due


class ShortenStep(Stateful):
    """Moves the ends of lifetimes to earlier by a fixed span; rows not longer than that vanish.

    An open row may still vanish, so it waits until the CTI less the span is above its start: any
    end edge then comes late enough. It leaves as a start edge, and while any such row is open the
    output CTI is behind by the span, since the row's end moves to earlier. Keeps edge ids. Holds
    the open rows that wait.
    """

    held = ("_waiting", "_left")

    def __init__(self, by: int, schema: pl.Schema) -> None:
        self._by = by
        self._waiting = WaitingRows(schema)
        # number of rows that have left as start edges and are still open
        self._left = 0

    @property
    def rows(self) -> int:
        """The number of open rows that may still vanish."""
        return len(self._waiting)

    @property
    def next_due(self) -> int | None:
        """The CTI with which the oldest waiting row leaves: its start and the span."""
        first = find_earliest_due(self._waiting)
        return None if first is None else add(first, -self._by)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the shortened rows that are certain not to vanish."""
        opens = (batch.edge != 0) & (batch.end == MAX_TIME)
        self._waiting.add(batch.take(opens), batch.start[opens])
        result = [self._end_rows(batch.take(~opens))]
        numbers = self._waiting.pop_due(add(batch.cti, self._by))
        if len(numbers):
            result.insert(0, self._waiting.batch(numbers, batch))
            self._waiting.drop(numbers)
            self._left += len(numbers)
        self._waiting.compact()
        cti = self._promise(batch.cti)
        return EventBatch.concat(result).replace(cti=cti)

    def _end_rows(self, batch: EventBatch) -> EventBatch:
        """Return the rows whose end is known, and the end edges of those that have left."""
        closes = np.flatnonzero(batch.edge)
        waited = self._waiting.close(batch.edge[closes]) >= 0
        self._left -= len(waited) - int(waited.sum())
        edge = batch.edge.copy()
        edge[closes[waited]] = 0
        shorter = batch.replace(end=shift(batch.end, self._by), edge=edge)
        return shorter.take(shorter.start < shorter.end)

    def _promise(self, cti: int) -> int:
        """Return min(t, max(t + d, start of the oldest open row)), for CTI t and change d of ends.

        A row that has left started before t + d, and one that waits did not.
        """
        if cti == MAX_TIME:
            return cti
        if self._left:
            return add(cti, self._by)
        oldest = self._waiting.find_first()
        return cti if oldest is None else min(cti, oldest)
