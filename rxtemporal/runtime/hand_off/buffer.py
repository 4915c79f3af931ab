"""Buffer of one source's waiting batches: in memory up to a bound, on disk beyond it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import Columns, SeriesColumn
from rxtemporal.ingress.settings import HandOff, WhenFull
from rxtemporal.runtime.hand_off.spill import SpillFile, SpillFiles

# so many small batches in a row are merged, since each takes more memory than its rows
MERGED_BATCHES = 64
SMALL_ROWS = 1_024
# a file is read as one batch, so it need not be larger than batches are elsewhere
FILE_ROWS = 65_536


def merge(batches: Sequence[EventBatch]) -> EventBatch:
    """Return one or more batches as one, with the CTI of the last."""
    # a batch without rows may be from before the fields were known
    full = [batch for batch in batches if len(batch)]
    if not full:
        return batches[-1]
    one = EventBatch.concat(full)
    columns = one.columns if len(full) == 1 else _rechunk(one.columns)
    return one.replace(payload=columns, cti=batches[-1].cti)


def _rechunk(columns: Columns) -> Columns:
    """Return the same columns, those of polars in one chunk each."""
    each = [
        SeriesColumn(column.series.rechunk()) if isinstance(column, SeriesColumn) else column
        for column in columns.columns
    ]
    return Columns(columns.schema, each, columns.height)


class MemoryBuffer:
    """Batches in memory that will be delivered as one. Of CTIs in a row only the last is kept."""

    def __init__(self) -> None:
        self.rows = 0
        self._batches: list[EventBatch] = []
        self._small = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, batch: EventBatch) -> None:
        """Put a batch at the end."""
        batches = self._batches
        if batches and not len(batch):
            batches[-1] = batches[-1].replace(cti=batch.cti)
            return
        batches.append(batch)
        self.rows += len(batch)
        self._small = self._small + 1 if len(batch) < SMALL_ROWS else 0
        if self._small == MERGED_BATCHES:
            batches[-MERGED_BATCHES:] = [merge(batches[-MERGED_BATCHES:])]
            self._small = 0

    def take(self) -> list[EventBatch]:
        """Take out everything."""
        batches, self._batches = self._batches, []
        self.rows = self._small = 0
        return batches


@dataclasses.dataclass(slots=True)
class Chunk:
    """Part of a buffer that was taken out: batches, behind a file if there is one.

    ``completed`` is true if the source ends behind it.
    """

    batches: list[EventBatch]
    file: SpillFile | None = None
    completed: bool = False

    def read(self) -> EventBatch | None:
        """Return everything as one batch; reads and deletes the file."""
        batches = self.batches if self.file is None else [self.file.read(), *self.batches]
        return merge(batches) if batches else None


class SpillBuffer:
    """Buffer of one source's waiting batches. Its owner serialises all calls.

    ``rows`` are those in memory. Without settings, or with ``BLOCK``, that is all of them: the
    owner sees to the bound. With ``SPILL`` memory holds the oldest rows and the newest; those
    between them are on disk.
    """

    def __init__(self, settings: HandOff | None) -> None:
        self._head, self._tail = MemoryBuffer(), MemoryBuffer()
        self._files: SpillFiles | None = None
        self.file_rows = 0
        self._most = 0
        if settings is not None and settings.when_full is WhenFull.SPILL:
            self._files = SpillFiles(settings.path)
            # the newest rows and the rows that wait for a CTI each have a share of the bound
            self.file_rows = min(FILE_ROWS, settings.max_rows // 4)
            self._most = settings.max_rows - 2 * self.file_rows

    def __bool__(self) -> bool:
        return bool(self._head or self._tail or self.rows_on_disk)

    @property
    def rows(self) -> int:
        """The rows in memory."""
        return self._head.rows + self._tail.rows

    @property
    def rows_on_disk(self) -> int:
        """The rows on disk."""
        return 0 if self._files is None else self._files.rows

    @property
    def rows_spilled(self) -> int:
        """The rows that have ever gone to disk."""
        return 0 if self._files is None else self._files.rows_spilled

    def put(self, batch: EventBatch) -> None:
        """Put a batch at the end.

        ``SpoolError`` if rows cannot be written to disk; they stay in memory then, none is lost.
        """
        if self._files is None or self._fits(batch):
            self._head.put(batch)
            return
        self._tail.put(batch)
        if self._tail.rows > self.file_rows:
            self._spill(self._files)

    def _fits(self, batch: EventBatch) -> bool:
        overflows = bool(self._tail or self.rows_on_disk)
        return not overflows and self._head.rows + len(batch) <= self._most

    def _spill(self, files: SpillFiles) -> None:
        batch = merge(self._tail.take())
        try:
            files.write(batch)
        except BaseException:
            self._tail.put(batch)
            raise

    def take(self) -> Chunk:
        """Take out all batches in memory, or the oldest file and the batches that follow it."""
        chunk = Chunk(self._head.take())
        if not chunk.batches and self.rows_on_disk:
            assert self._files is not None
            chunk.file = self._files.take()
        if not self.rows_on_disk:
            chunk.batches += self._tail.take()
        return chunk

    def close(self) -> None:
        """Delete the files on disk."""
        if self._files is not None:
            self._files.close()
