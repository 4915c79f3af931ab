"""Bounds of hopping windows: a regular grid."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kept_keys import KeptKeys
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.kernels.hopping_windows import find_changes, find_windows
from rxtemporal.engine.steps.aggregates import Changes
from rxtemporal.engine.steps.rows import grow, grow_rows
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.engine.steps.window_bounds import Windows
from rxtemporal.errors import UnboundedWindowError

# more windows from one batch are surely a mistake
MOST_WINDOWS = 1 << 27

# the sums of so many windows at most are kept for each key, so that rows need not be kept
MOST_SUMS = 8

# stands for the ends of points
NO_ENDS = freeze(np.empty(0, np.int64))

# above the number of any window
EVERY_WINDOW = 1 << 62


class HoppingBounds(Stateful):
    """Bounds of the windows ``[a + n * p, a + n * p + d)`` that hold any row."""

    held = ("_counts", "_roster", "_known")

    def __init__(self, duration: int, period: int, alignment: int, *, points: bool) -> None:
        self._duration, self._period, self._alignment = duration, period, alignment
        self._points = points
        # a point lies in so many windows, or in one more
        self.span = max(duration // period, 1)
        if self.span > MOST_SUMS:
            self.span = 1
        self._counts = np.zeros((0, 2 + self.span), np.int64)
        self._roster = np.zeros(2, np.int64)
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
        end = NO_ENDS if batch.are_points else freeze(batch.end)
        return find_changes(
            first, freeze(batch.start), end, freeze(batch.edge),
            self._duration, self._period, self._alignment, lists, span,
        )  # fmt: skip

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

    def cut(self, at: Int64s, changes: Changes, keys: int, cti: int) -> Windows:
        """Return the windows that end by the CTI and hold any row."""
        limit = self._limit(cti)
        first = -EVERY_WINDOW if self._known is None else self._known
        self._known = limit
        if keys > len(self._counts) or keys + 2 > len(self._roster):
            self._counts = grow_rows(self._counts, keys)
            self._roster = grow(self._roster, keys + 2)
        found, times, within, too_many = find_windows(
            at, changes.what, changes.key, self._counts, self._roster, first, limit, MOST_WINDOWS,
            self._duration, self._period, self._alignment,
        )  # fmt: skip
        if too_many:
            raise UnboundedWindowError(
                f"this CTI completes more than {MOST_WINDOWS:,} hopping windows at once: a row "
                "lives very long, or for ever. Hint: hopping_window2 gives a row only where "
                "something changes; or cut lifetimes first, with clip_event_duration(limit)."
            )
        start, end = times
        key, alive, sample = found
        if len(start) > len(self._edges):
            self._edges = grow(self._edges, len(start))
        windows = Windows(start, end, self._edges[: len(start)], key, sample, alive, start)
        return windows if within else self._cut_to_time(windows)

    def mark_keys(self, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys that have rows in a window."""
        size = len(self._counts)
        held[:size] |= (self._counts[:, :2] != 0).any(axis=1)[: len(held)]

    def keep_keys(self, kept: KeptKeys) -> None:
        """Forget the keys that are not kept."""
        self._counts = kept.pick(self._counts, 0)
        listed = int(self._roster[0])
        self._roster[1 : 1 + listed] = kept.renumber(self._roster[1 : 1 + listed])

    def _cut_to_time(self, windows: Windows) -> Windows:
        """Cut windows at the ends of time; drop points that would come after the last tick."""
        start = np.maximum(windows.start, MIN_TIME)
        end = np.minimum(windows.end, MAX_TIME)
        cut = dataclasses.replace(windows, start=start, end=end)
        return cut.take(end < MAX_TIME) if self._points else cut

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; for points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        start = self._alignment + self._limit(cti) * self._period
        return MIN_TIME if start < MIN_TIME else start if start < MAX_TIME else MAX_TIME
