"""Windows of an operator that began in the middle of its input: incomplete ones are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME

# returns starts and ends of the windows of rows with these starts and ends; None if unknown
FindWindows = Callable[[Int64s, Int64s], tuple[Int64s, Int64s] | None]


class CutWindows:
    """Drops the results of windows that begin before the time from which on all rows are there.

    A window operator that reads such results has incomplete windows for as long as one that was
    dropped lasts: ``above`` are those in front. Its windows end after those, and so are known
    later. Holds the edge ids of rows that were dropped and have not ended.
    """

    __slots__ = ("_find", "_open", "_until", "above", "since")

    def __init__(self, since: int, find: FindWindows, above: Sequence[CutWindows] = ()) -> None:
        self.since = since
        self._find = find
        self.above = above
        self._until = MIN_TIME
        self._open: set[int] = set()

    def follow(self, above: Sequence[CutWindows]) -> None:
        """Note those in front, of which windows here may lack results."""
        self.above = above

    @property
    def until(self) -> int:
        """The time from which on no dropped result is missing; the end of time if one is open."""
        return MAX_TIME if self._open else self._until

    def drop_incomplete(self, batch: EventBatch) -> EventBatch:
        """Return the results of complete windows, with the same CTI."""
        if not len(batch):
            return batch
        since = max([self.since, *(each.until for each in self.above)])
        windows = self._find(batch.start, batch.end)
        kept = (batch.start if windows is None else windows[0]) >= since
        closing = batch.find_ends()
        if batch.has_edges:
            is_begin = batch.edge != 0 if closing is None else (batch.edge != 0) & ~closing
            self._open |= {*batch.edge[is_begin & ~kept].tolist()}
        if closing is not None:  # a row ends if it was given, whatever has been dropped since then
            kept[closing] = ~np.isin(batch.edge[closing], [*self._open])
            self._open -= {*batch.edge[closing & ~kept].tolist()}
        if kept.all():
            return batch
        dropped = batch.take(~kept)
        ends = dropped.end < MAX_TIME
        if ends.any():
            self._until = max(self._until, int(dropped.end[ends].max()))
        return batch.take(kept)

    def save(self) -> list[Any]:
        """Return the times and open rows as plain values."""
        return [self.since, self._until, sorted(self._open)]

    def load(self, state: Sequence[Any]) -> None:
        """Continue with what ``save`` returned."""
        self.since, self._until, opened = state
        self._open = set(opened)
