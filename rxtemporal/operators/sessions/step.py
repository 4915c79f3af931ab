"""Sessions of rows, and lifetimes that last until the end of the session."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, NEXT_EDGE, PART, ByKey, Entries, Held, StoredRows
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.kernels.starts import (
    expire_sessions,
    follow_links,
    gather_sessions,
)
from rxtemporal.operators.windows.start_windows import FinalWindows, StartBounds

# all of time: a longer span means the same, and sums with this one stay in int64
LONGEST = MAX_TIME - MIN_TIME
# what a key has at first in the state of its last session
FILLS = (MAX_TIME, MIN_TIME, MAX_TIME, MIN_TIME, -1, -1, 0)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EndedSessions:
    """Sessions that have ended, ``int64[w]`` each, and rows that began one.

    ``first`` start, ``end``, ``key``; the rows are a list of ``count`` from ``head`` on, which is
    the number of the session if sessions have numbers. ``began`` ``int64[b]``: the rows that began
    a session, ended or not, in order of start.
    """

    began: Int64s
    first: Int64s
    end: Int64s
    key: Int64s
    head: Int64s
    count: Int64s


class Sessions(Stateful):
    """Sessions of every key, over rows that the owner keeps by number.

    A session ends ``timeout`` after its last start, or at its cap if that is earlier. It has ended
    once the CTI has reached its end, since a row that starts there belongs to the next session.
    Each open session is in the queue once; if it has been extended when it is due, it is queued
    again for its new end. Holds a few numbers for each key, until its last start + ``timeout``.

    With ``numbered`` the owner does not hold the rows of sessions: it gives each session a number.
    """

    held: Mapping[str, Held] = MappingProxyType({
        "_state": ByKey(fills=FILLS, refs="row", listed=(4, 5)),
        "_queued": ByKey(False),
        "_expiry": Entries("key"),
    })  # fmt: skip

    def __init__(self, timeout: int, max_duration: int | None, *, numbered: bool = False) -> None:
        self._timeout = min(timeout, LONGEST)
        self._grid = 0 if max_duration is None else min(max_duration, LONGEST)
        # first, last, cap, end, head, tail, count by key
        self._state = [np.zeros(0, np.int64) for _ in range(7)]
        self._queued = np.zeros(0, np.bool_)
        self._expiry = Queue()
        if numbered:
            self.held = MappingProxyType({**self.held, "_state": ByKey(fills=FILLS)})

    @property
    def rows(self) -> int:
        """The number of rows in open sessions."""
        return int(self._state[6].sum())

    @property
    def numbers(self) -> Int64s:
        """The numbers of the open sessions, in the order of the keys, if they have numbers."""
        return self._state[4][self._state[6] > 0]

    def set_numbers(self, numbers: Int64s) -> None:
        """Give the open sessions other numbers, in the order of ``numbers``."""
        self._state[4][self._state[6] > 0] = numbers

    def grow(self, keys: int) -> None:
        """Make room for so many keys."""
        self._state = [
            grow(column, keys, fill) for column, fill in zip(self._state, FILLS, strict=True)
        ]
        self._queued = grow(self._queued, keys, False)

    def mark_keys(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys whose last session matters after a CTI.

        A session that starts less than the timeout after its last start belongs to it, or has an
        earlier cap because of it; none that starts later does.
        """
        last = self._state[1]
        held[: len(last)] |= (cti < last + self._timeout)[: len(held)]

    def mark_held(self, rows: RowStore, column: int, cti: int, held: Bools) -> None:
        """Set ``held`` to True for the keys, in this column, of rows, and as ``mark_keys`` does."""
        rows.mark_keys(column, held)
        self.mark_keys(held, cti)

    def advance(
        self, cti: int, due: Int64s, start: Int64s, key: Int64s, link: Int64s, number: int = -1
    ) -> EndedSessions:
        """Put the rows that are due into sessions; return the sessions that have ended by the CTI.

        ``due``: all rows that start before the CTI, except those of earlier calls, in order of
        start. ``start``, ``key``, ``link`` by row number; ``link`` is updated. ``number``: that of
        the next session, if sessions have numbers; then ``link`` has the session of each row.
        """
        first, last, cap, end, head, tail, count = self._state
        *later, asking, began = gather_sessions(
            due, start, key, link, number, self._timeout, self._grid,
            first, last, cap, end, head, tail, count, self._queued,
        )  # fmt: skip
        asked = np.concatenate([self._expiry.pop_due(cti + 1)[1], asking])
        keys, goes_on = expire_sessions(asked, cti, end, count, self._queued)
        self._expiry.push(end[goes_on], goes_on)
        by_time = first[keys], end[keys], keys, head[keys], count[keys]
        first[keys], count[keys] = MAX_TIME, 0
        closed = (np.concatenate(pair) for pair in zip(later, by_time, strict=True))
        return EndedSessions(began, *closed)

    @property
    def since(self) -> Int64s:
        """The first start of each key's open session, by key; the end of time if there is none."""
        return self._state[0]

    def renumber(self, new: Int64s, keys: Int64s) -> None:
        """Renumber the rows of open sessions, whose keys are among ``keys``."""
        _, _, _, _, head, tail, count = self._state
        is_open = keys[count[keys] > 0]
        head[is_open], tail[is_open] = new[head[is_open]], new[tail[is_open]]


# the columns of the rows that are held
START, KEY, LINK, EDGE = range(4)


class SessionLifetimesStep(Stateful):
    """Lets each row live from its start to the end of its session; its own end is ignored.

    A row leaves as a start edge once its start is committed, and its end edge follows when the
    session has ended; if both are known at once, it leaves complete. Holds the rows whose session
    has not ended, and a few numbers for each key until its last start + ``timeout``.
    """

    held = MappingProxyType({
        "_keys": KEYS,
        "_rows": StoredRows(key=KEY, refs={LINK: "row"}),
        "_starts": Entries(),
        "_sessions": PART,
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(
        self, timeout: int, max_duration: int | None, schema: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        self._keys = KeyCoder({key: schema[key] for key in keys})
        self._rows = RowStore([np.int64] * 4, schema)
        self._starts = Queue()
        self._sessions = Sessions(timeout, max_duration)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows that wait for their start or for the end of their session."""
        return len(self._rows)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that start before the CTI, and the ends of sessions up to it."""
        self._keep(batch)
        _, due = self._starts.pop_due(batch.cti)
        start, key, link, edge = self._rows.columns
        closed = self._sessions.advance(batch.cti, due, start, key, link)
        session, ended = follow_links(closed.head, closed.count, link)
        left = edge[ended]
        edge[ended] = -1  # then the rows that are due and have not ended are those with edge 0
        begun = due[edge[due] == 0]
        edge[begun] = np.arange(self._next_edge, self._next_edge + len(begun))
        self._next_edge += len(begun)
        # a row that never ends and has left as a start edge stays as it is
        changed = (closed.end[session] < MAX_TIME) | (left == 0)
        result = self._make_result(
            np.concatenate([ended[changed], begun]),
            np.concatenate([closed.end[session][changed], np.full(len(begun), MAX_TIME)]),
            np.concatenate([left[changed], edge[begun]]),
            batch,
        )
        self._forget(ended)
        mark = partial(self._sessions.mark_held, self._rows, KEY, batch.cti)
        self.forget_unused(self._keys, mark)
        return result

    def _keep(self, batch: EventBatch) -> None:
        batch = batch.take_begins()
        key = self._keys.encode(batch.columns)
        self._sessions.grow(len(self._keys))
        n = len(batch)
        columns = [batch.start, key, np.full(n, -1, np.int64), np.zeros(n, np.int64)]
        self._starts.push(batch.start, self._rows.append(columns, batch.columns))

    def _make_result(
        self, numbers: Int64s, end: Int64s, edge: Int64s, batch: EventBatch
    ) -> EventBatch:
        columns = self._rows.columns
        payload = self._rows.payload(numbers)
        return EventBatch(columns[START][numbers], end, edge, payload, batch.cti, batch.keys)

    def _forget(self, ended: Int64s) -> None:
        """Release rows whose session has ended, and renumber if most are released."""
        if not len(ended):
            return
        self._rows.release(ended)
        new = self._rows.compact()
        if new is None:
            return
        self._starts.renumber(new)
        _, key, link, _ = self._rows.columns
        self._sessions.renumber(new, key)
        link[link >= 0] = new[link[link >= 0]]


class SessionBounds(StartBounds):
    """Bounds of one window ``[first start, session end)`` for each session of a key.

    A window is final once the CTI has reached its end. If results live for the whole window, the
    output CTI waits at the start of the oldest session that is still open.
    """

    held = MappingProxyType({**StartBounds.held, "_sessions": PART})

    def __init__(
        self, timeout: int, max_duration: int | None, payload: pl.Schema, keys: tuple[str, ...]
    ) -> None:
        super().__init__(payload, keys)
        self._sessions = Sessions(timeout, max_duration)

    def _close(self, cti: int, due: Int64s) -> FinalWindows:
        start, _, key, link, _ = self._rows.columns
        closed = self._sessions.advance(cti, due, start, key, link)
        began = closed.began
        self._waiting.add(start[began], key[began], self._sessions.since)
        found = self._in_order(closed.first, closed.end, closed.key, closed.head, closed.count)
        self._release(found.row)
        return found

    @property
    def _since(self) -> Int64s:
        return self._sessions.since

    def _grow(self, keys: int) -> None:
        self._sessions.grow(keys)

    def _mark_keys(self, held: Bools, cti: int) -> None:
        self._sessions.mark_keys(held, cti)

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        self._sessions.renumber(new, keys)
