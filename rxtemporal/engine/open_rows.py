"""Open rows, found by edge id when they end, or by time when they are due."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import OWNED, Edges, Entries, StoredRows
from rxtemporal.engine.kernels.hash_table import IntTable
from rxtemporal.engine.rows import Column, RowStore
from rxtemporal.engine.state import Stateful

_START, _EDGE, _ALIVE, _OWN = range(4)


class OpenEdges(Stateful):
    """Row numbers of open rows, by edge id. Holds one entry for each."""

    held = MappingProxyType({"entries": OWNED})
    next_due = None

    def __init__(self) -> None:
        self._table = IntTable()
        # the number of rows, which a join reads without a call for each batch
        self.count = 0

    def __len__(self) -> int:
        return self.count

    @property
    def entries(self) -> tuple[Int64s, ...]:
        """Edge ids, row numbers and counts, to be saved."""
        return self._table.state()

    @entries.setter
    def entries(self, saved: tuple[Int64s, ...]) -> None:
        self._table = IntTable.restore(*saved)
        self.count = len(self._table)

    def open(self, edges: Int64s, rows: Int64s) -> None:
        """Add rows, opened under these ids."""
        if len(edges):
            self._table.insert(edges, rows)
            self.count = len(self._table)

    def close(self, edges: Int64s) -> Int64s:
        """Remove and return the rows opened under these ids, -1 where there is none."""
        closed = self._table.pop(edges)
        self.count = len(self._table)
        return closed

    def renumber(self, new: Int64s) -> None:
        """Give the rows their new numbers; remove those without one."""
        edges, rows, counts = self._table.state()
        rows = new[rows]
        self.entries = edges[rows >= 0], rows[rows >= 0], counts


class DueRows(Queue):
    """Queue of row numbers, some of which are removed before they are due."""

    def find_first(self, are_alive: Callable[[Int64s], Bools]) -> int | None:
        """Return the time at which the first row alive is due; drop removed rows before it."""
        self.drop_heads(lambda what: _count_gone(what, are_alive))
        return self.next_due


def _count_gone(what: Int64s, are_alive: Callable[[Int64s], Bools]) -> int:
    """Return the number of removed rows at the head of a run.

    Looks at no more than twice as many rows.
    """
    at, size = 0, 16
    while at < len(what):
        ahead = are_alive(what[at : at + size])
        if ahead.any():
            return at + int(ahead.argmax())
        at, size = at + size, 2 * size
    return len(what)


class WaitingRows(Stateful):
    """Rows whose end is not known, or that never end; each is due at one time.

    A row without an edge id never ends and is found only when it is due. ``own`` is the number of
    int64 columns that a step keeps with each row. A batch costs the rows that are added, end or are
    due, not those that wait.
    """

    held = MappingProxyType({"_rows": StoredRows(), "_ids": Edges(), "_queue": Entries()})

    def __init__(self, schema: pl.Schema, own: int = 0) -> None:
        self._schema = schema
        dtypes = [np.int64, np.int64, np.bool_, *[np.int64] * own]
        self._rows = RowStore(dtypes, schema)
        self._ids = OpenEdges()
        self._queue = DueRows()

    def __len__(self) -> int:
        return len(self._rows)

    def get_own(self, column: int) -> Column:
        """Return one of the step's own columns, to be read and written by row number."""
        return self._rows.columns[_OWN + column]

    def list_alive(self) -> Int64s:
        """Return the numbers of all rows that are kept."""
        return np.flatnonzero(self._rows.columns[_ALIVE])

    def list_rows(self) -> EventBatch:
        """Return all rows that are kept, as start edges."""
        return self.batch(self.list_alive(), EventBatch.empty(self._schema, MIN_TIME))

    def add(self, batch: EventBatch, due: Int64s, *own: Int64s) -> None:
        """Keep the rows of a batch, each until it is closed, or dropped when due."""
        if not len(batch):
            return
        alive = np.ones(len(batch), np.bool_)
        numbers = self._rows.append([batch.start, batch.edge, alive, *own], batch.columns)
        edges = batch.edge != 0
        self._ids.open(batch.edge[edges], numbers[edges])
        self._queue.push(due, numbers)

    def close(self, ids: Int64s) -> Int64s:
        """Forget the rows with these edge ids; return their numbers, -1 for an unknown id.

        The numbers stay valid until ``compact``.
        """
        numbers = self._ids.close(ids)
        self._forget(numbers[numbers >= 0])
        return numbers

    def pop_due(self, before: int) -> Int64s:
        """Return the numbers of the rows that are due before a time, in order of time.

        The rows are kept, and are due again only after ``requeue``.
        """
        _, numbers = self._queue.pop_due(before)
        return numbers[self._rows.columns[_ALIVE][numbers]]

    def requeue(self, numbers: Int64s, due: Int64s) -> None:
        """Set the times at which rows are due again."""
        self._queue.push(due, numbers)

    def drop(self, numbers: Int64s) -> None:
        """Forget rows that were due."""
        edges = self._rows.columns[_EDGE][numbers]
        self._ids.close(edges[edges != 0])
        self._forget(numbers)

    def _forget(self, numbers: Int64s) -> None:
        self._rows.columns[_ALIVE][numbers] = False
        self._rows.release(numbers)

    def find_first(self) -> int | None:
        """Return the time at which the next row is due; None if no row is kept."""
        return self._queue.find_first(self._rows.columns[_ALIVE].__getitem__)

    def batch(self, numbers: Int64s, like: EventBatch) -> EventBatch:
        """Return rows as start edges, with the CTI and the keys of ``like``."""
        columns = self._rows.columns
        return EventBatch(
            columns[_START][numbers],
            np.full(len(numbers), MAX_TIME),
            columns[_EDGE][numbers],
            self._rows.payload(numbers),
            like.cti,
            like.keys,
        )

    def compact(self) -> None:
        """Renumber the rows if most of them are gone."""
        new = self._rows.compact()
        if new is None:
            return
        self._queue.renumber(new)
        self._ids.renumber(new)
