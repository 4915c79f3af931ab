"""Windows that hold the rows that start in them (sessions, counts), and results over them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Self

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Column, Columns
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import (
    KEYS,
    OWNED,
    PART,
    Edges,
    Entries,
    Held,
    Hold,
    Moves,
    Selection,
    StoredRows,
)
from rxtemporal.engine.kernels import order
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.windows.aggregates import Changes
from rxtemporal.operators.windows.bounds import NO_TIMES, Windows
from rxtemporal.operators.windows.field_values import ResultTypes, make_arrays
from rxtemporal.operators.windows.kernels.changes import BITS, LAST
from rxtemporal.operators.windows.kernels.starts import find_oldest, follow_links, measure_cover
from rxtemporal.operators.windows.overlaps import add_overlap
from rxtemporal.operators.windows.results import ResultRows, WindowResults
from rxtemporal.operators.windows.rows import Contents

# columns of the rows that are held
START, END, KEY, LINK, EDGE = range(5)


@dataclasses.dataclass(slots=True, eq=False)
class FinalWindows:
    """Windows that are final, and the rows that start in them.

    ``start``, ``end``, ``key`` ``int64[w]``: each window once, in order of (end, key). ``window``,
    ``row`` ``int64[p]``: row number ``row[i]`` starts in window number ``window[i]``, in order of
    window and start. A window that reaches ``MAX_TIME`` never ends.
    """

    start: Int64s
    end: Int64s
    key: Int64s
    window: Int64s
    row: Int64s

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.start)


class Waits(Stateful):
    """Times since which keys wait for the end of a window; the oldest one is wanted.

    Keys begin to wait in order of time, so entries are added at the end. Entries of finished waits
    are skipped at the head, and elsewhere removed when the arrays are full. Holds an entry for each
    unfinished wait, and up to as many more.
    """

    held = MappingProxyType(dict.fromkeys(("_time", "_key", "_done", "_height"), OWNED))

    def __init__(self) -> None:
        self._time = np.zeros(0, np.int64)
        self._key = np.zeros(0, np.int64)
        self._done = self._height = 0

    def add(self, time: Int64s, key: Int64s, since: Int64s) -> None:
        """Add waits; ``since`` is the oldest time that each key still waits for, by key."""
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
        self._time = grow(time[waits], room)
        self._key = grow(key[waits], room)
        return self._height + more

    def keep_selected(self, selection: Selection) -> None:
        """Drop the waits of all keys that are not selected."""
        key = selection.kept["key"].renumber(self._key[self._done : self._height])
        self._time = self._time[self._done : self._height][key >= 0]
        self._key = key[key >= 0]
        self._done, self._height = 0, len(self._key)

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the waits of other keys."""
        its = slice(other._done, other._height)
        mine = slice(self._done, self._height)
        time, key = order.merge(
            self._time[mine], self._key[mine],
            other._time[its], moves.move("key", other._key[its]),
        )  # fmt: skip
        self._time, self._key, self._done, self._height = time, key, 0, len(time)

    def find_first(self, since: Int64s) -> int:
        """Return the oldest time since which a key still waits; the end of time if none does."""
        self._done = find_oldest(self._time, self._key, self._done, self._height, since)
        return int(self._time[self._done]) if self._done < self._height else MAX_TIME


class StartBounds(Stateful):
    """Bounds of windows that hold the rows that start in them, returned when final.

    Its owner calls, for each batch and in this order:

    1. ``take(batch)``: keeps the rows that begin. An end edge sets the end of its row if that is
       still held; a window never waits for it.
    2. ``close(cti)``: returns the windows that are final with the batch's CTI. Their rows can be
       read until the next ``take``: ``payload(numbers)``, ``starts``, ``ends``.
    3. ``cti(t, points=…)``: returns the output CTI, for results that are points at the windows'
       ends or that live for the whole window.

    Holds the rows that a later window may hold; ``rows`` counts them.
    """

    held: Mapping[str, Held] = MappingProxyType({
        "keys": KEYS,
        "_rows": StoredRows(key=KEY, refs={LINK: "row"}),
        "_starts": Entries(),
        "_open": Edges(),
        "_waiting": PART,
    })  # fmt: skip

    def __init__(self, payload: pl.Schema, keys: tuple[str, ...]) -> None:
        self.keys = KeyCoder({key: payload[key] for key in keys})
        self._rows = RowStore([np.int64] * 5, payload)
        self._starts = Queue()
        self._open = OpenEdges()
        self._waiting = Waits()

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return len(self._rows)

    @property
    def starts(self) -> Int64s:
        """The rows' starts, by row number."""
        return self._rows.columns[START]

    @property
    def ends(self) -> Int64s:
        """The rows' known ends, by row number; ``MAX_TIME`` for open rows."""
        return self._rows.columns[END]

    def payload(self, numbers: Int64s) -> Columns:
        """Return the payload of these rows, which may repeat and be in any order."""
        return self._rows.payload(numbers)

    def take(self, batch: EventBatch) -> None:
        """Keep the rows that begin; set the ends of rows that are held already."""
        self._compact()
        closes = (batch.edge != 0) & (batch.end != MAX_TIME)
        if not closes.any():
            self._keep(batch)
            return
        self._keep(batch.take(~closes))
        rows = self._open.close(batch.edge[closes])
        held = rows >= 0
        self._rows.columns[END][rows[held]] = batch.end[closes][held]
        self._rows.columns[EDGE][rows[held]] = 0

    def _keep(self, batch: EventBatch) -> None:
        key = self.keys.encode(batch.columns)
        self._grow(len(self.keys))
        columns = [batch.start, batch.end, key, np.full(len(batch), -1, np.int64), batch.edge]
        numbers = self._rows.append(columns, batch.columns)
        self._starts.push(batch.start, numbers)
        opens = batch.edge != 0
        if opens.any():
            self._open.open(batch.edge[opens], numbers[opens])

    def close(self, cti: int) -> FinalWindows:
        """Return the windows that are final with this CTI."""
        _, due = self._starts.pop_due(cti)
        return self._close(cti, due)

    def cti(self, cti: int, *, points: bool) -> int:
        """Return the output CTI for a CTI; call it after ``close``."""
        if points or cti == MAX_TIME:
            return cti
        return min(cti, self._waiting.find_first(self._since))

    def find_hold(self) -> Hold:
        """Return the keys that wait for the end of a window."""
        return Hold.find(self.keys, self._since)

    def forget_keys(self, cti: int) -> None:
        """Forget keys that no later row's window depends on after a CTI, if the keys are many."""

        def mark(held: Bools) -> None:
            self._rows.mark_keys(KEY, held)
            self._mark_keys(held, cti)

        self.forget_unused(self.keys, mark)

    def _release(self, rows: Int64s) -> None:
        self._rows.release(rows)
        edges = self._rows.columns[EDGE][rows]
        if edges.any():
            self._open.close(edges[edges != 0])

    def _compact(self) -> None:
        new = self._rows.compact()
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
        """The oldest start of each key's open window, by key; the end of time if it has none."""
        raise NotImplementedError

    def _grow(self, keys: int) -> None:
        """Make room for so many keys."""
        raise NotImplementedError

    def _mark_keys(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys whose past windows matter for later rows."""
        raise NotImplementedError

    def _close(self, cti: int, due: Int64s) -> FinalWindows:
        """Return the windows that are final; ``due``: the rows committed now, in order of start."""
        raise NotImplementedError

    def _renumber(self, new: Int64s, keys: Int64s) -> None:
        """Update to new row numbers; ``keys`` has the key of each remaining row."""
        raise NotImplementedError

    def _in_order(
        self, start: Int64s, end: Int64s, key: Int64s, head: Int64s, count: Int64s
    ) -> FinalWindows:
        order = np.lexsort((key, end))
        listed = follow_links(head[order], count[order], self._rows.columns[LINK])
        return FinalWindows(start[order], end[order], key[order], *listed)


class FinalWindowStep(Stateful):
    """Base of steps over windows of which each leaves once, when it is final."""

    def __init__(self, schema: pl.Schema, *, points: bool) -> None:
        self._types = ResultTypes(schema)
        self._points = points

    def _make_none(self, cti: int) -> EventBatch:
        self.windows = NO_TIMES[:2]
        return EventBatch(*NO_TIMES, self._types.empty, cti)

    def _make_batch(
        self, start: Int64s, end: Int64s, keys: Columns, made: ResultRows, cti: int
    ) -> EventBatch:
        """Return the results of windows with these lifetimes and keys."""
        if made.of is not None:
            start, end, keys = start[made.of], end[made.of], keys.take(made.of)
        windows = start, end
        if self._points:
            start, end = end, np.minimum(end + TICK, MAX_TIME)
        elif made.lifetimes is not None:
            start, end = made.lifetimes
        payload = self._types.cast([*keys.columns, *made.columns], len(start))
        result = EventBatch.of_rows(start, end, payload, cti)
        # a window that reaches the end of time has no point there
        there = result.start < MAX_TIME
        self.windows = windows[0][there], windows[1][there]
        return result.take(there)


class StartWindowStep(FinalWindowStep):
    """Computes the results of windows from the rows that start in them.

    Holds the rows that a later window may hold.
    """

    held = MappingProxyType({"_bounds": PART})

    def __init__(
        self,
        bounds: StartBounds,
        results: Callable[[], WindowResults],
        schema: pl.Schema,
        *,
        points: bool,
        by_time: bool = False,
    ) -> None:
        super().__init__(schema, points=points)
        self._bounds = bounds
        self._by_time = by_time
        self._results = results

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return self._bounds.rows

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys of open windows, whose results begin at the starts of these."""
        return [] if self._points else [self._bounds.find_hold()]

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that start, and return the results of the windows that are final."""
        self._bounds.take(batch)
        found = self._bounds.close(batch.cti)
        cti = self._bounds.cti(batch.cti, points=self._points)
        result = self._make_result(found, cti)
        self._bounds.forget_keys(batch.cti)
        return result

    def _make_result(self, found: FinalWindows, cti: int) -> EventBatch:
        if not len(found):
            return self._make_none(cti)
        keys = self._bounds.keys.decode(found.key)
        return self._make_batch(found.start, found.end, keys, self._compute(found), cti)

    def _compute(self, found: FinalWindows) -> ResultRows:
        """Compute the results of each window from its rows."""
        results = self._results()
        payload = self._bounds.payload(found.row)
        pairs, count = len(found.row), len(found)
        at, alive = np.full(count, pairs), np.bincount(found.window, minlength=count)
        no = np.zeros(count, np.int64)
        windows = Windows(found.start, found.end, no, np.arange(count), at, alive)
        # to the aggregates each pair of a window and a row is a row, with the window as its key
        changes = Changes(np.arange(pairs) << BITS | LAST, found.window)
        if self._by_time:
            payload = self._add_overlap(payload, found)
        own = make_arrays(results.columns(payload), results.dtypes, pairs)
        swept = results.sweep(windows, changes, own, count)
        contents = None
        if results.lists:
            contents = Contents.from_pairs(
                found.window, payload.frame, self._bounds.starts[found.row],
                self._bounds.ends[found.row], found.start, found.end,
            )  # fmt: skip
        return results.compute(swept, contents)

    def _add_overlap(self, payload: Columns, found: FinalWindows) -> Columns:
        """Return the payload with the fields that aggregates by time read."""
        start = self._bounds.starts[found.row]
        end = np.minimum(self._bounds.ends[found.row], found.end[found.window])
        fields: list[Column] = [start, end - start, measure_cover(found.window, start, end)]
        schema = add_overlap(payload.schema)
        return Columns(schema, [*payload.columns, *fields], payload.height)
