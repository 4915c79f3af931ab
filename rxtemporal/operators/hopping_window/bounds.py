"""Bounds of hopping windows: a regular grid, or the bounds of a calendar."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.calendars import Line
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.grids import CalendarGrid
from rxtemporal.engine.holdings import KEY_LIST, LATEST, OWNED, ByKey, Moves, Selection
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.exact_sums import WRITTEN
from rxtemporal.engine.rows import grow, grow_rows
from rxtemporal.engine.state import Stateful
from rxtemporal.errors import UnboundedWindowError
from rxtemporal.operators.hopping_window.kernel import find_changes, find_windows, lie_in_units
from rxtemporal.operators.windows.aggregates import SumInput
from rxtemporal.operators.windows.bounds import Axis, Due, Windows
from rxtemporal.operators.windows.kernels.changes import BITS

# more windows from one batch are surely a mistake
MOST_WINDOWS = 1 << 27

# the sums of so many windows at most are kept for each key, so that rows need not be kept
MOST_SUMS = 8

# stands for the ends of points
NO_ENDS = freeze(np.empty(0, np.int64))

# above the number of any window
EVERY_WINDOW = 1 << 62

# so many results are written to arrays that are used again
ROOM = 4096
# arrays to which the kernel writes windows, sums, and which sums there are
Room: TypeAlias = tuple[Int64s, npt.NDArray[np.float64], npt.NDArray[np.bool_]]

# duration, period and alignment of windows
Grid: TypeAlias = tuple[int, int, int]
# no sum
_NO_SUMS = np.empty((1, 0, 4))
_NO_SUM: SumInput = (
    freeze(np.empty(0)), freeze(np.empty(0, np.bool_)), _NO_SUMS, _NO_SUMS,
    None, np.empty(0, np.int64), False,
)  # fmt: skip


def make_endless_error() -> UnboundedWindowError:
    """Return the error for a row in more windows than anybody wants."""
    return UnboundedWindowError(
        f"this CTI completes more than {MOST_WINDOWS:,} hopping windows at once: a row "
        "lives very long, or for ever. Hint: end rows first, with to_signal(max_gap=…) or "
        "clip_event_duration(limit); or hopping_window2, which gives a row only where something "
        "changes."
    )


class HoppingBounds(Stateful):
    """Bounds of the windows ``[a + n * p, a + n * p + d)`` that hold any row."""

    end_by_time = False
    held = MappingProxyType(dict.fromkeys(("_counts", "_roster", "_known"), OWNED))

    def __init__(self, duration: int, period: int, alignment: int, *, points: bool) -> None:
        self._duration, self._period, self._alignment = duration, period, alignment
        self._points = points
        # a point lies in so many windows, or in one more unless they divide time evenly
        self.span = max(duration // period, 1)
        self._is_even = duration == self.span * period and self.span <= MOST_SUMS
        if self.span > MOST_SUMS:
            self.span = 1
        self._counts = np.zeros((0, 2 + self.span), np.int64)
        self._roster = np.zeros(2, np.int64)
        self._room = _make_room(ROOM)
        # the edge ids of results, all 0
        self._edges = np.zeros(0, np.int64)
        # the windows before this number are known
        self._known: int | None = None

    @property
    def pending(self) -> int:
        """The number of rows that ``span`` windows hold, of which the last has not ended."""
        return int(self._counts[:, 2:].sum())

    def find_changes(
        self, batch: EventBatch, first: int, lists: bool, span: int
    ) -> tuple[Int64s, Int64s, bool]:
        """Return the rows' changes, at the numbers of windows.

        A row is held from the earliest window that ends after its start to the latest one that
        begins before its end. One in a gap touches no window: its first place is its last.
        """
        rows, grid = self._fit(batch)
        end = NO_ENDS if rows.are_points else freeze(rows.end)
        return find_changes(
            first, freeze(rows.start), end, freeze(rows.edge), *grid, lists, span
        )  # fmt: skip

    def find_places(self, batch: EventBatch) -> tuple[Int64s, Int64s]:
        """Return the numbers of windows from which on, and up to which, rows are held."""
        begins, ends, _ = self.find_changes(batch, 0, True, 0)
        until = np.full(len(batch), MAX_TIME)  # of a row that never ends there is no second change
        until[ends[1] >> BITS] = ends[0]
        return freeze(begins[0]), freeze(until)

    def find_due_rows(self, batch: EventBatch, limit: int) -> tuple[Int64s, Axis] | None:
        """Return the starts of rows, if each is a single change below the limit.

        Each row then lies in one unit of even windows, and no row in an earlier unit than the one
        before it. The starts are on an axis of times: a row enters the first window that ends after
        its start.
        """
        if not self._is_even or batch.has_edges:
            return None
        rows, (duration, period, alignment) = self._fit(batch)
        # the end of the last window below the limit; a point at the end of time never ends
        end = alignment + (limit - 1) * period + duration
        if rows.highest_start >= min(end, MAX_TIME - TICK):
            return None
        origin = alignment + duration - period
        if not (rows.are_points and rows.in_order):
            until = NO_ENDS if rows.are_points else freeze(rows.end)
            if not lie_in_units(freeze(rows.start), until, period, origin):
                return None
        return rows.start, (origin, period)

    def _fit(self, batch: EventBatch) -> tuple[EventBatch, Grid]:
        """Return rows, and regular windows that hold them as the windows hold those of a batch."""
        return batch, (self._duration, self._period, self._alignment)

    def find_ends(self, batch: EventBatch) -> Int64s:
        """Return the number after that of the latest window that begins before each row's end."""
        ends: Int64s = self.find_changes(batch, 0, True, 0)[1][0]
        return ends

    def ends_none(self, cti: int) -> bool:
        """Return True if all windows that end by the CTI are known."""
        return self._limit(cti) == self._known

    def limits(self, cti: int) -> tuple[int, int]:
        """Return the number of the window before which changes are applied, for starts and ends.

        They are those of the windows that end, and those so far of the first window that ends after
        the CTI: no change of an earlier window is to come.
        """
        upto = self._limit(cti) + 1
        return upto, upto

    def _limit(self, cti: int) -> int:
        if cti == MAX_TIME:
            return EVERY_WINDOW
        return (cti - self._alignment - self._duration) // self._period + 1

    def find_next_due(self, at: int | None) -> int | None:
        """Return the end of window number ``at``, or of the next one that already holds a row."""
        numbers = [] if at is None else [at]
        if self._known is not None and self._roster[0]:
            numbers.append(self._known)
        if not numbers:
            return None
        return min(self._alignment + min(numbers) * self._period + self._duration, MAX_TIME)

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Return the windows that end by the CTI and hold any row."""
        if keys > len(self._counts) or keys + 2 > len(self._roster):
            self._counts = grow_rows(self._counts, keys)
            self._roster = grow(self._roster, keys + 2)
        (found, out, there), r, within, empty = self._find_windows(due, self._limit(cti), sums)
        if r > len(self._edges):
            self._edges = grow(self._edges, r)
        # copies, since the room is written again
        start, end = found[3, :r].copy(), found[4, :r].copy()
        added = None if sums is None else (out[:r].copy(), there[:r].copy() if empty else None)
        windows = Windows(
            start, end, self._edges[:r], found[0, :r], found[2, :r], found[1, :r], start,
            sums=added,
        )  # fmt: skip
        return windows if within else self._cut_to_time(windows)

    def _find_windows(
        self, due: Due, limit: int, sums: SumInput | None
    ) -> tuple[Room, int, bool, int]:
        """Apply the changes and find the windows.

        Return arrays of results, the number of these, True if all windows lie within time, and the
        number of results without values.
        """
        window = -EVERY_WINDOW if self._known is None else self._known
        self._known = limit
        given = (
            freeze(due.at), due.changes.what, due.changes.key,
            *due.axis, self._counts, self._roster,
            limit, MOST_WINDOWS, self._duration, self._period, self._alignment, *(sums or _NO_SUM),
        )  # fmt: skip
        room = self._room if len(due.at) < ROOM else _make_room(len(due.at))
        i, r, window, lacking, within, empty = find_windows(0, 0, window, *given, *room)
        while lacking:
            if lacking > MOST_WINDOWS:
                raise make_endless_error()
            room = _lengthen(room, r, lacking)
            i, r, window, lacking, inside, more = find_windows(i, r, window, *given, *room)
            within, empty = within and inside, empty + more
        return room, r, within, empty

    def mark_keys(self, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys that have rows in a window."""
        size = len(self._counts)
        held[:size] |= (self._counts[:, :2] != 0).any(axis=1)[: len(held)]

    def list_open_windows(self) -> tuple[int, ...]:
        """Return nothing: windows leave when they have ended."""
        return ()

    def keep_selected(self, selection: Selection) -> None:
        """Drop the rows of all keys that are not selected."""
        kept = selection.kept["key"]
        self._counts = kept.pick(self._counts, 0)
        listed = KEY_LIST.keep(self._list_roster(), selection)
        self._write_roster(listed, len(kept.old))

    def merge_from(self, other: Self, moves: Moves) -> None:
        """Take over the rows of other keys."""
        self._known = LATEST.merge(self._known, other._known, moves)
        listed = KEY_LIST.merge(self._list_roster(), other._list_roster(), moves)
        self._counts = ByKey(axis=0).merge(self._counts, other._counts, moves)
        self._write_roster(listed, len(self._counts))

    def _list_roster(self) -> Int64s:
        """Return the keys with rows."""
        return self._roster[1 : 1 + self._roster[0]]

    def _write_roster(self, listed: Int64s, keys: int) -> None:
        """Set the keys with rows; ``keys`` is the number of all."""
        self._roster = np.zeros(keys + 2, np.int64)
        self._roster[0], self._roster[1 : 1 + len(listed)] = len(listed), listed

    def _cut_to_time(self, windows: Windows) -> Windows:
        """Cut windows at the ends of time; drop points that would come after the last tick."""
        start = np.maximum(windows.start, MIN_TIME)
        end = np.minimum(windows.end, MAX_TIME)
        cut = dataclasses.replace(windows, start=start, end=end)
        return cut.take(end < MAX_TIME) if self._points else cut

    def find_since(self) -> None:
        """Return None: windows, and so the output CTI, are the same for all keys."""

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; for points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        start = self._alignment + self._limit(cti) * self._period
        return MIN_TIME if start < MIN_TIME else start if start < MAX_TIME else MAX_TIME


def _make_room(size: int) -> Room:
    return np.empty((5, size), np.int64), np.empty(size), np.empty(size, np.bool_)


def _lengthen(room: Room, r: int, least: int) -> Room:
    """Return more room, with the first ``r`` results in it."""
    larger = _make_room(2 * least)
    for into, written in zip(larger, room, strict=True):
        into[..., :r] = written[..., :r]
    return larger


class CalendarBounds(HoppingBounds):
    """Bounds of the windows of ``units`` units of a calendar that hold any row.

    They are those of regular windows over the places of times, where units are 2 apart.
    """

    def __init__(self, grid: CalendarGrid, units: int, *, points: bool) -> None:
        super().__init__(2 * units, 2, 0, points=points)
        self._grid = grid

    def _fit(self, batch: EventBatch) -> tuple[EventBatch, Grid]:
        """Return rows, and regular windows that hold them as the windows hold those of a batch.

        They are the batch itself between two changes of clocks, and else the places of its times.
        """
        line = self._find_line(batch) if len(batch) else None
        if line is not None:
            return batch, (self._duration // 2 * line.spacing, line.spacing, line.origin)
        start = self._grid.find_places(batch.start)
        end = None if batch.are_points else self._grid.find_end_places(batch.end)
        edge = batch.edge if batch.has_edges else None
        rows = EventBatch(start, end, edge, batch.columns, batch.cti, (), batch.in_order)
        return super()._fit(rows)

    def _find_line(self, batch: EventBatch) -> Line | None:
        """Return bounds that are equally far apart, if those around all rows are."""
        end = batch.highest_start + TICK if batch.are_points else int(batch.end.max())
        return self._grid.find_line(batch.lowest_start, end)

    def _place_cti(self, cti: int) -> int:
        """Return the place of a CTI; the ends of time stay."""
        return cti if cti in (MIN_TIME, MAX_TIME) else self._grid.find_place(cti)

    def _limit(self, cti: int) -> int:
        return super()._limit(self._place_cti(cti))

    def find_next_due(self, at: int | None) -> int | None:
        """Return the end of window number ``at``, or of the next one that already holds a row."""
        due = super().find_next_due(at)
        return due if due is None or due == MAX_TIME else self._grid.find_bound(due // 2)

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Return the windows that end by the CTI and hold any row."""
        windows = super().cut(due, keys, cti, sums)
        if not len(windows):
            return windows
        windows = dataclasses.replace(
            windows,
            start=self._grid.find_bounds(windows.start // 2),
            end=self._grid.find_bounds(windows.end // 2),
        )
        there = windows.start < windows.end  # a zone may leave out a day
        if self._points:
            there &= windows.end < MAX_TIME
        if there.all():
            return windows
        if sums is not None:  # a sum that has stopped goes on behind those that are written
            *_, progress, _ = sums
            progress[WRITTEN] -= np.count_nonzero(~there[: progress[WRITTEN]])
        return windows.take(there)

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; for points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        return self._grid.find_bound(self._limit(cti))
