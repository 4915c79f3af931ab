"""Pairs of rows of two streams that meet, and their lifetimes: the core of every join."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.rows import LARGE, RowStore, grow
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.join.kernel import close_pairs, find_pairs, remember_pairs
from rxtemporal.operators.join.side import END, FIRST, KEY, OPENED, Side

PLACES = 8

_NONE: Int64s = np.empty(0, np.int64)


@dataclasses.dataclass(slots=True, eq=False)
class NewPairs:
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

    held = ("kept", "_pairs", "_ended")

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

    def keep_keys(self, kept: KeptKeys) -> None:
        """Forget the keys that are not kept, which have no rows."""
        for side in self.sides:
            side.keep_keys(kept)

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
        return self._find_certain_ends(found) if len(left.open) or len(right.open) else found

    def _find_certain_ends(self, found: NewPairs) -> NewPairs:
        """Return the pairs, with those ends that are certain."""
        opened = self.column(0, OPENED)[found.left] | self.column(1, OPENED)[found.right]
        certain = ~opened | (found.end <= self.cti)
        end = np.where(certain, found.end, MAX_TIME)
        return dataclasses.replace(found, end=end, certain=certain)

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

    def close_ended(self) -> EndedPairs | None:
        """Return the remembered pairs whose end is certain now.

        Row numbers stay valid until ``forget``.
        """
        until = self.cti + 1
        left_side, right_side = self.sides
        over = left_side.ends.pop_due(until)[1], right_side.ends.pop_due(until)[1]
        ended, self._ended = self._ended, [_NONE, _NONE]
        if int(self._pairs[7, 0]) == self._pairs.shape[1] - 1:  # none is remembered
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
        used = np.ones(self._pairs.shape[1], np.bool_)
        used[self._pairs[7, 1 : 1 + int(self._pairs[7, 0])]] = False
        used[-1] = False
        rows[used] = new[rows[used]]


def _join(first: Int64s, second: Int64s) -> Int64s:
    """Return two arrays as one."""
    if not len(first):
        return second
    return np.concatenate([first, second]) if len(second) else first
