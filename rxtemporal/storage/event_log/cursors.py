"""Recorded records brought to a door again, a step at a time: as rows, as events, as batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.core.schema import conform
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.errors import SourceError
from rxtemporal.ingress.batch_door import ColumnDoor
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import Packer, taken
from rxtemporal.ingress.unpacker import payloads_of
from rxtemporal.storage.event_log import KINDS, StreamRecords

Codes: TypeAlias = npt.NDArray[np.uint8]


def _codes(**same: str) -> Codes:
    """Return what each kind's number becomes where some kinds are taken to be another."""
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
    lambda start, end, payload, form: Cti(start),
]


class _Chunk:
    """The records of one segment as columns."""

    def __init__(self, frame: pl.DataFrame, reached: int, schema: pl.Schema) -> None:
        self.kinds = frame.get_column("kind").to_physical().to_numpy()
        self.height = frame.height
        # where the stream ends, if it does
        self.last = int(np.append(self.kinds >= _LAST, True).argmax())
        starts = frame.get_column("start_time").fill_null(MIN_TIME).to_numpy()
        self.places: Int64s = np.maximum(np.maximum.accumulate(starts), reached)
        # for marks, which have no row, whatever stands there
        self.start = np.ascontiguousarray(starts)
        self.end = np.ascontiguousarray(frame.get_column("end_time").fill_null(0).to_numpy())
        self.edge: Int64s = np.zeros(self.height, np.int64)
        if "edge" in frame.columns:
            self.edge = np.ascontiguousarray(frame.get_column("edge").fill_null(0).to_numpy())
        payload = pl.DataFrame(height=self.height)
        if schema and "payload" in frame.columns:
            payload = conform(frame.get_column("payload").struct.unnest(), schema)
        elif schema:  # marks and CTIs alone
            payload = pl.DataFrame(schema=schema).clear(self.height)
        self.payload = payload

    def rows(self, begin: int, end: int, cti: int) -> EventBatch:
        """Return the records of a stretch as rows."""
        part = slice(begin, end)
        payload = self.payload.slice(begin, end - begin)
        return EventBatch(self.start[part], self.end[part], self.edge[part], payload, cti)

    def together(self, begin: int, until: int, inclusive: bool, far: int) -> int:
        """Return how many records from ``begin`` on may be brought at once, up to a place.

        The end of a stream comes alone, as does what lies beyond ``far`` and may bring it: the CTI
        before it still has to reach the streams that import it, which the end of time does not.
        """
        side: Any = "right" if inclusive else "left"
        upto = int(np.searchsorted(self.places, until, side=side))
        upto = min(upto, self.last, int(np.searchsorted(self.places, far)))
        return max(1, upto - begin)

    def latest(self, begin: int, end: int) -> int:
        """Return the latest time of a stretch of CTIs."""
        return int(self.start[begin:end].max())

    def stretches(self, begin: int, end: int, codes: Codes) -> Iterator[tuple[str, int, int]]:
        """Yield the kind, or what ``codes`` makes of it, and the bounds of each stretch of one."""
        kinds = codes[self.kinds[begin:end]]
        cuts = np.flatnonzero(np.diff(kinds)) + 1
        for first, last in pairwise([0, *cuts.tolist(), end - begin]):
            yield KINDS.categories[int(kinds[first])], begin + first, begin + last

    def events(self, begin: int, end: int, form: Callable[[int], Time]) -> Iterator[Event]:
        """Yield the records of a stretch as events, with times in a form."""
        part = slice(begin, end)
        rows = zip(
            self.kinds[part].tolist(), self.start[part].tolist(), self.end[part].tolist(),
            payloads_of(self.payload.slice(begin, end - begin)), strict=True,
        )  # fmt: skip
        for kind, start, stop, payload in rows:
            yield _MAKES[kind](form(start), stop, payload, form)


class _Steps:
    """A recorded stream read a step at a time: what its two forms have in common."""

    def __init__(self, records: StreamRecords, schema: pl.Schema | None, door: Door) -> None:
        self.ended = False
        self.door = door
        # how many records the order of all streams lets this one bring
        self.allowed = 0
        generation = settings.generation if (settings := records.facts.settings) else None
        self._far = MAX_TIME + min(0, generation.delay_ticks if generation else 0)
        self.schema = schema or pl.Schema()
        self._records = records
        self._frames = records.segments()
        self._chunk: _Chunk | None = None
        self._at = 0
        self._reached = MIN_TIME

    def place(self) -> int:
        """Return the place of the next record: the highest start shown, its own included."""
        self.at_hand()
        return self._reached if self._chunk is None else int(self._chunk.places[self._at])

    def at_hand(self) -> int:
        """Return how many records can be brought without reading more; 0 at the end."""
        if self._chunk is None or self._at == self._chunk.height:
            self._chunk, self._at = None, 0
            frame = next((each for each in self._frames if each.height), None)
            if frame is not None:
                self._chunk = _Chunk(frame, self._reached, self.schema)
        return 0 if self._chunk is None else self._chunk.height - self._at

    def take(self, until: int, inclusive: bool) -> EventBatch | None:
        """Bring the records up to a place, as many as are allowed; the first in any case."""
        if not self.allowed:
            return self.cut_off()
        self.place()
        chunk, begin = self._chunk, self._at
        if chunk is None:
            raise SourceError(
                f"the recorded stream {self._records.facts.name!r} has fewer records than its "
                "recording counts. Hint: restore the recording from a copy."
            )
        n = min(chunk.together(begin, until, inclusive, self._far), self.allowed)
        self.allowed -= n
        self._at = begin + n
        self._reached = int(chunk.places[self._at - 1])
        return self._bring(chunk, begin, begin + n)

    def cut_off(self) -> EventBatch | None:
        """The recording ends and the stream had not: what has come stands, no more is final."""
        self.ended = True
        return self._waiting()

    def _advance(self, cti: int) -> None:
        """Time had advanced from outside."""
        if self.door.import_cti(cti) and self.door.tape is not None:
            self.door.tape.advanced(cti)

    def _fail(self) -> NoReturn:
        facts = self._records.facts
        raise SourceError(
            f"stream {facts.name!r} had failed when it was recorded: {facts.failed or 'unknown'}"
        )

    def _bring(self, chunk: _Chunk, begin: int, end: int) -> EventBatch | None:
        raise NotImplementedError

    def _waiting(self) -> EventBatch | None:
        raise NotImplementedError


class RowSteps(_Steps):
    """Complete rows, through a door for columns."""

    def __init__(
        self, records: StreamRecords, schema: pl.Schema | None, entrance: ColumnDoor
    ) -> None:
        super().__init__(records, schema, entrance.door)
        self.entrance = entrance

    def _bring(self, chunk: _Chunk, begin: int, end: int) -> EventBatch | None:
        batches: list[EventBatch] = []
        for kind, first, last in chunk.stretches(begin, end, _AS_ROWS):
            if kind == "row":
                batches.append(self.entrance.admit(chunk.rows(first, last, MIN_TIME)))
                continue
            if kind == "failed":
                self._fail()
            elif kind == "completed":
                self.entrance.finish()
                self.ended = True
            else:
                self._advance(chunk.latest(first, last))
            batches.append(self.due())
        return EventBatch.concat(batches)

    def due(self) -> EventBatch:
        """Return the time that has come."""
        return EventBatch.empty(self.schema, max(self.door.cti, MIN_TIME))

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return what was accepted before the stream failed, which has gone on, and the error."""
        return None, error

    def _waiting(self) -> EventBatch | None:
        return None


class EventSteps(_Steps):
    """Events one by one, through the door for events."""

    def __init__(self, records: StreamRecords, schema: pl.Schema | None, entrance: Packer) -> None:
        super().__init__(records, schema, entrance.door)
        self.entrance = entrance
        self._form: Callable[[int], Time] = int
        if records.facts.time == "datetime":
            self._form = to_datetime
        # what goes on of the records being brought
        self._given: list[EventBatch | None] = []

    def _bring(self, chunk: _Chunk, begin: int, end: int) -> EventBatch | None:
        given = self._given
        for kind, first, last in chunk.stretches(begin, end, _AS_EVENTS):
            if kind == "point":
                given += taken(self.entrance, list(chunk.events(first, last, self._form)))
            else:
                given.append(self._mark(kind, chunk.latest(first, last)))
        return self._gathered()

    def _gathered(self) -> EventBatch | None:
        batches = [batch for batch in self._given if batch is not None]
        self._given.clear()
        return EventBatch.concat(batches) if batches else None

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return what was accepted before the stream failed, and the first thing wrong."""
        accepted, first = self.entrance.rescue(error)
        self._given.append(accepted)
        return self._gathered(), first

    def _mark(self, kind: str, time: int) -> EventBatch | None:
        if kind == "failed":
            self._fail()
        if kind == "completed":
            self.ended = True
            return self.entrance.finish()
        self._advance(time)
        return self.entrance.due()

    def due(self) -> EventBatch | None:
        """Return a batch if it is time for one."""
        return self.entrance.due()

    def _waiting(self) -> EventBatch | None:
        return self.entrance.pack()


class BatchSteps(EventSteps):
    """Batches, as they came or in parts, and events in between where both have come."""

    def _bring(self, chunk: _Chunk, begin: int, end: int) -> EventBatch | None:
        given = self._given
        for kind, first, last in chunk.stretches(begin, end, _AS_EVENTS):
            if kind == "row":
                # rows alone promise nothing; without settings no batch may seem to go back
                reached = MIN_TIME if self.door.settings else max(self.door.cti, MIN_TIME)
                given.append(self.entrance.take_batch(chunk.rows(first, last, reached)))
            elif kind == "point":
                given += taken(self.entrance, list(chunk.events(first, last, self._form)))
            else:
                given.append(self._mark(kind, chunk.latest(first, last)))
        return self._gathered()
