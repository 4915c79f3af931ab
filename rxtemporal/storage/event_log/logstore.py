"""The folder of an input log: a recording that is appended to, with a journal in front of it.

As any recording (see the package's page), with ``"log": true`` in its header and one file more:
``journal``, with what has come since the last segments.

1. An entry of the journal has the number of its first record, counted over all streams. The records
   that ``order`` counts stand in segments; of the journal only what lies above them is read.
2. Segments of a stream that no ``order`` counts are what a crash leaves, and are deleted: the
   journal still has their records.
3. One process writes it. Who opens it makes segments of what the journal has first, so from then on
   it can be read as any recording.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.errors import SpoolError
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.storage.event_log.columns import empty
from rxtemporal.storage.event_log.entries import Runs, entry, parts
from rxtemporal.storage.event_log.journal import Journal
from rxtemporal.storage.event_log.layout import (
    FORMAT,
    HEADER,
    NO_FIELDS,
    ORDER,
    ORDER_FIELDS,
    StreamFacts,
    header_of,
)
from rxtemporal.storage.event_log.reader import StreamRecords
from rxtemporal.storage.files import WriterLock, make_folder, publish, remove, reported, sync_folder
from rxtemporal.storage.segments import SegmentFolder, SegmentWriter

JOURNAL = "journal"
# bytes of a journal that become segments
MOST_BYTES = 8 * 2**20
_OTHER = "the same query over the same streams goes on with a log; give another a folder of its own"


@dataclasses.dataclass(frozen=True, slots=True)
class Wanted:
    """A stream of the run that takes a log up; ``columns``: whether its rows come in frames."""

    name: str
    columns: bool
    settings: AdvanceTimeSettings | None
    schema: pl.Schema | None


class LogStore:
    """An input log, open for one run. Not for two threads at once.

    ``facts`` are those of its streams; ``records`` is how many stand in segments, of all streams.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.facts: list[StreamFacts] = []
        self.records = 0
        with reported(f"cannot open the input log {path}"):
            make_folder(path)
            self._lock = WriterLock(path / "lock")
        self._journal: Journal | None = None
        # what the journal could not be made segments of for
        self._unrolled: SpoolError | None = None
        self._order: SegmentWriter | None = None
        self._writers: list[SegmentWriter] = []
        self._header: dict[str, Any] = {"format": FORMAT, "id": uuid.uuid4().hex, "name": name}
        self._published: dict[str, Any] | None = None

    def open(self, wanted: Sequence[Wanted] | None) -> list[int]:
        """Take up what is there, or begin; return the numbers that the log has given the streams.

        Without streams it has to be there. ``SpoolError``: it belongs to other streams, it is no
        log, it is damaged, the folder cannot be written.
        """
        try:
            numbers = self._taken_up(wanted)
            self.publish_header()
            self._open_segments()
            self.roll()
            for number, each in zip(numbers, wanted or (), strict=True):
                self._check_schema(number, each)
        except BaseException:
            self.close()
            raise
        return numbers

    def records_of(self, number: int) -> StreamRecords:
        """Return the records of a stream, as far as they stand in segments."""
        return StreamRecords(self.path, self.facts[number])

    # What is there already ------------------------------------------------------------------------

    def _taken_up(self, wanted: Sequence[Wanted] | None) -> list[int]:
        with reported(f"cannot open the input log {self.path}"):
            there = sorted(set(os.listdir(self.path)) - {"lock", f".{HEADER}.part"})
        if HEADER in there or wanted is None:
            header = header_of(self.path)
            if not header.get("log"):
                raise SpoolError(
                    f"{self.path} is a recording, and no run adds to one. Hint: give the input "
                    "log a folder of its own."
                )
            self.facts = header["streams"]
            self._header.update(id=header["id"], name=header["name"])
            return self._matched(wanted) if wanted else []
        if there:
            raise SpoolError(
                f"cannot keep an input log in {self.path}: the folder holds something already, "
                f"{', '.join(there[:3])}{' …' if len(there) > 3 else ''}. "
                "Hint: an input log has a folder of its own."
            )
        self.facts = [
            StreamFacts(each.name, f"{number + 1:04d}", each.columns, each.settings)
            for number, each in enumerate(wanted)
        ]
        return list(range(len(wanted)))

    def _matched(self, wanted: Sequence[Wanted]) -> list[int]:
        """Return each stream's number in the log: by name, and among those of one name in order."""
        have = _numbered(facts.name for facts in self.facts)
        want = _numbered(each.name for each in wanted)
        if set(have) != set(want):
            raise SpoolError(
                f"the input log {self.path} is of {_streams(self.facts)}, and this run reads "
                f"{_streams(wanted)}. Hint: {_OTHER}."
            )
        numbers = [have.index(each) for each in want]
        for number, each in zip(numbers, wanted, strict=True):
            facts = self.facts[number]
            given = StreamFacts(each.name, facts.folder, each.columns, each.settings).to_dict()
            logged = facts.to_dict()
            for key, what in ("columns", "rows in frames"), ("settings", "settings"):
                if logged[key] != given[key]:
                    raise SpoolError(
                        f"stream {each.name!r} of the input log {self.path} has {what}: "
                        f"{logged[key]}, and in this run {given[key]}. Hint: {_OTHER}."
                    )
        return numbers

    def _check_schema(self, number: int, wanted: Wanted) -> None:
        writer = self._writers[number]
        if wanted.schema is not None and not writer.last:
            writer.append_frame(empty(wanted.schema))
        logged = self.records_of(number).schema
        if wanted.schema is not None and logged is not None and logged != wanted.schema:
            raise SpoolError(
                f"stream {wanted.name!r} of the input log {self.path} has the fields "
                f"{dict(logged)}, and in this run {dict(wanted.schema)}. Hint: {_OTHER}."
            )

    # Segments and journal -------------------------------------------------------------------------

    def _open_segments(self) -> None:
        order = self._order = SegmentWriter.open(self.path / ORDER, ORDER, ORDER_FIELDS, lock=False)
        counted: Counter[int] = Counter()
        for number in range(1, order.last + 1):
            for stream, records in order.read(number).iter_rows():
                counted[stream] += records
        self.records = counted.total()
        for number, facts in enumerate(self.facts):
            folder = self.path / facts.folder
            _forget_beyond(folder, counted[number])
            self._writers.append(SegmentWriter.open(folder, facts.name, NO_FIELDS, lock=False))
        self._journal = Journal(self.path / JOURNAL)

    def append(
        self, number: int, runs: Sequence[Sequence[int]], frames: Mapping[int, pl.DataFrame]
    ) -> None:
        """Write records, those of each stream and who brought how many; on disk afterwards.

        ``number`` is the first one's, counted over all streams. Costs one sync; where kinds of
        records are new two more, and now and then those of the segments. ``SpoolError`` if they
        cannot be written, or if those before could not be made segments of.
        """
        assert self._journal is not None
        if self._unrolled is not None:
            raise self._unrolled
        self.publish_header()
        self._journal.append(number, entry(runs, frames))
        if self._journal.size >= MOST_BYTES:
            try:
                self.roll()
            except SpoolError as error:
                # these are safe, in the journal; the next ones are refused
                self._unrolled = error

    def roll(self) -> None:
        """Make segments of what the journal has, and empty it."""
        assert self._journal is not None
        assert self._order is not None
        if self._unrolled is not None:  # of some streams the segments are there already
            raise self._unrolled
        runs: list[Runs] = []
        frames = [list[pl.DataFrame]() for _ in self._writers]
        reached = self.records
        for number, content in self._journal.entries():
            if number < self.records:
                continue  # stands in segments: a crash came before the journal was emptied
            if number > reached:
                raise SpoolError(
                    f"the input log {self.path} is damaged: record {reached:,} is missing. Hint: "
                    "restore the folder from a copy, or begin a new one."
                )
            brought, records = parts(content)
            runs.append(brought)
            for stream, frame in records.items():
                frames[stream].append(frame)
            reached += int(brought[:, 1].sum())
        if not runs:
            return
        for writer, of_stream in zip(self._writers, frames, strict=True):
            if of_stream:
                # CTIs alone show no fields, and a field that was null so far no type
                writer.append_frame(pl.concat(of_stream, how="diagonal_relaxed"))
        self._order.append_frame(pl.DataFrame(np.concatenate(runs), schema=ORDER_FIELDS))
        self.records = reached
        self._journal.clear()

    def publish_header(self, *, complete: bool = False) -> None:
        """Have the header say what is known of the streams now."""
        streams = [facts.to_dict() for facts in self.facts]
        header = {**self._header, "log": True, "complete": complete, "streams": streams}
        if header == self._published:
            return
        with reported(f"cannot write the input log {self.path}"):
            publish(self.path / HEADER, json.dumps(header, indent=1).encode())
            sync_folder(self.path)
        self._published = header

    def close(self) -> None:
        """Let another run take it up; what has been appended stays. Twice does no harm."""
        if self._journal is not None:
            self._journal.close()
        self._lock.release()


def settled(path: Path) -> None:
    """Make segments of what an input log's journal has, if it is one; ``SpoolError``: in use."""
    journal = path / JOURNAL
    if not journal.exists() or not journal.stat().st_size:
        return
    store = LogStore(path, "")
    store.open(None)
    store.close()


def _numbered(names: Iterator[str]) -> list[tuple[str, int]]:
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _streams(streams: Sequence[StreamFacts | Wanted]) -> str:
    return ", ".join(repr(each.name) for each in streams) or "no stream"


def _forget_beyond(path: Path, counted: int) -> None:
    """Delete the last segments of a stream, of whose records not all are counted."""
    if not path.exists():
        return
    folder, rows = SegmentFolder(path), 0
    _, last = folder.bounds()
    for number in range(1, last + 1):
        rows += folder.describe(number).rows
        if rows > counted:
            break
    else:
        return
    # the last one first, so that no gap is left whenever it is interrupted
    for leftover in range(last, number - 1, -1):
        remove(folder.file(leftover, "arrow"))
        remove(folder.file(leftover, "json"))
