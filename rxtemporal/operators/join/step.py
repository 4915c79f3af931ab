"""Temporal joins: each pair of rows that meet becomes a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.columns import Column, Columns, Demand, RepeatingColumns
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.expressions.evaluator import Predicate
from rxtemporal.engine.holdings import (
    LATEST,
    NEXT_EDGE,
    OWNED,
    PART,
    ByKey,
    Edges,
    Entries,
    Moves,
    Selection,
    StoredRows,
)
from rxtemporal.engine.kernels.order import is_sorted, merge
from rxtemporal.engine.kernels.rows import number_repeated
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.engine.open_rows import OpenEdges
from rxtemporal.engine.rows import LARGE, RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.join.kernel import (
    NOT_LISTED,
    close_pairs,
    find_pairs,
    release_ended,
    remember_pairs,
    renumber_lists,
)

PLACES = 8
# fewer pairs are not searched for shared rows; rows are shared if each is in at least so many pairs
# on average
MANY_PAIRS, SHARED = 4096, 4
# after so many results whose shared rows nobody has used, one in so many is searched for them
MOST_UNUSED, SELDOM = 4, 64

_NONE: Int64s = np.empty(0, np.int64)
NONE_EQUAL: Mapping[str, str] = MappingProxyType({})


class NewPairs(NamedTuple):
    """Pairs that meet from ``start`` on, ``int64[p]``: row numbers of both sides.

    ``end`` is the pair's end if that is ``certain``, else the end of time. ``certain`` is None if
    all ends are. The row numbers are overwritten by the next search.
    """

    left: Int64s
    right: Int64s
    start: Int64s
    end: Int64s
    certain: Bools | None = None

    def take(self, which: Bools) -> NewPairs:
        """Return some of them."""
        return NewPairs(
            self.left[which], self.right[which], self.start[which], self.end[which],
            None if self.certain is None else self.certain[which],
        )  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class EndedPairs:
    """Pairs whose end has become certain, ``int64[c]``: row numbers, id and end."""

    left: Int64s
    right: Int64s
    edge: Int64s
    end: Int64s


class Pairs(Stateful):
    """Pairs of rows of two inputs that meet, by key, in order of time.

    Rows begin when both CTIs have passed their starts, and then meet the rows of the other side
    that are alive. A pair's end is the earlier of its rows' ends; while that is not certain, the
    pair is remembered under the id that its owner gives it.

    Holds rows until they have ended before the CTI, and pairs whose end is not certain.
    """

    held = MappingProxyType(dict.fromkeys(("kept", "_pairs", "_ended"), OWNED))

    def __init__(
        self, payloads: tuple[pl.Schema | None, pl.Schema | None], *, tagged: bool = False
    ) -> None:
        self.sides = Side(payloads[0], tagged=tagged), Side(payloads[1], tagged=False)
        # the lower of the two CTIs
        self.cti = MIN_TIME
        self._pairs = np.zeros((PLACES, 1), np.int64)
        # row numbers of the pairs found last, and room for the next ones
        self._found = np.empty((2, 64), np.int64)
        # for each side the rows closed since the last commit
        self._ended: list[Int64s] = [_NONE, _NONE]

    @property
    def kept(self) -> tuple[Side, Side]:
        """The sides, to be saved; rows that have ended are removed first."""
        for number, side in enumerate(self.sides):
            self._compact(number)
            side.queue_waiting()
        return self.sides

    @kept.setter
    def kept(self, sides: tuple[Side, Side]) -> None:
        self.sides = sides
        for side in sides:
            side.restart()
        self.cti = min(side.cti for side in sides)

    @property
    def output_cti(self) -> int:
        """The CTI of what is made of the pairs."""
        return self.cti

    def keep_selected(self, selection: Selection) -> None:
        """Drop the rows of all keys that are not selected, and their pairs."""
        if selection.all_rows_stay:
            for side in self.sides:
                side.keep_selected(selection)
            return
        sides, pairs = self.kept, self._list_pairs()
        kept = []
        for side in sides:
            nested = selection.nest()
            side.keep_selected(nested)
            kept.append(nested.kept["row"])
        self.kept = sides
        left, right, edges = pairs
        self._set_pairs(kept[0].renumber(left), kept[1].renumber(right), edges)
        ended = [each.renumber(rows) for each, rows in zip(kept, self._ended, strict=True)]
        self._ended = [rows[rows >= 0] for rows in ended]

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the rows of other keys, and their pairs."""
        sides, pairs, theirs = self.kept, self._list_pairs(), other._list_pairs()
        for number, (side, its) in enumerate(zip(sides, other.kept, strict=True)):
            nested = moves.nest()
            side.merge_from(its, nested)
            theirs[number] = nested.move("row", theirs[number])
            ended = nested.move("row", other._ended[number])
            self._ended[number] = np.concatenate([self._ended[number], ended])
        self.kept = sides
        left, right, edges = np.concatenate([pairs, theirs], axis=1)
        self._set_pairs(left, right, edges)

    def _list_pairs(self) -> Int64s:
        """Return left rows, right rows and ids of the pairs that are remembered."""
        return self._pairs[:3, self._find_used()]

    def _set_pairs(self, left: Int64s, right: Int64s, edges: Int64s) -> None:
        """Remember these pairs alone; those of which a row is gone are passed over."""
        for first in self._both(FIRST):
            first[:] = -1
        self._pairs = np.zeros((PLACES, 1), np.int64)
        stay = (left >= 0) & (right >= 0)
        self._make_room(len(left))
        remember_pairs(left[stay], right[stay], edges[stay], self._both(FIRST), self._pairs)

    @property
    def has_ended(self) -> bool:
        """True if an end edge has closed a row since the last commit."""
        left, right = self._ended
        return len(left) > 0 or len(right) > 0

    def __len__(self) -> int:
        return sum(len(side.list_ends(self.cti)) for side in self.sides)

    @property
    def next_due(self) -> int | None:
        """The earliest start or end that waits for the CTI; None if nothing waits."""
        cti = self.cti
        times = [side.next_start for side in self.sides]
        times += [int(ends.min()) for side in self.sides if len(ends := side.list_ends(cti))]
        return min((time for time in times if time is not None and time < MAX_TIME), default=None)

    def take(self, side: int, batch: EventBatch, key: Int64s, tag: Int64s | None = None) -> None:
        """Take a batch of one side; left rows may have a tag."""
        ended = self.sides[side].take(batch, key, tag)
        if len(ended):
            self._ended[side] = _join(self._ended[side], ended)
        other = self.sides[1 - side].cti
        self.cti = batch.cti if batch.cti < other else other

    def mark_keys(self, held: Bools) -> None:
        """Set ``held`` to True for the keys of the rows held."""
        for side in self.sides:
            side.release_ended(self.cti)
            side.rows.mark_keys(KEY, held)

    @property
    def rows(self) -> tuple[RowStore, RowStore]:
        """The rows of both sides."""
        return self.sides[0].rows, self.sides[1].rows

    def column(self, side: int, which: int) -> Any:
        """Return a column of one side's rows, by row number."""
        return self.sides[side].rows.columns[which]

    def _both(self, which: int) -> tuple[Any, Any]:
        return self.column(0, which), self.column(1, which)

    def find(self, keys: int) -> NewPairs:
        """Return the pairs that have begun to meet before the CTI."""
        cti = self.cti
        left, right = self.sides
        time, mine, i, n = left.list_waiting(cti)
        other_time, others, j, m = right.list_waiting(cti)
        lists = *left.get_lists(keys), *right.get_lists(keys)
        rows, times = self._found, np.empty((2, self._found.shape[1]), np.int64)
        count, met = 0, -1
        while True:
            i, j, count, met = find_pairs(
                time, mine, i, n, other_time, others, j, m, cti, *lists, rows, times, count, met
            )
            if met < 0:
                break
            # many rows of the side that has fewer meet one other
            room = 2 * count + min(n - i, m - j)
            self._found = rows = grow(rows, room, None)
            times = grow(times, room, None)
        left.note_begun(mine, i)
        right.note_begun(others, j)
        if rows.shape[1] > max(LARGE, 8 * count):  # a burst is over
            self._found = np.empty((2, count + 64), np.int64)
        found = NewPairs(rows[0, :count], rows[1, :count], times[0, :count], times[1, :count])
        return self._find_certain_ends(found) if left.open.count or right.open.count else found

    def _find_certain_ends(self, found: NewPairs) -> NewPairs:
        """Return the pairs, with those ends that are certain."""
        opened = self.column(0, OPENED)[found.left] | self.column(1, OPENED)[found.right]
        certain = ~opened | (found.end <= self.cti)
        end = np.where(certain, found.end, MAX_TIME)
        return found._replace(end=end, certain=certain)

    def remember(self, found: NewPairs, edges: Int64s) -> None:
        """Remember pairs whose end is not certain, under these ids."""
        if not len(found.left):
            return
        self._make_room(len(found.left))
        remember_pairs(found.left, found.right, edges, self._both(FIRST), self._pairs)
        for side, rows in zip(self.sides, (found.left, found.right), strict=True):
            side.queue_ends(rows)

    def _make_room(self, more: int) -> None:
        """Make sure that at least ``more`` places are unused."""
        unused, have = int(self._pairs[7, 0]), self._pairs.shape[1] - 1
        if unused >= more:
            return
        self._pairs = grow(self._pairs, have + 1 + more - unused)
        new = np.arange(have, self._pairs.shape[1] - 1)
        self._pairs[7, unused + 1 : unused + 1 + len(new)] = new
        self._pairs[7, 0] = unused + len(new)

    @property
    def are_remembered(self) -> bool:
        """True if a pair is remembered."""
        return int(self._pairs[7, 0]) < self._pairs.shape[1] - 1

    def close_ended(self) -> EndedPairs | None:
        """Return the remembered pairs whose end is certain now.

        Row numbers stay valid until ``forget``.
        """
        until = self.cti + 1
        over = [
            side.ends.pop_due(until)[1] if side.ends.first < until else _NONE for side in self.sides
        ]
        ended, self._ended = self._ended, [_NONE, _NONE]
        if not self.are_remembered:
            return None
        end, opened, first = map(self._both, (END, OPENED, FIRST))
        parts = [
            close_pairs(_join(*known), number, self.cti, end, opened, first, self._pairs)
            for number, known in enumerate(zip(ended, over, strict=True))
        ]
        left, right, edge = map(np.concatenate, zip(*parts, strict=True))
        return EndedPairs(left, right, edge, np.minimum(end[0][left], end[1][right]))

    def forget(self) -> None:
        """Remove the rows that have ended, once they may be many."""
        for number, side in enumerate(self.sides):
            if side.rows.height >= side.most:
                self._compact(number)

    def _compact(self, number: int) -> None:
        new = self.sides[number].compact(self.cti)
        if new is not None:
            self._renumber(number, new)

    def _renumber(self, number: int, new: Int64s) -> None:
        rows = self._pairs[number]
        used = self._find_used()
        rows[used] = new[rows[used]]

    def _find_used(self) -> Bools:
        """Return the mask of the places of pairs that are in use."""
        used = np.ones(self._pairs.shape[1], np.bool_)
        used[self._pairs[7, 1 : 1 + int(self._pairs[7, 0])]] = False
        used[-1] = False
        return used


def _join(first: Int64s, second: Int64s) -> Int64s:
    """Return two arrays as one."""
    if not len(first):
        return second
    return np.concatenate([first, second]) if len(second) else first


KEY, START, END, AFTER, BEFORE, FIRST, OPENED, TAG = range(8)

# key, end and links of a row that is in no list: kernels look at one even if there is none
_NO_LIST = np.zeros(1, np.int64)
# values of the columns from AFTER on in rows that have not begun
_NEW = -1, NOT_LISTED, -1, False, 0
# rows that have ended are not looked for among fewer rows
MANY_KEPT = 8192


class Side(Stateful):
    """Rows of one input: those that have not begun, and those alive.

    Rows that have not begun are the last ones of the store, in order of start; ``starts`` has those
    that came in another order. ``ends`` has the known ends of rows in pairs that are remembered.
    Rows that have ended are removed together, once twice as many rows are kept as were left by the
    last removal.
    """

    held = MappingProxyType({
        "rows": StoredRows(key=KEY, refs={AFTER: "row", BEFORE: "row", TAG: "left"}),
        "starts": Entries(),
        "ends": Entries(),
        "open": Edges(),
        "head": ByKey(-1, refs="row"),
        "cti": LATEST,
    })  # fmt: skip

    def __init__(self, payload: pl.Schema | None, *, tagged: bool) -> None:
        dtypes = [*[np.int64] * 6, np.bool_, np.int64][: TAG + tagged]
        self.rows = RowStore(dtypes, payload, _NEW[: len(dtypes) - AFTER])
        self.starts, self.ends = Queue(), Queue()
        self.open = OpenEdges()
        self.head = np.zeros(0, np.int64)
        self.cti = MIN_TIME
        self._payload = payload
        # the rows from this number on have not begun, and are in order of start
        self._waiting = 0
        # rows that have ended are looked for when so many are kept
        self.most = MANY_KEPT

    def list_ends(self, cti: int) -> Int64s:
        """Return the ends of the rows that have not ended by the CTI."""
        ends = self.list_last_uses()
        return ends[ends > cti]

    def take(self, batch: EventBatch, key: Int64s, tag: Int64s | None) -> Int64s:
        """Keep the rows that begin; return the numbers of the rows closed by end edges."""
        self.cti = batch.cti
        ends = batch.find_ends()
        if ends is None:
            self.begin(batch, key, tag)
            return _NONE
        self.begin(batch.take(~ends), key[~ends], None if tag is None else tag[~ends])
        # a row without a start edge was never kept
        rows, end = self.open.close(batch.edge[ends]), batch.end[ends]
        rows, end = rows[rows >= 0], end[rows >= 0]
        self.close(rows, end)
        return rows

    def close(self, rows: Int64s, end: Int64s) -> None:
        """Note the ends of rows that were open."""
        columns = self.rows.columns
        columns[END][rows], columns[OPENED][rows] = end, False
        # a row that has not begun has its end queued when it begins
        begun = columns[BEFORE][rows] != NOT_LISTED
        self.ends.push(end[begun], rows[begun])

    def begin(self, batch: EventBatch, key: Int64s, tag: Int64s | None) -> None:
        """Keep rows that begin."""
        if not len(batch):
            return
        height = self.rows.height
        last = self.rows.arrays[START].item(height - 1) if self._waiting < height else MIN_TIME
        in_order = batch.start.item(0) >= last and (batch.in_order or is_sorted(batch.start))
        first = self.rows.extend(
            (key, batch.start, batch.end), None if self._payload is None else batch.columns
        )
        if tag is not None:
            self.rows.columns[TAG][first:] = tag
        if not in_order:
            self.queue_waiting()
        if batch.has_edges:
            opened = np.flatnonzero(batch.edge)
            self.rows.columns[OPENED][first + opened] = True
            self.open.open(batch.edge[opened], first + opened)

    def queue_waiting(self) -> None:
        """Queue the starts of the rows that wait as the last ones of the store."""
        first, height = self._waiting, self.rows.height
        # copied, since the column is written when rows are removed
        self.starts.push(self.rows.columns[START][first:].copy(), np.arange(first, height))
        self._waiting = height

    @property
    def next_start(self) -> int | None:
        """The earliest start of a row that has not begun; None if there is none."""
        queued, last = self.starts.next_due, self.rows.columns[START][self._waiting :]
        if not len(last):
            return queued
        return int(last[0]) if queued is None else min(queued, int(last[0]))

    def list_waiting(self, cti: int) -> tuple[Int64s, Int64s, int, int]:
        """Return starts and numbers of rows that wait, in order of start, and two places.

        All rows that begin before the CTI are between the first place and the second. If there are
        no numbers, the places themselves are the row numbers.
        """
        first, height = self._waiting, self.rows.height
        start: Int64s = self.rows.arrays[START]
        if cti <= self.starts.first:
            return start, _NONE, first, height
        time, rows = self.starts.pop_due(cti)
        self._waiting = upto = first + int(start[first:height].searchsorted(cti))
        time, rows = merge(time, rows, start[first:upto], np.arange(first, upto))
        return time, rows, 0, len(rows)

    def note_begun(self, rows: Int64s, place: int) -> None:
        """Record that of the ``rows`` from ``list_waiting`` those before this place have begun."""
        if not len(rows):
            self._waiting = place

    def get_lists(self, keys: int) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
        """Return key, end and links by row number, and the head of the list of each key.

        There is one row at least, which need not be one of the side's.
        """
        if keys > len(self.head):
            self.head = grow(self.head, keys, -1)
        columns = self.rows.arrays
        if not len(columns[KEY]):  # no row has come
            return _NO_LIST, _NO_LIST, _NO_LIST, _NO_LIST, self.head
        return columns[KEY], columns[END], columns[AFTER], columns[BEFORE], self.head

    def queue_ends(self, rows: Int64s) -> None:
        """Queue the ends of rows in pairs that are remembered, where they are known."""
        columns = self.rows.columns
        end = columns[END][rows]
        known = ~columns[OPENED][rows] & (end != MAX_TIME)
        self.ends.push(end[known], rows[known])

    def release_ended(self, cti: int) -> None:
        """Release the rows that have ended by the CTI."""
        columns = self.rows.columns
        lists = columns[KEY], columns[AFTER], columns[BEFORE], self.head
        self.rows.release_by(
            lambda end, alive: release_ended(end, alive, cti, *lists), self.list_last_uses()
        )

    def list_last_uses(self) -> Int64s:
        """Return for each row number the CTI from which on the row is of no use: its end."""
        ends: Int64s = self.rows.columns[END]
        return ends

    def restart(self) -> None:
        """Continue with rows that have been loaded, all of whose starts are queued."""
        self._waiting = self.rows.height

    def compact(self, cti: int) -> Int64s | None:
        """Remove the rows that have ended, if they are most; return new row numbers, or None."""
        self.release_ended(cti)
        waiting = self.rows.height - self._waiting
        new = self.rows.compact()
        self._waiting = self.rows.height - waiting
        self.most = max(MANY_KEPT, 2 * len(self.rows))
        if new is not None:
            self._renumber(new)
        return new

    def _renumber(self, new: Int64s) -> None:
        for queue in (self.starts, self.ends):
            if len(queue):
                queue.renumber(new)
        if len(self.open):
            self.open.renumber(new)
        columns = self.rows.columns
        renumber_lists(new, columns[KEY], columns[AFTER], columns[BEFORE], self.head)


class JoinedPayload:
    """Payloads of pairs: the fields of one side, then the other's under their new names.

    ``taken`` maps the names in the result to the other side's fields that are kept; ``first`` is
    the number of the side whose fields come first. ``equal`` maps names of fields of the first side
    to the other's fields that have the same values in each pair.

    Where many pairs share few rows of a side, as readings that are joined with devices, its fields
    are made when they are read, and keys among them are looked up once for each of its rows. If
    nobody reads keys so, such rows are seldom searched for.
    """

    def __init__(
        self,
        taken: dict[str, str],
        schema: pl.Schema,
        first: int = 0,
        equal: Mapping[str, str] = NONE_EQUAL,
    ) -> None:
        self._own = list(schema)[: len(schema) - len(taken)]
        self._first = first
        self.schema = schema
        places = {name: place for place, name in enumerate(schema)}
        own = {places[name]: name for name in self._own}
        others = {places[new]: name for new, name in taken.items()}
        # the places of the other's fields that are copied, and those of what they are copied from
        mine = {theirs: name for name, theirs in equal.items()}
        copies = {place: mine[name] for place, name in others.items() if name in mine}
        self._copies = [(place, places[name]) for place, name in copies.items()]
        # for each side the fields that it gives, by place, and all that it can give
        gives = [own, {place: name for place, name in others.items() if place not in copies}]
        can_give = [
            own | copies,
            others | {places[name]: theirs for name, theirs in equal.items()},
        ]
        self._gives, self._can_give = (each[::-1] if first else each for each in (gives, can_give))
        # for each side room to number its rows
        self._seen = [_NONE, _NONE]
        # the side of which pairs have shared few rows
        self._side = 1
        # tells if somebody reads these alone, and for how many large results nobody has
        self._demand, self._unused = Demand(), 0

    def store_as(self, schemas: tuple[pl.Schema, pl.Schema]) -> tuple[pl.Schema, pl.Schema]:
        """Return the types in which each side's rows are held: keys of two types as the wider."""
        left, right = schemas
        first = pl.Schema({name: self.schema[name] for name in self._own})
        return (left, first) if self._first else (first, right)

    def __call__(self, sides: tuple[RowStore, RowStore], left: Int64s, right: Int64s) -> Columns:
        """Return the joined payload of pairs of rows of both sides, by their numbers."""
        columns: list[Any] = [None] * len(self.schema)
        shared = self._find_shared(sides, (left, right))
        if shared is not None:
            side, few, which = shared
            other, numbers = (0, left) if side else (1, right)
            self._fill(columns, sides, other, numbers, skipped=few)
            repeating = RepeatingColumns(columns, few, which, self._demand)
            return Columns(self.schema, repeating, len(left))
        self._fill(columns, sides, 0, left)
        self._fill(columns, sides, 1, right)
        for place, of in self._copies:
            columns[place] = columns[of]
        return Columns(self.schema, columns, len(left))

    def _fill(
        self,
        columns: list[Any],
        sides: tuple[RowStore, RowStore],
        side: int,
        numbers: Int64s,
        skipped: Container[int] = (),
    ) -> None:
        """Fill in the fields of one side, except at the places that are skipped."""
        gives = self._gives[side]
        if skipped:
            gives = {place: name for place, name in gives.items() if place not in skipped}
        taken = sides[side].fields(numbers, [*gives.values()])
        for place, column in zip(gives, taken, strict=True):
            columns[place] = column

    def _find_shared(
        self, sides: tuple[RowStore, RowStore], pairs: tuple[Int64s, Int64s]
    ) -> tuple[int, dict[int, Column], Int64s] | None:
        """Return the side of which the pairs share few rows, their fields, and each pair's row.

        The fields are by place. None if neither side has few rows, or nobody would use them.
        """
        if len(pairs[0]) < MANY_PAIRS:
            return None
        self._unused = 0 if self._demand.take() else self._unused + 1
        if self._unused > MOST_UNUSED and self._unused % SELDOM:
            return None
        for side in (self._side, 1 - self._side):
            few, which = self._find_few(sides[side], side, pairs[side])
            if len(few):
                self._side = side
                names = self._can_give[side]
                fields = sides[side].fields(few, [*names.values()])
                return side, dict(zip(names, fields, strict=True)), which
        return None

    def _find_few(self, store: RowStore, side: int, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return the distinct rows among these, and the place of each row among them.

        If they are not few, return none.
        """
        seen, height = self._seen[side], store.height
        if len(seen) > LARGE and 8 * height < len(seen):  # a burst is over
            seen = _NONE
        self._seen[side] = seen = grow(seen, height, -1)
        few, which = np.empty(len(rows) // SHARED, np.int64), np.empty(len(rows), np.int64)
        count = number_repeated(rows, seen, which, few)
        return few[: max(count, 0)], which


P = TypeVar("P", bound=Pairs)


class PairStep(Stateful, Generic[P]):
    """Base class of steps whose results are pairs of matching rows, with both payloads."""

    held = MappingProxyType({"_keying": PART, "_pairs": PART})

    def __init__(
        self, keying: KeyMatcher, pairs: P, merged: JoinedPayload, keys: Sequence[str]
    ) -> None:
        self._keying = keying
        self._pairs = pairs
        self._merged = merged
        # what a batch gives that only advances time
        self._nothing = EventBatch.empty(merged.schema, MIN_TIME, tuple(keys))

    @property
    def rows(self) -> int:
        """The number of rows held of both inputs."""
        return len(self._pairs)

    def on_left(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the left input."""
        return self._on(0, batch)

    def on_right(self, batch: EventBatch) -> EventBatch:
        """Take a batch of the right input."""
        return self._on(1, batch)

    def _on(self, side: int, batch: EventBatch) -> EventBatch:
        pairs = self._pairs
        before = pairs.cti
        key, able = self._keying.match(side, batch.columns)
        if able is not None:
            batch, key = batch.take(able), key[able]
        pairs.take(side, batch, key)
        if pairs.cti == before and not pairs.has_ended:
            return self._nothing.replace(cti=pairs.output_cti)
        out = self._make_result(pairs.find(len(self._keying)))
        pairs.forget()
        self.forget_unused(self._keying, pairs.mark_keys)
        return out

    def _make_result(self, found: NewPairs) -> EventBatch:
        """Return the result of a batch with which these pairs begin to meet."""
        raise NotImplementedError


class JoinStep(PairStep[Pairs]):
    """Joins rows that match and overlap: a row with both payloads, alive while both are.

    Holds rows until they have ended before both CTIs, and one entry for each pair that has left as
    a start edge.
    """

    held = MappingProxyType({**PairStep.held, "_next_edge": NEXT_EDGE})

    def __init__(
        self,
        keying: KeyMatcher,
        schemas: tuple[pl.Schema, pl.Schema],
        merged: JoinedPayload,
        where: pl.Expr | None,
        keys: Sequence[str],
    ) -> None:
        super().__init__(keying, Pairs(merged.store_as(schemas)), merged, keys)
        self._where = None if where is None else Predicate(where, merged.schema)
        self._next_edge = 1

    def _make_result(self, found: NewPairs) -> EventBatch:
        out, ends = self._begin(found), self._ends()
        return out if ends is None else EventBatch.concat([out, ends])

    def _begin(self, found: NewPairs) -> EventBatch:
        """Return the pairs that begin to meet."""
        cti = self._pairs.cti
        if not len(found.left):
            return self._nothing.replace(cti=cti)
        payload = self._merged(self._pairs.rows, found.left, found.right)
        if self._where is not None:
            keep = self._where(payload)
            found, payload = found.take(keep), payload.take(keep)
        keys = self._nothing.keys
        if found.certain is None:
            return EventBatch(found.start, found.end, None, payload, cti, keys)
        ids = self._remember(found, ~found.certain)
        return EventBatch(found.start, found.end, ids, payload, cti, keys)

    def _remember(self, found: NewPairs, unsure: Bools) -> Int64s:
        """Remember the pairs whose end is not certain; return each pair's id, 0 for the others."""
        ids = np.where(unsure, self._next_edge + np.cumsum(unsure) - 1, 0)
        self._next_edge += int(unsure.sum())
        self._pairs.remember(found.take(unsure), ids[unsure])
        return ids

    def _ends(self) -> EventBatch | None:
        closed = self._pairs.close_ended()
        if closed is None or not len(closed.edge):
            return None
        pairs = self._pairs
        starts = pairs.column(0, START)[closed.left], pairs.column(1, START)[closed.right]
        never = closed.end == MAX_TIME  # a pair that never ends keeps its start edge
        made = EventBatch(
            np.maximum(*starts), closed.end, closed.edge,
            self._merged(pairs.rows, closed.left, closed.right), pairs.cti, self._nothing.keys,
        )  # fmt: skip
        return made.take(~never)
