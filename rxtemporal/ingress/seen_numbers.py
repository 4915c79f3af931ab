"""Sequence numbers that have come from one input: a high-water mark, and a window above it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, Int64s

# so many separate ranges are remembered above the mark
WINDOW = 1_024


class SeenNumbers:
    """Set of sequence numbers, in bounded memory: all below a mark, and ranges above it.

    The mark rises over numbers that have come without a gap. If there are more than ``WINDOW``
    gaps, the lowest one is given up: the mark rises over it, and a number in it that comes even
    later counts as seen. Costs O(1) for numbers in order, else O(log ``WINDOW``).

    >>> seen = SeenNumbers()
    >>> [seen.add(number) for number in (0, 1, 5, 1, 5, 2)]
    [True, True, True, False, False, True]
    >>> seen.mark, seen.highest
    (3, 5)
    """

    __slots__ = ("_begins", "_ends", "mark")

    def __init__(self) -> None:
        # all numbers below it have been seen, or given up
        self.mark = 0
        # disjoint ranges above the mark, in order; each from its begin up to its end, exclusive
        self._begins: list[int] = []
        self._ends: list[int] = []

    @property
    def highest(self) -> int | None:
        """The highest number that has come; None before the first."""
        highest = self._ends[-1] if self._ends else self.mark
        return highest - 1 if highest else None

    def __contains__(self, number: int) -> bool:
        if number < self.mark:
            return True
        before = bisect_right(self._begins, number) - 1
        return before >= 0 and number < self._ends[before]

    def add(self, number: int) -> bool:
        """Add a number; return False if it has been seen before."""
        ends = self._ends
        if ends:
            if ends[-1] == number:
                ends[-1] = number + 1
                return True
        elif number == self.mark:
            self.mark = number + 1
            return True
        if number in self:
            return False
        self._add_range(number, number + 1)
        return True

    def add_all(self, numbers: Int64s) -> Bools:
        """Add numbers in order; return the mask of those that have not been seen before.

        A negative number stands for a row without one, which nothing has been seen of.
        """
        without = numbers < 0
        if without.any():
            fresh = without.copy()
            if not without.all():
                fresh[~without] = self.add_all(numbers[~without])
            return fresh
        first, last = int(numbers[0]), int(numbers[-1])
        if last - first == len(numbers) - 1 and (np.diff(numbers) == 1).all():
            highest = self.highest
            if highest is None or first > highest:
                self._add_range(first, last + 1)
                return np.ones(len(numbers), np.bool_)
        return np.fromiter(map(self.add, numbers.tolist()), np.bool_, len(numbers))

    def _add_range(self, begin: int, end: int) -> None:
        """Add a range of which no number has been seen."""
        begins, ends = self._begins, self._ends
        place = bisect_right(begins, begin)
        if place and ends[place - 1] == begin:
            place -= 1
            ends[place] = end
        else:
            begins.insert(place, begin)
            ends.insert(place, end)
        if place + 1 < len(begins) and begins[place + 1] == end:
            ends[place] = ends.pop(place + 1)
            del begins[place + 1]
        if begins[0] == self.mark or len(begins) > WINDOW:
            self.mark = ends.pop(0)
            del begins[0]

    def save(self) -> list[Any]:
        """Return the mark and the ranges as plain values."""
        return [self.mark, self._begins, self._ends]

    def load(self, state: Sequence[Any]) -> None:
        """Continue from the result of ``save``."""
        self.mark, self._begins, self._ends = state[0], list(state[1]), list(state[2])
