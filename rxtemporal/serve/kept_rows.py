"""Results kept for readers: the last rows of a query, read from a position in time."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, loads

# so many small batches, or rows of them, become one
_BATCHES, _ROWS = 64, 4_096


class _Part(NamedTuple):
    """Rows that were written together, and about how many bytes they take."""

    batch: EventBatch
    bytes: int

    @property
    def last(self) -> int:
        """The start of the last row."""
        return int(self.batch.start[-1])


class _Kept(NamedTuple):
    """All that is kept at one moment; never modified, so that readers need no lock."""

    run: int
    oldest: int = MIN_TIME
    cti: int = MIN_TIME
    rows: int = 0
    bytes: int = 0
    parts: tuple[_Part, ...] = ()
    # how many of the parts are not merged with the next ones any more
    compact: int = 0


class RowsRead(NamedTuple):
    """Rows from a position on; ``after`` is the start of the next row, or the CTI.

    ``rows`` is None if there are none. ``run`` counts the runs whose rows have been kept.
    """

    rows: EventBatch | None
    after: int
    run: int


class KeptRows:
    """The last rows of a query, in order of start.

    A **position** is a time in ticks: a reader at ``t`` has been given exactly the rows with
    ``start < t``. It holds in every life of the run, since after a batch with CTI ``t`` exactly
    these have been written, whatever the boundaries of batches. The order of rows with the same
    start is the same in one run, and may be another one in the next.

    At most ``most_rows`` rows stay, of about ``most_bytes`` bytes, and an eighth more before the
    oldest go. ``oldest`` is the first position from which all rows are there.

    Threads: one that appends, any that read.
    """

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self.most_rows, self.most_bytes = most_rows, most_bytes
        self._kept = _Kept(0)

    @property
    def oldest(self) -> int:
        """The first position from which no row is missing."""
        return self._kept.oldest

    @property
    def cti(self) -> int:
        """The CTI of the last batch."""
        return self._kept.cti

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._kept.rows

    def clear(self) -> None:
        """Begin again without rows, at the beginning of time."""
        self._kept = _Kept(self._kept.run + 1)

    def append(self, batch: EventBatch) -> None:
        """Keep the rows of the next batch, in order of start and before its CTI."""
        kept = self._kept
        if not len(batch):
            self._kept = kept._replace(cti=batch.cti)
            return
        part = _Part(batch, batch.estimate_bytes())
        parts, compact = (*kept.parts, part), kept.compact
        if len(batch) >= _ROWS or len(parts) - compact >= _BATCHES:
            parts, compact = _merge(parts, compact)
        kept = kept._replace(
            cti=batch.cti,
            rows=kept.rows + len(batch),
            bytes=kept.bytes + part.bytes,
            parts=parts,
            compact=compact,
        )
        rows, size = self.most_rows, self.most_bytes
        is_over = kept.rows > rows + rows // 8 or kept.bytes > size + size // 8
        self._kept = self._drop_excess(kept) if is_over else kept

    def _drop_excess(self, kept: _Kept) -> _Kept:
        return _drop(kept, kept.rows - self.most_rows, kept.bytes - self.most_bytes)

    def read(self, position: int, skipped: int, most: int) -> RowsRead:
        """Return up to ``most`` rows from a position on, without the first ``skipped`` of them.

        There are none if time has not come so far, and if the first rows are gone.
        """
        kept = self._kept
        if position < kept.oldest:
            return RowsRead(None, position, kept.run)
        number = bisect_left(kept.parts, position, key=lambda part: part.last)
        found: list[EventBatch] = []
        after = max(position, kept.cti)
        for rows, _ in kept.parts[number:]:
            begin = skipped + int(np.searchsorted(rows.start, position))
            skipped = max(0, begin - len(rows))
            if begin >= len(rows):
                continue
            end = min(len(rows), begin + most)
            if end > begin:
                found.append(rows.slice(begin, end))
                most -= end - begin
            if end < len(rows):
                after = int(rows.start[end])
                break
        return RowsRead(EventBatch.concat(found) if found else None, after, kept.run)

    # Checkpoints ----------------------------------------------------------------------------------

    def save(self, ended: bool) -> Callable[[], bytes]:
        """Return a function that returns the rows, as they are now, as bytes."""
        kept = self._kept

        def finish() -> bytes:
            rows = EventBatch.concat([part.batch for part in kept.parts]) if kept.parts else None
            return dumps("results", [kept.oldest, kept.cti, ended, rows])

        return finish

    def load(self, state: bytes) -> bool:
        """Keep the rows of a state; return True if the stream had ended."""
        oldest, cti, ended, rows = loads(
            "results", state, "the state of the results", "or begin with a new folder"
        )
        kept = _Kept(self._kept.run + 1, oldest, cti)
        if rows is not None:
            size = rows.estimate_bytes()
            parts = (_Part(rows, size),)
            kept = kept._replace(rows=len(rows), bytes=size, parts=parts, compact=1)
        self._kept = self._drop_excess(kept)
        return bool(ended)


def _merge(parts: tuple[_Part, ...], compact: int) -> tuple[tuple[_Part, ...], int]:
    """Make one part of those that are not compact; one that has few rows is merged again."""
    small = parts[compact:]
    merged = _Part(EventBatch.concat([part.batch for part in small]), sum(p.bytes for p in small))
    return (*parts[:compact], merged), compact + (len(merged.batch) >= _ROWS)


def _drop(kept: _Kept, rows: int, size: int) -> _Kept:
    """Drop the oldest rows, so many and of so many bytes; rows with one start go together."""
    oldest, count, left = kept.oldest, kept.rows, kept.bytes
    rest = kept.parts
    while rest and (rows > 0 or size > 0):
        (part, part_bytes), rest = rest[0], rest[1:]
        share = math.ceil(size * len(part) / max(part_bytes, 1))
        wanted = min(max(rows, share), len(part))
        cut = int(np.searchsorted(part.start, part.start[wanted - 1], "right"))
        taken = part_bytes * cut // len(part)
        oldest = int(part.start[cut - 1]) + 1
        rows, size, count, left = rows - cut, size - taken, count - cut, left - taken
        if cut < len(part):
            # copied, so that the memory of the rows in front is free
            rest = (_Part(part.take(np.arange(cut, len(part))), part_bytes - taken), *rest)
            break
    compact = max(0, kept.compact - (len(kept.parts) - len(rest)))
    return kept._replace(oldest=oldest, rows=count, bytes=left, parts=rest, compact=compact)
