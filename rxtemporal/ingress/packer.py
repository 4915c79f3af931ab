"""Row events into event batches: the door judges each, columns are made at the commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import compress
from operator import attrgetter
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    Event,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.schema import refuse_lists, to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.kernels.door_rules import CTI, ROW
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_door import REASONS, Bools, Bytes, ColumnDoor, Judged
from rxtemporal.ingress.door import Door

# rows that wait for a CTI leave anyway when there are so many
MOST_ROWS = 65_536
BOTH = "a stream is either of events or of batches, got both"
# so many events may pass before a field that has always been null is taken to be of type null
UNSETTLED_ROWS = 1_024


class Packer:
    """Collects one stream's row events until a CTI, and gives them out as a batch.

    ``least_rows``: how many rows have to wait before a CTI sends them on; 1 answers every CTI at
    once, more makes larger batches out of a stream with many CTIs. Holds the rows that wait.
    """

    def __init__(self, door: Door, payloads: PayloadReader, least_rows: int = 1) -> None:
        self.door = door
        self.time: TimeForm | None = None
        self.columns = ColumnDoor(door)
        self.payloads = payloads
        # the owner may change them: more while the query is busy, less where few rows may wait
        self.least, self.most = least_rows, MOST_ROWS
        # the CTI that has been given out
        self.sent = MIN_TIME
        self._clear()

    def _clear(self) -> None:
        self._start: list[int] = []
        self._end: list[int] = []
        self._edge: list[int] = []
        # the CTI that stood before each row, for the case that its payload does not fit
        self._cti: list[int] = []
        self._payload: list[Any] = []

    @property
    def rows(self) -> int:
        """How many rows wait."""
        return len(self._start)

    @property
    def next_due(self) -> int | None:
        """The start of the oldest of them; None where none waits."""
        return min(self._start, default=None)

    def take(self, event: Event) -> EventBatch | None:
        """Take one event; return a batch if it is time for one."""
        before = self.door.cti
        kept, row = self.door.accept(event)
        if row and self.columns.edges:
            raise EventError(BOTH)
        if self.time is None:
            self.time = "datetime" if isinstance(event.start_time, datetime) else "ticks"
        # an end edge at the end of time leaves its row as it is: one that never ends
        if kept is not None and not (_ends(kept) and kept.end == MAX_TIME):
            self._cti.append(before)
            self._start.append(kept.start)
            self._end.append(kept.end)
            self._edge.append(row)
            self._payload.append(kept.payload)
        return self.due()

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        return self.door.import_cti(cti)

    def due(self) -> EventBatch | None:
        """Return a batch if it is time for one."""
        waiting = len(self._start)
        if self.door.cti > self.sent:
            # without rows there is nothing to merge, and somebody may wait for the time
            return self._pack_settled() if waiting >= self.least or not waiting else None
        return self._pack_settled() if waiting >= self.most else None

    def take_any(self, item: Any) -> EventBatch | None:
        """Take an event or a whole batch; return a batch if it is time for one."""
        return self.take_batch(item) if isinstance(item, EventBatch) else self.take(item)

    def take_batch(self, batch: EventBatch) -> EventBatch:
        """Take a whole batch, whose CTI comes after its rows; return what goes on of it.

        A stream is either of events or of batches: both have ids of their own for edges.
        """
        if len(batch) and self.time is None:
            self.time = "ticks"
        if self._start or self.door.rows.opened:
            raise EventError(BOTH)
        # with settings it is the door that judges, and lets through no CTI that goes back
        batch.check(self.sent if self.door.settings is None else MIN_TIME)
        refuse_lists(batch.schema)
        batch = self.columns.admit(self.payloads.conformed(batch))
        self.sent = batch.cti
        return batch

    def finish(self) -> EventBatch | None:
        """The source has completed; return what waits."""
        self.door.finish()
        return self.pack()

    def saved(self) -> list[Any]:
        """Return what the door holds, what is known of the fields, and the rows that wait."""
        rows = [self._start, self._end, self._edge, self._cti, [*map(to_fields, self._payload)]]
        return [self.columns.saved(), self.payloads.saved(), self.sent, self.time, rows]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from what ``saved`` of a packer of the same stream returned."""
        columns, payloads, self.sent, self.time, rows = state
        self.columns.restore(columns)
        self.payloads.restore(payloads)
        self._start, self._end, self._edge, self._cti, self._payload = rows

    def _pack_settled(self) -> EventBatch | None:
        # time alone has no fields to wait for
        if self._start and not self.payloads.settled:
            self.payloads.learn(self._payload)
            if not self.payloads.settled and len(self._start) < UNSETTLED_ROWS:
                return None
        return self.pack()

    def pack(self) -> EventBatch | None:
        """Return what waits as a batch; None where neither rows nor time have come."""
        cti = max(self.door.cti, self.sent)
        if not self._start and cti == self.sent:
            return None
        payload = self.payloads.frame(self._payload)
        batch = EventBatch(
            np.array(self._start, np.int64),
            np.array(self._end, np.int64),
            np.array(self._edge, np.int64),
            payload,
            cti,
        )
        self.sent = cti
        self._clear()
        return batch

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return what was accepted before the stream failed, and the first thing that was wrong.

        Payloads are looked into when they are packed, so that one which does not fit may have come
        before the event that ``error`` is about.
        """
        while True:
            try:
                if isinstance(error, BadPayloadError):
                    self._forget_from(error.row)
                return self.pack(), error
            except BadPayloadError as earlier:
                error = earlier

    def _forget_from(self, row: int) -> None:
        self.door.cti = self._cti[row]
        for column in (self._start, self._end, self._edge, self._cti, self._payload):
            del column[row:]


def _ends(event: RowEvent) -> bool:
    return isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END


# so many events are taken at once, if there are so many; fewer than the least go one by one
RUN_ROWS, RUN_LEAST = 8_192, UNSETTLED_ROWS

_AT_ONCE = {PointEvent, IntervalEvent, Cti}
_start, _end, _payload = attrgetter("start"), attrgetter("end"), attrgetter("payload")


def taken(packer: Packer, items: Sequence[Any]) -> Iterator[EventBatch]:
    """Yield the batches that a packer makes of events and batches that follow each other.

    Many points and intervals, with CTIs among them, are judged and packed as columns. Where
    something is wrong with one of them the packer takes them one by one, and tells which.
    """
    batch, done = None, False
    if len(items) >= RUN_LEAST and _AT_ONCE.issuperset(map(type, items)):
        waiting = packer.pack()
        if waiting is not None:
            yield waiting
        batch, done = _at_once(packer, _Run.of(items))
    if batch is not None:
        yield batch
    for item in () if done else items:
        batch = packer.take_any(item)
        if batch is not None:
            yield batch


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Run:
    """Events as columns; ``ctis`` tells which are CTIs."""

    items: Sequence[Any]
    start: Int64s
    end: Int64s
    ctis: Bools

    @staticmethod
    def of(items: Sequence[Any]) -> _Run:
        n, types = len(items), list(map(type, items))
        start = np.fromiter(map(_start, items), np.int64, n)
        ctis = np.zeros(n, np.bool_)
        end = start + TICK
        if Cti in types:
            ctis = np.array([each is Cti for each in types], np.bool_)
        if IntervalEvent in types:
            end[~ctis] = np.fromiter(map(_end, compress(items, (~ctis).tolist())), np.int64)
        return _Run(items, start, end, ctis)

    @property
    def kind(self) -> Bytes:
        """What each item is; nothing where all are complete rows."""
        return np.where(self.ctis, CTI, ROW).astype(np.int8) if self.ctis.any() else _NO_KINDS


_NO_KINDS: Bytes = np.empty(0, np.int8)


def _at_once(packer: Packer, run: _Run) -> tuple[EventBatch | None, bool]:
    """Return a run as a batch, and whether it could be taken so."""
    judged = packer.columns.judge(run.start, run.end, run.kind)
    if packer.door.settings is None and _breaks_a_promise(run, judged):
        return None, False
    kept = judged.kept & ~run.ctis
    payloads = list(map(_payload, run.items if kept.all() else compress(run.items, kept.tolist())))
    frame = _framed(packer, payloads)
    if frame is None:
        return None, False
    for tape in (packer.door.tape, packer.door.log):
        if tape is not None:
            tape.events(run.items)
    packer.columns.take(judged, len(run.items) - int(run.ctis.sum()))
    _tell(packer, run, judged)
    if packer.time is None:
        packer.time = "datetime" if isinstance(run.items[0].start_time, datetime) else "ticks"
    cti = max(packer.door.cti, packer.sent)
    if not payloads and cti == packer.sent:
        return None, True
    packer.sent = cti
    return EventBatch.of_rows(judged.start[kept], judged.end[kept], frame, cti), True


def _breaks_a_promise(run: _Run, judged: Judged) -> bool:
    return bool(len(judged.late)) or judged.backwards


def _framed(packer: Packer, payloads: list[Any]) -> pl.DataFrame | None:
    """Return payloads as a frame; None where one does not fit, or a field is not known yet."""
    try:
        packer.payloads.learn(payloads)
        if not packer.payloads.settled and len(payloads) < UNSETTLED_ROWS:
            return None
        return packer.payloads.frame(payloads)
    except BadPayloadError:
        return None


def _tell(packer: Packer, run: _Run, judged: Judged) -> None:
    listener = packer.door.listener
    if listener is None or not len(judged.late):
        return
    broken = np.maximum(judged.before, MIN_TIME).tolist()
    reasons = judged.reason.tolist()
    for n, number, cti, by in zip(
        judged.late.tolist(), reasons, broken, judged.by.tolist(), strict=True
    ):
        reason = REASONS[number]
        assert reason is not None
        listener.event(run.items[n], reason, cti, by)
