"""Lifetimes snapped to hopping windows, as *Taming Hopping Windows* does it."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.holdings import BATCHES
from rxtemporal.engine.kernels.lifetimes import snap, snap_end, snap_start
from rxtemporal.engine.state import Stateful


class SnapStep(Stateful):
    """Alters each lifetime to cover the assigned interval of every window that it touches.

    Rows that touch no window vanish; there are gaps between windows only if the period is longer
    than the duration. An open row in a gap may still vanish, so it waits until the CTI has passed
    the next window's start. A row that starts at the beginning of time is in no gap: it touches
    all windows before its end. Holds the waiting rows; without gaps, none. Keeps edge ids.
    """

    held = MappingProxyType({"_waiting": BATCHES})

    def __init__(self, duration: int, period: int, alignment: int) -> None:
        self._windows = (duration, period, alignment)
        self._waiting: EventBatch | None = None

    @property
    def rows(self) -> int:
        """The number of open rows that may still vanish."""
        return 0 if self._waiting is None else len(self._waiting)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the altered rows, and the CTI altered like a start."""
        duration, period, _ = self._windows
        altered = batch.replace(
            start=snap_start(batch.start, *self._windows),
            end=snap_end(batch.end, *self._windows),
            cti=int(snap_start(np.array([batch.cti]), *self._windows)[0]),
        )
        # a row whose end was moved to the end of time never ends: nothing closes its start edge
        closes = batch.find_ends()
        if closes is not None:
            ends = ~(closes & (altered.end == MAX_TIME))
            batch, altered = batch.take(ends), altered.take(ends)
        if period > duration:
            return self._drop_gaps(batch, altered)
        # at the ends of time a window may be cut to nothing
        return altered.take(altered.start < altered.end)

    def _drop_gaps(self, batch: EventBatch, altered: EventBatch) -> EventBatch:
        if self._waiting is not None:
            batch = EventBatch.concat([self._waiting, batch])
            altered = EventBatch.concat([self._alter_waiting(altered.cti), altered])
        undecided = self._find_undecided(batch)
        self._waiting = batch.take(np.flatnonzero(undecided)) if undecided.any() else None
        empty = altered.start >= altered.end
        # both edges of a row that vanishes are dropped
        gone = np.isin(batch.edge, batch.edge[empty & (batch.edge != 0)])
        return altered.take(~(empty | gone | undecided))

    def _alter_waiting(self, cti: int) -> EventBatch:
        waiting = self._waiting
        assert waiting is not None
        return waiting.replace(
            start=snap_start(waiting.start, *self._windows), end=waiting.end, cti=cti
        )

    def _find_undecided(self, batch: EventBatch) -> npt.NDArray[np.bool_]:
        """Return the mask of start edges whose row may still end before any window."""
        duration, period, alignment = self._windows
        opens = (batch.edge != 0) & (batch.end == MAX_TIME)
        closed = np.isin(batch.edge, batch.edge[(batch.edge != 0) & ~opens])
        # the start of the earliest window that ends after the row's start
        window = snap(batch.start, alignment + duration, period) + period - duration
        in_gap = (batch.start != MIN_TIME) & (window > batch.start)
        return np.asarray(opens & ~closed & in_gap & (window >= batch.cti))
