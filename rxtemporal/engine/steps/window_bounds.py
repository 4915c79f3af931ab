"""Bounds: which windows there are, and where a row enters and leaves them.

A window step sees rows begin and end along an *axis* of integers: ticks for snapshot windows, the
numbers of the windows for hopping ones.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.hopping_windows import first_window, hops, spread, window_after
from rxtemporal.engine.kernels.snapshot_windows import snapshots
from rxtemporal.engine.steps.aggregates import Changes
from rxtemporal.engine.steps.rows import grown, taller
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.errors import UnboundedWindowError

# so many windows from one batch are a mistake, not a result
MOST_WINDOWS = 1 << 27
# beyond the number of any window
EVERY_WINDOW = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows that have become known, ``int64[w]`` each, in order of ``at``.

    ``start``, ``end``, ``edge`` as in a batch; ``key`` the key's code; ``alive`` how many rows it
    holds: those alive before change number ``at``.
    """

    start: Int64s
    end: Int64s
    edge: Int64s
    key: Int64s
    at: Int64s
    alive: Int64s

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: npt.NDArray[np.bool_]) -> Windows:
        """Return some of them."""
        fields = (getattr(self, field.name) for field in dataclasses.fields(self))
        return Windows(*(column[which] for column in fields))

    @property
    def closing(self) -> npt.NDArray[np.bool_]:
        """Which of them have left before, as start edges, and end now."""
        return np.asarray((self.edge != 0) & (self.end != MAX_TIME))


_NO_WINDOWS = Windows(*(np.empty(0, np.int64) for _ in range(6)))


class Bounds(Protocol):
    """One kind of windows."""

    once: bool
    """Whether a row may be held by one window alone, and then be one change."""

    def begins(self, batch: EventBatch) -> Int64s:
        """Return where on the axis each row is first held."""

    def ends(self, batch: EventBatch, begins: Int64s) -> Int64s:
        """Return where each row, first held from ``begins``, no longer is; of endless ones any."""

    def limits(self, cti: int) -> tuple[int, int]:
        """Return below where on the axis all that begins is known, and all that ends."""

    def cut(self, at: Int64s, changes: Changes, keys: int, cti: int) -> Windows:
        """Apply the changes, each at its place on the axis, and return the windows now known."""

    def due(self, at: int | None) -> int | None:
        """Return the CTI with which a window may next become known; None for none.

        ``at`` is where on the axis something next begins or ends, None where nothing does.
        """

    def cti(self, cti: int) -> int:
        """Return the output CTI."""


class SnapshotBounds(Stateful):
    """One window for each maximal stretch of time in which a key's rows alive do not change.

    ``finished``: only windows that have ended are told, and the CTI waits for the oldest that has
    not; otherwise a window that has begun leaves as a start edge.
    """

    once = False
    held = ("_state", "_late", "_next_edge")

    def __init__(self, *, finished: bool = False) -> None:
        self._finished = finished
        self._state = np.zeros((0, 3), np.int64)
        self._late = np.zeros(0, np.int64)
        self._next_edge = 1

    def begins(self, batch: EventBatch) -> Int64s:
        """A row is held from its start."""
        return batch.start

    def ends(self, batch: EventBatch, begins: Int64s) -> Int64s:
        """A row is held up to its end."""
        return batch.end

    def limits(self, cti: int) -> tuple[int, int]:
        """What begins before the CTI is known, and what ends before it or then.

        What begins at the CTI itself may go on; but it ends the snapshot before it for good, and
        where only ended ones are told that is all that counts.
        """
        return (cti + 1 if self._finished else cti), cti + 1

    def due(self, at: int | None) -> int | None:
        """The place itself: the axis is time, and nothing is told between two changes."""
        return at

    def cut(self, at: Int64s, changes: Changes, keys: int, cti: int) -> Windows:
        """Return the snapshots that the changes open and close."""
        self._state = taller(self._state, keys)
        *columns, self._late, self._next_edge = snapshots(
            at, changes.what, changes.key, self._state, self._late, cti, self._next_edge,
            not self._finished,
        )  # fmt: skip
        if self._finished and cti == MAX_TIME:
            columns = self._unfinished(columns, len(at))
        return Windows(*columns)

    def _unfinished(self, columns: list[Int64s], at: int) -> list[Int64s]:
        """Return the columns with the snapshots that never end, complete now that time has."""
        keys = np.flatnonzero(self._state[:, 0])
        alive, since = self._state[keys, 0], self._state[keys, 1]
        self._state[keys, 0] = 0
        end, edge, place = (np.full(len(keys), value) for value in (MAX_TIME, 0, at))
        more = since, end, edge, keys, place, alive
        return [np.concatenate(both) for both in zip(columns, more, strict=True)]

    def cti(self, cti: int) -> int:
        """Return the CTI itself, or the start of the oldest snapshot that has to end first."""
        if not self._finished or cti == MAX_TIME:
            return cti
        since = self._state[self._state[:, 0] > 0, 1]
        return min(cti, int(since.min())) if len(since) else cti


class HoppingBounds(Stateful):
    """The windows ``[a + np, a + np + d)`` that hold anything, as windows or as their ends."""

    once = True
    held = ("_state", "_roster", "_told")

    def __init__(self, duration: int, period: int, alignment: int, *, points: bool) -> None:
        self._duration, self._period, self._alignment = duration, period, alignment
        self._points = points
        self._state = np.zeros((0, 3), np.int64)
        self._roster = np.zeros(2, np.int64)
        # the windows before this number are known
        self._told: int | None = None

    def begins(self, batch: EventBatch) -> Int64s:
        """A row is held from the earliest window that ends after its start."""
        return first_window(batch.start, self._duration, self._period, self._alignment)

    def ends(self, batch: EventBatch, begins: Int64s) -> Int64s:
        """A row is held up to the latest window that begins before its end."""
        # a row in a gap touches no window, and leaves where it enters
        return window_after(batch.end, begins, self._period, self._alignment)

    def limits(self, cti: int) -> tuple[int, int]:
        """The windows that end by the CTI are known; at the end of time all there will ever be."""
        limit = EVERY_WINDOW if cti == MAX_TIME else self._limit(cti)
        return limit, limit

    def _limit(self, cti: int) -> int:
        return (cti - self._alignment - self._duration) // self._period + 1

    def due(self, at: int | None) -> int | None:
        """The end of the window of this number, or of the next one that holds a row already."""
        numbers = [] if at is None else [at]
        if self._told is not None and self._roster[0]:
            numbers.append(self._told)
        if not numbers:
            return None
        return min(self._alignment + min(numbers) * self._period + self._duration, MAX_TIME)

    def cut(self, at: Int64s, changes: Changes, keys: int, cti: int) -> Windows:
        """Return the windows that end by the CTI and hold anything."""
        limit, _ = self.limits(cti)
        if limit == self._told and not len(changes):
            return _NO_WINDOWS
        first = -EVERY_WINDOW if self._told is None else self._told
        self._told = limit
        self._state = taller(self._state, keys)
        self._roster = grown(self._roster, keys + 2)
        key, alive, windows = hops(
            at, changes.what, changes.key, self._state, self._roster, first, limit, MOST_WINDOWS
        )
        if len(alive) > len(key):
            raise UnboundedWindowError(
                f"the CTI asks for more than {MOST_WINDOWS:,} hopping windows at once: a row lives "
                "for very long, or for ever. Hint: hopping_window2 gives a row only where "
                "something changes; or cut lifetimes first, with clip_event_duration(limit)."
            )
        *columns, within = spread(windows, len(key), self._duration, self._period, self._alignment)
        start, end, sample = columns
        found = Windows(start, end, np.zeros(len(key), np.int64), key, sample, alive)
        return found if within else self._within_time(found)

    def _within_time(self, windows: Windows) -> Windows:
        """Cut windows at the ends of time; one that reaches the last tick has no point after it."""
        start = np.maximum(windows.start, MIN_TIME)
        end = np.minimum(windows.end, MAX_TIME)
        cut = dataclasses.replace(windows, start=start, end=end)
        return cut.take(end < MAX_TIME) if self._points else cut

    def cti(self, cti: int) -> int:
        """Return the start of the earliest window that ends after the CTI; of points, the CTI."""
        if self._points or cti in (MIN_TIME, MAX_TIME):
            return cti
        start = self._alignment + self._limit(cti) * self._period
        return int(min(max(start, MIN_TIME), MAX_TIME))
