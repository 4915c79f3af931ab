"""The writing side of a recording: tapes take what comes, one thread writes it as segments."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Cti, Event, RowEvent
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.storage.event_log.columns import Item, Mark, Rows, empty, framed
from rxtemporal.storage.event_log.layout import (
    FORMAT,
    HEADER,
    NO_FIELDS,
    ORDER,
    ORDER_FIELDS,
    StreamFacts,
)
from rxtemporal.storage.files import WriterLock, make_folder, publish, reported, sync_folder
from rxtemporal.storage.segments import SegmentWriter

# records that make a segment full, and seconds after which one is written that is not
MOST_RECORDS = 131_072
SECONDS = 1.0
# who brings more waits, when so many have not been written
MOST_WAITING = 4 * MOST_RECORDS


class Notes(Protocol):
    """What keeps the items of several streams in the order in which they came."""

    def note(self, tape: Any, items: Sequence[Item], records: int) -> None:
        """Put items of so many records behind all others."""


class Recorder:
    """Records the streams of one run into a folder of its own.

    ``tape`` is asked for each stream, ``begin`` makes the folder, ``close`` writes what waits. What
    was brought is on disk a second later, or as soon as a segment is full.

    Threads: tapes are written to by any; one thread of the recorder's own writes. What it fails
    with is raised to whoever brings the next record, and by ``close``.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"record= is the path of a folder, got {path!r}")
        self.path = Path(path)
        self.name = name
        self._id = uuid.uuid4().hex
        self._tapes: list[Tape] = []
        self._changed = threading.Condition(threading.Lock())
        self._runs: list[list[int]] = []
        self._waiting = 0
        self._since = 0.0
        self._lock: WriterLock | None = None
        self._order: SegmentWriter | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._published: Any = None
        self._refuse_what_is_there()

    def _refuse_what_is_there(self) -> None:
        with reported(f"cannot record into {self.path}"):
            there = sorted(os.listdir(self.path)) if self.path.exists() else []
        if there:
            raise SpoolError(
                f"cannot record into {self.path}: the folder holds something already, "
                f"{', '.join(there[:3])}{' …' if len(there) > 3 else ''}. "
                "Hint: each recording goes into a folder of its own."
            )

    def tape(
        self,
        name: str,
        *,
        columns: bool,
        settings: AdvanceTimeSettings | None,
        schema: pl.Schema | None,
        time: TimeForm | None,
    ) -> Tape:
        """Return where the door of a stream notes what it is brought.

        ``columns``: whether its rows come in frames.
        """
        facts = StreamFacts(name, f"{len(self._tapes) + 1:04d}", columns, settings, time)
        tape = Tape(self, len(self._tapes), facts, schema)
        self._tapes.append(tape)
        return tape

    def begin(self) -> None:
        """Make the folder and start to write."""
        with reported(f"cannot record into {self.path}"):
            make_folder(self.path)
            self._lock = WriterLock(self.path / "lock")
        try:
            self._order = SegmentWriter.open(self.path / ORDER, ORDER, ORDER_FIELDS, lock=False)
            for tape in self._tapes:
                tape.create(self.path)
            self._publish_header()
        except BaseException:
            self._lock.release()
            raise
        self._thread = threading.Thread(
            target=self._write, name=f"rxtemporal recording {self.name}", daemon=True
        )
        self._thread.start()

    def note(self, tape: Tape, items: Sequence[Item], records: int) -> None:
        """Put items of so many records behind all others. Used by tapes."""
        with self._changed:
            if self._closed:
                return
            while self._waiting >= MOST_WAITING and self._error is None:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            tape.items += items
            if self._runs and self._runs[-1][0] == tape.number:
                self._runs[-1][1] += records
            else:
                self._runs.append([tape.number, records])
            if not self._waiting:
                self._since = time.monotonic()
                self._changed.notify_all()
            self._waiting += records
            if self._waiting >= MOST_RECORDS:
                self._changed.notify_all()

    def close(self) -> None:
        """Write what waits and stop; raise what kept it from being written."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if self._lock is not None:
            self._lock.release()
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        try:
            while self._write_next():
                pass
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _write_next(self) -> bool:
        with self._changed:
            while not self._is_time():
                left = self._since + SECONDS - time.monotonic() if self._waiting else None
                self._changed.wait(left)
            closing = self._closed
            runs, self._runs = self._runs, []
            taken = [(tape, tape.taken()) for tape in self._tapes if tape.items]
        for tape, items in taken:
            tape.publish(items)
        if runs:
            self._publish_header()
            assert self._order is not None
            self._order.append_frame(pl.DataFrame(runs, schema=ORDER_FIELDS, orient="row"))
        if closing:
            self._publish_header(complete=True)
        with self._changed:
            self._waiting -= sum(records for _, records in runs)
            self._since = time.monotonic()
            self._changed.notify_all()
        return not closing

    def _is_time(self) -> bool:
        if self._closed or self._waiting >= MOST_RECORDS:
            return True
        return self._waiting > 0 and time.monotonic() >= self._since + SECONDS

    def _publish_header(self, *, complete: bool = False) -> None:
        streams = [tape.facts.to_dict() for tape in self._tapes]
        header: dict[str, Any] = {"format": FORMAT, "id": self._id, "name": self.name}
        header.update(complete=complete, streams=streams)
        if header == self._published:
            return
        with reported(f"cannot record into {self.path}"):
            publish(self.path / HEADER, json.dumps(header, indent=1).encode())
            sync_folder(self.path)
        self._published = header


class Tape:
    """Where one stream's door notes what it is brought, before it judges it."""

    def __init__(
        self, recorder: Notes, number: int, facts: StreamFacts, schema: pl.Schema | None
    ) -> None:
        self.facts = facts
        self.number = number
        self.items: list[Item] = []
        self._recorder = recorder
        self._given = schema
        self._learned: pl.Schema | None = None
        self._writer: SegmentWriter | None = None

    def event(self, event: Event) -> None:
        """Note an event; what is none the door refuses."""
        if isinstance(event, (RowEvent, Cti)):
            if self.facts.time is None:
                ticks = isinstance(event.start_time, int)
                self.facts.time = "ticks" if ticks else "datetime"
            self._recorder.note(self, (event,), 1)

    def events(self, events: Sequence[Event]) -> None:
        """Note events that follow each other."""
        if events:
            self.event(events[0])
            self._recorder.note(self, events[1:], len(events) - 1)

    def batch(self, batch: EventBatch) -> None:
        """Note rows, and the CTI after them if they bring one of their own."""
        own = batch.cti > MIN_TIME
        if len(batch) and self.facts.time is None:
            self.facts.time = "ticks"
        if len(batch) or own:
            self._recorder.note(self, (Rows(batch, own),), len(batch) + own)

    def advanced(self, cti: int) -> None:
        """Note that the stream's time was advanced from outside (ticks): not by what it brought.

        A heartbeat and an idle time-out do so. An imported CTI is not noted, for it follows from
        what the other stream brought.
        """
        self._recorder.note(self, (Mark("outside", cti),), 1)

    def completed(self) -> None:
        """Note that the source has ended."""
        self._recorder.note(self, (Mark("completed"),), 1)

    def failed(self, error: BaseException) -> None:
        """Note that the stream has ended by an error."""
        self.facts.failed = f"{type(error).__name__}: {error}"
        # where it failed because nothing can be recorded any more, close() says so
        with contextlib.suppress(SpoolError):
            self._recorder.note(self, (Mark("failed"),), 1)

    def taken(self) -> list[Item]:
        """Return what has been noted, and begin anew. Used by the recorder."""
        items, self.items = self.items, []
        return items

    def create(self, path: Path) -> None:
        """Make the stream's folder. Used by the recorder."""
        self._writer = SegmentWriter.open(
            path / self.facts.folder, self.facts.name, NO_FIELDS, lock=False
        )
        if self._given is not None:
            self._writer.append_frame(empty(self._given))

    def publish(self, items: list[Item]) -> None:
        """Write records as the next segment. Used by the recorder."""
        assert self._writer is not None
        self._writer.append_frame(self.framed(items))

    def framed(self, items: list[Item]) -> pl.DataFrame:
        """Return what has been noted as columns. Used by the recorder."""
        frame = self._framed(items)
        new = set(frame.get_column("kind").unique().to_list()).difference(self.facts.kinds)
        self.facts.kinds += sorted(new)
        return frame

    def _framed(self, items: list[Item]) -> pl.DataFrame:
        reader = PayloadReader(self._given)
        if self._given is None:
            # a field that has only been null may still show its type
            reader.schema = self._learned
        while True:
            try:
                frame = framed(items, reader)
            except BadPayloadError as error:
                # the door refuses it too, and accepts no more of this stream
                self.facts.failed = self.facts.failed or f"{type(error).__name__}: {error}"
                rows = [n for n, item in enumerate(items) if isinstance(item, RowEvent)]
                items[rows[error.row]] = Mark("failed")
                continue
            self._learned = reader.schema
            return frame
