"""Batches of one source that wait, in order: in memory up to a bound, and on disk beyond it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rxtemporal.core.batch import EventBatch
from rxtemporal.ingress.settings import HandOff, WhenFull
from rxtemporal.runtime.hand_off.spill import Overflow

# so many small batches in a row become one, for each takes more room than its rows do
LOOSE = 64
SMALL_ROWS = 1_024
# a segment is read as one batch, so it need not be larger than batches are elsewhere
SEGMENT_ROWS = 65_536


def merged(batches: Sequence[EventBatch]) -> EventBatch:
    """Return batches as one, with the last one's CTI; at least one is given."""
    # what has no rows may come from before the fields were known
    full = [batch for batch in batches if len(batch)]
    if not full:
        return batches[-1]
    one = EventBatch.concat(full)
    payload = one.payload if len(full) == 1 else one.payload.rechunk()
    return one.replace(payload=payload, cti=batches[-1].cti)


class Pile:
    """Batches in memory that will become one. CTIs in a row are kept as their last."""

    def __init__(self) -> None:
        self.rows = 0
        self._batches: list[EventBatch] = []
        self._loose = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def add(self, batch: EventBatch) -> None:
        """Put a batch behind the others."""
        batches = self._batches
        if batches and not len(batch):
            batches[-1] = batches[-1].replace(cti=batch.cti)
            return
        batches.append(batch)
        self.rows += len(batch)
        self._loose = self._loose + 1 if len(batch) < SMALL_ROWS else 0
        if self._loose == LOOSE:
            batches[-LOOSE:] = [merged(batches[-LOOSE:])]
            self._loose = 0

    def take(self) -> list[EventBatch]:
        """Return everything, and be empty."""
        batches, self._batches = self._batches, []
        self.rows = self._loose = 0
        return batches


@dataclasses.dataclass(slots=True)
class Taken:
    """What was taken out of a backlog: batches, a segment that has to be read, more batches."""

    before: list[EventBatch]
    segment: int | None
    after: list[EventBatch]
    completed: bool = False


class Backlog:
    """What waits of one source. Whoever owns it serialises, except for ``read``.

    ``rows`` wait in memory. Without settings, or with ``BLOCK``, everything does: the owner sees to
    the bound. With ``SPILL`` memory holds the oldest rows and a tail of the newest; what lies
    between them is on disk.
    """

    def __init__(self, settings: HandOff | None) -> None:
        self._head, self._tail = Pile(), Pile()
        self.overflow: Overflow | None = None
        self.segment_rows = 0
        self._most = 0
        if settings is not None and settings.when_full is WhenFull.SPILL:
            self.overflow = Overflow(settings.path)
            # the tail and the rows that wait for a CTI have a share of the bound each
            self.segment_rows = min(SEGMENT_ROWS, settings.max_rows // 4)
            self._most = settings.max_rows - 2 * self.segment_rows

    def __bool__(self) -> bool:
        return bool(self._head or self._tail or self._segments)

    @property
    def _segments(self) -> bool:
        return self.overflow is not None and bool(self.overflow.segments)

    @property
    def rows(self) -> int:
        """The rows in memory."""
        return self._head.rows + self._tail.rows

    @property
    def rows_on_disk(self) -> int:
        """The rows on disk."""
        return sum(rows for _, rows in self.overflow.segments) if self.overflow else 0

    def put(self, batch: EventBatch) -> None:
        """Put a batch behind the others.

        ``SpoolError`` if rows cannot be written to disk: then they are in memory, none is lost.
        """
        overflows = self._segments or bool(self._tail)
        fits = self.overflow is None or self._head.rows + len(batch) <= self._most
        if not overflows and fits:
            self._head.add(batch)
            return
        self._tail.add(batch)
        assert self.overflow is not None
        if self._tail.rows > self.segment_rows:
            self._spill(self.overflow)

    def _spill(self, overflow: Overflow) -> None:
        batch = merged(self._tail.take())
        try:
            overflow.write(batch)
        except BaseException:
            self._tail.add(batch)
            raise

    def take(self) -> Taken:
        """Return what is next: what waits in memory, or the oldest segment and what follows it."""
        before, segment = self._head.take(), None
        if not before and self._segments:
            assert self.overflow is not None
            segment, _ = self.overflow.segments.popleft()
        return Taken(before, segment, [] if self._segments else self._tail.take())

    def read(self, taken: Taken) -> EventBatch | None:
        """Return what was taken as one batch; reads and deletes a segment."""
        batches = taken.before + taken.after
        if taken.segment is not None:
            assert self.overflow is not None
            batches.insert(len(taken.before), self.overflow.read(taken.segment))
        return merged(batches) if batches else None

    def close(self) -> None:
        """Delete what is on disk."""
        if self.overflow is not None:
            self.overflow.close()
