"""Recorder of a run: one thread writes the records noted on tapes as segments."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.ingress.source import StreamSource
from rxtemporal.storage.event_log.columns import Item, Mark, empty_frame
from rxtemporal.storage.event_log.layout import (
    FORMAT,
    HEADER,
    NO_FIELDS,
    ORDER,
    ORDER_FIELDS,
    StreamFacts,
    dump_header,
)
from rxtemporal.storage.event_log.log import Log, MisfitError, Tape
from rxtemporal.storage.event_log.record_count import CountFile
from rxtemporal.storage.files import WriterLock, make_folder, publish, report_errors, sync_folder
from rxtemporal.storage.segments import SegmentWriter

# records in a full segment, and seconds after which a smaller one is written
MOST_RECORDS = 131_072
SECONDS = 1.0
# a producer waits while so many records have not been written
MOST_WAITING = 4 * MOST_RECORDS


class RunRecorder(Log):
    """Recorder of the streams of one run into a folder.

    ``tape`` makes the tape of a stream, ``begin`` makes the folder, ``close`` writes the waiting
    records. A record is on disk a second later, or as soon as a segment is full.

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

    def tape(self, name: str, source: StreamSource) -> Tape:
        """Return the tape of a stream of this name in the run."""
        number, folder = len(self.tapes), f"{len(self.tapes) + 1:04d}"
        facts = StreamFacts(
            name,
            source.in_columns,
            source.settings,
            source.time,
            folder=folder,
            delays_ctis=source.delays_ctis,
        )
        self.tapes.append(Tape(self, number, facts, source.schema))
        self._given.append(source.schema)
        return self.tapes[-1]

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
        for tape, given in zip(self.tapes, self._given, strict=True):
            facts = tape.facts
            writer = SegmentWriter.open(self.path / facts.folder, facts.name, NO_FIELDS, lock=False)
            if given is not None:
                writer.append_frame(empty_frame(given))
            self._writers.append(writer)

    def note(self, tape: Tape, items: Sequence[Item], records: int) -> None:
        """Append items, which are ``records`` records; wait if too many are unwritten."""
        super().note(tape, items, records)
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

    def _admits(self, tape: Tape) -> bool:
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

    def _write(self, runs: list[list[int]], items: Mapping[Tape, list[Item]]) -> None:
        assert self._order is not None
        for tape, noted in items.items():
            self._writers[tape.number].append_frame(_to_frame(tape, noted))
        self._publish_header()
        self._order.append_frame(pl.DataFrame(runs, schema=ORDER_FIELDS, orient="row"))
        self._written += sum(run[1] for run in runs)
        self._write_count()

    def _publish_header(self, *, complete: bool = False) -> None:
        streams = [tape.facts.to_dict() for tape in self.tapes]
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


def _to_frame(tape: Tape, items: list[Item]) -> pl.DataFrame:
    """Return items as columns; a payload that does not fit becomes the failure of the stream."""
    while True:
        try:
            return tape.to_frame(items)
        except MisfitError as misfit:
            # the door refuses it too, and accepts no more of this stream
            error = misfit.error
            tape.facts.failed = tape.facts.failed or f"{type(error).__name__}: {error}"
            items[misfit.place] = Mark("failed")
