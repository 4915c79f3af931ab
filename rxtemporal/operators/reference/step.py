"""Reference rows: each is valid until a row of its key that is about a later time begins."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Nullable, SeriesColumn
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, NEXT_EDGE, ByKey, Entries, StoredRows
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.reference.kernel import VOID, replace_rows

# the columns of the rows that are held; a row's edge id is 0 until it has left
START, SINCE, KEY, END, EDGE = range(5)


class ReferenceStep(Stateful):
    """Of the rows of each key that have begun, the one with the latest ``since`` is valid.

    Of equal ones it is the one that begins last, then the one that was told last. Only starts
    count. A row leaves when its start is committed, and its end follows; a row that is valid at no
    time never leaves. Holds the valid row of each key, and the rows that have not begun.
    """

    held = MappingProxyType({
        "_keys": KEYS,
        "_rows": StoredRows(key=KEY),
        "_starts": Entries(),
        "_valid": ByKey(-1, refs="row"),
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self, since: str, schema: pl.Schema, keys: tuple[str, ...]) -> None:
        self._since = since
        self._fields = pl.Schema({name: dtype for name, dtype in schema.items() if name != since})
        self._rows = RowStore([np.int64] * 5, self._fields)
        self._starts = Queue()
        self._keys = KeyCoder({key: schema[key] for key in keys})
        self._valid = np.zeros(0, np.int64)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of valid rows, and of those that have not begun."""
        return len(self._rows)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start before the CTI, and the ends of those that they replace."""
        self._keep(batch)
        _, due = self._starts.pop_due(batch.cti)
        start, since, key, end, edge = self._rows.columns
        over = replace_rows(due, start, since, key, end, self._valid)
        closed = over[edge[over] != 0]
        begun = due[end[due] != VOID]
        opens = begun[end[begun] == MAX_TIME]
        edge[opens] = np.arange(self._next_edge, self._next_edge + len(opens))
        self._next_edge += len(opens)
        result = self._result(np.concatenate([begun, closed]), batch)
        self._forget(over)
        return result

    def _keep(self, batch: EventBatch) -> None:
        batch = batch.take_begins()
        key = self._keys.encode(batch.columns)
        self._valid = grow(self._valid, len(self._keys), -1)
        since = self._get_since(batch)
        payload = batch.columns.select(self._fields)
        numbers = self._rows.append([batch.start, since, key, MAX_TIME, 0], payload)
        self._starts.push(batch.start, numbers)

    def _get_since(self, batch: EventBatch) -> Int64s:
        """Return the time from which each row says that it is so; its start where that is null."""
        column = batch.columns[self._since]
        if isinstance(column, SeriesColumn):  # of nulls
            return batch.start
        if isinstance(column, Nullable):
            return np.where(column.valid, column.values, batch.start)
        return column

    def _result(self, numbers: Int64s, batch: EventBatch) -> EventBatch:
        start, _, _, end, edge = self._rows.columns
        times = start[numbers], end[numbers], edge[numbers]
        return EventBatch(*times, self._rows.payload(numbers), batch.cti, batch.keys)

    def _forget(self, over: Int64s) -> None:
        """Release rows that are over, and renumber the others if most are released."""
        self._rows.release(over)
        new = self._rows.compact()
        if new is None:
            return
        self._starts.renumber(new)
        valid = self._valid
        self._valid = np.where(valid >= 0, new[valid], -1)
