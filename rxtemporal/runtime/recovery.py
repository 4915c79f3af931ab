"""Recovery: replay the event log, then continue with the live sources.

One run does both, through the same doors and operators, and changes over at the end of the log. So
nothing has to be handed over but how much of a source that begins anew stands in the log. Places
need not be: all that is left lies behind the place of what was accepted last.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import to_fields
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.runtime.reader import Reader
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.event_log import EventLog, LoggedStream
from rxtemporal.storage.event_log.reader import Recording, StreamRecords
from rxtemporal.storage.event_log.source import RecordedSource
from rxtemporal.storage.event_log.store import RunStore

# records of the order that are read together
AT_ONCE = 65_536


def make_log(path: Any, name: str) -> EventLog:
    """Return the event log of ``log=``, which is opened when its run starts."""
    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"log= is the path of a folder, got {path!r}")
    return EventLog(RunStore(Path(path), name, resume=False))


def refuse_unlogged(readers: Sequence[Reader]) -> None:
    """Refuse the streams that need no event log."""
    for reader in readers:
        if reader.source.resumes and not reader.source.in_columns:
            raise BindingError(
                f"stream {reader.name!r} can be read again from a position, and needs no event "
                "log. Hint: resume=folder in place of log=, which takes all other streams, too."
            )
        if isinstance(reader.source, RecordedSource):
            raise BindingError(
                f"stream {reader.name!r} is recorded, and can be replayed from its beginning at "
                "any time: it needs no event log. Hint: leave log= out."
            )


def match_log(log: EventLog, readers: Sequence[Reader]) -> None:
    """Match the log with the streams of a run."""
    for reader in readers:
        # a start edge that comes out of a log has a dict, and its end edge may be a dataclass
        reader.door.match_rows_by(partial(_saved_fields, reader.source.schema))
    log.match(
        [
            LoggedStream(
                reader.name,
                reader.source.in_columns,
                reader.source.settings,
                reader.source.schema,
            )
            for reader in readers
        ]
    )


def replay_log(
    log: EventLog, readers: Sequence[Reader], exact: bool, continues: Callable[[], bool]
) -> None:
    """Bring the records of a log to the doors, and have what comes from now on logged.

    ``exact``: they alternate between the streams just as they came. ``continues`` is asked between.
    """
    log.begin()
    recording = log.recording()
    cursors = {}
    for reader, tape in zip(readers, log.tapes, strict=True):
        records = recording.streams[tape.number]
        schema = reader.source.schema or records.schema
        cursor = RecordedCursor(records, schema, as_rows=reader.source.in_columns)
        cursors[tape.number] = reader, cursor
    for number, count in _order(recording, exact):
        reader, cursor = cursors[number]
        if not reader.ended:
            reader.replay(cursor, count)
        if not continues():
            return
    for reader, tape in zip(readers, log.tapes, strict=True):
        if not reader.ended:
            reader.log(tape, _count_brought(recording.streams[tape.number]))


def _order(recording: Recording, exact: bool) -> Iterator[tuple[int, int]]:
    """Yield which stream brought how many records next, in pieces that make long steps."""
    for runs in _together(recording.runs()):
        if not exact:
            runs = runs.group_by("stream", maintain_order=True).sum()
        yield from runs.iter_rows()


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
    """Return how many records a source has brought: all but those from outside, and its end."""
    marks = ["outside", "completed"]
    return sum(
        frame.height - int(frame.get_column("kind").is_in(marks).sum())
        for frame in records.segments()
    )


def _saved_fields(schema: pl.Schema | None, payload: Any) -> Any:
    """Return the part of a payload that a log keeps: its fields, in their types."""
    if schema is None:
        return to_fields(payload)
    try:
        # in its fields' types, which may be narrower
        return PayloadReader(schema).frame([payload]).to_dicts()[0]
    except SchemaError:
        return payload  # the door refuses it, and says why
