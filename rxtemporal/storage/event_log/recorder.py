"""Recorder of a run: one thread writes the noted records as segments."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.files import WriterLock, make_folder, publish, report_errors, sync_folder
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.ingress.source import StreamSource
from rxtemporal.storage.event_log.columns import Item, Mark, empty_frame
from rxtemporal.storage.event_log.database import CountFile, damage_error, load_count
from rxtemporal.storage.event_log.layout import (
    FORMAT,
    HEADER,
    NO_FIELDS,
    ORDER,
    ORDER_FIELDS,
    StreamFacts,
    dump_header,
    load_header,
)
from rxtemporal.storage.event_log.log import Log, MisfitError, StreamLog
from rxtemporal.storage.segments import SegmentFolder, SegmentWriter


class RecordedSegments:
    """Reader of the folders of a recording."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # read before the header and the order, which a run may still write
        self._count = load_count(path / HEADER)
        self._header = load_header(path)
        self._folders = [each.folder for each in self._header["streams"]]

    def header(self) -> dict[str, Any]:
        """Return the header, with the facts of the streams."""
        return self._header

    def schema(self, stream: int) -> pl.Schema | None:
        """Return None: the segments of a stream have its fields."""
        return None

    def runs(self) -> Iterator[pl.DataFrame]:
        """Yield the runs of records in order, a segment at a time."""
        return self._read(ORDER)

    def frames(self, stream: int, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        """Yield the records of a stream, a segment at a time; ``newest``: the last one first."""
        return self._read(self._folders[stream], newest=newest)

    def _read(self, name: str, *, newest: bool = False) -> Iterator[pl.DataFrame]:
        folder = SegmentFolder(self.path / name)
        numbers = range(1, folder.bounds()[1] + 1)
        return map(folder.read, reversed(numbers) if newest else numbers)

    def verify(self) -> None:
        """Check that the order and the streams have all records; ``SpoolError`` if not.

        Contents are verified when they are read.
        """
        file = self.path / HEADER
        self._count.check_id(file, self._header["id"])
        counted = [0] * len(self._folders)
        for frame in self.runs():
            for stream, records in frame.group_by("stream").sum().iter_rows():
                counted[stream] += records
        total = sum(counted)
        # those of an earlier version have no number
        if "number" in self._header:
            self._count.check_saves(file, self._header["number"])
        if self._header.get("records", total) != total:
            raise self._error(ORDER, total, self._header["records"])
        if total < self._count.records:
            raise self._error(ORDER, total, self._count.records)
        for stream, name in enumerate(self._folders):
            there = count_rows(self.path / name)
            complete = "records" in self._header
            if there < counted[stream] or (complete and there > counted[stream]):
                raise self._error(name, there, counted[stream])

    def _error(self, name: str, there: int, wanted: int) -> SpoolError:
        return damage_error(self.path / name, f"of {wanted:,} records it has {there:,}", self.path)


def count_rows(path: Path) -> int:
    """Return how many rows the segments of a folder have; ``SpoolError`` if one is missing."""
    folder = SegmentFolder(path)
    numbers = folder.numbers()["arrow"]
    for wanted, number in enumerate(numbers, 1):
        if wanted != number:
            raise damage_error(folder.file(wanted, "arrow"), "it is missing")
    return sum(folder.describe(number).rows for number in numbers)


# records in a full segment, and seconds after which a smaller one is written
MOST_RECORDS = 131_072
SECONDS = 1.0
# a producer waits while so many records have not been written
MOST_WAITING = 4 * MOST_RECORDS


class RunRecorder(Log):
    """Recorder of the streams of one run into a folder.

    ``add_stream`` makes the log of a stream, ``begin`` makes the folder, ``close`` writes the
    waiting records. A record is on disk a second later, or as soon as a segment is full.

    Threads: any may note; a thread of the recorder writes. Its error is raised by the next ``note``
    and by ``close``.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"record= is the path of a folder, got {path!r}")
        super().__init__()
        self.path = Path(path)
        self.name = name
        self._id = uuid.uuid4().hex
        self._given: list[pl.Schema | None] = []
        self._lock: WriterLock | None = None
        self._order: SegmentWriter | None = None
        self._writers: list[SegmentWriter] = []
        self._thread: threading.Thread | None = None
        self._published: Any = None
        # how often the header was published, and how many records the order has
        self._headers = self._written = 0
        self._count: CountFile | None = None
        self._refuse_other_files()

    def _refuse_other_files(self) -> None:
        with report_errors(f"cannot record into {self.path}"):
            there = sorted(os.listdir(self.path)) if self.path.exists() else []
        if there:
            raise SpoolError(
                f"cannot record into {self.path}: the folder has other files, "
                f"{', '.join(there[:3])}{' …' if len(there) > 3 else ''}. "
                "Hint: give each recording its own folder."
            )

    def add_stream(self, name: str, source: StreamSource) -> StreamLog:
        """Return the log of a stream of this name in the run."""
        number, folder = len(self.streams), f"{len(self.streams) + 1:04d}"
        facts = StreamFacts(
            name,
            source.in_columns,
            source.settings,
            source.time,
            folder=folder,
            delays_ctis=source.delays_ctis,
            clock=source.clock,
        )
        self.streams.append(StreamLog(self, number, facts, source.schema))
        self._given.append(source.schema)
        return self.streams[-1]

    def begin(self) -> None:
        """Make the folder and start writing."""
        with report_errors(f"cannot record into {self.path}"):
            make_folder(self.path)
            self._lock = WriterLock(self.path / "lock")
        try:
            self._make_folders()
            with report_errors(f"cannot record into {self.path}"):
                self._count = CountFile(self.path / HEADER, self._id)
            self._publish_header()
        except BaseException:
            self._release()
            raise
        self._thread = threading.Thread(
            target=self._run, name=f"rxtemporal recording {self.name}", daemon=True
        )
        self._thread.start()

    def _make_folders(self) -> None:
        self._order = SegmentWriter.open(self.path / ORDER, ORDER, ORDER_FIELDS, lock=False)
        for stream, given in zip(self.streams, self._given, strict=True):
            facts = stream.facts
            writer = SegmentWriter.open(self.path / facts.folder, facts.name, NO_FIELDS, lock=False)
            if given is not None:
                writer.append_frame(empty_frame(given))
            self._writers.append(writer)

    def note(self, stream: StreamLog, items: Sequence[Item], records: int) -> None:
        """Append items, which are ``records`` records; wait if too many are unwritten."""
        super().note(stream, items, records)
        if self._waiting >= MOST_RECORDS:
            with self._changed:
                self._changed.notify_all()

    def close(self) -> None:
        """Write the waiting records and stop; raise the error that prevents it."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._release()
        if self._error is not None:
            raise self._error

    def _release(self) -> None:
        if self._count is not None:
            self._count.close()
        if self._lock is not None:
            self._lock.release()

    @property
    def _waiting(self) -> int:
        return self.noted - self._durable

    def _admits(self, stream: StreamLog) -> bool:
        while self._waiting >= MOST_WAITING and self._error is None and not self._closed:
            self._changed.wait()
        return not self._closed

    def _run(self) -> None:
        closing = False
        while not closing and self._error is None:
            with self._changed:
                if not self._closed and self._waiting < MOST_RECORDS:
                    self._changed.wait(SECONDS)
                closing = self._closed
            try:
                self.flush()
                if closing:
                    self._publish_header(complete=True)
            except BaseException as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()

    def _write(self, runs: list[list[int]], items: Mapping[StreamLog, list[Item]]) -> None:
        assert self._order is not None
        for stream, noted in items.items():
            self._writers[stream.number].append_frame(_to_frame(stream, noted))
        self._publish_header()
        self._order.append_frame(pl.DataFrame(runs, schema=ORDER_FIELDS, orient="row"))
        self._written += sum(run[1] for run in runs)
        self._write_count()

    def _publish_header(self, *, complete: bool = False) -> None:
        streams = [stream.facts.to_dict() for stream in self.streams]
        header: dict[str, Any] = {"format": FORMAT, "id": self._id, "name": self.name}
        header.update(complete=complete, streams=streams)
        if complete:
            header["records"] = self._written
        if header == self._published:
            return
        self._headers += 1
        with report_errors(f"cannot record into {self.path}"):
            publish(self.path / HEADER, dump_header({**header, "number": self._headers}))
            sync_folder(self.path)
        self._published = header
        self._write_count()

    def _write_count(self) -> None:
        assert self._count is not None
        self._count.write(self._headers, self._written)


def _to_frame(stream: StreamLog, items: list[Item]) -> pl.DataFrame:
    """Return items as columns; a payload that does not fit becomes the failure of the stream."""
    while True:
        try:
            return stream.to_frame(items)
        except MisfitError as misfit:
            # the door refuses it too, and accepts no more of this stream
            error = misfit.error
            if stream.facts.failed is None:
                stream.facts.note_failure(error)
            items[misfit.place] = Mark("failed")
