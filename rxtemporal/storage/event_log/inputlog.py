"""The writing side of an input log: what has been accepted is on disk before anybody is told."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Event, RowEvent
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.errors import ArgumentError, BindingError, SchemaError, SpoolError
from rxtemporal.storage.event_log.columns import Item, Rows, framed
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.logstore import LogStore, Wanted
from rxtemporal.storage.event_log.recorder import Tape


class InputLog:
    """Keeps what the streams of a run bring, behind what earlier runs have brought.

    ``begin`` takes up the folder and says what is there, ``tape`` is where a stream's door notes
    what it has accepted, ``flush`` has all of it on disk, ``renew`` leaves it behind. Records are
    numbered from 0 in the order in which they were accepted, over all streams; ``noted`` is the
    number of the next one.

    Threads: tapes are written to and ``flush`` is called by any. Of those that call it at the same
    time one writes, and what the others have noted in the meantime goes with the next sync.
    """

    def __init__(self, path: str | os.PathLike[str], name: str) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"log= is the path of a folder, got {path!r}")
        self.path = Path(path)
        self.name = name
        self.noted = 0
        self.tapes: list[LogTape] = []
        self._store: LogStore | None = None
        self._changed = threading.Condition(threading.Lock())
        self._runs: list[list[int]] = []
        self._durable = 0
        # the number of the first record that the folder has
        self._first = 0
        self._wanted: Sequence[Wanted] = ()
        self._writing = self._closed = False
        self._error: Exception | None = None

    @property
    def store(self) -> LogStore:
        """The folder, once it has been taken up."""
        assert self._store is not None
        return self._store

    def begin(self, wanted: Sequence[Wanted]) -> list[LogTape]:
        """Take up the folder, or make it; return where each of the streams notes what it accepts.

        ``SpoolError``: another run writes it, it is of other streams, fields or settings, it is
        damaged, the folder cannot be written.
        """
        store = LogStore(self.path, self.name)
        numbers = store.open(wanted)
        self._store = store
        self._wanted = wanted
        self.noted = self._durable = store.records
        self.tapes = [
            LogTape(self, number, store, each) for number, each in zip(numbers, wanted, strict=True)
        ]
        return self.tapes

    def renew(self, path: Path) -> None:
        """Go on in another folder, which begins with the record that is noted next.

        Who calls it has kept elsewhere what came of all others, and nothing is noted meanwhile.
        ``SpoolError`` if it cannot be made: then nothing more is logged, and so nothing accepted.
        """
        self.flush()
        try:
            store = LogStore(path, self.name)
            numbers = store.open(self._wanted)
        except Exception as error:
            self._error = error  # what went on into the folder before would be lost
            raise
        self.store.close()
        self.path, self._store, self._first = path, store, self.noted
        for tape, number in zip(self.tapes, numbers, strict=True):
            tape.moved(number, store.facts[number])

    def note(self, tape: LogTape, items: Sequence[Item], records: int) -> None:
        """Put items of so many records behind all others. Used by tapes."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._closed:
                raise BindingError(
                    f"stream {tape.facts.name!r} is not logged any more: its run has ended. "
                    "Hint: wait() of the process tells what ended it."
                )
            tape.items += items
            tape.brought += records
            if self._runs and self._runs[-1][0] == tape.number:
                self._runs[-1][1] += records
            else:
                self._runs.append([tape.number, records])
            self.noted += records

    def flush(self) -> None:
        """Return when everything noted so far is on disk; raise what keeps it from being so."""
        with self._changed:
            upto = self.noted
            while self._writing and self._error is None and self._durable < upto:
                self._changed.wait()
            if self._error is not None:
                raise self._error
            if self._durable >= upto:
                return
            self._writing = True
            runs, self._runs = self._runs, []
            taken = [(tape, tape.taken()) for tape in self.tapes if tape.items]
        try:
            self._write(runs, taken)
        except BaseException as error:
            interrupted = SpoolError(f"writing the input log {self.path} was interrupted")
            self._error = error if isinstance(error, Exception) else interrupted
            raise
        finally:
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write(self, runs: list[list[int]], taken: list[tuple[LogTape, list[Item]]]) -> None:
        refused: Exception | None = None
        frames: dict[int, pl.DataFrame] = {}
        for tape, items in taken:
            try:
                frames[tape.number] = tape.framed(items)
            except _MisfitError as misfit:
                # the run ends by it; of this stream what came before it is kept
                refused = SchemaError(f"stream {tape.facts.name!r}: {misfit}")
                _shorten(runs, tape.number, sum(map(_records, items[misfit.place :])))
                if misfit.place:
                    frames[tape.number] = tape.framed(items[: misfit.place])
        runs = [run for run in runs if run[1]]
        if runs:
            self.store.append(self._durable - self._first, runs, frames)
        with self._changed:
            self._durable += sum(records for _, records in runs)
        if refused is not None:
            raise refused

    def close(self) -> None:
        """Write what waits, leave the folder as a whole recording, let another run take it up."""
        if self._store is None:
            return
        with self._changed:
            self._closed = True
        try:
            self.flush()
            self._store.roll()
            self._store.publish_header(complete=True)
        finally:
            self._store.close()


class LogTape(Tape):
    """Where one stream's door notes what it has accepted, and who brings it waits for the disk.

    ``accepted`` counts what was pushed: events, a batch's rows, the end; ``brought`` counts records
    of the source, of which a batch's own CTI is one, and the end is none. ``prompt``: nothing that
    the door has accepted goes further before it is on disk, for who brings it is asked for more and
    not told.
    """

    def __init__(self, log: InputLog, number: int, store: LogStore, wanted: Wanted) -> None:
        super().__init__(log, number, store.facts[number], wanted.schema)
        self._learned = store.records_of(number).schema
        self._log = log
        self.accepted = self.brought = 0
        self.prompt = False

    def event(self, event: Event) -> None:
        """Note an event that has been accepted."""
        super().event(event)
        self._took()

    def batch(self, batch: EventBatch) -> None:
        """Note a batch that has been accepted."""
        super().batch(batch)
        self._took(pushed(batch))

    def completed(self) -> None:
        """Note that the source has ended."""
        super().completed()
        self.brought -= 1
        self._took()

    def advanced(self, cti: int) -> None:
        """Note that the stream's time was advanced from outside (ticks), not by its source."""
        super().advanced(cti)
        self.brought -= 1

    def _took(self, number: int = 1) -> None:
        self.accepted += number
        if self.prompt:
            self.flush()

    def flush(self) -> None:
        """Return when it is on disk."""
        self._log.flush()

    def moved(self, number: int, facts: StreamFacts) -> None:
        """Note into another folder from now on. Used by the log."""
        self.number, self.facts = number, facts

    def _framed(self, items: list[Item]) -> pl.DataFrame:
        reader = PayloadReader(self._given)
        if self._given is None:
            # a field that has only been null may still show its type
            reader.schema = self._learned
        try:
            frame = framed(items, reader)
        except BadPayloadError as error:
            rows = [n for n, item in enumerate(items) if isinstance(item, RowEvent)]
            raise _MisfitError(str(error), rows[error.row]) from error
        self._learned = reader.schema
        return frame


class _MisfitError(Exception):
    """The payload of the item at a place does not fit."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place


def pushed(item: Any) -> int:
    """Return for how many things that are accepted an event or a batch stands."""
    return max(1, len(item)) if isinstance(item, EventBatch) else 1


def _records(item: Item) -> int:
    return len(item.batch) + item.own if isinstance(item, Rows) else 1


def _shorten(runs: list[list[int]], number: int, records: int) -> None:
    """Take a stream's last records out of who brought how many."""
    for run in reversed(runs):
        if run[0] == number:
            less = min(run[1], records)
            run[1] -= less
            records -= less
