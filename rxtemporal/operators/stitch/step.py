"""stitch: chains of rows of equal payload that touch."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import (
    KEYS,
    NEXT_EDGE,
    SAME,
    Edges,
    Entries,
    Moves,
    Selection,
    StoredRows,
)
from rxtemporal.engine.key_store import follow
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.stitch.kernel import ENDS, STARTS, STAYS, join_chains

BITS = 2  # the number of bits of a change that say what happens to its row
# columns of the rows that are held: the payload's code, and the first chain
VALUE, STRETCH = range(2)


class StitchStep(Stateful):
    """Joins rows of equal payload if one ends at the tick at which the other starts.

    If more rows end than start, the chains that began first continue; of rows that start together,
    the one that ends first continues the chain that began last. A chain leaves as a start edge when
    the CTI has passed its start, and its end edge follows when the CTI has passed its end: until
    then a row may still start there.

    Holds the rows that have not ended before the CTI, and a chain for each.
    """

    held = MappingProxyType({
        "_values": KEYS,
        "_rows": StoredRows(key=VALUE),
        "_changes": Entries(bits=BITS),
        "_open": Edges(),
        "_chains": SAME,
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self, schema: pl.Schema) -> None:
        self._values = KeyCoder(schema)
        self._rows = RowStore([np.int64] * 2, schema)
        self._changes = Queue()
        self._open = OpenEdges()
        # start, edge id, and the number of chains not yet taken of the stretch that begins here
        self._chains = RowStore([np.int64] * 3)
        self._latest = np.zeros(0, np.int64)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows that have not ended."""
        return len(self._rows)

    def keep_selected(self, selection: Selection) -> None:
        """Drop the rows of all payloads that are not selected, and their chains."""
        super().keep_selected(selection)
        if selection.all_rows_stay:
            return
        stretch = self._rows.columns[STRETCH]
        first = np.unique(stretch[stretch >= 0])
        left = self._chains.columns[2][first]
        mask = np.zeros(self._chains.height, np.bool_)
        for chain, count in zip(first.tolist(), left.tolist(), strict=True):
            mask[chain : chain + count] = True
        stretch[:] = self._chains.select_rows(mask).renumber(stretch)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the rows of other payloads, and their chains."""
        first = self._rows.height
        super().merge_from(other, moves)
        moved, _ = self._chains.append_rows(other._chains)
        stretch = self._rows.columns[STRETCH][first:]
        stretch[:] = follow(moved, stretch)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the chains that have begun and those that have ended before the CTI."""
        closes = batch.find_ends()
        if closes is not None:
            self._keep(batch.take(~closes))
            ended = self._open.close(batch.edge[closes])
            self._changes.push(batch.end[closes], (ended << BITS) | ENDS)
        else:
            self._keep(batch)
        time, what = self._changes.pop_due(batch.cti)
        if not len(what):
            return batch.none(batch.cti)
        result, used = self._join(time, what, batch)
        self._forget(what, used)
        return result

    def _keep(self, batch: EventBatch) -> None:
        n = len(batch)
        value = self._values.encode(batch.columns)
        rows = self._rows.append([value, np.full(n, -1, np.int64)], batch.columns)
        opens, endless = batch.edge != 0, batch.end == MAX_TIME
        self._changes.push(batch.start, (rows << BITS) | np.where(endless & ~opens, STAYS, STARTS))
        self._changes.push(batch.end[~endless], (rows[~endless] << BITS) | ENDS)
        if opens.any():
            self._open.open(batch.edge[opens], rows[opens])

    def _join(self, time: Int64s, what: Int64s, batch: EventBatch) -> tuple[EventBatch, Int64s]:
        """Sweep the changes; return the result, and the chains whose rows have ended."""
        free = self._chains.height
        new = np.zeros(int(((what & 3) == STARTS).sum()), np.int64)
        self._chains.append([new, new, new])
        self._latest = grow(self._latest, len(self._values), -1)
        value, stretch = self._rows.columns
        began, ids, left = self._chains.columns
        start, end, edge, row, used, self._next_edge = join_chains(
            time, what, value, stretch, began, ids, left, free, self._next_edge, self._latest
        )
        payload = self._rows.payload(row)
        return EventBatch(start, end, edge, payload, batch.cti, batch.keys), used

    def _forget(self, what: Int64s, used: Int64s) -> None:
        """Release rows that have ended or never will, and chains whose rows have ended."""
        over = what[(what & 3) != STARTS] >> BITS
        self._rows.columns[STRETCH][over] = -1
        self._rows.release(over)
        self._chains.release(used)
        new = self._rows.compact()
        if new is not None:
            self._changes.renumber(new, BITS)
            if len(self._open):
                self._open.renumber(new)
        self.forget_unused(self._values, partial(self._rows.mark_keys, VALUE))
        new = self._chains.compact()
        if new is not None:
            stretch = self._rows.columns[STRETCH]
            stretch[stretch >= 0] = new[stretch[stretch >= 0]]
