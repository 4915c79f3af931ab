"""Sink that writes a file, which is there when the query has completed."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.files import is_at, open_alone, remove
from rxtemporal.errors import CheckpointError, StoppedError
from rxtemporal.sinks.formats import Format, check_types, find_format
from rxtemporal.sinks.sink import ReadySink


class File(ReadySink):
    """Sink that writes one file: Parquet, CSV or JSON lines, as the suffix of its name says.

    The suffix is ``.parquet``, ``.csv``, or ``.json``, ``.jsonl`` or ``.ndjson`` for JSON lines.

    Rows are written into a hidden file beside it (``.NAME.part``) as they come. When the query has
    completed or the process is stopped, the rows so far replace the file atomically. A run that
    fails leaves the file as it was. In a run with ``resume=`` the hidden file stays until the query
    has completed, and the next run continues it: each row is in the result once. While it is
    written, a second run that is to write the same file fails with ``SpoolError``.

    ``time`` is as in ``Print``. A Parquet result has to fit into memory at the end.
    """

    def __init__(self, path: str | os.PathLike[str], *, time: TimeForm | None = None) -> None:
        super().__init__(time)
        self.path = Path(path)
        self._append = _APPENDS[find_format(self.path)]
        self._part = self.path.with_name(f".{self.path.name}.part")
        self._file: BinaryIO | None = None
        self._schema = pl.Schema()
        # the hidden file's length in the checkpoint, and two states: complete, part of a checkpoint
        self._end: int | None = None
        self._complete = self._in_checkpoint = False

    def open(self, query: str, schema: pl.Schema) -> None:
        """Create the hidden file, or cut off the rows written after the checkpoint."""
        check_types(self.path, schema)
        self._schema = schema
        if self._complete:
            return
        end = self._end or 0
        if self._end is not None and not self._has(end):
            raise CheckpointError(
                f"{self._part} lacks rows that the run wrote before its checkpoint. "
                "Hint: restore the file, or begin with a new folder."
            )
        self._file = self._open_part()
        self._file.truncate(end)
        self._file.seek(end)
        if self._end is None and self._append is _append_csv:
            self._empty().write_csv(self._file)

    def _has(self, length: int) -> bool:
        """Return True if the hidden file is so long."""
        return self._part.exists() and self._part.stat().st_size >= length

    def _open_part(self) -> BinaryIO:
        try:
            return open_alone(self._part)
        except FileNotFoundError as error:
            folder = str(self.path.parent)
            raise FileNotFoundError(
                error.errno, "the folder of the result file does not exist", folder
            ) from None

    def write(self, batch: EventBatch) -> None:
        """Append the rows of one batch."""
        if len(batch) and self._file is not None:
            self._append(batch.to_polars(self._form()), self._file)

    def close(self, error: BaseException | None) -> None:
        """Replace the file if the query has completed or the process was stopped."""
        super().close(error)
        if self._file is None:
            return
        try:
            self._flush(self._file)
            if error is None:
                self._replace()
                self._complete = True
            elif isinstance(error, StoppedError):
                self._replace(goes_on=self._in_checkpoint)
        finally:
            goes_on = self._in_checkpoint and not self._complete
            if not goes_on and is_at(self._file, self._part):  # or another run has begun by now
                remove(self._part)
            self._file.close()  # only now another one may write

    def save(self) -> bytes | Callable[[], bytes]:
        """Return a function that writes the rows to disk and returns the hidden file's length."""
        self._in_checkpoint = True
        if self._complete:
            return b"complete"
        if self._file is not None and not self._file.closed:
            self._file.flush()
            self._end = self._file.tell()
            return partial(_sync_up_to, self._file, self._end)
        return b"" if self._end is None else str(self._end).encode()

    def load(self, state: bytes) -> None:
        """Resume at the length that ``save`` returned."""
        self._in_checkpoint = True
        self._complete = state == b"complete"
        self._end = None if self._complete else int(state)

    def _empty(self) -> pl.DataFrame:
        return EventBatch.empty(self._schema, 0).to_polars(self._form())

    @staticmethod
    def _flush(file: BinaryIO) -> int:
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def _replace(self, *, goes_on: bool = False) -> None:
        """Replace the file by the rows so far; ``goes_on``: the hidden file is continued."""
        if self._append is not _append_arrow and not goes_on:
            os.replace(self._part, self.path)
            return
        whole = self._part.with_suffix(".whole")
        try:
            if self._append is _append_arrow:
                with self._part.open("rb") as file:
                    pl.concat([*_arrow_frames(file)] or [self._empty()]).write_parquet(whole)
            else:
                shutil.copyfile(self._part, whole)
            os.replace(whole, self.path)
        finally:
            whole.unlink(missing_ok=True)


def _sync_up_to(file: BinaryIO, end: int) -> bytes:
    with suppress(ValueError):  # closed since then: it was synced before
        os.fsync(file.fileno())
    return str(end).encode()


def _append_csv(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_csv(file, include_header=False)


def _append_json(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_ndjson(file)


def _append_arrow(frame: pl.DataFrame, file: BinaryIO) -> None:
    """Append a frame as an Arrow stream, after its length; a Parquet file cannot be appended to."""
    stream = io.BytesIO()
    frame.write_ipc_stream(stream)
    file.write(len(stream.getvalue()).to_bytes(8, "big") + stream.getvalue())


def _arrow_frames(file: BinaryIO) -> Iterator[pl.DataFrame]:
    while length := file.read(8):
        yield pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "big"))))


_APPENDS: dict[Format, Callable[[pl.DataFrame, BinaryIO], None]] = {
    "csv": _append_csv,
    "parquet": _append_arrow,
    "json": _append_json,
}
