"""Left anti join: left rows during the time in which no right row matches them."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.engine.holdings import NEXT_EDGE, PART, Edges, Entries, StoredRows
from rxtemporal.engine.kernels.coverage import NONE, find_uncovered
from rxtemporal.engine.kernels.order import merge
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.distinct.step import Coverage
from rxtemporal.operators.join.step import TAG, JoinedPayload, NewPairs, Pairs

BEGINS, COVERED, BARED, ENDS, BITS = 0, 1, 2, 3, 2
ALIVE, COVER, SINCE, EDGE = range(4)


class AntiJoinStep(Stateful):
    """Left rows during the parts of their lifetime in which no matching right one is alive.

    Without ``where``, the right rows of a key count as one row while any of them is alive;
    ``where`` is evaluated for every pair. Each left row has a count of the rows that cover it.

    Holds left rows until they have ended before both CTIs, right rows likewise (without ``where``
    only their starts and ends), and pairs whose end is not certain.
    """

    held = MappingProxyType({
        "_keying": PART,
        "_left": StoredRows(space="left"),
        "_pairs": PART,
        "_coverage": PART,
        "_queue": Entries("left", bits=BITS),
        "_ends": Entries("left", bits=BITS),
        "_open": Edges("left"),
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(
        self,
        keying: KeyMatcher,
        schemas: tuple[pl.Schema, pl.Schema],
        merged: JoinedPayload | None,
        where: pl.Expr | None,
        keys: Sequence[str],
    ) -> None:
        self._keying = keying
        stored = (None, None) if merged is None else merged.store_as(schemas)
        self._pairs = Pairs(stored, tagged=True)
        self._coverage = Coverage()
        self._merged = merged
        self._where = None
        if where is not None:
            assert merged is not None
            self._where = Predicate(where, merged.schema)
        self._left = RowStore([np.int64] * 4, schemas[0])
        self._queue, self._ends = Queue(), Queue()
        self._open = OpenEdges()
        # what a batch gives that only advances time
        self._nothing = EventBatch.empty(schemas[0], MIN_TIME, tuple(keys))
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows, starts and ends held."""
        return len(self._left) + len(self._pairs) + len(self._coverage)

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the left input."""
        before, ends = self._pairs.cti, batch.find_ends()
        if ends is None:
            numbers = self._keep(batch)
        else:
            numbers = np.full(len(batch), -1)
            numbers[~ends] = self._keep(batch.take(~ends))
            closed = self._open.close(batch.edge[ends])
            self._ends.push(batch.end[ends], (closed << BITS) | ENDS)
        key, able = self._keying.match(0, batch.columns)
        if able is not None:
            batch, key, numbers = batch.take(able), key[able], numbers[able]
        self._pairs.take(0, batch, key, numbers)
        return self._make_result(before, ended=ends is not None)

    def _keep(self, begun: EventBatch) -> Int64s:
        """Keep rows that begin; return their numbers."""
        alive = np.zeros(len(begun), np.int64)
        rows = self._left.append([alive, 0, NONE, 0], begun.columns)
        self._queue.push(begun.start, (rows << BITS) | BEGINS)
        done = begun.end != MAX_TIME
        self._ends.push(begun.end[done], (rows[done] << BITS) | ENDS)
        if begun.has_edges:
            opens = begun.edge != 0
            self._open.open(begun.edge[opens], rows[opens])
        return rows

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the right input."""
        before = self._pairs.cti
        key, able = self._keying.match(1, batch.columns)
        if able is not None:
            batch, key = batch.take(able), key[able]
        if self._where is None:
            batch, key = self._coverage.take(batch, key, len(self._keying))
        self._pairs.take(1, batch, key)
        return self._make_result(before, ended=False)

    def _make_result(self, before: int, *, ended: bool) -> EventBatch:
        """Return the pieces that are known; ``ended``: a left row has been closed."""
        pairs = self._pairs
        if pairs.cti == before and not ended and not pairs.has_ended:
            return self._nothing.replace(cti=before)
        found = self._match(pairs.find(len(self._keying)))
        self._queue.push(found.start, (self._find_left_rows(found.left) << BITS) | COVERED)
        self._bare(found.left, found.end)
        if found.certain is not None:
            unsure = found.take(~found.certain)
            pairs.remember(unsure, np.zeros(len(unsure.left), np.int64))
        closed = pairs.close_ended()
        if closed is not None:
            self._bare(closed.left, closed.end)
        pairs.forget()
        self.forget_unused(self._keying, self._mark_keys)
        return self._make_pieces()

    def _mark_keys(self, held: Bools) -> None:
        self._pairs.mark_keys(held)
        self._coverage.mark_keys(held)

    def _bare(self, left: Int64s, end: Int64s) -> None:
        """Queue the ends of pairs, unless they are the end of time or not certain."""
        known = end != MAX_TIME
        self._queue.push(end[known], (self._find_left_rows(left[known]) << BITS) | BARED)

    def _match(self, found: NewPairs) -> NewPairs:
        if self._where is None or not len(found.left):
            return found
        assert self._merged is not None
        joined = self._merged(self._pairs.rows, found.left, found.right)
        return found.take(self._where(joined))

    def _find_left_rows(self, left: Int64s) -> Int64s:
        """Return the numbers that the pairs' left rows have in ``_left``."""
        tags: Int64s = self._pairs.column(0, TAG)
        return tags[left]

    def _make_pieces(self) -> EventBatch:
        cti = self._pairs.cti
        # an end at the CTI itself is certain: a row that starts there covers nothing before it
        time, what = merge(*self._queue.pop_due(cti), *self._ends.pop_due(cti + 1))
        columns = self._left.columns
        start, end, edge, row, self._next_edge = find_uncovered(
            time, what, columns[ALIVE], columns[COVER], columns[SINCE], columns[EDGE],
            self._next_edge,
        )  # fmt: skip
        result = EventBatch(start, end, edge, self._left.payload(row), cti, self._nothing.keys)
        over = what >> BITS
        self._left.release(over[(what & 3) == ENDS])
        new = self._left.compact()
        if new is not None:
            self._queue.renumber(new, BITS)
            self._ends.renumber(new, BITS)
            if len(self._open):
                self._open.renumber(new)
            tags = self._pairs.column(0, TAG)
            tags[:] = np.where(tags >= 0, new[tags], tags)
        return result
