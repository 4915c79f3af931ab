"""Results so far of a running process, for those who look at its live page."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.safe_text import describe_failure
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.run.process import Process

# seconds from one look to the next, at least
PAUSE = 0.9
# a look that takes long is followed by a pause of so many times as long
REST = 9
# seconds that a look waits for a process that is busy
PATIENCE = 0.2
# so many rows of a query are shown
MOST_ROWS = 2_000


class SoFar(NamedTuple):
    """Result of a look at one query: its last rows, the number of all of them, and an error."""

    rows: EventBatch
    total: int
    error: str = ""


_NOTHING = SoFar(EventBatch.empty(pl.Schema(), MIN_TIME), 0)


class ResultsSoFar:
    """Looks at the results so far of each query of a process, shared by all who ask.

    There is one look at a time, and looks take about a tenth of the time at most: whoever asks
    meanwhile gets what the last one has found. While a query is busy, that stays. Threads: any.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._lock = threading.Lock()
        self._due = 0.0
        # what is known of each query, in their order
        self.found = [_NOTHING] * len(process._outlets)

    def read(self) -> list[SoFar]:
        """Return what is known of each query, after a look if it is time."""
        if self._lock.acquire(blocking=False):
            try:
                begun = time.monotonic()
                if begun >= self._due:
                    self.found = [self._look(*each) for each in enumerate(self.found)]
                    ended = time.monotonic()
                    self._due = ended + max(PAUSE, REST * (ended - begun))
            finally:
                self._lock.release()
        return self.found

    def _look(self, number: int, before: SoFar) -> SoFar:
        try:
            rows = self._process._look(number, PATIENCE)
        except TimeoutError:
            return before
        except Exception as error:  # of a user's function, too
            return _NOTHING._replace(error=describe_failure(error))
        newest = np.sort(np.argsort(rows.start, kind="stable")[-MOST_ROWS:])
        return SoFar(rows.take(newest), len(rows))
