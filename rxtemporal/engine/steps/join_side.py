"""Rows of one input of a join: those that have not begun, and those alive."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kept_keys import KeptKeys
from rxtemporal.engine.kernels.join import NOT_LISTED, unlink_all
from rxtemporal.engine.steps.due_queue import Queue
from rxtemporal.engine.steps.open_rows import OpenEdges
from rxtemporal.engine.steps.rows import RowStore, grow, relink
from rxtemporal.engine.steps.state import Stateful

KEY, START, END, AFTER, BEFORE, FIRST, OPENED, TAG = range(8)

# rows that have ended are not looked for among fewer rows
MANY_KEPT = 4096

_NONE: Int64s = np.empty(0, np.int64)


class Side(Stateful):
    """Rows of one input: those that have not begun, and those alive.

    Rows that have ended are removed together, once twice as many rows are kept as were left by the
    last removal. ``ends`` has the known ends of rows in pairs that are remembered.
    """

    held = ("rows", "starts", "ends", "open", "head", "cti")

    def __init__(self, payload: pl.Schema | None, *, tagged: bool) -> None:
        tags = [np.int64] if tagged else []
        self.rows = RowStore([*[np.int64] * 6, np.bool_, *tags], payload)
        self.starts, self.ends = Queue(), Queue()
        self.open = OpenEdges()
        self.head = np.zeros(0, np.int64)
        self.cti = MIN_TIME
        self._payload = payload
        # rows that have ended are looked for when so many are kept
        self._most = MANY_KEPT

    @property
    def is_full(self) -> bool:
        """True if most of the rows kept may have ended."""
        return self.rows.height >= self._most

    def list_ends(self, cti: int) -> Int64s:
        """Return the ends of the rows that have not ended by the CTI."""
        ends: Int64s = self.rows.columns[END]
        return ends[ends > cti]

    def take(self, batch: EventBatch, key: Int64s, tag: Int64s | None) -> Int64s:
        """Keep the rows that begin; return the numbers of the rows closed by end edges."""
        self.cti = batch.cti
        ends = batch.find_ends()
        if ends is None:
            self._begin(batch, key, tag)
            return _NONE
        self._begin(batch.take(~ends), key[~ends], None if tag is None else tag[~ends])
        # a row with a null key was never kept
        rows, end = self.open.close(batch.edge[ends]), batch.end[ends]
        rows, end = rows[rows >= 0], end[rows >= 0]
        columns = self.rows.columns
        columns[END][rows], columns[OPENED][rows] = end, False
        # a row that has not begun has its end queued when it begins
        begun = columns[BEFORE][rows] != NOT_LISTED
        self.ends.push(end[begun], rows[begun])
        return rows

    def _begin(self, batch: EventBatch, key: Int64s, tag: Int64s | None) -> None:
        if not len(batch):
            return
        kept = key >= 0
        if np.count_nonzero(kept) < len(kept):
            batch, key, tag = batch.take(kept), key[kept], None if tag is None else tag[kept]
        opened = batch.edge != 0 if batch.has_edges else False
        rows = self.rows.append(
            [
                key,
                batch.start,
                batch.end,
                -1,
                NOT_LISTED,
                -1,
                opened,
                *([] if tag is None else [tag]),
            ],
            batch.columns if self._payload is not None else None,
        )
        self.starts.push(batch.start, rows)
        if not isinstance(opened, bool):
            self.open.open(batch.edge[opened], rows[opened])

    def get_lists(self, keys: int) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return key, end and links by row number, and the head of the list of each key."""
        self.head = grow(self.head, keys, -1)
        columns = self.rows.arrays
        return columns[KEY], columns[END], columns[AFTER], columns[BEFORE], self.head

    def queue_ends(self, rows: Int64s) -> None:
        """Queue the ends of rows in pairs that are remembered, where they are known."""
        columns = self.rows.columns
        end = columns[END][rows]
        known = ~columns[OPENED][rows] & (end != MAX_TIME)
        self.ends.push(end[known], rows[known])

    def keep_keys(self, kept: KeptKeys) -> None:
        """Forget the keys that are not kept, which have no rows."""
        self.rows.renumber_keys(KEY, kept)
        self.head = kept.pick(self.head)

    def release_ended(self, cti: int) -> None:
        """Release the rows that have ended by the CTI."""
        columns = self.rows.columns
        over = self.rows.list_alive(columns[END] <= cti)
        unlink_all(over, columns[KEY], columns[AFTER], columns[BEFORE], self.head)
        self.rows.release(over)

    def compact(self, cti: int) -> Int64s | None:
        """Remove the rows that have ended, if they are most; return new row numbers, or None."""
        self.release_ended(cti)
        new = self.rows.compact()
        self._most = max(MANY_KEPT, 2 * len(self.rows))
        if new is not None:
            self._renumber(new)
        return new

    def _renumber(self, new: Int64s) -> None:
        for queue in (self.starts, self.ends):
            if len(queue):
                queue.renumber(new)
        if len(self.open):
            self.open.renumber(new)
        if self.rows.height:
            columns = self.rows.columns
            relink(new, columns[KEY], self.head, columns[AFTER], columns[BEFORE])
