"""The writer's side of a spool: one process appends segments, each wholly or not at all."""

from __future__ import annotations

import io
import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Self

import polars as pl

from rxtemporal.batch import END, START, EventBatch
from rxtemporal.durable import WriterLock, publish, remove, reported, sync_folder
from rxtemporal.errors import SchemaError, SpoolError
from rxtemporal.segments.folder import SEGMENT, Segment, SegmentFolder
from rxtemporal.ticks import describe

__all__ = ["Spool", "rows_frame"]

# the layout of the folder, as the package's page describes it
FORMAT = 1


class Spool(SegmentFolder):
    """The writer's side of a spool; make it with ``Spool.open``. Not for two threads at once.

    ``segments()`` are those not yet discarded, ``last`` is the number of the last one ever appended
    (0: none) and ``cti`` the CTI after it (None: none). Closing lets another writer in.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> batch = EventBatch.from_dicts([{"start_time": 0, "x": 1}], cti=9)
    >>> with Spool.open(folder.name, "readings", batch.schema) as spool:
    ...     spool.append(batch), spool.last, spool.cti
    (1, 1, 9)
    """

    def __init__(self, path: str | os.PathLike[str], schema: pl.Schema, lock: WriterLock) -> None:
        super().__init__(path)
        self.schema = schema
        self._lock = lock
        self._last: Segment | None = None
        # the last segment, while its name may not be on disk
        self._unsynced: Segment | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], name: str, schema: pl.Schema) -> Spool:
        """Create the spool of the query called ``name``, or take up the one that is there.

        Leftovers of an interrupted write are deleted, and everything that waits is read once and
        verified. ``SpoolError``: another process writes it, it belongs to another query or schema,
        it is damaged, the folder cannot be written. ``SchemaError``: a field has a reserved name.
        """
        clash = {START, END, SEGMENT} & set(schema)
        if clash:
            raise SchemaError(
                f"the payload has a field {min(clash)!r}, which is a column of the spool. "
                "Hint: rename it with select()."
            )
        with reported(f"cannot open the spool {path}"):
            Path(path).mkdir(parents=True, exist_ok=True)
            spool = cls(path, schema, WriterLock(Path(path) / "lock"))
        try:
            spool._settle(name)
        except BaseException:
            spool.close()
            raise
        return spool

    @property
    def last(self) -> int:
        """The number of the last segment ever appended; 0 before the first."""
        return 0 if self._last is None else self._last.sequence

    @property
    def cti(self) -> int | None:
        """The CTI after the last segment ever appended; None before the first."""
        return None if self._last is None else self._last.cti

    def segments(self) -> list[int]:
        """Return the numbers of the segments that have not been discarded."""
        mark, last = self.bounds()
        return list(range(mark + 1, last + 1))

    def append(self, batch: EventBatch) -> int:
        """Publish a batch as the next segment and return its number; it is on disk afterwards.

        Costs two small syncs and one of the rows. ``SpoolError`` if it cannot be written: then the
        call can be repeated. The spool is as before, unless only the last sync has failed: then
        readers may have seen the segment and it stays, and repeating the call completes it.
        """
        if not self._lock.held:
            raise SpoolError(
                f"the spool {self.path} is not open for writing here: it was closed, or its writer "
                "is the process that this one was forked from. Hint: open it in this process."
            )
        if batch.schema != self.schema:
            raise SchemaError(f"a batch with {batch.schema} is not for a spool of {self.schema}")
        if self.cti is not None and batch.cti < self.cti:
            raise SpoolError(
                f"CTI {describe(batch.cti)} goes back from the spool's {describe(self.cti)}"
            )
        with reported(f"cannot write segment {self.last + 1} of {self.path}"):
            if self._unsynced is not None:
                given = _segment(_arrow(batch, self.last), self.last, batch)
                repeated = given == self._unsynced
                self._sync()
                if repeated:
                    return given.sequence
            data = _arrow(batch, self.last + 1)
            self._publish(_segment(data, self.last + 1, batch), data)
        return self.last

    def close(self) -> None:
        """Let another writer in; what was appended stays. Doing it twice does no harm."""
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
                # readers see it from here on, and what they have seen must not vanish
                self._last = self._unsynced = segment
            else:
                remove(facts)
        self._sync()

    def _sync(self) -> None:
        sync_folder(self.path)
        self._unsynced = None

    def _settle(self, name: str) -> None:
        """Check or write the header, tidy up, verify, and find where the spool stands."""
        fields = [[field, str(dtype)] for field, dtype in self.schema.items()]
        mark, last = self.bounds()
        if last or (self.path / "spool.json").exists():
            self._check_header(name, fields)
        else:
            header = {"format": FORMAT, "id": uuid.uuid4().hex, "query": name, "schema": fields}
            with reported(f"cannot create the spool {self.path}"):
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
            # the reader of a run that was killed may still be discarding what it is done with
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
                    f"the spool {self.path} has the {what} {found!r}, and this run has {given!r}. "
                    "Hint: give a changed query a path of its own, or delete that folder and what "
                    "was made from it."
                )


def _segment(data: bytes, sequence: int, batch: EventBatch) -> Segment:
    return Segment(sequence, len(batch), batch.cti, len(data), zlib.crc32(data))


def rows_frame(batch: EventBatch, sequence: int) -> pl.DataFrame:
    """Return a batch's rows as a segment has them: times in ticks, the payload, ``_segment``."""
    return pl.DataFrame(
        [
            pl.Series(START, batch.start, pl.Int64),
            pl.Series(END, batch.end, pl.Int64),
            *batch.payload.get_columns(),
            pl.repeat(sequence, len(batch), dtype=pl.Int64, eager=True).alias(SEGMENT),
        ]
    )


def _arrow(batch: EventBatch, sequence: int) -> bytes:
    """Return the rows as an Arrow IPC file of the oldest layout, which every reader knows."""
    buffer = io.BytesIO()
    frame = rows_frame(batch, sequence).rechunk()
    frame.write_ipc(buffer, compat_level=pl.CompatLevel.oldest())
    return buffer.getvalue()
