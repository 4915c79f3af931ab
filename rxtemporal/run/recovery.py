"""Recovery: replay the event log, then continue with the live sources.

One run does both, through the same doors and operators, and switches at the end of the log. The
only thing carried over is how many records of each source the log has. Times need not be: all
remaining events come after the last accepted one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import to_fields
from rxtemporal.errors import ArgumentError, BindingError, CheckpointError, SchemaError
from rxtemporal.run.push_entry import PushEntry
from rxtemporal.run.reader import Reader
from rxtemporal.run.run_end import COMPLETED, Refusal
from rxtemporal.storage.event_log.cursors import RecordedCursor, RecordedSource
from rxtemporal.storage.event_log.event_log import EventLog, LoggedStream
from rxtemporal.storage.event_log.reader import Recording, StreamRecords
from rxtemporal.storage.event_log.store import RunStore

# records of the order that are read at a time
AT_ONCE = 65_536


def make_log(path: Any, name: str) -> EventLog:
    """Return the event log of ``log=``, which is opened when its run starts."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"log= is the path of a folder, got {path!r}")
    return EventLog(RunStore(Path(path), name, resume=False))


def refuse_unlogged(readers: Sequence[Reader]) -> None:
    """Raise if a stream needs no event log."""
    for reader in readers:
        if reader.source.resumes and not reader.source.in_columns:
            raise BindingError(
                f"stream {reader.name!r} can be read again from a position: it needs no event "
                "log. Hint: use resume=folder in place of log=; it takes all other streams, too."
            )
        if isinstance(reader.source, RecordedSource):
            raise BindingError(
                f"stream {reader.name!r} is a recording and can be replayed at any time: it needs "
                "no event log. Hint: leave log= out."
            )


def match_log(
    log: EventLog, readers: Sequence[Reader], *, known: Collection[str] | None = None
) -> None:
    """Match the log with the streams of a run; ``known`` is as in ``Execution.attach_log``."""
    for reader in readers:
        # a start edge from a log has a dict as payload, but its end edge may have a dataclass
        fields = partial(_saved_fields, reader.source.schema)
        reader.door.match_rows_by(fields)
        reader.keep_front(reader.source.make_front(fields))
    log.match(
        [
            LoggedStream(
                reader.name,
                reader.source.in_columns,
                reader.source.settings,
                reader.source.schema,
                reader.source.clock,
                reader.source.delays_ctis,
            )
            for reader in readers
        ],
        known=known,
    )


def replay_log(
    log: EventLog, readers: Sequence[Reader], exact: bool, continues: Callable[[], bool]
) -> None:
    """Replay the records of a log through the doors, and log all events from then on.

    Each is judged by the settings by which it was accepted. ``exact``: records of the streams
    alternate exactly as they came. The replay stops when ``continues`` returns False. The log has
    begun.
    """
    recording = log.recording()
    changes = sorted({until for each in log.streams for until, _ in each.facts.earlier})
    runs = _order(recording, exact or bool(changes))
    cursors = {}
    for reader, stream in zip(readers, log.streams, strict=True):
        records = recording.streams[stream.number]
        schema = reader.source.schema or records.schema
        cursor = RecordedCursor(records, schema, as_rows=reader.source.in_columns)
        cursors[stream.number] = reader, cursor, stream.facts
    for at, number, count in _divide(runs, log.store.records, recording, changes):
        if number not in cursors:  # of a stream that has gone
            continue
        reader, cursor, facts = cursors[number]
        if changes and not reader.door.by_device:
            reader.door.change_settings(facts.find_settings(at))
        if not reader.ended:
            reader.replay(cursor, count)
        if not continues():
            return
    for reader, stream in zip(readers, log.streams, strict=True):
        if changes and not reader.door.by_device:
            reader.door.change_settings(reader.source.settings)
        if not reader.ended:
            reader.log(stream, _count_brought(recording.streams[stream.number]))


def refuse_pushes(readers: Sequence[Reader]) -> None:
    """Raise for each push into a stream of these that completed in an earlier run."""
    for reader in readers:
        if reader.ended and isinstance(reader, PushEntry):
            entry: Any = reader
            reader.source.open().connect(entry)
        elif reader.ended:
            _refuse_subject(reader)


def refuse_completed(reader: Reader, begun: str) -> None:
    """Raise if the source may push events that nobody would read: the run has completed.

    A source that pushes from a saved position knows that there is nothing to push. Producers who
    push into a subject get an error, too.
    """
    source = reader.source
    if source.pushes and not (source.bounded or source.resumes):
        _refuse_subject(reader)
        raise CheckpointError(
            f"stream {reader.name!r} has completed since {begun}, and nothing that its source "
            f"pushes would be read. Hint: {COMPLETED}."
        )


def _refuse_subject(reader: Reader) -> None:
    """Raise for each push into the subject of a stream that completed in an earlier run."""
    if reader.source.subject is not None:
        Refusal(reader.source.subject, reader.name, reader.run_end, completed=True).begin()


def _order(recording: Recording, exact: bool) -> Iterator[tuple[int, int]]:
    """Yield runs of records: the number of a stream, and how many records it brought next."""
    for runs in _together(recording.runs()):
        if not exact:
            runs = runs.group_by("stream", maintain_order=True).sum()
        yield from runs.iter_rows()


def _divide(
    runs: Iterator[tuple[int, int]], end: int, recording: Recording, changes: Sequence[int]
) -> Iterator[tuple[int, int, int]]:
    """Yield runs of records, each with the number of its first one; no change is within a run.

    ``end`` is the number behind the last record. Without changes the numbers have no meaning.
    """
    at = end - recording.count() if changes else 0
    for number, count in runs:
        while count:
            size = min([count, *(each - at for each in changes if each > at)])
            yield at, number, size
            at, count = at + size, count - size


def _together(frames: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    waiting: list[pl.DataFrame] = []
    records = 0
    for frame in frames:
        waiting.append(frame)
        records += int(frame.get_column("records").sum())
        if records >= AT_ONCE:
            yield pl.concat(waiting)
            waiting, records = [], 0
    if waiting:
        yield pl.concat(waiting)


def _count_brought(records: StreamRecords) -> int:
    """Return how many records came from the source: all but those from outside, and its end."""
    marks = ["outside", "completed"]
    return sum(
        frame.height - int(frame.get_column("kind").is_in(marks).sum())
        for frame in records.segments()
    )


def _saved_fields(schema: pl.Schema | None, payload: Any) -> Any:
    """Return the part of a payload that a log stores: its fields, in their types."""
    if schema is None:
        return to_fields(payload)
    try:
        # in its fields' types, which may be narrower
        return PayloadReader(schema).frame([payload]).to_dicts()[0]
    except SchemaError:
        return payload  # the door raises the error
