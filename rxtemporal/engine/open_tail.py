"""Rows of a stream that are open: whoever begins to read it in the middle gets them first."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME

# rows from which on those that have ended are looked for
LEAST_ROWS = 4_096
# batches of fewer rows cost less as one
FEW = 256


class OpenTail:
    """The rows of a stream that have not ended before its CTI, with their true starts.

    Batches are only kept when they come; rows that have ended are dropped once the rows, or the
    batches, have doubled. So a row costs a constant, and there are at most twice as many rows as
    are open, or some thousands. Payloads are shared with those that hold the same batches; a large
    one of which all rows are open is not copied until its rows are asked for.
    """

    __slots__ = ("_batches", "_bound", "_most", "_rows")

    def __init__(self) -> None:
        self._batches: list[EventBatch] = []
        self._rows = 0
        self._bound = self._most = LEAST_ROWS

    def add(self, batch: EventBatch) -> None:
        """Add a batch that leaves."""
        # time alone needs no place of its own, but the first batch shows the fields
        if not len(batch.start) and (self._batches or not batch.schema):
            return
        self._batches.append(batch)
        self._rows += len(batch.start)
        if self._rows > self._bound or len(self._batches) > self._most:
            self._drop_ended(batch.cti)

    def _drop_ended(self, cti: int) -> None:
        """Drop the rows that have ended before a CTI: of large batches one by one."""
        batches = self._batches
        # the end of an edge may be in another batch
        if self._rows < FEW * len(batches) or any(batch.has_edges for batch in batches):
            self.collect(cti)
            return
        open_rows = [_take_open(batch, cti) for batch in batches]
        # one of them shows the fields
        self._set([rows for rows in open_rows if len(rows)] or open_rows[:1])

    def _set(self, batches: list[EventBatch]) -> None:
        self._batches, self._rows = batches, sum(map(len, batches))
        self._bound = max(LEAST_ROWS, 2 * self._rows)
        self._most = max(LEAST_ROWS, 2 * len(batches))

    def collect(self, cti: int) -> EventBatch | None:
        """Return the rows that are open at a CTI; None if the fields are not known yet."""
        if not self._batches:
            return None
        rows = _take_open(EventBatch.concat(self._batches), cti)
        self._set([rows])
        return rows

    def restore(self, rows: EventBatch | None) -> None:
        """Continue with the rows that ``collect`` returned."""
        self._set([] if rows is None else [rows])


def _take_open(rows: EventBatch, cti: int) -> EventBatch:
    """Return the rows that have not ended before a CTI; complete, where the end is known."""
    is_open = rows.end > max(cti, MIN_TIME)
    ends = rows.find_ends()
    if ends is None:
        return (rows if is_open.all() else rows.take(is_open)).replace(cti=cti)
    # an id may be used again once its row has ended, but not with the same start
    named = np.empty(len(rows), [("edge", np.int64), ("start", np.int64)])
    named["edge"], named["start"] = rows.edge, rows.start
    is_begin = (rows.edge != 0) & ~ends
    has_ended = is_begin & np.isin(named, named[ends])
    complete = rows.replace(edge=np.where(ends, 0, rows.edge), cti=cti)
    return complete.take(is_open & ~has_ended)
