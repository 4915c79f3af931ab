"""Newest rows, CTIs and late events of a live event-flow page, and no more of them."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME

Item = TypeVar("Item")

# so many rows of each node are kept while somebody looks
MOST_ROWS = 2_000


class Newest(Generic[Item]):
    """The newest items, each with its number from 1 on.

    >>> newest = Newest(2)
    >>> for item in "abc":
    ...     newest.put(item)
    >>> newest.read(0), newest.read(2), newest.count
    (['b', 'c'], ['c'], 3)
    """

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._items: deque[Item] = deque(maxlen=most)
        # the items so far, those included that have gone
        self.count = 0

    def put(self, item: Item) -> None:
        """Take an item; the oldest one goes if there are too many."""
        self._items.append(item)
        self.count += 1

    def read(self, after: int) -> list[Item]:
        """Return the items with a higher number than ``after``, as far as they are there."""
        news = min(self.count - after, len(self._items))
        return list(self._items)[len(self._items) - news :]


class NewestRows:
    """The newest rows of one node as batches, each with its step, and its newest CTIs."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int, EventBatch]] = deque()
        self._rows = 0
        # the rows so far, those included that have gone
        self.count = 0
        self.ctis: Newest[tuple[int, int]] = Newest()
        self._cti = MIN_TIME
        # the fields, once there is a row
        self.schema: pl.Schema | None = None

    def put(self, step: int, batch: EventBatch) -> None:
        """Take a batch of a step."""
        self.reach(step, batch.cti)
        if not len(batch):
            return
        self.schema = batch.schema
        self.count += len(batch)
        # a copy, for a batch may be a small part of a large one
        batch = batch.take(np.arange(max(0, len(batch) - MOST_ROWS), len(batch)))
        self._batches.append((self.count, step, batch))
        self._rows += len(batch)
        while self._rows - len(self._batches[0][2]) >= MOST_ROWS:
            self._rows -= len(self._batches.popleft()[2])

    def reach(self, step: int, cti: int) -> None:
        """Take the CTI after a step."""
        if cti > self._cti:
            self._cti = cti
            self.ctis.put((step, cti))

    def read(self, after: int) -> list[tuple[int, EventBatch]]:
        """Return the batches that came after so many rows, each with its step."""
        return [(step, batch) for count, step, batch in self._batches if count > after]
