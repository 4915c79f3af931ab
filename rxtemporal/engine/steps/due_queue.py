"""What lies ahead of the CTI, kept so that a commit costs what is due and not what waits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.kernels.order import merge, renumber, sort_order
from rxtemporal.engine.steps.state import Stateful

_NONE = np.empty(0, np.int64)


class Queue(Stateful):
    """Things due at times: a few runs in order of time, each at least twice the next one's size.

    A run is merged with its neighbour while the two are of similar size, so that each thing is
    moved O(log n) times in all and a commit looks only at the heads of O(log n) runs; not before
    the next one comes, for most of it may be due by then. A thing is an int64, whatever it stands
    for. Holds each until it is due.
    """

    held = ("_runs",)

    def __init__(self) -> None:
        self._runs: list[tuple[Int64s, Int64s]] = []

    def __len__(self) -> int:
        return sum(len(time) for time, _ in self._runs)

    def push(self, time: Int64s, what: Int64s) -> None:
        """Keep these, in whatever order they come."""
        if not len(time):
            return
        while len(self._runs) > 1 and len(self._runs[-2][0]) < 2 * len(self._runs[-1][0]):
            last = self._runs.pop()
            self._runs[-1] = merge(*self._runs[-1], *last)
        rows = sort_order(time)
        self._runs.append((time, what) if rows is None else (time[rows], what[rows]))

    def due(self, before: int) -> tuple[Int64s, Int64s]:
        """Take out what is due before a time, in order of time."""
        taken, kept = [], []
        for time, what in self._runs:
            upto = int(np.searchsorted(time, before))
            if upto:
                taken.append((time[:upto], what[:upto]))
            if upto < len(time):
                kept.append((time[upto:], what[upto:]))
        self._runs = kept
        if not taken:
            return _NONE, _NONE
        while len(taken) > 1:  # the smallest first
            last = taken.pop()
            taken[-1] = merge(*taken[-1], *last)
        return taken[0]

    @property
    def runs(self) -> list[tuple[Int64s, Int64s]]:
        """All that waits, run by run."""
        return self._runs

    def first(self) -> int | None:
        """Return the time of what is due first."""
        return min((int(time[0]) for time, _ in self._runs), default=None)

    @property
    def next_due(self) -> int | None:
        """The same, for who asks what waits."""
        return self.first()

    def renumber(self, new: Int64s, bits: int = 0) -> None:
        """Give the rows that things stand for their new numbers; the lowest ``bits`` stay.

        What stands for a row that is gone goes too.
        """
        self._map(lambda what: renumber(what, new, bits))

    def renumber_even(self, new: Int64s) -> None:
        """The same where only even things stand for rows, with one bit below their number."""
        self._map(lambda what: np.where(what & 1, what, new[np.where(what & 1, 0, what >> 1)] << 1))

    def _map(self, numbered: Callable[[Int64s], Int64s]) -> None:
        runs = [(time, numbered(what)) for time, what in self._runs]
        self._runs = [(t[w >= 0], w[w >= 0]) if len(w) and w.min() < 0 else (t, w) for t, w in runs]
        self._runs = [run for run in self._runs if len(run[0])]
