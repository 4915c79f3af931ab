"""A run that takes up an input log: what is there comes to its doors again, then it goes on.

One run does both, through the same doors and operators, and changes over when the log is at its
end. So nothing has to be handed over but how much of a source that begins anew stands in the log.
Places need not be: all that is left lies behind the place of what was accepted last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import to_fields
from rxtemporal.errors import BindingError, SchemaError
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.resumable import PositionedSource
from rxtemporal.ingress.sources import OpenEvents, OpenFrames
from rxtemporal.runtime.reader import Reading
from rxtemporal.storage.event_log import InputLog, Recording, StreamRecords, Wanted
from rxtemporal.storage.event_log.cursors import BatchSteps, EventSteps, RowSteps
from rxtemporal.storage.event_log.source import RecordedSource

# records of the order that are read together
AT_ONCE = 65_536


def refuse_unlogged(readings: Sequence[Reading]) -> None:
    """Refuse the streams that an input log is not for."""
    for reading in readings:
        if isinstance(reading.source, PositionedSource):
            raise BindingError(
                f"stream {reading.name!r} can be read again from where it has come to, and needs "
                "no input log. Hint: resume=folder in place of log=, which takes all others too."
            )
        if isinstance(reading.source, RecordedSource):
            raise BindingError(
                f"stream {reading.name!r} is recorded, and can be replayed from its beginning at "
                "any time: it needs no input log. Hint: leave log= out."
            )


def begun(log: InputLog, readings: Sequence[Reading]) -> None:
    """Take up the log for streams of a run."""
    for reading in readings:
        if reading.packer is not None:
            reading.opened.door.rows = _FieldRows(reading.source.schema)
    log.begin(
        [
            Wanted(
                reading.name,
                isinstance(reading.opened, OpenFrames),
                reading.source.settings,
                reading.source.schema,
            )
            for reading in readings
        ]
    )


def relived(
    log: InputLog, readings: Sequence[Reading], exact: bool, goes_on: Callable[[], bool]
) -> None:
    """Bring the records of a log to the doors, and have what comes from now on logged.

    ``exact``: they alternate between the streams just as they came. ``goes_on`` is asked between.
    """
    steps = {}
    for reading, tape in zip(readings, log.tapes, strict=True):
        steps[tape.number] = reading, _steps(reading, log.store.records_of(tape.number))
    for number, records in _order(Recording(log.path), exact):
        reading, step = steps[number]
        if not reading.ended:
            reading.relive(step, records)
        if not goes_on():
            return
    for reading, tape in zip(readings, log.tapes, strict=True):
        if reading.ended:
            continue
        reading.relived += _taken(log.store.records_of(tape.number))
        # frames are read again from the row that their door has come to
        if isinstance(reading.opened, OpenEvents):
            reading.opened.skip(reading.relived)
        reading.log(tape)


def _steps(reading: Reading, records: StreamRecords) -> RowSteps | EventSteps | BatchSteps:
    """Return how records come to a door that a live source goes on with."""
    schema = reading.source.schema or records.schema
    if isinstance(reading.opened, OpenFrames):
        return RowSteps(records, schema, reading.opened.columns)
    assert reading.packer is not None
    make = BatchSteps if "row" in records.facts.kinds else EventSteps
    return make(records, schema, reading.packer)


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


class _FieldRows(OpenRows[Any]):
    """Open rows that end edges find by what the log keeps of a payload: its fields.

    A start edge that comes out of a log has a dict, and its end edge may come with a dataclass.
    """

    __slots__ = ("_schema",)

    def __init__(self, schema: pl.Schema | None) -> None:
        super().__init__()
        self._schema = schema

    def open(self, start: int, payload: Any, row: Any) -> None:
        """Remember a row under its start and fields."""
        super().open(start, self.kept(payload), row)

    def close(self, start: int, payload: Any) -> Any:
        """Take out the oldest row under this start and these fields."""
        return super().close(start, self.kept(payload))

    def kept(self, payload: Any) -> Any:
        """Return the fields, in which an end edge's are looked for."""
        if self._schema is None:
            return to_fields(payload)
        try:
            # in its fields' types, which may be narrower
            return PayloadReader(self._schema).frame([payload]).to_dicts()[0]
        except SchemaError:
            return payload  # the door refuses it, and says why
