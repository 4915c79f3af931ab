"""The way out: rows in the shape that the subscriber asked for."""

from __future__ import annotations

import numpy as np

from rxtemporal.batch import EventBatch
from rxtemporal.events import EventShape
from rxtemporal.ticks import MAX_TIME, TICK

__all__ = ["IntervalStep", "PointStep", "shaping"]


class IntervalStep:
    """Every row complete, in order of start; a row waits for its end.

    The CTI is held at the start of the oldest row that still waits, and after a batch with CTI
    ``t`` exactly the rows with ``start < t`` have left. At the end of time rows that never end
    leave as ``[start, MAX_TIME)``. Holds the open rows and what starts after the oldest of them.
    """

    def __init__(self) -> None:
        self._waiting: EventBatch | None = None

    @property
    def rows(self) -> int:
        """How many rows wait to leave."""
        return 0 if self._waiting is None else len(self._waiting)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start before the CTI they allow."""
        rows = _closed(
            batch if self._waiting is None else EventBatch.concat([self._waiting, batch])
        )
        cti = batch.cti
        opens = rows.edge != 0
        if opens.any() and cti < MAX_TIME:
            cti = min(cti, int(rows.start[opens].min()))
        leaving = rows.start < cti
        kept = np.flatnonzero(~leaving)
        self._waiting = rows.take(kept) if len(kept) else None
        out = rows.replace(cti=cti).take(leaving)
        out = out.replace(edge=np.zeros(len(out), np.int64))
        if len(out) > 1 and bool((out.start[1:] < out.start[:-1]).any()):
            out = out.take(np.argsort(out.start, kind="stable"))
        return out


def _closed(rows: EventBatch) -> EventBatch:
    """Return the rows with each end edge applied to its start edge."""
    ends = np.flatnonzero((rows.edge != 0) & (rows.end != MAX_TIME))
    if not len(ends):
        return rows
    opens = np.flatnonzero((rows.edge != 0) & (rows.end == MAX_TIME))
    opens = opens[np.argsort(rows.edge[opens], kind="stable")]
    places = np.minimum(np.searchsorted(rows.edge[opens], rows.edge[ends]), len(opens) - 1)
    closed = opens[places]
    end, edge = rows.end.copy(), rows.edge.copy()
    end[closed], edge[closed] = rows.end[ends], 0
    keep = np.ones(len(rows), np.bool_)
    keep[ends] = False
    return rows.replace(end=end, edge=edge).take(keep)


class EdgeStep:
    """Rows as they are: starts at once and ends when they are known. Holds nothing."""

    rows = 0

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the batch."""
        return batch


class PointStep:
    """Starts only: each row as ``[start, start + 1 tick)``, when it begins. Holds nothing."""

    rows = 0

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that begin, as points."""
        begins = batch.take((batch.edge == 0) | (batch.end == MAX_TIME))
        return begins.replace(end=begins.start + TICK, edge=np.zeros(len(begins), np.int64))


def shaping(shape: EventShape) -> IntervalStep | EdgeStep | PointStep:
    """Return the step that gives rows this shape."""
    if shape is EventShape.INTERVAL:
        return IntervalStep()
    return EdgeStep() if shape is EventShape.EDGE else PointStep()
