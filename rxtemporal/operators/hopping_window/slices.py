"""Lifetimes cut at the bounds of hopping windows, for aggregates by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Protocol, Self, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Column, Columns, make_nulls
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured, Saved
from rxtemporal.engine.grids import CalendarGrid, RegularGrid
from rxtemporal.engine.holdings import BATCHES, PART, Moves, Selection
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.open_rows import WaitingRows
from rxtemporal.engine.state import Stateful
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.operators.distinct.step import DistinctStep
from rxtemporal.operators.hopping_window.bounds import MOST_WINDOWS, make_endless_error
from rxtemporal.operators.hopping_window.kernel import cut_at_bounds, find_stops
from rxtemporal.operators.windows.overlaps import AT, COVER, OVERLAP, SlicePlan, add_overlap
from rxtemporal.operators.windows.step import WindowStep

_AT, _END = 0, 1
_NO_ROWS = np.empty(0, np.int64)
# a row of about so many pieces or more that begins after the next bound waits: windows would hold
# all of them
_FEW = 16
# row, start and end of pieces; True if the pieces are the rows
Cuts: TypeAlias = tuple[Int64s, Int64s, Int64s, bool]
# rows without their times, and from when on and up to when they are to be cut
Rows: TypeAlias = tuple[Columns, Int64s, Int64s]


class SliceBounds(Protocol):
    """All starts and ends of windows."""

    def cut(self, begin: Int64s, end: Int64s) -> Cuts:
        """Return the pieces of lifetimes, as ``cut_at_bounds``."""

    def count(self, begin: Int64s, end: Int64s) -> float:
        """Return the number of pieces of lifetimes, or a few more."""

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""

    def find_around(self, time: int) -> tuple[int, int]:
        """Return the last bound that is not above a time, and the first one above it."""


class RegularBounds:
    """The starts and ends of regular windows."""

    def __init__(self, duration: int, period: int, alignment: int) -> None:
        self._starts = RegularGrid(period, alignment)
        self._ends = RegularGrid(period, alignment + duration)

    def cut(self, begin: Int64s, end: Int64s) -> Cuts:
        """Return the pieces of lifetimes."""
        return _cut(begin, end, self._starts.period, self._starts.offset, self._ends.offset)

    def count(self, begin: Int64s, end: Int64s) -> float:
        """Return the number of pieces of lifetimes, or a few more."""
        each = self._starts.count_pieces(begin, end), self._ends.count_pieces(begin, end)
        return float(sum(count.sum(dtype=np.float64) for count in each))

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""
        return np.minimum(self._starts.find_after(times), self._ends.find_after(times))

    def find_around(self, time: int) -> tuple[int, int]:
        """Return the last bound that is not above a time, and the first one above it."""
        at = np.array([time])
        below = max(self._starts.find_upto(at)[0], self._ends.find_upto(at)[0])
        return int(below), int(self.find_after(at)[0])


def _cut(begin: Int64s, end: Int64s, period: int, starts: int, ends: int) -> Cuts:
    return cut_at_bounds(freeze(begin), freeze(end), period, starts, ends)


class LocalBounds:
    """The starts and ends of the windows of a calendar, which are its bounds."""

    def __init__(self, grid: CalendarGrid) -> None:
        self._grid = grid

    def cut(self, begin: Int64s, end: Int64s) -> Cuts:
        """Return the pieces of lifetimes.

        Between two changes of clocks bounds are equally far apart. Others are cut at the places of
        bounds, here 4 apart, and between two of them a start comes before an end.
        """
        line = self._grid.find_line(int(begin.min()), int(end.max())) if len(begin) else None
        if line is not None:
            return _cut(begin, end, line.spacing, line.origin, line.origin)
        low, high = self._grid.find_places(begin), self._grid.find_end_places(end)
        low = 2 * low - low % 2
        row, low, high, whole = _cut(low, np.where(begin < end, 2 * high, low), 4, 0, 0)
        if whole:
            return row, begin, end, whole
        start = np.where(low % 4, begin[row], self._grid.find_bounds(low // 4))
        until = np.where(high % 4, end[row], self._grid.find_bounds(high // 4))
        if (start == until).any():  # a day that the zone leaves out
            some = start < until
            row, start, until = row[some], start[some], until[some]
        return row, start, until, False

    def count(self, begin: Int64s, end: Int64s) -> float:
        """Return the number of pieces of lifetimes."""
        return float(self._grid.count_pieces(begin, end).sum(dtype=np.float64))

    def find_after(self, times: Int64s) -> Int64s:
        """Return for each time the first bound above it."""
        return self._grid.find_after(times)

    def find_around(self, time: int) -> tuple[int, int]:
        """Return the last bound that is not above a time, and the first one above it."""
        number = self._grid.find_place(time) // 2
        return self._grid.find_bound(number), self._grid.find_bound(number + 1)


class Slicer(Stateful):
    """Cuts rows at all starts and ends of windows, so that a window holds all of a piece or none.

    A piece leaves when its end is known. Of a row that is alive at the next bound the rest waits
    until the CTI is there, since windows would hold its pieces until then. Holds these rests, the
    rows whose end is not known, and rows of many pieces that begin after the next bound.
    """

    held = MappingProxyType({"_rests": BATCHES, "_waiting": PART})

    def __init__(self, bounds: SliceBounds, schema: pl.Schema) -> None:
        self._bounds = bounds
        # complete rows that begin at the first bound above the CTI
        self._rests: list[EventBatch] = []
        self._waiting = WaitingRows(schema, own=2)
        # the bounds around the CTI: the last one that is not above it, and the next one
        self._low = self._high = MIN_TIME
        # the length of rows of a few pieces
        self._few = 0

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return len(self._waiting) + sum(map(len, self._rests))

    @property
    def next_due(self) -> int | None:
        """The CTI with which the next piece of a row that is held leaves."""
        first, rests = self._waiting.find_first(), self._rests
        if not rests:
            return first
        begin = int(rests[0].start[0])
        return begin if first is None else min(begin, first)

    def slice(self, batch: EventBatch) -> EventBatch:
        """Return the pieces that are known now, as complete rows.

        All are cut together, so that they are in the order that windows need.
        """
        closes, waiting = batch.find_ends(), self._waiting
        self._pass_cti(batch.cti)
        parts = []
        if self._rests and self._rests[0].start[0] <= batch.cti:
            rests, self._rests = EventBatch.concat(self._rests), []
            parts.append(self._take(rests, rests.start))
        begins = batch if closes is None else batch.take(~closes)
        parts.append(self._take(begins, begins.start))
        if closes is not None:
            ended = batch.take(closes)
            numbers = waiting.close(ended.edge)
            at = waiting.get_own(_AT)[numbers]
            parts.append(self._take(ended.replace(edge=np.zeros(len(ended), np.int64)), at))
        parts.append(self._pop_due(batch))
        waiting.compact()
        rows, begin, end = _concat([each for each in parts if len(each[1])] or parts[:1])
        row, start, until, whole = self._bounds.cut(begin, end)
        columns = rows if whole else rows.take(row)
        return EventBatch(
            start, until, None, columns, batch.cti, batch.keys,
            time=batch.time, clocks=batch.clocks,
        )  # fmt: skip

    def _pass_cti(self, cti: int) -> None:
        """Find the bounds around the CTI."""
        if self._low <= cti < self._high:
            return
        if cti in (MIN_TIME, MAX_TIME):
            self._low, self._high, self._few = cti, cti, 0
            return
        self._low, self._high = self._bounds.find_around(cti)
        # over two stretches, since every other one may be short
        after = int(self._bounds.find_after(np.array([self._high]))[0])
        self._few = _FEW // 2 * (after - self._low)

    def _take(self, rows: EventBatch, begin: Int64s) -> Rows:
        """Return rows, and from when and up to when they are cut now; keep what is left of them."""
        end = rows.end
        stop, rest, waits, longest = find_stops(freeze(begin), freeze(end), self._high, self._few)
        if longest > self._few:
            self._check(begin, stop)
        if len(rest):
            columns = rows.columns.copy_rows(rest)
            self._hold(EventBatch(stop[rest], end[rest], None, columns, rows.cti, rows.keys))
        if len(waits):
            held, at = rows.take(waits), begin[waits]
            due = np.minimum(self._bounds.find_after(at), held.end)
            self._waiting.add(held, due, at, held.end)
        return rows.columns, begin, stop

    def _hold(self, rest: EventBatch) -> None:
        """Keep rests: each batch is at least twice as long as the next, so there are few."""
        rests, count, first = self._rests, len(rest), len(self._rests)
        while first and len(rests[first - 1]) < 2 * count:
            first -= 1
            count += len(rests[first])
        rests[first:] = [EventBatch.concat([*rests[first:], rest])]

    def _pop_due(self, batch: EventBatch) -> Rows:
        """Return the rows that wait and have pieces that end by the CTI, and from when to when."""
        cti, waiting = batch.cti, self._waiting
        numbers = waiting.pop_due(cti + 1)
        if not len(numbers):
            return batch.columns, _NO_ROWS, _NO_ROWS
        at, end = waiting.get_own(_AT)[numbers], waiting.get_own(_END)[numbers]
        stop = np.where(end <= cti, end, np.minimum(end, self._low))
        self._check(at, stop)
        columns = waiting.batch(numbers, batch).columns
        waiting.get_own(_AT)[numbers] = stop
        left = stop < end
        due = np.minimum(self._bounds.find_after(stop[left]), end[left])
        waiting.requeue(numbers[left], due)
        waiting.drop(numbers[~left])
        return columns, at, stop

    def _check(self, begin: Int64s, end: Int64s) -> None:
        """Raise if rows have more pieces than anybody wants."""
        if (end == MAX_TIME).any() or self._bounds.count(begin, end) > MOST_WINDOWS:
            raise make_endless_error()


def _concat(parts: Sequence[Rows]) -> Rows:
    """Return all rows."""
    if len(parts) == 1:
        return parts[0]
    rows, begin, end = zip(*parts, strict=True)
    return Columns.concat(rows), np.concatenate(begin), np.concatenate(end)


class SlicedWindowStep(Stateful):
    """Computes results over hopping windows of which some are by time.

    The windows hold the pieces of rows, with their lengths; with ``beside`` they hold the rows,
    too. For the time in which any row is alive they also hold the pieces of that.
    """

    held = MappingProxyType({"_slicer": PART, "_cover": PART, "_windows": PART})

    def __init__(
        self,
        windows: WindowStep,
        slicing: SlicePlan,
        bounds: SliceBounds,
        schema: pl.Schema,
        keys: tuple[str, ...],
    ) -> None:
        self._windows = windows
        self._slicing = slicing
        self._schema = add_overlap(schema)
        self._slicer = Slicer(bounds, schema)
        self._cover: list[DistinctStep | Slicer] = []
        if slicing.cover:
            own = pl.Schema({key: schema[key] for key in keys})
            self._cover = [DistinctStep(keys, schema), Slicer(bounds, own)]

    @property
    def rows(self) -> int:
        """The number of rows held, and of starts and ends that the CTI has not passed."""
        return sum(each.rows for each in [self._slicer, *self._cover, self._windows])

    @property
    def next_due(self) -> int | None:
        """The CTI with which a window may next become known."""
        return find_earliest_due([self._slicer, *self._cover, self._windows])

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Take rows that begin, end, or both; return the results that are known now."""
        parts = [self._add(batch, {})] if self._slicing.beside else []
        pieces = self._slicer.slice(batch)
        parts.append(self._add(pieces, {AT: pieces.start, OVERLAP: pieces.end - pieces.start}))
        if self._cover:
            distinct, slicer = self._cover
            assert isinstance(distinct, DistinctStep)
            assert isinstance(slicer, Slicer)
            covers = slicer.slice(distinct.on_batch(batch))
            parts.append(self._add(covers, {COVER: covers.end - covers.start}))
        given = EventBatch.concat(parts)
        return self._windows.on_batch(given.replace(cti=batch.cti))

    def _add(self, rows: EventBatch, added: Mapping[str, Int64s]) -> EventBatch:
        """Return rows with the fields of the windows' rows; null in those that they do not have."""
        count, have = len(rows), rows.columns
        columns: list[Column] = []
        for name, dtype in self._schema.items():
            if name in added:
                columns.append(added[name])
            else:
                columns.append(have[name] if name in have.schema else make_nulls(dtype, count))
        return rows.replace(payload=Columns(self._schema, columns, count))

    # State ----------------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """Return the state, in which no row waits to be taken up."""
        self._windows.take_up()
        return super().capture()

    def load(self, data: Saved) -> None:
        """Continue from a saved state."""
        super().load(data)
        self._windows.forget_waiting()

    def keep_selected(self, selection: Selection) -> None:
        """Drop the state of all keys that are not selected."""
        for part in [self._slicer, *self._cover, self._windows]:
            part.keep_selected(selection.nest())

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the state of other keys."""
        self._slicer.merge_from(other._slicer, moves.nest())
        for mine, its in zip(self._cover, other._cover, strict=True):
            mine.merge_from(its, moves.nest())  # type: ignore[arg-type]
        self._windows.merge_from(other._windows, moves.nest())
