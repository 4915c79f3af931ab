"""Clipping by other rows, or to a limit; and signals, which are points clipped by the next one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import LATEST, NEXT_EDGE, PART, ByKey, Edges, Entries, StoredRows
from rxtemporal.engine.kernels.coverage import NONE
from rxtemporal.engine.kernels.lifetimes import add_length
from rxtemporal.engine.kernels.order import sort
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.open_rows import OpenEdges, WaitingRows
from rxtemporal.engine.rows import RowStore, grow, relink
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.clip.kernel import ENDED, clip, follow
from rxtemporal.operators.join.kernel import NOT_LISTED, unlink_all

KEY, START, END, AFTER, BEFORE, INPUT, OUTPUT, OVER = range(8)
# of a row of a signal, after key and start: the row that began with it, and the edge id
BESIDE, EDGE = 2, 3


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

    def keep(self, batch: EventBatch) -> None:
        """Keep rows to be clipped; note the ends of rows kept earlier."""
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

    def keep_clips(self, batch: EventBatch) -> None:
        """Keep the starts of rows that clip."""
        self._ctis[1] = batch.cti
        batch = batch.take_begins()
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
        self.forget_unused(self._keying, self._mark_keys)
        return result

    def _mark_keys(self, held: Bools) -> None:
        # when a key last clipped matters only while rows of that time come
        self._rows.mark_keys(KEY, held)
        for _, what in self._begins.runs:
            held[what[(what & 1) == 1] >> 1] = True

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

    With ``max_gap`` it lasts at most so many ticks. A row leaves when the CTI has passed its start:
    complete if it has ended by then, and it is never kept if that is in its own batch; else as a
    start edge, whose end edge follows.

    Holds the latest rows of each key, unless their gap has passed, and the rows that the CTI has
    not passed.
    """

    held = MappingProxyType({
        "_keying": PART,
        "_rows": StoredRows(key=KEY, refs={BESIDE: "row"}),
        "_begins": Entries(),
        "_ends": Entries(),
        "_head": ByKey(-1, refs="row"),
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(
        self,
        keying: KeyMatcher,
        schema: pl.Schema,
        keys: Sequence[str],
        max_gap: int | None = None,
    ) -> None:
        self._keying = keying
        self._rows = RowStore([np.int64] * 4, schema)
        # rows that begin, and with a gap those that end
        self._begins, self._ends = Queue(), Queue()
        # the latest of the rows of each key that are open; the others began with it
        self._head = np.zeros(0, np.int64)
        self._keys = tuple(keys)
        self._max_gap = max_gap
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return len(self._rows)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that have begun, each of which ends the earlier rows of its key."""
        begins, cti = batch.take_begins(), batch.cti
        key = self._keying.encode(0, begins.columns)
        self._head = grow(self._head, len(self._keying), -1)
        passed = begins.start < cti
        begun, coming = np.flatnonzero(passed), np.flatnonzero(~passed)
        time, waited = self._begins.pop_due(cti)
        columns = self._rows.columns
        start = np.concatenate([begins.start[begun], time])
        code = np.concatenate([key[begun], columns[KEY][waited]])
        number = np.concatenate([np.full(len(begun), ENDED), waited])
        end = self._limit(start)
        order = sort(start, np.arange(len(start)))[1] if len(start) else number
        fresh, beside, over, over_at = follow(
            order, start, code, end, number, cti, self._rows.height, self._head, columns[BESIDE]
        )
        ended, ended_at = self._end_rows(over, over_at, cti)
        ids = self._number_edges(number != ENDED)
        payload = Columns.concat([
            begins.columns.take(begun) if len(coming) else begins.columns,
            self._rows.payload(np.concatenate([waited, ended])),
        ])  # fmt: skip
        result = EventBatch(
            np.concatenate([start, columns[START][ended]]),
            np.concatenate([np.where(ids > 0, MAX_TIME, end), ended_at]),
            np.concatenate([ids, columns[EDGE][ended]]),
            payload, cti, self._keys,
        )  # fmt: skip
        self._note_waited(waited, number[len(begun) :], ids[len(begun) :])
        self._keep(begins, key, begun[fresh], coming, beside, ids[fresh])
        ends = (number >= 0) & (end < MAX_TIME)
        self._ends.push(end[ends], number[ends])
        self._compact()
        return result

    def _number_edges(self, opens: Bools) -> Int64s:
        """Return an edge id for each row that is open, 0 for the others."""
        ids = np.where(opens, self._next_edge + np.cumsum(opens) - 1, 0)
        self._next_edge += int(np.count_nonzero(opens))
        return ids

    def _note_waited(self, waited: Int64s, number: Int64s, ids: Int64s) -> None:
        """Note the edge ids of rows that have waited, and release those that are not kept."""
        stays = number >= 0
        self._rows.columns[EDGE][waited[stays]] = ids[stays]
        self._rows.release(waited[~stays])

    def _limit(self, start: Int64s) -> Int64s:
        """Return when rows end that no other one follows."""
        if self._max_gap is None:
            return np.full(len(start), MAX_TIME)
        return add_length(start, self._max_gap)

    def _end_rows(self, over: Int64s, at: Int64s, cti: int) -> tuple[Int64s, Int64s]:
        """Release the rows that others follow at some times, and those whose gap is over.

        Returns their numbers and ends.
        """
        self._rows.release(over)
        if self._max_gap is None:
            return over, at
        columns = self._rows.columns
        time, alone = self._ends.pop_due(cti + 1)
        alive = self._rows.alive[alone]
        time, alone = time[alive], alone[alive]
        self._rows.release(alone)
        key = columns[KEY][alone]
        self._head[key[key >= 0]] = -1
        at = np.minimum(at, add_length(columns[START][over], self._max_gap))
        return np.concatenate([over, alone]), np.concatenate([at, time])

    def _keep(
        self,
        begins: EventBatch,
        key: Int64s,
        opened: Int64s,
        coming: Int64s,
        beside: Int64s,
        ids: Int64s,
    ) -> None:
        """Keep the rows of a batch that are open, then those that the CTI has not passed."""
        rows = np.concatenate([opened, coming])
        none = np.full(len(coming), -1)
        numbers = self._rows.append(
            [key[rows], begins.start[rows], np.append(beside, none), np.append(ids, none)],
            begins.columns.take(rows),
        )
        self._begins.push(begins.start[coming], numbers[len(opened) :])

    def _compact(self) -> None:
        """Forget the rows that have ended, and keys of which no row is held."""
        new = self._rows.compact()
        if new is not None:
            self._begins.renumber(new)
            self._ends.renumber(new)
            columns = self._rows.columns
            relink(new, columns[KEY], self._head, columns[BESIDE])
        self.forget_unused(self._keying, partial(self._rows.mark_keys, KEY))


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
