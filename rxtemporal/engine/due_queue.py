"""Queue of entries that wait for the CTI; a batch costs the entries that are due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.engine.holdings import OWNED
from rxtemporal.engine.kernels.order import merge, sort
from rxtemporal.engine.kernels.rows import renumber
from rxtemporal.engine.state import Stateful

_NONE = np.empty(0, np.int64)
# so few entries are added to a run by copying them, if they are in order
FEW = 4096
# a run shorter than this, or than so many times the entries that are added, takes them up
SMALL, RATIO = 512, 4
# above any time
NEVER = 1 << 63


class _Run:
    """Entries in order of time: those from number ``begin`` up to ``end`` of two arrays."""

    __slots__ = ("begin", "end", "first", "last", "time", "what")

    def __init__(self, time: Int64s, what: Int64s) -> None:
        self.time, self.what = time, what
        self.begin, self.end = 0, len(time)
        self.first, self.last = int(time[0]), int(time[-1])

    def __len__(self) -> int:
        return self.end - self.begin

    @property
    def entries(self) -> tuple[Int64s, Int64s]:
        """The times and the entries."""
        return self.time[self.begin : self.end], self.what[self.begin : self.end]

    def extend(self, time: Int64s, what: Int64s) -> None:
        """Add entries, which are in order and not before the last one.

        Elements that have been returned are never written again.
        """
        end = self.end + len(time)
        if end > len(self.time):
            self._make_room(len(time))
            end = self.end + len(time)
        self.time[self.end : end] = time
        self.what[self.end : end] = what
        self.end = end
        self.last = int(time[-1])

    def _make_room(self, more: int) -> None:
        count = len(self)
        room = max(64, 2 * (count + more))
        old = self.entries
        self.time, self.what = np.empty(room, np.int64), np.empty(room, np.int64)
        self.time[:count], self.what[:count] = old
        self.begin, self.end = 0, count

    def skip(self, count: int) -> None:
        """Remove so many entries from the head."""
        self.begin += count
        if count and self.begin < self.end:
            self.first = int(self.time[self.begin])

    def pop(self, before: int) -> tuple[Int64s, Int64s]:
        """Remove and return the entries before a time, of which there is one at least."""
        begin, end = self.begin, self.end
        time, what = self.time, self.what
        if self.last < before:
            self.begin = end
            return time[begin:end], what[begin:end]
        upto = begin + int(time[begin:end].searchsorted(before))
        self.begin, self.first = upto, int(time[upto])
        return time[begin:upto], what[begin:upto]


class Queue(Stateful):
    """Queue of entries due at times: a few sorted runs, each several times as long as the next.

    A run is merged with its neighbour if the two are of similar size, so that each entry is moved
    O(log n) times in all and a CTI looks only at the heads of O(log n) runs. A few entries are
    merged with the last run at once, or added to it if they come after it. The merge of many waits
    for the next push, since most of them may be due by then. An entry is any int64. Holds each
    entry until it is due.
    """

    held = MappingProxyType({"runs": OWNED})

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        # the time of the entry that is due first, which a join reads without a call
        self.first = NEVER

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    @property
    def has_entries(self) -> bool:
        """True if there is an entry."""
        return bool(self._runs)

    def push(self, time: Int64s, what: Int64s, *, in_order: bool = False) -> None:
        """Add entries, in any order; ``in_order``: they are known to be in order of time."""
        count = len(time)
        if not count:
            return
        if not in_order and count > 1:
            time, what = sort(time, what)
        first, runs = int(time[0]), self._runs
        self.first = min(self.first, first)
        if runs and count <= FEW:
            last = runs[-1]
            if first >= last.last:
                last.extend(time, what)
                return
            if len(last) < max(SMALL, RATIO * count):
                runs[-1] = _Run(*merge(*last.entries, time, what))
                return
        while len(runs) > 1 and len(runs[-2]) < RATIO * len(runs[-1]):
            last = runs.pop()
            runs[-1] = _Run(*merge(*runs[-1].entries, *last.entries))
        runs.append(_Run(time, what))

    def pop_due(self, before: int) -> tuple[Int64s, Int64s]:
        """Remove and return the entries due before a time, in order of time."""
        if before <= self.first:
            return _NONE, _NONE
        runs = self._runs
        if len(runs) == 1:  # nearly always
            (run,) = runs
            popped = run.pop(before)
            self._keep(runs if run.begin < run.end else [])
            return popped
        due = [run.pop(before) for run in runs if run.first < before]
        self._keep([run for run in runs if run.begin < run.end])
        while len(due) > 1:  # the shortest first
            last = due.pop()
            due[-1] = merge(*due[-1], *last)
        return due[0]

    def drop_heads(self, count: Callable[[Int64s], int]) -> None:
        """Remove as many entries from the head of each run as ``count`` returns for it."""
        for run in self._runs:
            run.skip(count(run.entries[1]))
        self._keep([run for run in self._runs if len(run)])

    def _keep(self, runs: list[_Run]) -> None:
        self._runs = runs
        self.first = min([run.first for run in runs]) if runs else NEVER

    @property
    def runs(self) -> Sequence[tuple[Int64s, Int64s]]:
        """All entries, run by run, to be saved."""
        return [run.entries for run in self._runs]

    @runs.setter
    def runs(self, runs: Sequence[tuple[Int64s, Int64s]]) -> None:
        self._keep([_Run(*run) for run in runs if len(run[0])])

    def replace(self, runs: Sequence[tuple[Int64s, Int64s]]) -> None:
        """Hold these entries in place of the others, run by run."""
        self.runs = runs

    @property
    def next_due(self) -> int | None:
        """The time of the entry that is due first; None if there is none."""
        return self.first if self._runs else None

    def renumber(self, new: Int64s, bits: int = 0) -> None:
        """Give entries the new numbers of their rows; the lowest ``bits`` stay.

        Entries of removed rows are removed.
        """
        runs = []
        for time, what in self.runs:
            what, removed = renumber(what, new, bits)
            runs.append((time[what >= 0], what[what >= 0]) if removed else (time, what))
        self.runs = runs

    def renumber_even(self, new: Int64s) -> None:
        """Renumber even entries, which are row numbers above one bit; leave odd ones."""
        self._map(lambda what: np.where(what & 1, what, new[np.where(what & 1, 0, what >> 1)] << 1))

    def _map(self, number: Callable[[Int64s], Int64s]) -> None:
        runs = [(time, number(what)) for time, what in self.runs]
        self.runs = [(t[w >= 0], w[w >= 0]) if len(w) and w.min() < 0 else (t, w) for t, w in runs]
