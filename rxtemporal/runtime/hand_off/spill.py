"""Rows on disk: batches that do not fit into a hand-off, as temporary Arrow files."""

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
from pathlib import Path

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import SpoolError
from rxtemporal.storage.files import make_folder, open_private, remove, report_errors

TIMES = ("start", "end", "edge")
# in front of a field's name, so that none is that of a time
MARK = "."


@dataclasses.dataclass(frozen=True, slots=True)
class SpillFile:
    """One batch in a file of its own; ``crc32`` is the file's checksum."""

    path: Path
    rows: int
    cti: int
    crc32: int

    def read(self) -> EventBatch:
        """Return the batch and delete the file; ``SpoolError`` if its bytes have changed."""
        with report_errors(f"cannot read spilled rows from {self.path}"):
            data = self.path.read_bytes()
        if zlib.crc32(data) != self.crc32:
            raise SpoolError(
                f"{self.path} is damaged: it has changed since {self.rows:,} rows were spilled "
                "there. Hint: keep other programs out of that folder, and look at the disk; "
                "HandOff(path=…) takes another one."
            )
        frame = pl.read_ipc(io.BytesIO(data))
        remove(self.path)
        start, end, edge = (frame[name].to_numpy() for name in TIMES)
        fields = [field.alias(field.name.removeprefix(MARK)) for field in frame.drop(TIMES)]
        payload = pl.DataFrame(fields) if fields else pl.DataFrame(height=self.rows)
        return EventBatch(start, end, edge, payload, self.cti)


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
        data = io.BytesIO()
        _to_frame(batch).write_ipc(data)
        with report_errors(f"cannot spill rows to {self._path or tempfile.gettempdir()}"):
            path = self._make_folder() / f"{next(self._numbers)}.arrow"
            try:
                with open(path, "wb", opener=open_private) as file:
                    file.write(data.getbuffer())
            except BaseException:
                remove(path)
                raise
        crc32 = zlib.crc32(data.getbuffer())
        self._files.append(SpillFile(path, len(batch), batch.cti, crc32))
        self.rows += len(batch)
        self.rows_spilled += len(batch)

    def _make_folder(self) -> Path:
        if self._folder is None:
            if self._path is not None:
                make_folder(Path(self._path))
            self._folder = Path(tempfile.mkdtemp(prefix="rxtemporal-", dir=self._path))
            weakref.finalize(self, _delete, self._folder, self._process)
        return self._folder

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
