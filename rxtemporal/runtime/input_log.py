"""A run that takes up an input log: what is there comes to its doors again, then it goes on.

One run does both, through the same doors and operators, and changes over when the log is at its
end. So nothing has to be handed over but how much of a source that begins anew stands in the log.
Places need not be: all that is left lies behind the place of what was accepted last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl

from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import to_fields
from rxtemporal.errors import BindingError, SchemaError
from rxtemporal.runtime.reader import Reader
from rxtemporal.storage.event_log import InputLog, Recording, StreamRecords, Wanted
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.source import RecordedSource

# records of the order that are read together
AT_ONCE = 65_536


def refuse_unlogged(readers: Sequence[Reader]) -> None:
    """Refuse the streams that an input log is not for."""
    for reader in readers:
        if reader.source.resumes and not reader.source.in_columns:
            raise BindingError(
                f"stream {reader.name!r} can be read again from where it has come to, and needs "
                "no input log. Hint: resume=folder in place of log=, which takes all others too."
            )
        if isinstance(reader.source, RecordedSource):
            raise BindingError(
                f"stream {reader.name!r} is recorded, and can be replayed from its beginning at "
                "any time: it needs no input log. Hint: leave log= out."
            )


def begun(log: InputLog, readers: Sequence[Reader]) -> None:
    """Take up the log for streams of a run."""
    for reader in readers:
        # a start edge that comes out of a log has a dict, and its end edge may be a dataclass
        reader.door.match_rows_by(partial(_saved_fields, reader.source.schema))
    log.begin(
        [
            Wanted(
                reader.name,
                reader.source.in_columns,
                reader.source.settings,
                reader.source.schema,
            )
            for reader in readers
        ]
    )


def relived(
    log: InputLog, readers: Sequence[Reader], exact: bool, goes_on: Callable[[], bool]
) -> None:
    """Bring the records of a log to the doors, and have what comes from now on logged.

    ``exact``: they alternate between the streams just as they came. ``goes_on`` is asked between.
    """
    cursors = {}
    for reader, tape in zip(readers, log.tapes, strict=True):
        records = log.store.records_of(tape.number)
        schema = reader.source.schema or records.schema
        cursor = RecordedCursor(records, schema, as_rows=reader.source.in_columns)
        cursors[tape.number] = reader, cursor
    for number, count in _order(Recording(log.path), exact):
        reader, cursor = cursors[number]
        if not reader.ended:
            reader.replay(cursor, count)
        if not goes_on():
            return
    for reader, tape in zip(readers, log.tapes, strict=True):
        if reader.ended:
            continue
        reader.log(tape, _taken(log.store.records_of(tape.number)))


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


def _taken(records: StreamRecords) -> int:
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
