"""Bounds of session and count windows: which windows there are, and which rows start in each."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.kernels.count_windows import oldest, slide
from rxtemporal.engine.kernels.session_windows import followed
from rxtemporal.engine.steps.due_queue import Queue
from rxtemporal.engine.steps.edge_table import OpenEdges
from rxtemporal.engine.steps.rows import Rows, grown
from rxtemporal.engine.steps.session_lifetimes import Sessions, keys_of
from rxtemporal.engine.steps.state import Stateful

# the columns of the rows that are held
START, END, KEY, LINK, EDGE = range(5)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """Windows that are final, and the rows that start in them.

    ``start``, ``end``, ``key`` ``int64[w]``, in order of (end, key), each window once. ``window``,
    ``row`` ``int64[p]``: row number ``row[i]`` starts in window number ``window[i]``; in order of
    window, then of the row's start. A window that reaches ``MAX_TIME`` never ends.
    """

    start: Int64s
    end: Int64s
    key: Int64s
    window: Int64s
    row: Int64s

    def __len__(self) -> int:
        """How many windows there are."""
        return len(self.start)


class _Waiting(Stateful):
    """Since when keys wait for the end of something: the oldest of these times.

    Keys begin to wait in order of time, so what begins is added at the end, and what is waited for
    no more is passed over once; when the room is full, the rest of it is left out. Holds an entry
    for each wait that goes on, and up to as many more.
    """

    held = ("_time", "_key", "_done", "_height")

    def __init__(self) -> None:
        self._time = np.zeros(0, np.int64)
        self._key = np.zeros(0, np.int64)
        self._done = self._height = 0

    def add(self, time: Int64s, key: Int64s, since: Int64s) -> None:
        """Note what begins; ``since`` says for each key what is older than it waits for."""
        height = self._height + len(time)
        if height > len(self._time):
            height = self._make_room(len(time), since)
        self._time[self._height : height] = time
        self._key[self._height : height] = key
        self._height = height

    def _make_room(self, more: int, since: Int64s) -> int:
        time, key = (column[self._done : self._height] for column in (self._time, self._key))
        waits = time >= since[key]
        self._done, self._height = 0, int(waits.sum())
        room = 2 * self._height + more + 64
        self._time = grown(time[waits], room)
        self._key = grown(key[waits], room)
        return self._height + more

    def first(self, since: Int64s) -> int:
        """Return the oldest time that a key still waits since, the end of time for none."""
        self._done = oldest(self._time, self._key, self._done, self._height, since)
        return int(self._time[self._done]) if self._done < self._height else MAX_TIME


class Gathering(Stateful):
    """Rows gathered by when they start, into windows that are told when they are final.

    For each batch, in this order:

    1. ``take(batch)`` keeps the rows that begin. An end edge gives its row its end, if the row is
       still held; a window never waits for it.
    2. ``closed(cti)`` returns the windows that are final with the batch's CTI. The rows they name
       can be read until the next ``take``: ``payload(numbers)``, ``starts``, ``ends``.
    3. ``cti(t, points=…)`` is the output CTI, for results that are points at the windows' ends or
       that live for the whole window.

    Holds the rows that a window to come may hold; ``rows`` counts them.
    """

    held: ClassVar[tuple[str, ...]] = ("_rows", "_starts", "_open", "_waiting")

    def __init__(self, payload: pl.Schema) -> None:
        self._rows = Rows([np.int64] * 5, payload)
        self._starts = Queue()
        self._open = OpenEdges()
        self._waiting = _Waiting()

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return len(self._rows)

    @property
    def starts(self) -> Int64s:
        """The rows' starts, by row number."""
        return self._rows.columns[START]

    @property
    def ends(self) -> Int64s:
        """The rows' ends as far as they are known, by row number; ``MAX_TIME`` of open rows."""
        return self._rows.columns[END]

    def payload(self, numbers: Int64s) -> pl.DataFrame:
        """Return the payload of these rows, which may come several times and in any order."""
        return self._rows.payload(numbers)

    def take(self, batch: EventBatch) -> None:
        """Keep the rows that begin, and the ends of those that are held already."""
        self._compact()
        key, keys = keys_of(batch)
        self._grow(keys)
        closes = (batch.edge != 0) & (batch.end != MAX_TIME)
        if not closes.any():
            self._keep(batch, key)
            return
        self._keep(batch.take(~closes), key[~closes])
        rows = self._open.close(batch.edge[closes])
        held = rows >= 0
        self._rows.columns[END][rows[held]] = batch.end[closes][held]
        self._rows.columns[EDGE][rows[held]] = 0

    def _keep(self, batch: EventBatch, key: Int64s) -> None:
        columns = [batch.start, batch.end, key, np.full(len(batch), -1, np.int64), batch.edge]
        numbers = self._rows.append(columns, batch.payload)
        self._starts.push(batch.start, numbers)
        opens = batch.edge != 0
        if opens.any():
            self._open.open(batch.edge[opens], numbers[opens])

    def closed(self, cti: int) -> Gathered:
        """Return the windows that are final with this CTI."""
        _, due = self._starts.due(cti)
        return self._closed(cti, due)

    def cti(self, cti: int, *, points: bool) -> int:
        """Return the output CTI for this one, once ``closed`` has been asked for its windows."""
        if points or cti == MAX_TIME:
            return cti
        return min(cti, self._waiting.first(self._since))

    def _release(self, rows: Int64s) -> None:
        self._rows.release(rows)
        edges = self._rows.columns[EDGE][rows]
        if edges.any():
            self._open.close(edges[edges != 0])

    def _compact(self) -> None:
        new = self._rows.compacted()
        if new is None:
            return
        self._starts.renumber(new)
        if len(self._open):
            self._open.renumber(new)
        link, key = self._rows.columns[LINK], self._rows.columns[KEY]
        link[link >= 0] = new[link[link >= 0]]
        self._renumber(new, key)

    @property
    def _since(self) -> Int64s:
        """The oldest start that each key waits with, by key; the end of time for none."""
        raise NotImplementedError

    def _grow(self, keys: int) -> None:
        """Have room for so many keys."""
        raise NotImplementedError

    def _closed(self, cti: int, due: Int64s) -> Gathered:
        """Return the windows that are final; ``due`` are the rows now committed, by start."""
        raise NotImplementedError

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        """Follow the rows to their new numbers; ``keys`` are those of all rows."""
        raise NotImplementedError

    def _in_order(
        self, start: Int64s, end: Int64s, key: Int64s, head: Int64s, count: Int64s
    ) -> Gathered:
        order = np.lexsort((key, end))
        listed = followed(head[order], count[order], self._rows.columns[LINK])
        return Gathered(start[order], end[order], key[order], *listed)


class SessionBounds(Gathering):
    """One window ``[first start, session end)`` for each session of a key.

    It is final with a CTI that is not below its end. Where results live for the whole window, the
    output CTI is held at the start of the oldest session that is still open.
    """

    held = (*Gathering.held, "_sessions")

    def __init__(self, timeout: int, max_duration: int | None, payload: pl.Schema) -> None:
        super().__init__(payload)
        self._sessions = Sessions(timeout, max_duration)

    def _closed(self, cti: int, due: Int64s) -> Gathered:
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

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        self._sessions.renumber(new, keys)


class CountBounds(Gathering):
    """Windows of ``n`` consecutive distinct starts of a key, sliding by one.

    A window is ``[first start, n-th start + 1 tick)`` and final with a CTI above its n-th start.
    Where results live for the whole window, the output CTI is held at the oldest start that a
    window to come holds, over all keys: a key that falls silent holds it for good.
    """

    held = (*Gathering.held, "_state")

    def __init__(self, n: int, payload: pl.Schema) -> None:
        super().__init__(payload)
        self._n = n
        # head, tail, count, distinct, since by key, and room for the kernel to work in
        self._state = [np.zeros(0, np.int64) for _ in range(6)]

    def _closed(self, cti: int, due: Int64s) -> Gathered:
        start, _, key, link, _ = self._rows.columns
        first, last, keys, head, count, gone, gone_count, began = slide(
            due, start, key, link, self._n, *self._state
        )
        self._waiting.add(start[began], key[began], self._since)
        found = self._in_order(first, last + TICK, keys, head, count)
        self._release(followed(gone, gone_count, link)[1])
        return found

    @property
    def _since(self) -> Int64s:
        return self._state[4]

    def _grow(self, keys: int) -> None:
        fills = (-1, -1, 0, 0, MAX_TIME, 0)
        self._state = [
            grown(column, keys, fill) for column, fill in zip(self._state, fills, strict=True)
        ]

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        head, tail, count = self._state[:3]
        listed = keys[count[keys] > 0]
        head[listed], tail[listed] = new[head[listed]], new[tail[listed]]
