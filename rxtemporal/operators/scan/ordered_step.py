"""Rows of a key in order, each taken once, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import KEYS, NEXT_EDGE, PART, Edges, Entries, StoredRows
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore
from rxtemporal.engine.state import Stateful

# columns of the rows that wait
START, END, EDGE, KEY = range(4)
# no field has these names: the first is empty, the others begin with a null character
_START, _STAYS, _END, _SIGN = "", "\0stays", "\0end", "\0sign "


def sort_rows(
    start: Int64s, end: Int64s, stays: Bools, read: Callable[[Int64s], pl.DataFrame]
) -> Int64s:
    """Return the row numbers in order of (start, payload), the part of a row that users see.

    Equal rows are ordered by their ends: first those with a known end, then open rows, then rows
    that never end (``stays``). -0.0 equals 0.0; where nothing else differs it comes first, so that
    the order of arrival does not show. ``read`` returns the payloads of rows by their numbers; it
    is asked for those that start together, and only these are compared by more than their starts.
    """
    order = np.arange(len(start))
    if not (start[1:] >= start[:-1]).all():
        order = np.argsort(start, kind="stable")
        start = start[order]
    is_tie = np.zeros(len(start) + 1, np.bool_)
    np.equal(start[1:], start[:-1], out=is_tie[1:-1])
    places = np.flatnonzero(is_tie[1:] | is_tie[:-1])
    if not len(places):
        return order
    rows = order[places]
    payload = read(rows)
    signs = _find_signs(payload)
    frame = payload.with_columns(
        pl.Series(_START, start[places]), pl.Series(_STAYS, stays[rows]),
        pl.Series(_END, end[rows]), *signs,
    )  # fmt: skip
    by = [_START, *payload.columns, _STAYS, _END, *(each.name for each in signs)]
    sorted_ = frame.select(pl.arg_sort_by(by, nulls_last=False, maintain_order=True))
    order[places] = rows[sorted_.to_series().to_numpy()]
    return order


def _find_signs(payload: pl.DataFrame) -> list[pl.Series]:
    """Return for each field that has a -0.0 the rows that have another value."""
    signs = []
    for field in payload.iter_columns():
        if field.dtype.is_float():
            values = field.to_numpy()
            negative = np.signbit(values) & (values == 0)
            if negative.any():
                signs.append(pl.Series(f"{_SIGN}{field.name}", ~negative))
    return signs


def _number_runs(start: Int64s, payload: pl.DataFrame) -> Int64s:
    """Return for each row the number of its run of equal starts and payloads."""
    differs = np.ones(len(start), np.bool_)
    differs[1:] = start[1:] != start[:-1]
    if not differs.all() and payload.width:
        before = payload.select(pl.all().shift())
        equal = [a.eq_missing(b) for a, b in zip(payload, before, strict=True)]
        differs |= ~pl.DataFrame(equal).select(pl.all_horizontal(pl.all())).to_series().to_numpy()
    return np.cumsum(differs) - 1


def _count_up(count: Int64s) -> Int64s:
    """Return the numbers 0, 1, … count - 1 for each count, as one array."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)


# the column of a call's key
_CALL_KEY = 4


class OpenResults(Stateful):
    """Results of rows that are open, until the rows end.

    Rows of equal start and payload differ only in their ends, which come later. So their calls form
    a *line*: the row that ends first ends the results of the line's first call, and so on. Holds
    the results, and an entry for each call of a line until the line's last row has ended.
    """

    held = MappingProxyType({
        "_results": StoredRows(space="result"),
        "_calls": StoredRows(key=_CALL_KEY, refs={0: "result"}, space="call"),
        "_open": Edges("call"),
        "_ends": Entries("call"),
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self, schema: pl.Schema) -> None:
        # start, edge id
        self._results = RowStore([np.int64] * 2, schema)
        # first result and number of results; for a line's first call also its calls, and ended
        # ones; the key
        self._calls = RowStore([np.int64] * 5)
        # the first call of each row's line, by edge id and by end
        self._open = OpenEdges()
        self._ends = Queue()
        self._next_edge = 1

    def __len__(self) -> int:
        return len(self._results)

    def keep(
        self,
        line: Int64s,
        key: Int64s,
        end: Int64s,
        edge: Int64s,
        many: Int64s,
        made: EventBatch,
    ) -> Int64s:
        """Keep the results of calls, and return the results' edge ids.

        For each call: the number of its ``line``, which never falls; ``key``, ``end`` and ``edge``
        of its row; and ``many``, the number of its results. ``made`` are the results.
        """
        ids = np.arange(self._next_edge, self._next_edge + len(made))
        self._next_edge += len(made)
        first = self._results.height + np.cumsum(many) - many
        self._results.append([made.start, ids], made.columns)
        leads = np.flatnonzero(np.diff(line, prepend=-1))
        size = np.diff(leads, append=len(line))
        lengths = np.zeros(len(line), np.int64)
        lengths[leads] = size
        numbers = self._calls.append([first, many, lengths, 0, key])
        leader = np.repeat(numbers[leads], size)
        opens = edge != 0
        self._open.open(edge[opens], leader[opens])
        self._ends.push(end[~opens], leader[~opens])
        return ids

    def mark_keys(self, held: Bools) -> None:
        """Set ``held`` to True for the keys of open rows."""
        self._calls.mark_keys(_CALL_KEY, held)

    def end(self, edge: Int64s, end: Int64s) -> None:
        """Queue the ends of open rows."""
        leader = self._open.close(edge)
        self._ends.push(end, leader)

    def pop_ended(self, batch: EventBatch) -> EventBatch | None:
        """Remove and return the results of rows that end before the CTI or at it, as end edges.

        No row to come ends before the CTI, and rows of a line that end at it are alike.
        """
        end, leader = self._ends.pop_due(batch.cti + TICK)
        if not len(leader):
            return None
        order = np.argsort(leader, kind="stable")
        end, leader = end[order], leader[order]
        first, many, size, gone, _ = self._calls.columns
        leads = np.flatnonzero(np.diff(leader, prepend=-1))
        count = np.diff(leads, append=len(leader))
        call = leader + gone[leader] + _count_up(count)
        gone[leader[leads]] += count
        numbers = np.repeat(first[call], many[call]) + _count_up(many[call])
        start, own = (column[numbers] for column in self._results.columns)
        payload, ends = self._results.payload(numbers), np.repeat(end, many[call])
        many[call] = 0
        lines = leader[leads]
        lines = lines[gone[lines] == size[lines]]
        self._calls.release(np.repeat(lines, size[lines]) + _count_up(size[lines]))
        self._results.release(numbers)
        self._compact()
        return EventBatch(start, ends, own, payload, batch.cti, batch.keys)

    def _compact(self) -> None:
        new = self._results.compact()
        if new is not None:
            first, many, *_ = self._calls.columns
            first[many > 0] = new[first[many > 0]]
        new = self._calls.compact()
        if new is not None:
            self._ends.renumber(new)
            if len(self._open):
                self._open.renumber(new)


class OrderedStep(Stateful):
    """Takes each row once, when its start is committed; the base class of such steps.

    Rows of one key come in order of (start, payload), nulls first. ``compute`` returns what is made
    of them, which lives as long as the rows. The results of an open row leave as start edges, and
    their end edges follow when the CTI has reached the row's end. Holds the rows whose start is not
    committed, and the results of open rows.
    """

    held = MappingProxyType({
        "_coder": KEYS,
        "_waiting": StoredRows(key=KEY),
        "_starts": Entries(),
        "_open": Edges(),
        "_open_results": PART,
    })  # fmt: skip

    def __init__(self, output: pl.Schema, schema: pl.Schema, keys: tuple[str, ...]) -> None:
        self._coder = KeyCoder({key: schema[key] for key in keys})
        self._output = output
        self._waiting = RowStore([np.int64] * 4, schema)
        self._starts = Queue()
        # open rows that have not begun, by edge id
        self._open = OpenEdges()
        self._open_results = OpenResults(self._output)

    def compute(
        self, key: Int64s, start: Int64s, payload: pl.DataFrame
    ) -> tuple[Int64s, pl.DataFrame]:
        """Return results of the next rows, and the number of the row of each, which never falls.

        ``key`` are the codes of the rows' keys; the rows are in order of (start, payload).
        """
        raise NotImplementedError

    def mark_states(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys whose earlier rows matter to rows from the CTI on."""

    @property
    def rows(self) -> int:
        """The number of rows that wait for their start, and of results that wait for their end."""
        return len(self._waiting) + len(self._open_results)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the results of rows that start before the CTI, and the end edges up to it."""
        closes = batch.find_ends()
        if closes is not None:
            self._keep(batch.take(~closes))
            self._end(batch.edge[closes], batch.end[closes])
        else:
            self._keep(batch)
        begun = self._begin(batch)
        self.forget_unused(self._coder, partial(self._mark_keys, batch.cti))
        ended = self._open_results.pop_ended(batch)
        return begun if ended is None else EventBatch.concat([begun, ended])

    def _keep(self, batch: EventBatch) -> None:
        key = self._coder.encode(batch.columns)
        numbers = self._waiting.append([batch.start, batch.end, batch.edge, key], batch.columns)
        self._starts.push(batch.start, numbers)
        if batch.has_edges:
            opens = batch.edge != 0
            self._open.open(batch.edge[opens], numbers[opens])

    def _end(self, edge: Int64s, end: Int64s) -> None:
        """Set the ends of rows that have not begun; end the results of the others."""
        rows = self._open.close(edge)
        waits = rows >= 0
        self._waiting.columns[END][rows[waits]] = end[waits]
        self._waiting.columns[EDGE][rows[waits]] = 0
        self._open_results.end(edge[~waits], end[~waits])

    def _begin(self, batch: EventBatch) -> EventBatch:
        """Return the results of the rows that are due."""
        _, due = self._starts.pop_due(batch.cti)
        if not len(due):
            return EventBatch.empty(self._output, batch.cti, batch.keys)
        start, end, edge, _ = (column[due] for column in self._waiting.columns)
        stays, read = (edge == 0) & (end == MAX_TIME), partial(self._read_waiting, due)
        due = due[sort_rows(start, end, stays, read)]
        start, end, edge, key = (column[due] for column in self._waiting.columns)
        payload = self._read_waiting(due)
        self._forget(due, edge)
        of, frame = self.compute(key, start, payload)
        edges = np.zeros(len(of), np.int64)
        made = EventBatch(start[of], end[of], edges, frame, batch.cti, batch.keys)
        return (
            self._open_uncertain(made, of, key, end, edge, _number_runs(start, payload))
            if edge.any()
            else made
        )

    def _read_waiting(self, rows: Int64s, places: Int64s | slice = slice(None)) -> pl.DataFrame:
        """Return the payloads of rows that wait, or of those at some places among them."""
        return self._waiting.payload(rows[places]).frame

    def _open_uncertain(
        self, made: EventBatch, of: Int64s, key: Int64s, end: Int64s, edge: Int64s, run: Int64s
    ) -> EventBatch:
        """Return the results, as start edges if their end is not certain; keep these.

        While one row of a run of equal rows is open, it is not certain which one ends first.
        """
        unsure = np.zeros(int(run[-1]) + 1, np.bool_)
        unsure[run[edge != 0]] = True
        opens = unsure[run] & ((edge != 0) | (end != MAX_TIME))
        many = np.bincount(of, minlength=len(run))
        mine = opens[of]
        own = made.edge.copy()
        own[mine] = self._open_results.keep(
            run[opens], key[opens], end[opens], edge[opens], many[opens], made.take(mine)
        )
        return made.replace(edge=own, end=np.where(mine, MAX_TIME, made.end))

    def _mark_keys(self, cti: int, held: Bools) -> None:
        self._waiting.mark_keys(KEY, held)
        self._open_results.mark_keys(held)
        self.mark_states(held, cti)

    def _forget(self, due: Int64s, edge: Int64s) -> None:
        """Release the rows that are due; those with an edge id are open."""
        self._waiting.release(due)
        if edge.any():
            self._open.close(edge[edge != 0])
        new = self._waiting.compact()
        if new is not None:
            self._starts.renumber(new)
            if len(self._open):
                self._open.renumber(new)
