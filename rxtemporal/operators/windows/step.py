"""Windows along an axis: one sweep finds the windows, further sweeps compute the results."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Self, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import NO_FIELDS, Coded, Column, Columns, Repeated, concat_columns
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.engine.codec import Captured, Saved
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.holdings import (
    KEYS,
    NEXT_EDGE,
    PART,
    SAME,
    ByKey,
    Edges,
    Entries,
    Hold,
    Moves,
    Selection,
    StoredRows,
)
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.order import merge
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import RowStore, grow, relink
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.operators.windows.aggregates import Changes
from rxtemporal.operators.windows.bounds import (
    NO_TIMES,
    NOTHING_DUE,
    OWN_AXIS,
    Axis,
    Bounds,
    Due,
    Windows,
)
from rxtemporal.operators.windows.field_values import ResultTypes, make_arrays
from rxtemporal.operators.windows.kernels.changes import (
    BITS,
    ENDS,
    LAST,
    list_rows,
    list_single_rows,
    release_done,
)
from rxtemporal.operators.windows.kernels.ranks import collect_rows, drop_beaten, rank_rows
from rxtemporal.operators.windows.results import Swept, TopKResults, WindowResults
from rxtemporal.operators.windows.rows import Contents

# so many rows, or batches, are taken up at once
ROWS, BATCHES = 4096, 64
# rows of windows that are read one by one at a time, a row as often as windows hold it
MOST_PAIRS = 1 << 20
# the values that are read of each row; True stands for an array filled with it
Values: TypeAlias = Sequence[Any]
# the columns of the keys, or one column of their numbers
Keys: TypeAlias = Sequence[Column | Repeated] | Sequence[Coded]
# the starts of a batch, its ends (None: all rows are points), and True if it is in order
Times: TypeAlias = tuple[Int64s, Int64s | None, bool]


class SmallBatches:
    """Batches without edges whose rows wait, in the order in which they came.

    Of each it keeps the times, the columns of the keys, and the values that are read of each row.
    """

    __slots__ = ("_lowest", "_parts", "count")

    def __init__(self) -> None:
        self._parts: list[tuple[Times, Sequence[Column | Coded], Values]] = []
        # the lowest start of so many of these parts
        self._lowest: tuple[list[Any], int, int] = self._parts, 0, MAX_TIME
        # the number of rows
        self.count = 0

    @property
    def is_full(self) -> bool:
        """True if so many wait that more would make nothing cheaper."""
        return self.count >= ROWS or len(self._parts) >= BATCHES

    @property
    def earliest(self) -> EventBatch | None:
        """A point at the start of the earliest row, without fields; None if no row waits."""
        parts, (known, count, lowest) = self._parts, self._lowest  # the step may be running
        if known is not parts:
            count, lowest = 0, MAX_TIME
        for (start, _, in_order), *_ in (new := parts[count:]):
            lowest = min(lowest, start.item(0) if in_order else int(start.min()))
        self._lowest = parts, count + len(new), lowest
        return _make_batch(np.array([lowest]), None) if lowest < MAX_TIME else None

    def add(self, batch: EventBatch, keys: Keys, values: Values) -> None:
        """Add the rows of a batch, of which there is one at least."""
        end = None if batch.are_points else batch.end
        spread = [key.spread() if isinstance(key, Repeated) else key for key in keys]
        self._parts.append(((batch.start, end, batch.in_order), spread, values))
        self.count += len(batch.start)

    def concat(self, *, coded: bool) -> tuple[EventBatch, list[Any], list[Any]]:
        """Return all rows as one batch without fields, their keys, and the values.

        ``coded``: of the keys there are numbers, for each batch.
        """
        times, keys, values = zip(*self._parts, strict=True)
        each = zip(*keys, strict=True)
        return (
            _concat_times(times),
            [number for (number,) in keys] if coded else [concat_columns(part) for part in each],
            [_concat_values(columns, times) for columns in zip(*values, strict=True)],
        )

    def clear(self) -> None:
        """Drop all rows."""
        self._parts, self.count = [], 0
        self._lowest = self._parts, 0, MAX_TIME


def _make_batch(start: Int64s, end: Int64s | None, *, in_order: bool = True) -> EventBatch:
    return EventBatch(start, end, None, Columns(NO_FIELDS, [], len(start)), 0, (), in_order)


def _concat_times(times: Sequence[Times]) -> EventBatch:
    """Return a batch of all rows, without fields."""
    starts = [start for start, _, _ in times]
    in_order = all(each for _, _, each in times) and all(
        after[0] >= before[-1] for before, after in itertools.pairwise(starts)
    )
    ends = None
    if any(end is not None for _, end, _ in times):
        ends = np.concatenate([start + TICK if end is None else end for start, end, _ in times])
    return _make_batch(np.concatenate(starts), ends, in_order=in_order)


def _concat_values(columns: Sequence[Any], times: Sequence[Times]) -> Any:
    """Return the values of all rows, in order; ``times`` says how many each batch has."""
    filled = [column is True for column in columns]
    if all(filled):
        return True
    if any(filled):
        each = zip(columns, times, strict=True)
        columns = [np.ones(len(t[0]), np.bool_) if values is True else values for values, t in each]
    return np.concatenate(columns)


# first columns of the rows that are held; those of the results follow
KEY, START, END, AFTER, BEFORE = range(5)
# rows that begin, their keys, and the values that are read of each row
NewRows: TypeAlias = tuple[EventBatch, Keys, Sequence[Any]]


def _split(alive: Int64s) -> list[tuple[int, int]]:
    """Return the bounds of parts of windows that hold so many rows each, of few pairs."""
    pairs = np.cumsum(alive)
    cuts, done = [0], 0
    while cuts[-1] < len(alive):
        end = int(np.searchsorted(pairs, done + MOST_PAIRS, side="right"))
        cuts.append(max(end, cuts[-1] + 1))
        done = int(pairs[cuts[-1] - 1])
    return [*itertools.pairwise(cuts)] or [(0, 0)]


class WindowStep(Stateful):
    """Computes results over windows of rows with starts and ends, for all keys at once.

    A row's start and its end are two changes, at their places on the bounds' axis; those below the
    bounds' limits are swept in order. A window that has begun and not ended by then leaves as a
    start edge, and the change that ends it closes that edge.

    Holds the rows that have not ended before the CTI, and for each key with rows its running
    aggregates and open window. A batch costs the changes that are due, not the rows alive. Rows of
    small batches with which no window ends are taken up together, and rows of which all changes
    are due at once are not held.
    """

    held = MappingProxyType({
        "_keys": KEYS,
        "_bounds": PART,
        "_results": PART,
        "_rows": StoredRows(key=KEY),
        "_begins": Entries(bits=BITS),
        "_ends": Entries(bits=BITS),
        "_open": Edges(),
        "_head": ByKey(-1, refs="row"),
        "_open_results": SAME,
        "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(
        self,
        bounds: Bounds,
        results: WindowResults,
        payload: pl.Schema,
        schema: pl.Schema,
        keys: tuple[str, ...],
        *,
        points: bool = False,
    ) -> None:
        self._keys = KeyCoder({key: payload[key] for key in keys})
        self._points = points
        self._bounds = bounds
        self._results = results
        self._types = ResultTypes(schema)
        self._lists = results.lists
        self._span = bounds.span if results.once else 0
        own: list[Any] = [np.int64] * 5 if self._lists else [np.int64]
        if self._lists:
            listed = StoredRows(key=KEY, refs={AFTER: "row", BEFORE: "row"})
            self.held = MappingProxyType({**self.held, "_rows": listed})
        self._own = len(own)
        self._rows = RowStore([*own, *results.dtypes], payload if self._lists else None)
        # not held: a state is saved once they are taken up
        self._waiting = SmallBatches()
        # True if their keys are codes
        self._is_coded = False
        self._begins, self._ends = Queue(), Queue()
        self._open = OpenEdges()
        self._head = np.zeros(0, np.int64)
        # results emitted as start edges: the id of the first and, unless it can be computed again,
        # their payload; by window
        self._open_results: dict[int, Any] = {}
        self._next_edge = 1

    @property
    def rows(self) -> int:
        """The number of rows that wait: those held, and those that are only added up by now."""
        return len(self._rows) + self._waiting.count + self._bounds.pending

    @property
    def next_due(self) -> int | None:
        """The CTI with which a window may next become known."""
        # a step that runs may take up the rows that wait: they are read first
        waiting = self._waiting.earliest
        at = find_earliest_due([self._begins, self._ends])
        if waiting is not None:
            place = int(self._bounds.find_changes(waiting, 0, False, 0)[0][0, 0])
            at = place if at is None else min(at, place)
        return self._bounds.find_next_due(at)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that begin, end, or both; return the results that are known now."""
        limits, waits = self._bounds.limits(batch.cti), self._bounds.ends_none(batch.cti)
        due = self._take(batch, limits[0], waits)
        if due is None and not waits:  # many changes at once cost less
            due = self._pop_due(limits)
        if due is None:
            return self._make_none(batch.cti)
        keys, span = len(self._keys), self._span
        sums = self._results.prepare_sum(due.values, span, keys) if span else None
        windows = self._bounds.cut(due, keys, batch.cti, sums)
        self._waiting.clear()  # only now, for those who ask while the step runs
        if not len(due.at) and not len(windows):
            return self._make_none(batch.cti)
        result = self._make_result(windows, due, batch.cti)
        self._forget(due.changes.what)
        self.forget_unused(self._keys, self._mark_keys)
        return result

    def find_holds(self, cti: int) -> list[Hold]:
        """Return the keys of the windows that have to end before the output CTI goes on."""
        since = self._bounds.find_since()
        return [] if since is None else [Hold.find(self._keys, since)]

    def _make_none(self, time: int) -> EventBatch:
        return EventBatch(*NO_TIMES, self._types.empty, self._bounds.cti(time))

    def _pop_due(self, limits: tuple[int, int]) -> Due:
        """Return the changes of the rows held that are due."""
        at, what = merge(*self._begins.pop_due(limits[0]), *self._ends.pop_due(limits[1]))
        columns = self._rows.arrays
        values = [freeze(column) for column in columns[self._own :]]
        return Due(at, Changes(what, columns[KEY], self._span), values)

    def capture(self) -> Captured:
        """Return the state, in which no row waits to be taken up."""
        self.take_up()
        return super().capture()

    def load(self, data: Saved) -> None:
        """Continue from a saved state."""
        super().load(data)
        self.forget_waiting()

    def forget_waiting(self) -> None:
        """Drop the rows that wait to be taken up, which another state has replaced."""
        self._waiting.clear()

    def keep_selected(self, selection: Selection) -> None:
        """Drop the state of all keys that are not selected."""
        self.take_up()
        super().keep_selected(selection)
        mine = self._bounds.list_open_windows() if self._open_results else ()
        self._open_results = {w: made for w, made in self._open_results.items() if w in mine}

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the state of other keys."""
        self.take_up()
        other.take_up()
        super().merge_from(other, moves)
        self._open_results |= other._open_results

    def _take(self, batch: EventBatch, limit: int, waits: bool) -> Due | None:
        """Take up rows; return their changes if all are due at once, and no other row is held."""
        if self._lists or batch.has_edges:
            self.take_up()
            if len(batch):
                self._keep_edges(batch)
            return None
        new = self._collect(batch, waits)
        if new is None:
            return None
        due = self._begin(*new, limit)
        if due is None:
            self._waiting.clear()
        return due

    def _collect(self, batch: EventBatch, waits: bool) -> NewRows | None:
        """Return the rows to take up now; None if there are none, or if they wait for others.

        Those that have waited stay there until they are taken up.
        """
        waiting = self._waiting
        if len(batch):
            keys, values = self._select_keys(batch.columns), self._results.columns(batch.columns)
            if not (waiting.count or (waits and len(batch) < ROWS)):
                return batch, keys, values
            waiting.add(batch, keys, values)
        if not waiting.count or (waits and not waiting.is_full):
            return None
        return waiting.concat(coded=self._is_coded)

    def _select_keys(self, rows: Columns) -> Keys:
        """Return the columns of the keys, or their numbers if somebody has numbered them.

        Rows that wait have all the one or all the other.
        """
        coded = rows.coded
        is_coded = coded is not None and bool(self._keys.names) and coded.names == self._keys.names
        if is_coded is not self._is_coded:
            self.take_up()
            self._is_coded = is_coded
        if coded is None or not is_coded:
            return self._keys.select(rows)
        return [coded]

    def take_up(self) -> None:
        """Keep the rows that wait for others."""
        if self._waiting.count:
            self._begin(*self._waiting.concat(coded=self._is_coded))
            self._waiting.clear()

    def _keep_edges(self, batch: EventBatch) -> None:
        """Keep the rows that begin, and end those kept earlier of which there are end edges."""
        self._is_coded = False  # no row waits
        closes = batch.find_ends()
        begins = batch if closes is None else batch.take(~closes)
        columns = begins.columns
        self._begin(begins, self._keys.select(columns), self._results.columns(columns))
        if closes is None:
            return
        ended = batch.take(closes)
        rows = self._open.close(ended.edge)
        ends = self._bounds.find_ends(ended)
        self._ends.push(ends, (rows << BITS) | ENDS | LAST)
        if self._lists:
            self._rows.columns[END][rows] = ended.end

    def _begin(
        self,
        batch: EventBatch,
        keys: Keys,
        values: Sequence[Any],
        limit: int = NOTHING_DUE,
    ) -> Due | None:
        """Keep rows that begin, with these values, and queue their starts and ends.

        If no row is held and all changes are due, which is so below ``limit``, keep nothing and
        return the changes. Without ``limit`` no change is.
        """
        n, first = len(batch), self._rows.height
        each: Sequence[Any] = keys
        if self._is_coded:
            key: Int64s = self._keys.translate(*each)
        else:
            key = self._keys.encode_columns(each) if keys else np.zeros(n, np.int64)
        if not first and self._span:
            due = self._bounds.find_due_rows(batch, limit)
            if due is not None:
                at, axis = due
                return self._make_due(at, list_single_rows(n), key, values, axis)
        if not batch.has_edges:
            batch, key, values = self._choose(batch, key, values)
            n = len(batch)
        begins, ends, in_order = self._bounds.find_changes(batch, first, self._lists, self._span)
        if not first and in_order and not ends.size and begins[0, -1] < limit:
            return self._make_due(begins[0], begins[1], key, values)
        own: list[Any] = [key]
        if self._lists:
            none = np.full(n, -1, np.int64)
            own += [batch.start, batch.end, none, none]
        self._rows.extend([*own, *values], batch.columns if self._lists else None)
        if batch.has_edges:
            opens = np.flatnonzero(batch.edge)
            self._open.open(batch.edge[opens], first + opens)
        self._begins.push(begins[0], begins[1], in_order=in_order)
        self._ends.push(ends[0], ends[1])
        return None

    def _choose(
        self, batch: EventBatch, key: Int64s, values: Sequence[Any]
    ) -> tuple[EventBatch, Int64s, Sequence[Any]]:
        """Return the rows that results may depend on, their keys and values."""
        stays = self._results.find_contenders(batch, key, values, self._bounds.find_places)
        if stays is None:
            return batch, key, values
        if self._lists:
            return batch.take(stays), key[stays], values
        rows = stays.nonzero()[0]
        # the payload is not needed
        batch = _make_batch(batch.start.take(rows), batch.end.take(rows), in_order=batch.in_order)
        return batch, key.take(rows), [each if each is True else each.take(rows) for each in values]

    def _make_due(
        self,
        at: Int64s,
        what: Int64s,
        key: Int64s,
        values: Sequence[Any],
        axis: Axis = OWN_AXIS,
    ) -> Due:
        arrays = make_arrays(values, self._results.dtypes, len(key))
        return Due(at, Changes(what, key, self._span), arrays, axis)

    def _make_result(self, windows: Windows, due: Due, time: int) -> EventBatch:
        swept = self._results.sweep(windows, due.changes, due.values, len(self._keys))
        cti = self._bounds.cti(time)
        if isinstance(self._results, TopKResults):
            return self._rank_results(self._results, windows, due.changes).replace(cti=cti)
        if self._lists:
            return self._list_results(swept, windows, due.changes).replace(cti=cti)
        if not len(windows):
            return EventBatch(*NO_TIMES, self._types.empty, cti)
        made = self._results.compute(swept, None)
        payload = self._add_keys(made.columns, windows.key)
        return EventBatch(*self._lifetimes(windows), windows.edge, payload, cti)

    def _lifetimes(self, windows: Windows) -> tuple[Int64s, Int64s]:
        """Return the lifetimes of results: the windows' own, or points at their ends."""
        return (windows.end, windows.end + TICK) if self._points else (windows.start, windows.end)

    def _add_keys(self, columns: Sequence[Column], key: Int64s) -> Columns:
        """Return a payload with the keys first, in the types of the output schema."""
        return self._types.cast([*self._keys.take(key), *columns], len(key))

    def _list_results(self, swept: Swept, windows: Windows, changes: Changes) -> EventBatch:
        """Return the results of windows whose rows are read one by one.

        The results of a window that leaves as a start edge are kept until it ends, since a user's
        code may return something else when called again.
        """
        self._head = grow(self._head, len(self._keys), -1)
        is_end = windows.is_end
        made = [self._close_window(windows, w) for w in np.flatnonzero(is_end).tolist()]
        times = [(each.start, each.end) for each in made]
        new = windows.take(~is_end)
        swept = [None if s is None else s[~is_end] for s in swept]
        columns = self._rows.columns
        applied = 0
        # a part at a time, since many windows that hold many rows each would fill the memory
        for begin, end in _split(new.alive):
            upto = len(changes.what) if end == len(new) else int(new.at[end - 1])
            part = slice(begin, end)
            pairs = list_rows(
                changes.what[applied:upto], changes.key, new.at[part] - applied, new.key[part],
                self._head, columns[AFTER], columns[BEFORE],
            )  # fmt: skip
            applied = upto
            if end > begin:
                values = [None if s is None else s[part] for s in swept]
                opened, of = self._open_windows(values, new.take(part), *pairs)
                made.append(opened)
                times.append((new.start[part][of], new.end[part][of]))
        if not made:
            self.windows = None
            return EventBatch(*NO_TIMES, self._types.empty, 0)
        starts, ends = zip(*times, strict=True)
        self.windows = np.concatenate(starts), np.concatenate(ends)
        return EventBatch.concat(made)

    def _close_window(self, windows: Windows, w: int) -> EventBatch:
        first, payload = self._open_results.pop(int(windows.edge[w]))
        ids = np.arange(first, first + payload.height)
        start = np.full(len(ids), windows.start[w])
        return EventBatch(start, np.full(len(ids), windows.end[w]), ids, payload, 0)

    def _open_windows(
        self, swept: Swept, windows: Windows, window: Int64s, row: Int64s
    ) -> tuple[EventBatch, Int64s]:
        """Return the results of windows, and for each the number of its window."""
        columns, rows = self._rows.columns, self._rows.payload(row).frame
        held = Contents.from_pairs(
            window, rows, columns[START][row], columns[END][row], windows.start, windows.end
        )
        made = self._results.compute(swept, held)
        of = np.arange(len(windows)) if made.of is None else made.of
        payload = self._add_keys(made.columns, windows.key[of])
        opens = windows.edge[of] != 0
        ids = np.where(opens, self._next_edge + np.cumsum(opens) - 1, 0)
        self._next_edge += int(opens.sum())
        for w in np.flatnonzero(windows.edge != 0).tolist():
            first, end = np.searchsorted(of, [w, w + 1]).tolist()
            mine = payload.slice(first, end)
            self._open_results[int(windows.edge[w])] = int(ids[first]) if len(mine) else 0, mine
        start, end = (times[of] for times in self._lifetimes(windows))
        if made.lifetimes is not None and not self._points:
            start, end = made.lifetimes
        return EventBatch(start, end, ids, payload, 0), of

    def _rank_results(self, results: TopKResults, windows: Windows, changes: Changes) -> EventBatch:
        """Return the best rows of windows.

        The rows of the keys that have windows are sorted once. Those that no later window may have
        among its best are released.
        """
        self._head = grow(self._head, len(self._keys), -1)
        columns = self._rows.columns
        lists = self._head, columns[AFTER], columns[BEFORE]
        keys, slots, rows, slot, before = collect_rows(
            changes.what, changes.key, windows.key, *lists
        )
        if not len(windows):
            return EventBatch(*NO_TIMES, self._types.empty, 0)

        def read(names: Sequence[str], numbers: Int64s | None) -> Sequence[Column]:
            return self._rows.fields(rows if numbers is None else rows[numbers], names)

        start = columns[START][rows]
        order, tie, base = results.sort(slot, len(keys), start, rows, read)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        rows = rows[order]
        (window, row, rank), there = rank_rows(
            changes.what, changes.key, windows.at, windows.key, keys, slots, rows, before, base,
            tie, place, results.k,
        )  # fmt: skip
        made = self._make_ranked(results, windows, window, row, rank)
        if self._bounds.end_by_time and not len(self._open):
            end = columns[END]
            self._rows.release(drop_beaten(keys, rows, base, tie, there, end, results.k, *lists))
        return made

    def _make_ranked(
        self, results: TopKResults, windows: Windows, window: Int64s, row: Int64s, rank: Int64s
    ) -> EventBatch:
        """Return the results of windows: the rows, with their ranks.

        A window that ends after it has left as start edges has the same results again, in the same
        order.
        """
        count = np.bincount(window, minlength=len(windows))
        begin = np.cumsum(count) - count
        edge, is_end = windows.edge, windows.is_end
        opens = (edge != 0) & ~is_end
        opened = np.where(opens, count, 0)
        first = self._next_edge + np.cumsum(opened) - opened
        self._next_edge += int(opened.sum())
        first[is_end] = [self._open_results.pop(each) for each in edge[is_end].tolist()]
        self._open_results.update(zip(edge[opens].tolist(), first[opens].tolist(), strict=True))
        ids = np.where(edge[window] != 0, (first - begin)[window] + np.arange(len(window)), 0)
        columns = results.add_ranks(self._rows.fields(row, results.fields), rank)
        payload = self._add_keys(columns, windows.key[window])
        start, end = (times[window] for times in self._lifetimes(windows))
        return EventBatch(start, end, ids, payload, 0)

    def _mark_keys(self, held: Bools) -> None:
        self._rows.mark_keys(KEY, held)
        self._bounds.mark_keys(held)

    def _forget(self, what: Int64s) -> None:
        """Release the rows that are not needed any more, and renumber if most are released."""
        waits = self._begins.has_entries or self._ends.has_entries or self._lists or len(self._open)
        if not waits:  # then no row is needed
            self._rows.clear()
            return
        self._rows.release_by(release_done, what)
        new = self._rows.compact()
        if new is None:
            return
        self._begins.renumber(new, BITS)
        self._ends.renumber(new, BITS)
        if len(self._open):
            self._open.renumber(new)
        if self._lists:
            columns = self._rows.columns
            relink(new, columns[KEY], self._head, columns[AFTER], columns[BEFORE])
