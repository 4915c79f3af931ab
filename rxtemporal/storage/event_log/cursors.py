"""Cursor over a recorded stream: its records as rows, events and batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.core.payloads import list_payloads
from rxtemporal.core.schema import conform, to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.engine.added_fields import add_fields
from rxtemporal.errors import SourceError
from rxtemporal.ingress.built_in_sources import SIZED_ROWS
from rxtemporal.ingress.source import (
    Cursor,
    Item,
    OutsideCti,
    Sent,
    SentRows,
    Silence,
    StreamSource,
)
from rxtemporal.storage.event_log.columns import Senders
from rxtemporal.storage.event_log.layout import KINDS
from rxtemporal.storage.event_log.reader import Recording, StreamRecords

Codes: TypeAlias = npt.NDArray[np.uint8]


def _codes(**same: str) -> Codes:
    """Return the code of each kind; ``same`` maps kinds to the kind they count as."""
    names = KINDS.categories.to_list()
    return np.array([names.index(same.get(name, name)) for name in names], np.uint8)


_AS_ROWS = _codes(point="row", interval="row")
_AS_EVENTS = _codes(interval="point", start="point", end="point", cti="point")
# completed, failed
_LAST = KINDS.categories.to_list().index("completed")
_MAKES: list[Callable[[Time, int, Any, Callable[[int], Time]], Event]] = [
    lambda start, end, payload, form: PointEvent(start, payload),
    lambda start, end, payload, form: IntervalEvent(start, form(end), payload),
    lambda start, end, payload, form: EdgeEvent.create_start(start, payload),
    lambda start, end, payload, form: EdgeEvent.create_end(start, form(end), payload),
    lambda start, end, payload, form: Cti(start, payload),
]
_CTI = len(_MAKES) - 1


class _Chunk:
    """The records of one segment as columns."""

    def __init__(
        self, frame: pl.DataFrame, reached: int, schema: pl.Schema, fields: Sequence[str]
    ) -> None:
        self._fields = fields
        self.kinds = frame.get_column("kind").to_physical().to_numpy()
        self.height = frame.height
        # the index of the record that ends the stream, or the number of records
        self.last = int(np.append(self.kinds >= _LAST, True).argmax())
        starts = frame.get_column("start_time").fill_null(MIN_TIME).to_numpy()
        self.places: Int64s = np.maximum(np.maximum.accumulate(starts), reached)
        # marks have no row, so their values do not matter
        self.start = np.ascontiguousarray(starts)
        self._has_time = frame.get_column("start_time").is_not_null().to_numpy()
        self.end = np.ascontiguousarray(frame.get_column("end_time").fill_null(0).to_numpy())
        self.edge: Int64s = np.zeros(self.height, np.int64)
        if "edge" in frame.columns:
            self.edge = np.ascontiguousarray(frame.get_column("edge").fill_null(0).to_numpy())
        payload = pl.DataFrame(height=self.height)
        if schema and "payload" in frame.columns:
            # of a stream that has got more fields since then
            payload = add_fields(frame.get_column("payload").struct.unnest(), schema)
            payload = conform(payload, schema)
        elif schema:  # marks and CTIs alone
            payload = pl.DataFrame(schema=schema).clear(self.height)
        self.payload = payload
        self.senders = Senders.from_frame(frame)

    def batches(self, begin: int, end: int) -> Iterator[EventBatch | SentRows]:
        """Yield the records of a stretch as rows, those of one sender together."""
        if self.senders is None:
            yield self._rows(begin, end)
            return
        for first, last in self.senders.stretches(begin, end):
            yield self.senders.add_to_rows(self._rows(first, last), first)

    def _rows(self, begin: int, end: int) -> EventBatch:
        part = slice(begin, end)
        payload = self.payload.slice(begin, end - begin)
        return EventBatch(self.start[part], self.end[part], self.edge[part], payload, MIN_TIME)

    def count_together(self, begin: int, until: int, far: int) -> int:
        """Return how many records from ``begin`` on may be taken at once, up to a time.

        The end of a stream is taken alone, as are records beyond ``far`` that may cause it: the CTI
        before it has to reach the streams that import it, since the end of time is not imported.
        """
        upto = int(np.searchsorted(self.places, until, side="right"))
        upto = min(upto, self.last, int(np.searchsorted(self.places, far)))
        return max(1, upto - begin)

    def stretches(self, begin: int, end: int, codes: Codes) -> Iterator[tuple[str, int, int]]:
        """Yield the bounds of each stretch of one kind, mapped by ``codes``, with that kind."""
        kinds = codes[self.kinds[begin:end]]
        cuts = np.flatnonzero(np.diff(kinds)) + 1
        for first, last in pairwise([0, *cuts.tolist(), end - begin]):
            yield KINDS.categories[int(kinds[first])], begin + first, begin + last

    def events(self, begin: int, end: int, form: Callable[[int], Time]) -> Iterator[Event | Sent]:
        """Yield the records of a stretch as events, with times in a form and their senders."""
        events = self._events(begin, end, form)
        return events if self.senders is None else self.senders.add_to_events(events, begin)

    def _events(self, begin: int, end: int, form: Callable[[int], Time]) -> Iterator[Event]:
        part = slice(begin, end)
        rows = zip(
            self.kinds[part].tolist(), self.start[part].tolist(), self.end[part].tolist(),
            list_payloads(Columns.from_frame(self.payload.slice(begin, end - begin))), strict=True,
        )  # fmt: skip
        for kind, start, stop, payload in rows:
            if kind == _CTI:
                payload = self._find_device(payload)
            yield _MAKES[kind](form(start), stop, payload, form)

    def _find_device(self, payload: Any) -> Any:
        """Return the device for which a CTI holds; None for all."""
        if not self._fields:
            return None
        fields = to_fields(payload)
        values = tuple(fields.get(name) for name in self._fields)
        if None in values:
            return None
        return values[0] if len(values) == 1 else values

    def list_outside(self, begin: int, end: int) -> Iterator[OutsideCti | Silence]:
        """Yield the times from outside in a stretch, and the devices that have become silent.

        Without clocks of devices the times are one, at the end.
        """
        if self._fields:
            payloads = list_payloads(Columns.from_frame(self.payload.slice(begin, end - begin)))
            starts, has_time = self.start[begin:end].tolist(), self._has_time[begin:end].tolist()
            devices = map(self._find_device, payloads)
            yield from _read_outside(zip(starts, has_time, devices, strict=True))
        else:
            yield OutsideCti(int(self.start[begin:end].max()))


def _read_outside(
    records: Iterable[tuple[int, bool, Any]],
) -> Iterator[OutsideCti | Silence]:
    """Yield what came from outside: a start, True if it is a time, and the device, or None."""
    for (timed, for_all), group in groupby(records, key=lambda each: (each[1], each[2] is None)):
        if timed:
            yield from (OutsideCti(start, device) for start, _, device in group)
        else:
            yield Silence(None if for_all else tuple(device for _, _, device in group))


class RecordedCursor(Cursor):
    """Cursor over a recorded stream: its events, its rows as batches, and its time.

    A record with a sender is returned as ``Sent`` or in ``SentRows``.

    ``as_rows``: points and intervals are returned as batches, too. ``allowed`` is how many records
    may be taken by the order of all streams of the recording; None: all. A stream whose end has
    not been recorded is cut off after its last record.
    """

    completes = False
    checked = True

    def __init__(
        self, records: StreamRecords, schema: pl.Schema | None, *, as_rows: bool = False
    ) -> None:
        super().__init__()
        self.allowed: int | None = None
        self._codes = _AS_ROWS if as_rows else _AS_EVENTS
        generation = settings.generation if (settings := records.facts.settings) else None
        self._far = MAX_TIME + min(0, generation.delay_ticks if generation else 0)
        self._schema = schema or pl.Schema()
        self._records = records
        self._frames = records.segments()
        self._chunk: _Chunk | None = None
        self._at = 0
        self.time = records.facts.time
        self._form: Callable[[int], Time] = int
        if records.facts.time == "datetime":
            self._form = to_datetime

    def allow(self, records: int) -> None:
        """Let so many records be taken."""
        self.allowed = records

    def count_allowed(self) -> int:
        """Return how many of the records that may be taken are left."""
        assert self.allowed is not None
        return self.allowed

    def peek(self) -> int:
        """Return the time of the next record: the highest start so far, its own included."""
        chunk = self._load()
        return self._reached if chunk is None else int(chunk.places[self._at])

    def take(self, until: int = MAX_TIME) -> list[Item] | None:
        """Return the records up to a time, as many as are allowed, at least the next one."""
        if self.allowed == 0:
            return None
        chunk, begin = self._load(), self._at
        if chunk is None:
            if self.allowed is not None:
                raise self._too_few()
            return None
        count = chunk.count_together(begin, until, self._far)
        if self.allowed is not None:
            count = min(count, self.allowed)
            self.allowed -= count
        self._at = begin + count
        self._reached = int(chunk.places[self._at - 1])
        return self._items_of(chunk, begin, self._at)

    def _too_few(self) -> SourceError:
        return SourceError(
            f"the recorded stream {self._records.facts.name!r} has fewer records than its "
            "recording counts. Hint: restore the recording from a copy."
        )

    def _load(self) -> _Chunk | None:
        """Return the current segment, or the next one if that is used up; None at the end."""
        if self._chunk is None or self._at == self._chunk.height:
            self._chunk, self._at = None, 0
            frame = next((each for each in self._frames if each.height), None)
            if frame is not None:
                clock = self._records.facts.clock
                fields = () if clock is None else clock.fields
                self._chunk = _Chunk(frame, self._reached, self._schema, fields)
        return self._chunk

    def _items_of(self, chunk: _Chunk, begin: int, end: int) -> list[Item] | None:
        items: list[Item] = []
        for kind, first, last in chunk.stretches(begin, end, self._codes):
            if kind == "row":
                items += chunk.batches(first, last)
            elif kind == "point":
                items += chunk.events(first, last, self._form)
            elif kind == "outside":
                items += chunk.list_outside(first, last)
            elif kind == "completed":
                self.completes = True
                return None
            else:
                raise self._failure()
        return items

    def _failure(self) -> SourceError:
        facts = self._records.facts
        return SourceError(
            f"stream {facts.name!r} had failed when it was recorded: {facts.failed or 'unknown'}"
        )


# the kinds of record that can be rows of a batch
_COMPLETE = {"point", "interval", "outside", "completed", "failed"}


class RecordedSource(StreamSource):
    """One stream of a recording. In one run, all its streams are read in the recorded order.

    The recording of a silent stream has the CTIs of its heartbeat or idle time.
    """

    bounded = True
    resumes = False
    replays = True

    def __init__(self, recording: Recording, number: int) -> None:
        self.recording = recording
        self.number = number
        self.records = recording.streams[number]
        facts = self.records.facts
        self.name = facts.name
        self.settings = facts.settings
        self.clock = facts.clock
        self.delays_ctis = facts.delays_ctis
        self.schema = self.records.schema
        self.time = facts.time
        kinds = set(facts.kinds)
        # verdicts are the same for columns, and faster
        self.in_columns = facts.columns or kinds <= _COMPLETE
        self.min_rows = 1 if self.in_columns or "row" in kinds else SIZED_ROWS
        # the other streams of the recording by name; those whose CTIs are imported are read, too
        self.beside: Mapping[str, Any] = {}

    def read_with(self, others: Mapping[str, Any]) -> None:
        """Read other streams of the recording as well, if their CTIs are imported."""
        self.beside = others

    def open(self, position: Any = None) -> RecordedCursor:
        """Return a cursor at the beginning."""
        return RecordedCursor(self.records, self.schema, as_rows=self.in_columns)
