"""Pauses between the attempts to reach another service."""

from __future__ import annotations

import random
import time

# seconds before the second attempt, and the most between two
FIRST, MOST = 0.1, 10.0


class Backoff:
    """Pauses that grow, for ``patience`` seconds in all.

    >>> waits = Backoff(0.05)
    >>> waits.next() is None, Backoff(60).next(asked=3)
    (True, 3)
    """

    def __init__(self, patience: float) -> None:
        self._end = time.monotonic() + patience
        self._pause = FIRST

    def next(self, asked: float = 0.0) -> float | None:
        """Return the seconds to wait before the next attempt; None if there is no time for one.

        ``asked``: the other side has asked for so many seconds.
        """
        wait = asked or self._pause * random.uniform(0.5, 1)
        self._pause = min(2 * self._pause, MOST)
        return None if time.monotonic() + wait > self._end else wait
