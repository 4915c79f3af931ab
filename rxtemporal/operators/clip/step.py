"""Clipping by other rows, or to a limit; and signals, which are points clipped by the next one."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import LATEST, NEXT_EDGE, PART, ByKey, Edges, Entries, StoredRows
from rxtemporal.engine.kernels.coverage import NONE
from rxtemporal.engine.kernels.lifetimes import add_length
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.open_rows import OpenEdges, WaitingRows
from rxtemporal.engine.rows import RowStore, grow, relink
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.clip.kernel import clip
from rxtemporal.operators.join.kernel import NOT_LISTED, unlink_all

KEY, START, END, AFTER, BEFORE, INPUT, OUTPUT, OVER = range(8)


class ClipStep(Stateful):
    """Ends each left row where the next matching right row begins, strictly after it.

    A row leaves when both CTIs have passed its start: complete if it has been clipped or has ended
    by then, else as a start edge, whose end edge follows.

    Holds left rows until they are clipped or have ended before both CTIs, and the starts of right
    rows that the CTI has not passed.
    """

    held = MappingProxyType({
        "_keying": PART,
        "_rows": StoredRows(key=KEY, refs={AFTER: "row", BEFORE: "row"}),
        # rows that begin, and keys of rows that clip
        "_begins": Entries(bits=1, odd="key"),
        "_ends": Entries(),
        "_open": Edges(),
        "_head": ByKey(-1, refs="row"),
        "_last": ByKey(NONE),
        "_ctis": LATEST,
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self, keying: KeyMatcher, schema: pl.Schema, keys: Sequence[str]) -> None:
        self._keying = keying
        self._rows = RowStore([np.int64] * 8, schema)
        self._begins, self._ends = Queue(), Queue()
        self._open = OpenEdges()
        self._head = np.zeros(0, np.int64)
        self._last = np.zeros(0, np.int64)
        self._ctis = [MIN_TIME, MIN_TIME]
        self._keys = tuple(keys)
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of left rows and of starts of right ones held."""
        clipping = sum(int((what & 1).sum()) for _, what in self._begins.runs)
        return len(self._rows) + clipping

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of rows to be clipped."""
        self.keep(batch)
        return self.result()

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of rows that clip; only their starts count."""
        self.keep_clips(batch)
        return self.result()

    def keep(self, batch: EventBatch) -> Int64s:
        """Keep rows to be clipped; note the ends of rows kept earlier.

        Returns the keys of the rows that begin.
        """
        self._ctis[0] = batch.cti
        ends = batch.find_ends()
        begun = batch if ends is None else batch.take(~ends)
        key = self._keying.encode(0, begun.columns)
        rows = self._rows.append(
            [key, begun.start, begun.end, -1, NOT_LISTED, begun.edge, 0, 0], begun.columns
        )
        self._begins.push(begun.start, rows << 1)
        known = begun.end != MAX_TIME
        self._ends.push(begun.end[known], rows[known])
        if begun.has_edges:
            opens = begun.edge != 0
            self._open.open(begun.edge[opens], rows[opens])
        if ends is not None:
            closed, end = self._open.close(batch.edge[ends]), batch.end[ends]
            closed, end = closed[closed >= 0], end[closed >= 0]  # the others were clipped before
            self._rows.columns[END][closed] = end
            self._rows.columns[INPUT][closed] = 0
            self._ends.push(end, closed)
        return key

    def keep_clips(self, batch: EventBatch, key: Int64s | None = None) -> None:
        """Keep the starts of rows that clip; ``key`` has their keys, if they are known."""
        self._ctis[1] = batch.cti
        batch = batch.take_begins()
        if key is None:
            key = self._keying.encode(1, batch.columns)
        begins = key >= 0
        self._begins.push(batch.start[begins], (key[begins] << 1) | 1)

    def result(self) -> EventBatch:
        """Return the rows that have begun, and the ends of rows that have left."""
        cti = min(self._ctis)
        time, what = self._begins.pop_due(cti)
        self._head = grow(self._head, len(self._keying), -1)
        self._last = grow(self._last, len(self._keying), NONE)
        columns = self._rows.columns
        clipped = clip(
            time, what, columns[KEY], columns[START], columns[END],
            columns[AFTER], columns[BEFORE], self._head, self._last,
        )  # fmt: skip
        _, ended = self._ends.pop_due(cti + 1)
        columns[OVER][clipped] = 1
        ended = ended[columns[OVER][ended] == 0]  # a clipped row has ended already
        columns[OVER][ended] = 1
        done = np.concatenate([clipped, ended])
        begun = what[(what & 1) == 0] >> 1
        result = self._leave(begun, done, cti)
        self._forget(done)
        if self._keying.is_full:
            self._forget_keys()
        return result

    def _forget_keys(self) -> None:
        """Forget keys of which no row is held."""
        held = np.zeros(len(self._keying), np.bool_)
        self._rows.mark_keys(KEY, held)
        for _, what in self._begins.runs:
            held[what[(what & 1) == 1] >> 1] = True
        # when a key last clipped matters only while rows of that time come
        self.drop_keys(self._keying.forget(held))

    def _leave(self, begun: Int64s, done: Int64s, cti: int) -> EventBatch:
        columns = self._rows.columns
        later = done[columns[OUTPUT][done] != 0]
        opens = columns[OVER][begun] == 0
        ids = np.where(opens, self._next_edge + np.cumsum(opens) - 1, 0)
        self._next_edge += int(opens.sum())
        columns[OUTPUT][begun] = ids
        rows = np.concatenate([begun, later])
        end = np.concatenate([np.where(opens, MAX_TIME, columns[END][begun]), columns[END][later]])
        edge = np.concatenate([ids, columns[OUTPUT][later]])
        payload = self._rows.payload(rows)
        return EventBatch(columns[START][rows], end, edge, payload, cti, self._keys)

    def _forget(self, done: npt.NDArray[np.int64]) -> None:
        if not len(done):
            return
        columns = self._rows.columns
        unlink_all(done, columns[KEY], columns[AFTER], columns[BEFORE], self._head)
        waiting = columns[INPUT][done]
        self._open.close(waiting[waiting != 0])
        self._rows.release(done)
        new = self._rows.compact()
        if new is None:
            return
        self._begins.renumber_even(new)
        self._ends.renumber(new)
        self._open.renumber(new)
        relink(new, self._rows.columns[KEY], self._head, *self._rows.columns[AFTER : BEFORE + 1])


class SignalStep(Stateful):
    """Makes points a signal: each row lasts until the next one of its key; its end is ignored.

    With ``max_gap`` it lasts at most so many ticks. Holds the latest rows of each key, unless their
    gap has passed, and the rows that the CTI has not passed.
    """

    held = MappingProxyType({"_clip": PART})

    def __init__(
        self,
        keying: KeyMatcher,
        schema: pl.Schema,
        keys: Sequence[str],
        max_gap: int | None = None,
    ) -> None:
        self._clip = ClipStep(keying, schema, keys)
        self._max_gap = max_gap

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return self._clip.rows

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that have begun, each of which ends the earlier rows of its key."""
        begins = batch.take_begins()
        end = np.full(len(begins), MAX_TIME)
        if self._max_gap is not None:
            end = add_length(begins.start, self._max_gap)
        lasting = EventBatch.of_rows(begins.start, end, begins.columns, batch.cti, batch.keys)
        key = self._clip.keep(lasting)
        self._clip.keep_clips(lasting, key)
        return self._clip.result()


class LimitStep(Stateful):
    """Ends each row at most ``limit`` ticks after its start. Keeps edge ids.

    A start edge leaves at once. Its row is closed by its own end edge, or when the CTI reaches the
    limit; an end edge that comes later is dropped. Holds the open rows whose limit is above the
    CTI.
    """

    held = MappingProxyType({"_open": PART})

    def __init__(self, limit: int, schema: pl.Schema) -> None:
        self._limit = limit
        self._open = WaitingRows(schema, own=1)

    @property
    def rows(self) -> int:
        """The number of open rows that have not reached their limit."""
        return len(self._open)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their ends limited, and the CTI."""
        latest = add_length(batch.start, self._limit)
        opens = (batch.edge != 0) & (batch.end == MAX_TIME)
        closes = (batch.edge != 0) & ~opens
        limited = opens & (latest < MAX_TIME)
        self._open.add(batch.take(limited), latest[limited], latest[limited])
        over = np.zeros(len(batch), np.bool_)
        over[closes] = (self._open.close(batch.edge[closes]) < 0) & (latest[closes] < MAX_TIME)
        end = np.where(opens, MAX_TIME, np.minimum(batch.end, latest))
        result = [batch.replace(end=end).take(~over)]
        numbers = self._open.pop_due(batch.cti + 1)
        if len(numbers):
            reached = self._open.batch(numbers, batch)
            result.append(reached.replace(end=self._open.get_own(0)[numbers]))
            self._open.drop(numbers)
        self._open.compact()
        return EventBatch.concat(result)
