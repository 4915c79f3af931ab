"""Results kept for readers: the last rows of a query, read from a position in time."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, loads

# so many small batches, or rows of them, become one
_BATCHES, _ROWS = 64, 4_096


class KeptRows:
    """The last rows of a query, in order of start.

    A **position** is a time in ticks: a reader at ``t`` has been given exactly the rows with
    ``start < t``. It holds in every life of the run, since after a batch with CTI ``t`` exactly
    these have been written, whatever the boundaries of batches.

    At most ``most`` rows stay, and an eighth more before the oldest go. ``oldest`` is the first
    position from which all rows are there.

    Threads: one that appends, any that read.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        """Begin again without rows, at the beginning of time."""
        with self._lock:
            self.oldest = self.cti = MIN_TIME
            self.count = 0
            # batches with rows, and how many of them are compact
            self._batches: list[EventBatch] = []
            self._compact = 0

    def append(self, batch: EventBatch) -> None:
        """Keep the rows of the next batch, in order of start and before its CTI."""
        if not len(batch):
            self.cti = batch.cti
            return
        with self._lock:
            self._batches.append(batch)
            self.count += len(batch)
            if len(batch) >= _ROWS or len(self._batches) - self._compact >= _BATCHES:
                self._merge()
            if self.count > self.most + self.most // 8:
                self._trim()
            self.cti = batch.cti

    def _merge(self) -> None:
        small = self._batches[self._compact :]
        self._batches[self._compact :] = [EventBatch.concat(small)]
        # one that has few rows is merged with the next ones again
        if len(self._batches[-1]) >= _ROWS:
            self._compact = len(self._batches)

    def _trim(self) -> None:
        """Drop the oldest rows until ``most`` are left; rows with one start stay together."""
        excess, gone = self.count - self.most, 0
        while excess >= len(self._batches[gone]):
            excess -= len(self._batches[gone])
            gone += 1
            if gone == len(self._batches):
                break
        dropped = self._batches[:gone]
        rest = self._batches[gone:]
        if excess and rest:
            first = rest[0]
            cut = int(np.searchsorted(first.start, first.start[excess - 1], "right"))
            dropped.append(first.slice(0, cut))
            # copied, so that the memory of the rows in front is free
            rest[:1] = [first.take(np.arange(cut, len(first)))] if cut < len(first) else []
        self.oldest = int(dropped[-1].start[-1]) + 1
        self.count -= sum(map(len, dropped))
        self._compact = max(0, self._compact - (len(self._batches) - len(rest)))
        self._batches = rest

    def read(self, position: int, most: int) -> tuple[EventBatch | None, int]:
        """Return about ``most`` rows from a position on, and the position after them.

        Without rows the first is None. The position stays if time has not come so far, and if the
        first rows are gone.
        """
        with self._lock:
            if position < self.oldest:
                return None, position
            cti, (parts, complete) = self.cti, self._find(position, most)
        if not parts:
            return None, max(position, cti)
        rows = EventBatch.concat(parts)
        cut = self._cut(rows, most)
        if cut < len(rows):
            return rows.slice(0, cut), int(rows.start[cut])
        return rows, cti if complete else int(rows.start[-1]) + 1

    def _find(self, position: int, most: int) -> tuple[list[EventBatch], bool]:
        """Return parts with more than ``most`` rows, or all there are and True."""
        number = bisect_left(self._batches, position, key=lambda each: int(each.start[-1]))
        parts: list[EventBatch] = []
        count = 0
        for batch in self._batches[number:]:
            begin = 0 if parts else int(np.searchsorted(batch.start, position))
            parts.append(batch.slice(begin, len(batch)) if begin else batch)
            count += len(parts[-1])
            number += 1
            if count > most:
                break
        return parts, number == len(self._batches)

    @staticmethod
    def _cut(rows: EventBatch, most: int) -> int:
        """Return how many rows to give; those with one start are given together."""
        if len(rows) <= most:
            return len(rows)
        cut = int(np.searchsorted(rows.start, rows.start[most]))
        return cut or int(np.searchsorted(rows.start, rows.start[0], "right"))

    # Checkpoints ----------------------------------------------------------------------------------

    def save(self, ended: bool) -> Callable[[], bytes]:
        """Return a function that returns the rows, as they are now, as bytes."""
        with self._lock:
            batches, reached = [*self._batches], [self.oldest, self.cti, ended]

        def finish() -> bytes:
            rows = EventBatch.concat(batches) if batches else None
            return dumps("results", [*reached, rows])

        return finish

    def load(self, state: bytes) -> bool:
        """Keep the rows of a state; return True if the stream had ended."""
        self.clear()
        oldest, cti, ended, rows = loads(
            "results", state, "the state of the results", "or begin with a new folder"
        )
        with self._lock:
            if rows is not None:
                self._batches, self.count, self._compact = [rows], len(rows), 1
            if self.count > self.most:
                self._trim()
            self.oldest, self.cti = max(oldest, self.oldest), cti
        return bool(ended)
