"""Rows of a stream that are open: whoever begins to read it in the middle gets them first."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME

# rows from which on those that have ended are looked for
LEAST_ROWS = 4_096


class OpenTail:
    """The rows of a stream that have not ended before its CTI, with their true starts.

    Batches are only kept when they come; rows that have ended are dropped once the rows have
    doubled. So a row costs a constant, and there are at most twice as many rows as are open, or
    some thousands. Payloads are shared with those that hold the same batches.
    """

    __slots__ = ("_batches", "_bound", "_rows")

    def __init__(self) -> None:
        self._batches: list[EventBatch] = []
        self._rows = 0
        self._bound = LEAST_ROWS

    def add(self, batch: EventBatch) -> None:
        """Add a batch that leaves."""
        # time alone needs no place of its own, but the first batch shows the fields
        if not len(batch.start) and (self._batches or not batch.schema):
            return
        self._batches.append(batch)
        self._rows += len(batch.start)
        if self._rows > self._bound or len(self._batches) > LEAST_ROWS:
            self.collect(batch.cti)

    def collect(self, cti: int) -> EventBatch | None:
        """Return the rows that are open at a CTI; None if the fields are not known yet."""
        if not self._batches:
            return None
        rows = _take_open(EventBatch.concat(self._batches), cti)
        self._batches, self._rows = [rows], len(rows)
        self._bound = max(LEAST_ROWS, 2 * self._rows)
        return rows

    def restore(self, rows: EventBatch | None) -> None:
        """Continue with the rows that ``collect`` returned."""
        self._batches = [] if rows is None else [rows]
        self._rows = 0 if rows is None else len(rows)
        self._bound = max(LEAST_ROWS, 2 * self._rows)


def _take_open(rows: EventBatch, cti: int) -> EventBatch:
    """Return the rows that have not ended before a CTI; complete, where the end is known."""
    is_open = rows.end > max(cti, MIN_TIME)
    ends = rows.find_ends()
    if ends is None:
        return rows.take(is_open).replace(cti=cti)
    # an id may be used again once its row has ended, but not with the same start
    named = np.empty(len(rows), [("edge", np.int64), ("start", np.int64)])
    named["edge"], named["start"] = rows.edge, rows.start
    is_begin = (rows.edge != 0) & ~ends
    has_ended = is_begin & np.isin(named, named[ends])
    complete = rows.replace(edge=np.where(ends, 0, rows.edge), cti=cti)
    return complete.take(is_open & ~has_ended)
