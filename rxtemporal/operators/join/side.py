"""Rows of one input of a join: those that have not begun, and those alive."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.kernels.order import is_sorted, merge
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore, grow, relink
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.join.kernel import NOT_LISTED, release_ended

KEY, START, END, AFTER, BEFORE, FIRST, OPENED, TAG = range(8)

# values of the columns from AFTER on in rows that have not begun
_NEW = -1, NOT_LISTED, -1, False, 0
# rows that have ended are not looked for among fewer rows
MANY_KEPT = 8192

_NONE: Int64s = np.empty(0, np.int64)


class Side(Stateful):
    """Rows of one input: those that have not begun, and those alive.

    Rows that have not begun are the last ones of the store, in order of start; ``starts`` has those
    that came in another order. ``ends`` has the known ends of rows in pairs that are remembered.
    Rows that have ended are removed together, once twice as many rows are kept as were left by the
    last removal.
    """

    held = ("rows", "starts", "ends", "open", "head", "cti")

    def __init__(self, payload: pl.Schema | None, *, tagged: bool) -> None:
        dtypes = [*[np.int64] * 6, np.bool_, np.int64][: TAG + tagged]
        self.rows = RowStore(dtypes, payload, _NEW[: len(dtypes) - AFTER])
        self.starts, self.ends = Queue(), Queue()
        self.open = OpenEdges()
        self.head = np.zeros(0, np.int64)
        self.cti = MIN_TIME
        self._payload = payload
        # the rows from this number on have not begun, and are in order of start
        self._waiting = 0
        # rows that have ended are looked for when so many are kept
        self.most = MANY_KEPT

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
        # a row without a start edge was never kept
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
        height = self.rows.height
        last = self.rows.arrays[START].item(height - 1) if self._waiting < height else MIN_TIME
        in_order = batch.start.item(0) >= last and (batch.in_order or is_sorted(batch.start))
        first = self.rows.extend(
            (key, batch.start, batch.end), None if self._payload is None else batch.columns
        )
        if tag is not None:
            self.rows.columns[TAG][first:] = tag
        if not in_order:
            self.queue_waiting()
        if batch.has_edges:
            opened = np.flatnonzero(batch.edge)
            self.rows.columns[OPENED][first + opened] = True
            self.open.open(batch.edge[opened], first + opened)

    def queue_waiting(self) -> None:
        """Queue the starts of the rows that wait as the last ones of the store."""
        first, height = self._waiting, self.rows.height
        # copied, since the column is written when rows are removed
        self.starts.push(self.rows.columns[START][first:].copy(), np.arange(first, height))
        self._waiting = height

    @property
    def next_start(self) -> int | None:
        """The earliest start of a row that has not begun; None if there is none."""
        queued, last = self.starts.next_due, self.rows.columns[START][self._waiting :]
        if not len(last):
            return queued
        return int(last[0]) if queued is None else min(queued, int(last[0]))

    def list_waiting(self, cti: int) -> tuple[Int64s, Int64s, int, int]:
        """Return starts and numbers of rows that wait, in order of start, and two places.

        All rows that begin before the CTI are between the first place and the second. If there are
        no numbers, the places themselves are the row numbers.
        """
        time, rows = self.starts.pop_due(cti)
        first, height = self._waiting, self.rows.height
        start: Int64s = self.rows.arrays[START]
        if not len(rows):
            return start, _NONE, first, height
        self._waiting = upto = first + int(start[first:height].searchsorted(cti))
        time, rows = merge(time, rows, start[first:upto], np.arange(first, upto))
        return time, rows, 0, len(rows)

    def note_begun(self, rows: Int64s, place: int) -> None:
        """Record that of the ``rows`` from ``list_waiting`` those before this place have begun."""
        if not len(rows):
            self._waiting = place

    def get_lists(self, keys: int) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return key, end and links by row number, and the head of the list of each key."""
        if keys > len(self.head):
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
        lists = columns[KEY], columns[AFTER], columns[BEFORE], self.head
        self.rows.release_by(
            lambda end, alive: release_ended(end, alive, cti, *lists), columns[END]
        )

    def restart(self) -> None:
        """Continue with rows that have been loaded, all of whose starts are queued."""
        self._waiting = self.rows.height

    def compact(self, cti: int) -> Int64s | None:
        """Remove the rows that have ended, if they are most; return new row numbers, or None."""
        self.release_ended(cti)
        waiting = self.rows.height - self._waiting
        new = self.rows.compact()
        self._waiting = self.rows.height - waiting
        self.most = max(MANY_KEPT, 2 * len(self.rows))
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
