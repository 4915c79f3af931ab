"""Buffer of one source's waiting batches: in memory up to a bound, on disk beyond it."""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import shutil
import tempfile
import weakref
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.clocks import ClockMoves, Clocks
from rxtemporal.core.columns import Columns, SeriesColumn
from rxtemporal.core.files import make_folder, open_private, remove, report_errors
from rxtemporal.errors import SpoolError
from rxtemporal.ingress.settings import HandOff, WhenFull

TIMES = ("start", "end", "edge")
# in front of a field's name, so that none is that of a time
MARK = "."


@dataclasses.dataclass(frozen=True, slots=True)
class SpillFile:
    """One batch in a file of its own; ``crc32`` is the file's checksum.

    Its first ``size`` bytes are rows; the others are the moves of clocks among them, if any.
    """

    path: Path
    rows: int
    cti: int
    crc32: int
    size: int
    # stay in memory, but for the moves: they are few beside the rows
    clocks: Clocks | None = None

    def read(self) -> EventBatch:
        """Return the batch; ``SpoolError`` if the bytes of the file have changed."""
        with report_errors(f"cannot read spilled rows from {self.path}"):
            data = self.path.read_bytes()
        if zlib.crc32(data) != self.crc32:
            raise SpoolError(
                f"{self.path} is damaged: it has changed since {self.rows:,} rows were spilled "
                "there. Hint: keep other programs out of that folder, and look at the disk; "
                "HandOff(path=…) takes another one."
            )
        frame = pl.read_ipc(io.BytesIO(data[: self.size]))
        start, end, edge = (frame[name].to_numpy() for name in TIMES)
        fields = [field.alias(field.name.removeprefix(MARK)) for field in frame.drop(TIMES)]
        payload = pl.DataFrame(fields) if fields else pl.DataFrame(height=self.rows)
        clocks = self.clocks
        if clocks is not None and len(data) > self.size:
            columns = pl.read_ipc(io.BytesIO(data[self.size :]))
            clocks = clocks.replace_moves(
                ClockMoves(*(columns[name].to_numpy() for name in columns.columns))
            )
        return EventBatch(start, end, edge, payload, self.cti, clocks=clocks)

    def delete(self) -> None:
        """Delete the file."""
        remove(self.path)


class SpillFiles:
    """Batches of one source on disk, in order, in a temporary folder that is deleted at the end.

    ``rows`` counts the rows that have not been taken out. One thread may write while another one
    reads: a file does not change once it is written.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.rows = self.rows_spilled = 0
        self._path = path
        self._process = os.getpid()
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._files: deque[SpillFile] = deque()

    def write(self, batch: EventBatch) -> None:
        """Write a batch behind the others; ``SpoolError`` if that fails, leaving no file."""
        data, clocks = io.BytesIO(), batch.clocks
        _to_frame(batch).write_ipc(data)
        size = data.tell()
        if clocks is not None and clocks.moves is not None:
            moves = dataclasses.asdict(clocks.moves)
            pl.DataFrame(moves).write_ipc(data)
            clocks = clocks.replace_moves(None)
        with report_errors(f"cannot spill rows to {self._path or tempfile.gettempdir()}"):
            path = self._make_folder() / f"{next(self._numbers)}.arrow"
            try:
                with open(path, "wb", opener=open_private) as file:
                    file.write(data.getbuffer())
            except BaseException:
                remove(path)
                raise
        crc32 = zlib.crc32(data.getbuffer())
        clocks = None if clocks is None else clocks.condense()
        self._files.append(SpillFile(path, len(batch), batch.cti, crc32, size, clocks))
        self.rows += len(batch)
        self.rows_spilled += len(batch)

    def _make_folder(self) -> Path:
        if self._folder is None:
            if self._path is not None:
                make_folder(Path(self._path))
            self._folder = Path(tempfile.mkdtemp(prefix="rxtemporal-", dir=self._path))
            weakref.finalize(self, _delete, self._folder, self._process)
        return self._folder

    def list_files(self) -> list[SpillFile]:
        """Return the files that have not been taken out, oldest first."""
        return [*self._files]

    def take(self) -> SpillFile:
        """Take out the oldest file; there has to be one."""
        file = self._files.popleft()
        self.rows -= file.rows
        return file

    def close(self) -> None:
        """Delete the folder with all remaining files."""
        self._files.clear()
        self.rows = 0
        if self._folder is not None:
            _delete(self._folder, self._process)


def _delete(folder: Path, process: int) -> None:
    """Delete the folder of a process, unless this one was forked from that."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _to_frame(batch: EventBatch) -> pl.DataFrame:
    times = [
        pl.Series(name, np.ascontiguousarray(values), pl.Int64)
        for name, values in zip(TIMES, (batch.start, batch.end, batch.edge), strict=True)
    ]
    return pl.DataFrame([*times, *(each.alias(MARK + each.name) for each in batch.payload)])


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
        return batches[-1].replace(clocks=Clocks.unite(batches))
    one = EventBatch.concat(full)
    columns = one.columns if len(full) == 1 else _rechunk(one.columns)
    return one.replace(payload=columns, cti=batches[-1].cti, clocks=Clocks.unite(batches))


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
            batches[-1] = batches[-1].advance(batch)
            return
        batches.append(batch)
        self.rows += len(batch)
        self._small = self._small + 1 if len(batch) < SMALL_ROWS else 0
        if self._small == MERGED_BATCHES:
            batches[-MERGED_BATCHES:] = [merge(batches[-MERGED_BATCHES:])]
            self._small = 0

    def list_batches(self) -> list[EventBatch]:
        """Return what is there, and leave it."""
        return [*self._batches]

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

    def set_completed(self, *, completed: bool) -> None:
        """Note if the source ends behind it."""
        self.completed = completed

    def read(self) -> EventBatch | None:
        """Return everything as one batch; reads and deletes the file."""
        batches = self.batches
        if self.file is not None:
            batches = [self.file.read(), *batches]
            self.file.delete()
        return merge(batches) if batches else None


class QueueCopy:
    """Copy of what waits in a buffer, oldest first: batches, and files to be read."""

    def __init__(self, *waiting: EventBatch | SpillFile) -> None:
        self._waiting = waiting
        self.batches: list[EventBatch] = []

    def read(self) -> None:
        """Read the files; nothing is taken out of the buffer meanwhile."""
        self.batches = [
            each.read() if isinstance(each, SpillFile) else each for each in self._waiting
        ]


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

    def copy(self) -> QueueCopy:
        """Return a copy of what waits."""
        files = [] if self._files is None else self._files.list_files()
        return QueueCopy(*self._head.list_batches(), *files, *self._tail.list_batches())

    def close(self) -> None:
        """Delete the files on disk."""
        if self._files is not None:
            self._files.close()
