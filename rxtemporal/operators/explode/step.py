"""explode: one row for each element of a list."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.holdings import NEXT_EDGE, Edges, StoredRows
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore
from rxtemporal.engine.state import Stateful


class ExplodeStep(Stateful):
    """Repeats each row for each element of a list field; none for an empty or null list.

    The results of an open row have consecutive ids, and are closed with the row. Holds the open
    rows.
    """

    held = MappingProxyType({"_rows": StoredRows(), "_open": Edges(), "_next_edge": NEXT_EDGE})

    def __init__(self, field: str, schema: pl.Schema) -> None:
        self._field = field
        # the first id of each open row, and its other fields
        self._fields = pl.Schema({name: dtype for name, dtype in schema.items() if name != field})
        self._rows = RowStore([np.int64], self._fields)
        self._open = OpenEdges()
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of open rows."""
        return len(self._rows)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return a row for each element, with the lifetime of its row, and the CTI."""
        lengths = batch.payload.get_column(self._field).list.len().fill_null(0)
        count = lengths.cast(pl.Int64).to_numpy()
        if not count.all():
            some = count > 0
            batch, count = batch.take(some), count[some]
        first = self._first_ids(batch, count)
        row = np.repeat(np.arange(len(batch)), count)
        number = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
        edge = np.where(first[row] > 0, first[row] + number, 0)
        payload = batch.payload.explode(self._field)
        return EventBatch(batch.start[row], batch.end[row], edge, payload, batch.cti, batch.keys)

    def _first_ids(self, batch: EventBatch, count: Int64s) -> Int64s:
        """Return the id of each edge row's first element; 0 for a row that is complete."""
        first = np.zeros(len(batch), np.int64)
        edges = np.flatnonzero(batch.edge)
        if len(edges):
            opens, closes = (edges[each] for each in _split(batch.end[edges] == MAX_TIME))
            upto = self._next_edge + np.cumsum(count[opens])
            first[opens] = upto - count[opens]
            self._next_edge += int(count[opens].sum())
            payload = batch.columns.select(self._fields).take(opens)
            self._open.open(batch.edge[opens], self._rows.append([first[opens]], payload))
            first[closes] = self._close(batch.edge[closes])
        return first

    def _close(self, edges: Int64s) -> Int64s:
        """Forget rows that have ended; return their first ids."""
        rows = self._open.close(edges)
        first: Int64s = self._rows.columns[0][rows]
        self._rows.release(rows)
        new = self._rows.compact()
        if new is not None:
            self._open.renumber(new)
        return first


def _split(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[Int64s, Int64s]:
    return np.flatnonzero(mask), np.flatnonzero(~mask)
