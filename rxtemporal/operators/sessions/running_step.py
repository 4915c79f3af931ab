"""Results of session windows that are updated with each row, so that no session holds its rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.codec import Captured, Saved
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, PART, SAME, Entries, Hold, Moves, Selection, StoredRows
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import MANY, RowStore
from rxtemporal.operators.sessions.step import EndedSessions, Sessions
from rxtemporal.operators.windows.aggregates import Changes
from rxtemporal.operators.windows.bounds import Windows
from rxtemporal.operators.windows.kernels.changes import BITS, LAST
from rxtemporal.operators.windows.results import Swept, WindowResults
from rxtemporal.operators.windows.start_windows import FinalWindowStep, Waits
from rxtemporal.operators.windows.step import BATCHES, ROWS

NO_ROWS = np.zeros(0, np.int64)
NO_WINDOWS = Windows(*6 * [NO_ROWS])
# first columns of the rows that are held; the values that the results read follow
START, KEY, SESSION, OWN = range(4)


class RunningSessionStep(FinalWindowStep):
    """Computes the results of session windows from running aggregates of each open session.

    A row is in the session of its key once the CTI has passed its start, and no row leaves a
    session before that has ended. So it is added up then, and dropped. Sessions are numbered as
    they begin: to the aggregates the number is the key. Numbers of ended sessions are given up when
    they are most.

    Holds the running aggregates and the bounds of each open session, and of the rows that the CTI
    has not passed the values that the aggregates read. Rows of small batches with which no session
    ends are added up together.
    """

    held = MappingProxyType({
        "_keys": KEYS,
        "_rows": StoredRows(key=KEY),
        "_starts": Entries(),
        "_waiting": PART,
        "_sessions": PART,
        "_results": SAME,
        "_count": SAME,
    })  # fmt: skip

    def __init__(
        self,
        sessions: Sessions,
        results: WindowResults,
        keys: Mapping[str, pl.DataType],
        schema: pl.Schema,
        *,
        points: bool,
    ) -> None:
        super().__init__(schema, points=points)
        self._keys = KeyCoder(keys)
        self._sessions = sessions
        self._results = results
        self._rows = RowStore([np.int64] * OWN + [*results.dtypes])
        self._starts = Queue()
        self._waiting = Waits()
        # the number of the next session, and the one with which ended ones are looked for
        self._count, self._limit = 0, MANY
        # not held: a state is saved once these rows, which are in a session, are added up
        self._due: list[Int64s] = []

    @property
    def rows(self) -> int:
        """The number of rows that wait: those held, and those that are only added up by now."""
        due = sum(map(len, self._due))  # these are in sessions by now
        return len(self._rows) - due + self._sessions.rows

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that start, and return the results of the sessions that have ended."""
        self._keep(batch)
        _, due = self._starts.pop_due(batch.cti)
        start, key, session = self._rows.columns[:OWN]
        ended = self._sessions.advance(batch.cti, due, start, key, session, self._count)
        self._count += len(ended.began)
        self._waiting.add(start[ended.began], key[ended.began], self._sessions.since)
        if len(due):
            self._due.append(due)
        if len(ended.key):
            result = self._make_result(ended, batch.cti)
        else:
            result = self._make_none(self._find_cti(batch.cti))
            if len(self._due) >= BATCHES or sum(map(len, self._due)) >= ROWS:
                self._add_up(NO_WINDOWS)
        if self._count > self._limit:
            self._forget_ended()
        mark = partial(self._sessions.mark_held, self._rows, KEY, batch.cti)
        self.forget_unused(self._keys, mark)
        return result

    def _keep(self, batch: EventBatch) -> None:
        # a session never waits for the end of a row
        batch = batch.take_begins()
        if not len(batch):
            return
        key = self._keys.encode(batch.columns)
        self._sessions.grow(len(self._keys))
        values = self._results.columns(batch.columns)
        numbers = self._rows.append([batch.start, key, -1, *values])
        self._starts.push(batch.start, numbers)

    def _find_cti(self, cti: int) -> int:
        """Return the output CTI."""
        if self._points or cti == MAX_TIME:
            return cti
        return min(cti, self._waiting.find_first(self._sessions.since))

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys of the open sessions, whose results begin at their starts."""
        return [] if self._points else [Hold.find(self._keys, self._sessions.since)]

    def _make_result(self, ended: EndedSessions, cti: int) -> EventBatch:
        order = np.lexsort((ended.key, ended.end))
        start, end, number, count = (
            each[order] for each in (ended.first, ended.end, ended.head, ended.count)
        )
        at, no = np.full(len(order), sum(map(len, self._due))), np.zeros(len(order), np.int64)
        swept = self._add_up(Windows(start, end, no, number, at, count))
        keys, made = self._keys.decode(ended.key[order]), self._results.compute(swept, None)
        return self._make_batch(start, end, keys, made, self._find_cti(cti))

    def _add_up(self, windows: Windows) -> Swept:
        """Add up the rows that are in a session, and drop them; return the results of windows."""
        due = np.concatenate([NO_ROWS, *self._due])
        columns = self._rows.arrays
        changes = Changes(due << BITS | LAST, columns[SESSION])
        values = [freeze(column) for column in columns[OWN:]]
        swept = self._results.sweep(windows, changes, values, self._count)
        self._due = []
        self._release(due)
        return swept

    def _release(self, rows: Int64s) -> None:
        """Release rows, and renumber if most are released."""
        if not self._starts.has_entries:
            self._rows.clear()
            return
        self._rows.release(rows)
        new = self._rows.compact()
        if new is not None:
            self._starts.renumber(new)

    def _forget_ended(self) -> None:
        """Give the open sessions the numbers from 0 on, and drop the results of all others."""
        if self._due:
            self._add_up(NO_WINDOWS)
        numbers = self._sessions.numbers
        kept = KeptKeys(np.sort(numbers), self._count)
        self._sessions.set_numbers(kept.renumber(numbers))
        self._results.keep_selected(Selection.of_keys(kept))
        self._count, self._limit = len(numbers), MANY + 2 * len(numbers)

    # State ----------------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """Return the state, without the results of sessions that have ended."""
        self._forget_ended()
        return super().capture()

    def load(self, data: Saved) -> None:
        """Continue from a saved state."""
        super().load(data)
        self._due = []

    def keep_selected(self, selection: Selection) -> None:
        """Drop the state of all keys that are not selected."""
        self._forget_ended()
        super().keep_selected(selection)
        self._forget_ended()

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the state of other keys."""
        self._forget_ended()
        other._forget_ended()
        first, count = self._count, self._count + other._count
        other._sessions.set_numbers(other._sessions.numbers + first)
        super().merge_from(other, moves)
        self._results.merge_from(
            other._results, Moves({"key": np.arange(first, count)}, {"key": count})
        )
        self._count = count
