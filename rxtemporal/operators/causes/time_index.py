"""Rows in order of key and time, to find those in a stretch of time for many stretches at once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from rxtemporal.core.batch import Int64s

Pairs: TypeAlias = tuple[Int64s, Int64s]

# children of a node of the tree of maxima
WIDTH = 4


def expand(low: Int64s, high: Int64s) -> Pairs:
    """Return the pairs (number of the range, place) of ranges ``[low, high)``, in order. O(pairs).

    >>> [pair.tolist() for pair in expand(np.array([3, 8, 5]), np.array([5, 8, 6]))]
    [[0, 0, 2], [3, 4, 5]]
    """
    count = np.maximum(high - low, 0)
    of = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    return of, np.arange(len(of)) - before[of] + low[of]


class TimeIndex:
    """Rows sorted by (key code, time); ``order`` has their numbers.

    Building it costs a sort of the rows; each question a binary search, and what it returns.
    """

    def __init__(self, key: Int64s, time: Int64s) -> None:
        self.order: Int64s = np.lexsort((time, key))
        self._times = np.unique(time)
        self._places = self._place(key, np.searchsorted(self._times, time))[self.order]

    def _place(self, key: Int64s, rank: Int64s) -> Int64s:
        return key * (len(self._times) + 1) + rank

    def search(self, key: Int64s, time: Int64s) -> Int64s:
        """Return the place in ``order`` of the first row of each key at or after each time."""
        return np.searchsorted(self._places, self._place(key, np.searchsorted(self._times, time)))

    def first(self, key: Int64s) -> Int64s:
        """Return the place in ``order`` of the first row of each key."""
        return np.searchsorted(self._places, self._place(key, np.zeros_like(key)))

    def between(self, key: Int64s, low: Int64s, high: Int64s) -> Pairs:
        """Return the pairs (number of the question, row) with ``low <= time < high``."""
        of, place = expand(self.search(key, low), self.search(key, high))
        return of, self.order[place]


class AliveIndex(TimeIndex):
    """Rows by (key, start), with a tree of the latest ends, to find the rows alive.

    A question costs the logarithm of the number of rows for each row that it returns, however
    many others there are and however long they live.
    """

    def __init__(self, key: Int64s, start: Int64s, end: Int64s) -> None:
        super().__init__(key, start)
        self._ends = np.unique(end)
        latest = key * (len(self._ends) + 1) + np.searchsorted(self._ends, end)
        # the latest end so far of each row's key: keys ascend
        self._latest = np.maximum.accumulate(latest[self.order])
        self._levels = [end[self.order]]
        while len(self._levels[-1]) > WIDTH:
            self._levels.append(_find_maxima(self._levels[-1]))

    def alive_at(self, key: Int64s, time: Int64s) -> Pairs:
        """Return the pairs (question, row) with ``start <= time < end``."""
        return self._find(key, self.search(key, time + 1), time)

    def overlap(self, key: Int64s, low: Int64s, high: Int64s) -> Pairs:
        """Return the pairs (question, row) with ``start < high`` and ``end > low``."""
        inside = self.between(key, low, high)
        before = self._find(key, self.search(key, low), low)
        return np.concatenate([inside[0], before[0]]), np.concatenate([inside[1], before[1]])

    def _find(self, key: Int64s, high: Int64s, time: Int64s) -> Pairs:
        """Return the pairs with a place of the key before ``high`` and an end after ``time``.

        It goes down the tree for all questions at once and leaves out what ends too early.
        """
        low = self.first(key)
        after = key * (len(self._ends) + 1) + np.searchsorted(self._ends, time, side="right")
        of = np.flatnonzero(low < high)
        of = of[self._latest[high[of] - 1] >= after[of]]
        node = np.zeros(len(of), np.int64)
        for level in reversed(range(len(self._levels))):
            ends, span = self._levels[level], WIDTH**level
            of = np.repeat(of, WIDTH)
            node = (node[:, None] * WIDTH + np.arange(WIDTH)).ravel()
            there = node < len(ends)
            of, node = of[there], node[there]
            wanted = (
                (ends[node] > time[of]) & (node * span < high[of]) & ((node + 1) * span > low[of])
            )
            of, node = of[wanted], node[wanted]
        return of, self.order[node]


def _find_maxima(values: Int64s) -> Int64s:
    """Return the greatest of every ``WIDTH`` neighbours."""
    return np.maximum.reduceat(values, np.arange(0, len(values), WIDTH))
