"""Rows of several partitions in one order: that of their times, as far as it is known."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from rxtemporal.brokers.kafka_messages import Piece
from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME


class _Rows(NamedTuple):
    """Rows, and for each the highest start of its partition so far."""

    batch: EventBatch
    times: Int64s


class PartitionRows:
    """The rows of one partition that have been read and not taken.

    ``next`` is the offset to be read next, ``position`` that after the rows taken. ``reached`` is
    the highest start read. ``at_end``: the partition had no more messages when it was last read.
    """

    def __init__(self, offset: int) -> None:
        self.next = self.position = offset
        self.reached = MIN_TIME
        self.at_end = False
        self.rows = 0
        # counters since the start, of messages read
        self.events = self.rejected = self.tombstones = 0
        self._pieces: deque[tuple[Piece, Int64s]] = deque()
        # how many rows of the first piece have been taken
        self._begin = 0

    @property
    def first(self) -> int | None:
        """The time of the next row; None without one."""
        for piece, times in self._pieces:
            if len(piece.offsets):
                return int(times[self._begin])
        return None

    def add(self, piece: Piece) -> None:
        """Add the messages after those added before."""
        times = np.maximum(np.maximum.accumulate(piece.batch.start), self.reached)
        self.at_end, self.next = False, piece.end
        self.events += len(times)
        self.rejected += len(piece.rejected)
        self.tombstones += piece.tombstones
        self.rows += len(times)
        if len(times):
            self.reached = int(times[-1])
        self._pieces.append((piece, times))

    def take(self, until: int) -> list[_Rows]:
        """Take the rows up to and including a time, in the order of their offsets."""
        taken = []
        while self._pieces:
            piece, times = self._pieces[0]
            begin = self._begin
            # a limit may be below an earlier one, when a partition goes on that was at its end
            end = max(int(np.searchsorted(times, until, side="right")), begin)
            if end > begin:
                taken.append(_Rows(piece.batch.slice(begin, end), times[begin:end]))
                self.rows -= end - begin
            if end < len(times):
                self._begin, self.position = end, int(piece.offsets[end])
                break
            self._pieces.popleft()
            self._begin, self.position = 0, piece.end
        return taken


class PartitionMerge:
    """Rows of all partitions of a stream, merged by time.

    A row's time is the highest start of its partition so far, so the rows of a partition keep their
    order, and a row is no later than it is within its own partition. A partition of which more is
    to come holds back rows of the others beyond the time that it has reached; one that has been
    read to its end does not.
    """

    def __init__(self) -> None:
        self.partitions: dict[tuple[str, int], PartitionRows] = {}
        self.reached = MIN_TIME

    @property
    def _limit(self) -> int:
        behind = (each.reached for each in self.partitions.values() if not each.at_end)
        return min(behind, default=MAX_TIME)

    @property
    def first(self) -> int | None:
        """The time of the next row that can be taken; None if none can."""
        firsts = (each.first for each in self.partitions.values())
        first = min((each for each in firsts if each is not None), default=None)
        return None if first is None or first > self._limit else first

    @property
    def rows(self) -> int:
        """The number of rows that wait."""
        return sum(each.rows for each in self.partitions.values())

    def take(self, until: int = MAX_TIME) -> EventBatch | None:
        """Take the rows up to a time, as far as no partition holds them back; None without any."""
        limit = min(self._limit, until)
        parts = [part for each in self.partitions.values() for part in each.take(limit)]
        if not parts:
            return None
        times = np.concatenate([part.times for part in parts])
        self.reached = max(self.reached, int(times.max()))
        rows = EventBatch.concat([part.batch for part in parts])
        if len(parts) > 1 and (times[1:] < times[:-1]).any():
            rows = rows.take(np.argsort(times, kind="stable"))
        return rows
