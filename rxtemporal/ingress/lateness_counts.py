"""Histogram of how late the late events of a stream were."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import TICKS_PER_SECOND

# upper bounds of the buckets in seconds, each inclusive; one more bucket has what is above
BOUNDS = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
_TICKS = [round(bound * TICKS_PER_SECOND) for bound in BOUNDS]


class LatenessCounts:
    """Numbers of late events by their distance from the CTI that they broke.

    Only events that are before a CTI count. ``counts`` has one number for each bucket, ``total``
    the sum of the distances in ticks. Its owner serialises the calls that change it.

    >>> lateness = LatenessCounts()
    >>> lateness.add(2_000_000)
    >>> lateness.counts[:4], lateness.total
    ([0, 0, 1, 0], 2000000)
    """

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0

    def add(self, by: int) -> None:
        """Count one event that is so many ticks late, if it is late at all."""
        if by > 0:
            self.counts[bisect_left(_TICKS, by)] += 1
            self.total += by

    def add_all(self, by: Int64s) -> None:
        """Count many events."""
        late = by[by > 0]
        found = np.searchsorted(_TICKS, late).tolist()
        for bucket, count in enumerate(np.bincount(found, minlength=len(self.counts)).tolist()):
            self.counts[bucket] += count
        self.total += int(late.sum())
