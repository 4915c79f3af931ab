"""Windows of an operator that began in the middle of its input: incomplete ones are dropped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME

# starts and ends of windows
Windows: TypeAlias = tuple[Int64s, Int64s]
# returns the windows of rows with these starts and ends; None if unknown
FindWindows = Callable[[Int64s, Int64s], Windows | None]
# returns the time from which on a stream is complete whose input is complete from a time on
FindComplete = Callable[[int], int]


class CutWindows:
    """Drops the results of windows that begin before the time from which on all rows are there.

    A window operator that reads such results has incomplete windows for as long as one that was
    dropped lasts: ``above`` are those in front, each with the way of a time through the operators
    between, and through this one. Its windows end after those, and so are known later. With
    ``drops=False`` the results leave, as rows beside which others are missing. Holds the edge ids
    of incomplete rows that have not ended.
    """

    __slots__ = ("_drops", "_find", "_open", "_until", "above", "since")

    def __init__(self, since: int, find: FindWindows, *, drops: bool = True) -> None:
        self.since = since
        self._find = find
        self._drops = drops
        self.above: Sequence[tuple[CutWindows, FindComplete]] = ()
        self._until = MIN_TIME
        self._open: set[int] = set()

    def follow(self, above: Sequence[tuple[CutWindows, FindComplete]]) -> None:
        """Note those in front, of which windows here may lack results."""
        self.above = above

    @property
    def until(self) -> int:
        """The time from which on no incomplete result lives; the end of time if one is open."""
        return MAX_TIME if self._open else self._until

    def find_since(self) -> int:
        """Return the earliest start of a window that lacks nothing."""
        return max([self.since, *(find(each.until) for each, find in self.above)])

    def drop_incomplete(self, batch: EventBatch, windows: Windows | None = None) -> EventBatch:
        """Return the results of complete windows, with the same CTI.

        ``windows`` are those of the results, if these do not live for them.
        """
        if not len(batch):
            return batch
        since = self.find_since()
        windows = windows or self._find(batch.start, batch.end)
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
        return batch.take(kept) if self._drops else batch

    def save(self) -> list[Any]:
        """Return the times and open rows as plain values."""
        return [self.since, self._until, sorted(self._open)]

    def load(self, state: Sequence[Any]) -> None:
        """Continue with what ``save`` returned."""
        self.since, self._until, opened = state
        self._open = set(opened)
