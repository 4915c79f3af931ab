"""Writer of a folder of segments: one process appends, each segment atomically."""

from __future__ import annotations

import io
import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any, Self

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import SpoolError
from rxtemporal.storage.files import (
    WriterLock,
    make_folder,
    publish,
    remove,
    report_errors,
    sync_folder,
)
from rxtemporal.storage.segments.folder import Segment, SegmentFolder

# version of the layout of the folder, which the package's docstring describes
FORMAT = 1


class SegmentWriter(SegmentFolder):
    """Writer that appends frames as segments; make it with ``open``. Not thread-safe.

    ``last`` is the number of the last segment ever appended (0: none).

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with SegmentWriter.open(folder.name, "numbers", pl.Schema({"x": int})) as writer:
    ...     writer.append_frame(pl.DataFrame({"x": [1, 2]})), writer.read(1)["x"].to_list()
    (1, [1, 2])
    """

    def __init__(
        self, path: str | os.PathLike[str], schema: pl.Schema, lock: WriterLock | None
    ) -> None:
        super().__init__(path)
        self.schema = schema
        self._lock = lock
        # a field that numbers rows, whose highest value is tracked
        self._numbered: str | None = None
        self._last: Segment | None = None
        # the last segment, while its name may not be on disk
        self._unsynced: Segment | None = None

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], name: str, schema: pl.Schema, *, lock: bool = True
    ) -> Self:
        """Create the folder under ``name``, or open the existing one.

        ``schema`` is that of all its segments. Leftovers of an interrupted write are deleted, and
        all waiting segments are read once and verified. Without ``lock`` the caller has to keep a
        second writer out. ``SpoolError``: another process writes it, it belongs to another name or
        schema, it is damaged, the folder cannot be written.
        """
        with report_errors(f"cannot open the spool {path}"):
            make_folder(Path(path))
            writer = cls(path, schema, WriterLock(Path(path) / "lock") if lock else None)
        try:
            writer._settle(name)
        except BaseException:
            writer.close()
            raise
        return writer

    @property
    def last(self) -> int:
        """The number of the last segment ever appended; 0 before the first."""
        return 0 if self._last is None else self._last.sequence

    @property
    def highest(self) -> int | None:
        """The highest row number ever appended, 0 before the first; None if not known."""
        if self._last is None:
            return None if self._numbered is None else 0
        return self._last.highest

    def append_frame(self, frame: pl.DataFrame, cti: int = MIN_TIME) -> int:
        """Publish a frame as the next segment and return its number; it is on disk afterwards.

        ``cti`` is the CTI after it, if there is one. Costs two small syncs and one of the rows.
        ``SpoolError`` if it cannot be written: then the call can be repeated. The folder is
        unchanged, unless only the last sync has failed: then readers may have seen the segment, so
        it stays, and the next call completes it.
        """
        self._check_open()
        data = _arrow(frame)
        segment = self._facts(data, self.last + 1, frame, cti)
        with report_errors(f"cannot write segment {segment.sequence} of {self.path}"):
            if self._unsynced is not None:
                self._sync()
            self._publish(segment, data)
        return segment.sequence

    def _complete_last(self, frame: pl.DataFrame, cti: int) -> bool:
        """Complete a segment whose last sync has failed; return True if it is this frame."""
        given = self._facts(_arrow(frame), self.last, frame, cti)
        repeated = given == self._unsynced
        with report_errors(f"cannot write segment {self.last} of {self.path}"):
            self._sync()
        return repeated

    def _facts(self, data: bytes, sequence: int, frame: pl.DataFrame, cti: int) -> Segment:
        highest: Any = self.highest
        if self._numbered is not None and highest is not None and frame.height:
            highest = max(highest, frame[self._numbered].max())
        return Segment(sequence, frame.height, cti, len(data), zlib.crc32(data), highest)

    def _check_open(self) -> None:
        if self._lock is not None and not self._lock.held:
            raise SpoolError(
                f"the spool {self.path} is not open for writing here: it was closed, or its writer "
                "is the process that this one was forked from. Hint: open it in this process."
            )

    def close(self) -> None:
        """Release the folder for another writer; idempotent."""
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _publish(self, segment: Segment, data: bytes) -> None:
        facts, rows = self.file(segment.sequence, "json"), self.file(segment.sequence, "arrow")
        try:
            publish(facts, segment.to_json())
            publish(rows, data)
        finally:
            if rows.exists():
                # readers see the segment from here on, so it must not disappear
                self._last = self._unsynced = segment
            else:
                remove(facts)
        self._sync()

    def _sync(self) -> None:
        sync_folder(self.path)
        self._unsynced = None

    def _settle(self, name: str) -> None:
        """Check or write the header, delete leftovers, verify, and find the last segment."""
        fields = [[field, str(dtype)] for field, dtype in self.schema.items()]
        mark, last = self.bounds()
        if last or (self.path / "spool.json").exists():
            self._check_header(name, fields)
        else:
            header = {"format": FORMAT, "id": uuid.uuid4().hex, "query": name, "schema": fields}
            with report_errors(f"cannot create the spool {self.path}"):
                publish(self.path / "spool.json", json.dumps(header).encode())
                sync_folder(self.path)
        for leftover in self.path.glob(".*.part"):
            remove(leftover)
        self.sweep()
        # the facts of a segment whose rows never got their name
        remove(self.file(last + 1, "json"))
        for number in range(mark + 1, last + 1):
            self._verify(number)
        self._last = self.describe(last) if last else None

    def _verify(self, number: int) -> None:
        try:
            self.content(number)
        except SpoolError:
            # the reader of a killed run may still be discarding segments
            if number > self.bounds()[0]:
                raise

    def _check_header(self, name: str, fields: list[list[str]]) -> None:
        header = self.header()
        for what, found, given in [
            ("format", header["format"], FORMAT),
            ("query", header["query"], name),
            ("schema", header["schema"], fields),
        ]:
            if found != given:
                raise SpoolError(
                    f"the spool {self.path} has the {what} {found!r}, but this run has {given!r}. "
                    "Hint: give a changed query its own path, or delete that folder and what "
                    "was made from it."
                )


def _arrow(frame: pl.DataFrame) -> bytes:
    """Return the rows as an Arrow IPC file of the oldest layout, which every reader knows."""
    buffer = io.BytesIO()
    frame.rechunk().write_ipc(buffer, compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()
