"""The segment store: numbered Arrow segments in a folder, published atomically, read in order.

A query's spool and the streams of a recording are such folders.

::

    spool.json            format version, an id, the query's name, the fields
    lock                  held by the writer, with its pid (one for all streams of a recording)
    000000000007.done     the mark: segments up to 7 are discarded; facts of 7, as in ``.json``
    000000000008.json     facts of segment 8: rows, bytes, CRC-32, and the CTI after it; if a field
                          numbers rows, the highest number so far
    000000000008.arrow    segment 8, a plain Arrow IPC file

1. Numbers are contiguous from 1. A segment *is published* when its ``.arrow`` file is renamed to
   its final name; the ``.json`` file before. Both are written aside, flushed and synced first.
2. ``discard`` turns the last discarded segment's ``.json`` into the mark before it deletes
   anything: files at or below the mark are leftovers, and any other gap is damage.
3. One writer; any number of readers, in any process. Readers may also discard segments: only
   numbers below those that the writer works on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import uuid
import zlib
from pathlib import Path
from typing import Any, Self

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.core.files import (
    WriterLock,
    make_folder,
    publish,
    remove,
    report_errors,
    sync_folder,
)
from rxtemporal.core.ticks import MIN_TIME, describe
from rxtemporal.errors import SchemaError, SpoolError

# the column that carries the number of each row's segment
SEGMENT = "_segment"

_NAME = re.compile(r"(\d{12})\.(arrow|json|done)")
_DAMAGED = (
    "a file was changed or lost after it was written. Restore it from a copy, or delete the whole "
    "folder and what was made from it, and run the query again from its source"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """Facts about a segment, known without reading it; ``cti`` is the CTI after it, in ticks.

    If a field numbers rows, ``highest`` is its highest value in all segments up to this one.
    """

    sequence: int
    rows: int
    cti: int
    size: int
    crc32: int
    highest: int | None = None

    def to_json(self) -> bytes:
        """Return the facts as JSON with a checksum."""
        facts = dataclasses.asdict(self)
        if self.highest is None:
            del facts["highest"]
        return json.dumps({**facts, "check": _check(facts)}).encode()

    @classmethod
    def from_json(cls, text: bytes, origin: Path) -> Segment:
        """Return the segment from its JSON; ``SpoolError`` if a byte has changed."""
        try:
            facts = json.loads(text)
            if facts.pop("check") == _check(facts):
                return cls(**facts)
        except (ValueError, KeyError, AttributeError, TypeError):
            pass
        raise SpoolError(f"{origin} is damaged: its checksum does not fit. Hint: {_DAMAGED}.")


def _check(facts: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(facts, sort_keys=True).encode())


class SegmentFolder:
    """Folder of segments, used by any process without a lock: list, read and discard segments.

    Each call reads the folder again. Errors of the file system are raised as ``SpoolError``.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def file(self, sequence: int, kind: str) -> Path:
        """Return the path of the ``arrow``, ``json`` or ``done`` file of a number."""
        return self.path / f"{sequence:012d}.{kind}"

    def numbers(self) -> dict[str, list[int]]:
        """Return the numbers in the folder by kind of file, each list ascending."""
        found: dict[str, list[int]] = {"arrow": [], "json": [], "done": []}
        with report_errors(f"cannot list the spool {self.path}"):
            names = os.listdir(self.path)
        for match in filter(None, map(_NAME.fullmatch, names)):
            found[match[2]].append(int(match[1]))
        return {kind: sorted(numbers) for kind, numbers in found.items()}

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the last discarded segment and of the last one, 0 for none."""
        found = self.numbers()
        mark = max(found["done"], default=0)
        return mark, max([mark, *found["arrow"]])

    def header(self) -> dict[str, Any]:
        """Return the content of ``spool.json``; ``SpoolError`` if that is not a spool's header."""
        with report_errors(f"cannot read the spool {self.path}"):
            text = (self.path / "spool.json").read_bytes()
        try:
            header = json.loads(text)
            if isinstance(header, dict) and {"format", "id", "query", "schema"} <= set(header):
                return header
        except ValueError:
            pass
        raise SpoolError(f"{self.path / 'spool.json'} is damaged. Hint: {_DAMAGED}.")

    def describe(self, sequence: int) -> Segment:
        """Return the facts of an existing segment, or of the last discarded one."""
        # both, since a reader may turn the one into the other in between
        for kind in ("json", "done"):
            path = self.file(sequence, kind)
            with report_errors(f"cannot read {path}"), contextlib.suppress(FileNotFoundError):
                return Segment.from_json(path.read_bytes(), path)
        raise SpoolError(f"segment {sequence} of {self.path} is missing. Hint: {_DAMAGED}.")

    def waiting_bytes(self) -> int:
        """Return the size in bytes of the segments that are not discarded."""
        found = self.numbers()
        mark, total = max(found["done"], default=0), 0
        for number in found["arrow"]:
            if number > mark:
                # a reader may discard it between two looks
                with contextlib.suppress(FileNotFoundError):
                    total += self.file(number, "arrow").stat().st_size
        return total

    def content(self, sequence: int) -> bytes:
        """Return a segment's Arrow IPC file, its size and CRC-32 verified."""
        expected, path = self.describe(sequence), self.file(sequence, "arrow")
        with report_errors(f"cannot read segment {sequence}"):
            data = path.read_bytes()
        if len(data) != expected.size:
            raise SpoolError(
                f"{path} is torn: it has {len(data)} bytes of {expected.size}. Hint: {_DAMAGED}."
            )
        if zlib.crc32(data) != expected.crc32:
            raise SpoolError(f"{path} is damaged: its CRC-32 does not fit. Hint: {_DAMAGED}.")
        return data

    def read(self, sequence: int) -> pl.DataFrame:
        """Return a segment's rows, verified: times in ticks, the payload, ``_segment``."""
        return pl.read_ipc(io.BytesIO(self.content(sequence)))

    def discard(self, upto: int) -> None:
        """Delete the segments up to this number; the facts of the last one are kept."""
        found = self.numbers()
        committed = [number for number in found["arrow"] if number <= upto]
        with report_errors(f"cannot discard segments of {self.path}"):
            if committed:
                with contextlib.suppress(FileNotFoundError):  # somebody else made the mark
                    os.replace(self.file(committed[-1], "json"), self.file(committed[-1], "done"))
                # the mark has to be on disk before the segments are deleted
                sync_folder(self.path)
        self.sweep()

    def sweep(self) -> None:
        """Delete files below the mark, which an interrupted ``discard`` has left."""
        found = self.numbers()
        mark = max(found["done"], default=0)
        for kind, numbers in found.items():
            for number in numbers:
                if number < mark or (number == mark and kind != "done"):
                    remove(self.file(number, kind))


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


class Spool(SegmentWriter):
    """Writer of a spool; make it with ``Spool.open``. Not thread-safe.

    ``segments()`` returns the numbers of those not yet discarded, ``last`` is the number of the
    last one ever appended (0: none) and ``cti`` the CTI after it (None: none). ``close`` releases
    the spool for another writer.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> batch = EventBatch.from_dicts([{"start_time": 0, "x": 1}], cti=9)
    >>> with Spool.open(folder.name, "readings", batch.schema) as spool:
    ...     spool.append(batch), spool.last, spool.cti
    (1, 1, 9)
    """

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        name: str,
        schema: pl.Schema,
        *,
        lock: bool = True,
        numbered: str | None = None,
    ) -> Self:
        """Create the spool of the query called ``name``, or open the existing one.

        ``numbered`` is a field that numbers rows; ``highest`` is then kept when segments are
        discarded. As ``SegmentWriter.open``; ``SchemaError``: a field has the name of a column of
        the spool.
        """
        clash = {START, END, SEGMENT} & set(schema)
        if clash:
            raise SchemaError(
                f"the payload has a field {min(clash)!r}, which is a column of the spool. "
                "Hint: rename it with select()."
            )
        spool = super().open(path, name, schema, lock=lock)
        spool._numbered = numbered
        return spool

    @property
    def cti(self) -> int | None:
        """The CTI after the last segment ever appended; None before the first."""
        return None if self._last is None else self._last.cti

    def segments(self) -> list[int]:
        """Return the numbers of the segments that have not been discarded."""
        mark, last = self.bounds()
        return list(range(mark + 1, last + 1))

    def append(self, batch: EventBatch) -> int:
        """Publish a batch as the next segment and return its number, as ``append_frame``.

        Called again after only the last sync has failed, it completes the existing segment.
        """
        self._check_open()
        if batch.schema != self.schema:
            raise SchemaError(f"a batch with {batch.schema} is not for a spool of {self.schema}")
        if self.cti is not None and batch.cti < self.cti:
            raise SpoolError(
                f"CTI {describe(batch.cti)} goes back from the spool's {describe(self.cti)}"
            )
        if self._unsynced and self._complete_last(rows_frame(batch, self.last), batch.cti):
            return self.last
        return self.append_frame(rows_frame(batch, self.last + 1), batch.cti)


def rows_frame(batch: EventBatch, sequence: int) -> pl.DataFrame:
    """Return a batch's rows in the form of a segment: times in ticks, the payload, ``_segment``."""
    return pl.DataFrame(
        [
            pl.Series(START, batch.start, pl.Int64),
            pl.Series(END, batch.end, pl.Int64),
            *batch.payload.get_columns(),
            pl.repeat(sequence, len(batch), dtype=pl.Int64, eager=True).alias(SEGMENT),
        ]
    )
