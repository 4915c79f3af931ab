"""Bounds of snapshot windows: stretches of time in which the rows alive do not change."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.holdings import KEY_LIST, NEXT_EDGE, ByKey
from rxtemporal.engine.kernels.compiled import freeze
from rxtemporal.engine.rows import grow_rows
from rxtemporal.engine.state import Stateful
from rxtemporal.operators.snapshot_window.kernel import find_snapshots
from rxtemporal.operators.windows.aggregates import SumInput
from rxtemporal.operators.windows.bounds import Axis, Due, Windows
from rxtemporal.operators.windows.kernels.changes import find_changes


class SnapshotBounds(Stateful):
    """Bounds of one window for each maximal stretch of time in which a key's rows do not change.

    With ``finished``, only windows that have ended are returned, and the output CTI waits for the
    oldest one that has not; otherwise a window that has begun leaves as a start edge.
    """

    span = 0
    pending = 0
    end_by_time = True
    held = MappingProxyType({
        "_state": ByKey(axis=0), "_late": KEY_LIST, "_next_edge": NEXT_EDGE,
    })  # fmt: skip

    def __init__(self, *, finished: bool = False) -> None:
        self._finished = finished
        self._state = np.zeros((0, 3), np.int64)
        self._late = np.zeros(0, np.int64)
        self._next_edge = 1

    def find_changes(
        self, batch: EventBatch, first: int, lists: bool, span: int
    ) -> tuple[Int64s, Int64s, bool]:
        """Return the rows' changes, at their starts and ends."""
        return find_changes(
            first, freeze(batch.start), freeze(batch.end), freeze(batch.edge), lists
        )

    def find_places(self, batch: EventBatch) -> tuple[Int64s, Int64s]:
        """Return the rows' starts and ends."""
        return freeze(batch.start), freeze(batch.end)

    def find_due_rows(self, batch: EventBatch, limit: int) -> tuple[Int64s, Axis] | None:
        """Return nothing: each row has two changes."""
        return None

    def find_ends(self, batch: EventBatch) -> Int64s:
        """Return the rows' ends."""
        return batch.end

    def ends_none(self, cti: int) -> bool:
        """Return False: a snapshot may end with any CTI."""
        return False

    def limits(self, cti: int) -> tuple[int, int]:
        """Return the limits below which starts and ends are known: the CTI, and the tick after it.

        Starts at the CTI itself are not all known. But one of them is enough to end the snapshot
        before it, and nothing else matters if only finished snapshots are returned; so then the
        tick after the CTI is the limit for starts too.
        """
        return (cti + 1 if self._finished else cti), cti + 1

    def find_next_due(self, at: int | None) -> int | None:
        """Return the place itself, which is a time, or that of windows that begin at the last CTI.

        Those leave with the next CTI, since it is not known before whether they hold other rows.
        """
        late, state = self._late, self._state
        begun = state[late[late < len(state)], 1]  # a step that runs may have replaced only one
        times = [] if at is None else [at]
        return min([*times, int(begun.min())] if len(begun) else times, default=None)

    def cut(self, due: Due, keys: int, cti: int, sums: SumInput | None) -> Windows:
        """Return the snapshots that the changes open and close, without sums."""
        self._state = grow_rows(self._state, keys)
        times, found, self._late, self._next_edge = find_snapshots(
            due.at, due.changes.what, due.changes.key, self._state, self._late, cti,
            self._next_edge, not self._finished,
        )  # fmt: skip
        (start, end, edge, alive), (key, place) = times, found
        windows = Windows(start, end, edge, key, place, alive)
        never_end = self._finished and cti == MAX_TIME
        return self._end_all(windows, len(due.at)) if never_end else windows

    def mark_keys(self, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys that have rows."""
        size = len(self._state)
        held[:size] |= self._state[: len(held), 0] != 0

    def list_open_windows(self) -> set[int]:
        """Return the edge ids of the windows that have left as start edges and have not ended."""
        return {*self._state[:, 2].tolist()} - {0}

    def _end_all(self, windows: Windows, at: int) -> Windows:
        """Return the windows and the snapshots that never end, as complete rows."""
        keys = np.flatnonzero(self._state[:, 0])
        alive, since = self._state[keys, 0], self._state[keys, 1]
        self._state[keys, 0] = 0
        end, edge, place = (np.full(len(keys), value) for value in (MAX_TIME, 0, at))
        return windows.extend(Windows(since, end, edge, keys, place, alive))

    def find_since(self) -> Int64s | None:
        """Return the start of each key's snapshot that has to end first; None if none has to."""
        if not self._finished:
            return None
        return np.where(self._state[:, 0] > 0, self._state[:, 1], MAX_TIME)

    def cti(self, cti: int) -> int:
        """Return the CTI itself, or the start of the oldest snapshot that has to end first."""
        if not self._finished or cti == MAX_TIME:
            return cti
        since = self._state[self._state[:, 0] > 0, 1]
        return min(cti, int(since.min())) if len(since) else cti
