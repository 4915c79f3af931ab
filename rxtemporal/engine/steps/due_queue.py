"""Queue of entries that wait for the CTI; a batch costs the entries that are due."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.kernels.order import find_order, merge, renumber
from rxtemporal.engine.steps.state import Stateful

_NONE = np.empty(0, np.int64)


class Queue(Stateful):
    """Queue of entries due at times: a few sorted runs, each at least twice as long as the next.

    A run is merged with its neighbour if the two are of similar size, so that each entry is moved
    O(log n) times in all and a CTI looks only at the heads of O(log n) runs. The merge waits for
    the next push, since most entries may be due by then. An entry is any int64. Holds each entry
    until it is due.
    """

    held = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[Int64s, Int64s]] = []

    def __len__(self) -> int:
        return sum(len(time) for time, _ in self._runs)

    def push(self, time: Int64s, what: Int64s) -> None:
        """Add entries, in any order."""
        if not len(time):
            return
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            last = self._runs.pop()
            self._runs[-1] = merge(*self._runs[-1], *last)
        rows = find_order(time)
        self._runs.append((time, what) if rows is None else (time[rows], what[rows]))

    def pop_due(self, before: int) -> tuple[Int64s, Int64s]:
        """Remove and return the entries due before a time, in order of time."""
        due, kept = [], []
        for time, what in self._runs:
            upto = int(np.searchsorted(time, before))
            if upto:
                due.append((time[:upto], what[:upto]))
            if upto < len(time):
                kept.append((time[upto:], what[upto:]))
        self._runs = kept
        if not due:
            return _NONE, _NONE
        while len(due) > 1:  # the shortest first
            last = due.pop()
            due[-1] = merge(*due[-1], *last)
        return due[0]

    @property
    def runs(self) -> list[tuple[Int64s, Int64s]]:
        """All entries, run by run."""
        return self._runs

    @property
    def next_due(self) -> int | None:
        """The time of the entry that is due first; None if there is none."""
        return min((int(time[0]) for time, _ in self._runs), default=None)

    def renumber(self, new: Int64s, bits: int = 0) -> None:
        """Give entries the new numbers of their rows; the lowest ``bits`` stay.

        Entries of removed rows are removed.
        """
        self._map(lambda what: renumber(what, new, bits))

    def renumber_even(self, new: Int64s) -> None:
        """Renumber even entries, which are row numbers above one bit; leave odd ones."""
        self._map(lambda what: np.where(what & 1, what, new[np.where(what & 1, 0, what >> 1)] << 1))

    def _map(self, numbered: Callable[[Int64s], Int64s]) -> None:
        runs = [(time, numbered(what)) for time, what in self._runs]
        self._runs = [(t[w >= 0], w[w >= 0]) if len(w) and w.min() < 0 else (t, w) for t, w in runs]
        self._runs = [run for run in self._runs if len(run[0])]
