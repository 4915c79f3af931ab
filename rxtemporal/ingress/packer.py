"""Events into event batches: the door judges each, columns are made at the commit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import EdgeEvent, EdgeType, Event, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.schema import refuse_lists, to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import LateRows, Verdicts
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.event_run import EventRun, JudgedRun, kept_payloads
from rxtemporal.ingress.lateness import Lateness
from rxtemporal.ingress.source import StreamSource

# rows that wait for a CTI leave anyway when there are so many
MOST_ROWS = 65_536
BOTH = "a stream is either of events or of batches, got both"
# so many events may pass before a field that has always been null is taken to be of type null
UNTYPED_ROWS = 1_024
# fewer events than these are taken one by one
RUN_LEAST = UNTYPED_ROWS

# late events as they came, one or many
Late: TypeAlias = tuple[RowEvent, Lateness] | LateRows
_COMPLETE = frozenset({PointEvent, IntervalEvent})
_start, _end, _payload = attrgetter("start"), attrgetter("end"), attrgetter("payload")


class _SavedRow(NamedTuple):
    """A row that waited when the stream was saved."""

    start: int
    end: int
    payload: Any


# a row that waits goes with its edge id, and the CTI that stood before it
_Row: TypeAlias = RowEvent | _SavedRow


class Packer:
    """Collects one stream's row events until a CTI, and gives them out as a batch.

    ``least_rows``: how many rows have to wait before a CTI sends them on; 1 answers every CTI at
    once, more makes larger batches out of a stream with many CTIs. ``time`` is the form in which
    the source gives times, if that is known. ``omits_ctis``: a batch without a CTI of its own keeps
    the one before, and is not taken to go back. Holds the rows that wait, and in ``late`` the late
    events until its owner reports them.
    """

    def __init__(
        self,
        door: Door,
        payloads: PayloadReader,
        least_rows: int = 1,
        time: TimeForm | None = None,
        *,
        omits_ctis: bool = False,
    ) -> None:
        self.door = door
        self._omits_ctis = omits_ctis
        self.time = time
        self.payloads = payloads
        self.late: list[Late] = []
        # the owner may change them: more while the query is busy, less where few rows may wait
        self.least, self.most = least_rows, MOST_ROWS
        # the CTI that has been given out
        self.sent = MIN_TIME
        self._waiting: list[tuple[_Row, int, int]] = []
        self._judged = False

    @property
    def rows(self) -> int:
        """The number of rows that wait."""
        return len(self._waiting)

    @property
    def next_due(self) -> int | None:
        """The start of the oldest row that waits; None where none waits."""
        return min((row.start for row, _, _ in self._waiting), default=None)

    def take(self, event: Event) -> EventBatch | None:
        """Take one event; return a batch if it is time for one."""
        # this runs once for each event that is pushed
        door = self.door
        before = door.cti
        if self._judged and type(event) in _COMPLETE:
            door.events += 1
            self._waiting.append((event, 0, before))  # type: ignore[arg-type]
        else:
            kept, row, late = door.accept(event)
            if late is not None:
                self.late.append((event, late))  # type: ignore[arg-type]
            if row and door.has_batch_edges:
                raise EventError(BOTH)
            # an end edge at the end of time leaves its row as it is: one that never ends
            if kept is not None and not (row and kept.end == MAX_TIME and _ends(kept)):
                self._waiting.append((kept, row, before))
        if self.time is None:
            self.time = "datetime" if isinstance(event.start_time, datetime) else "ticks"
        waiting = len(self._waiting)
        if door.cti > self.sent:
            # without rows there is nothing to merge, and somebody may wait for the time
            return None if 0 < waiting < self.least else self._pack_if_typed()
        return None if waiting < self.most else self._pack_if_typed()

    def trust_events(self) -> None:
        """Take points and intervals from now on as a subject has judged them, which sends them."""
        self._judged = True

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return True if it advances this one."""
        return self.door.import_cti(cti)

    def due(self) -> EventBatch | None:
        """Return a batch if it is time for one."""
        waiting = len(self._waiting)
        if self.door.cti > self.sent:
            return self._pack_if_typed() if waiting >= self.least or not waiting else None
        return self._pack_if_typed() if waiting >= self.most else None

    # Batches and runs -----------------------------------------------------------------------------

    def check_batch(self, batch: EventBatch) -> EventBatch:
        """Return a batch that keeps its contract, with the stream's fields; refuse another."""
        if len(batch) and self.time is None:
            self.time = "ticks"
        if self._waiting or self.door.rows.opened:
            raise EventError(BOTH)
        if self._omits_ctis and batch.cti == MIN_TIME:
            batch = batch.replace(cti=self.sent)
        # with settings it is the door that judges, and lets through no CTI that goes back
        batch.check(self.sent if self.door.settings is None else MIN_TIME)
        refuse_lists(batch.schema)
        return self.payloads.conform(batch)

    def take_batch(self, batch: EventBatch) -> EventBatch:
        """Take a whole batch, whose CTI comes after its rows; return what goes on of it.

        A stream is either of events or of batches: both have ids of their own for edges.
        """
        return self._put_batch(*self.door.accept_batch(batch))

    def take_verdicts(self, batch: EventBatch, verdicts: Verdicts) -> EventBatch:
        """Take a batch of complete rows with the verdicts on it; return what goes on of it."""
        return self._put_batch(*self.door.accept_judged(batch, verdicts))

    def _put_batch(self, batch: EventBatch, late: LateRows | None) -> EventBatch:
        if late is not None:
            self.late.append(late)
        if batch.cti < self.sent:
            return batch.replace(cti=self.sent)
        self.sent = batch.cti
        return batch

    def judge_run(self, items: Sequence[Any]) -> JudgedRun | None:
        """Return events that follow each other with their verdicts; the door stays as it is.

        None if they have to be taken one by one: an item is no point, interval or CTI, or something
        is wrong with one of them. No row may be waiting.
        """
        run = EventRun.of_items(items)
        if run is None:
            return None
        verdicts = self.door.judge_columns(run.start, run.end, run.kind)
        if self.door.settings is None and (len(verdicts.late) or verdicts.backwards):
            return None
        kept = verdicts.kept & ~run.ctis
        payload = self._frame_if_typed(kept_payloads(run, kept))
        return None if payload is None else JudgedRun(run, verdicts, kept, payload)

    def _frame_if_typed(self, payloads: list[Any]) -> pl.DataFrame | None:
        try:
            self.payloads.learn(payloads)
            if not self.payloads.is_complete and len(payloads) < UNTYPED_ROWS:
                return None
            return self.payloads.frame(payloads)
        except BadPayloadError:
            return None

    def take_run(self, judged: JudgedRun) -> EventBatch | None:
        """Take a run with its verdicts; return what goes on of it, if anything does."""
        run, verdicts, kept = judged.run, judged.verdicts, judged.kept
        self.door.apply(verdicts, run.rows)
        self.late += judged.late()
        if self.time is None:
            datetimes = isinstance(run.items[0].start_time, datetime)
            self.time = "datetime" if datetimes else "ticks"
        cti = max(self.door.cti, self.sent)
        if not judged.payload.height and not kept.any() and cti == self.sent:
            return None
        self.sent = cti
        return EventBatch.of_rows(verdicts.start[kept], verdicts.end[kept], judged.payload, cti)

    # The end --------------------------------------------------------------------------------------

    def finish(self) -> EventBatch | None:
        """Return what waits, for the source has completed."""
        self.door.finish()
        return self.pack()

    def _pack_if_typed(self) -> EventBatch | None:
        # time alone has no fields to wait for
        if self._waiting and not self.payloads.is_complete:
            self.payloads.learn([row.payload for row, _, _ in self._waiting])
            if not self.payloads.is_complete and len(self._waiting) < UNTYPED_ROWS:
                return None
        return self.pack()

    def pack(self) -> EventBatch | None:
        """Return what waits as a batch; None where neither rows nor time have come."""
        cti = max(self.door.cti, self.sent)
        waiting = self._waiting
        if not waiting:
            if cti == self.sent:
                return None
            self.sent = cti
            nothing = np.empty(0, np.int64)
            return EventBatch(nothing, nothing, nothing, self.payloads.frame([]), cti)
        rows, edges, _ = zip(*waiting, strict=True)
        payload = self.payloads.frame(list(map(_payload, rows)))
        batch = EventBatch(
            np.fromiter(map(_start, rows), np.int64, len(rows)),
            np.fromiter(map(_end, rows), np.int64, len(rows)),
            np.array(edges, np.int64),
            payload,
            cti,
        )
        self.sent = cti
        self._waiting = []
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
        self.door.cti = self._waiting[row][2]
        del self._waiting[row:]

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return what the door holds, what is known of the fields, and the rows that wait."""
        rows = [
            [row.start, row.end, to_fields(row.payload), edge, cti]
            for row, edge, cti in self._waiting
        ]
        return [self.door.save(), self.payloads.save(), self.sent, self.time, rows]

    def load(self, state: Sequence[Any]) -> None:
        """Go on from what ``save`` of a packer of the same stream returned."""
        door, payloads, self.sent, self.time, waiting = state
        self.door.load(door)
        self.payloads.load(payloads)
        self._waiting = [
            (_SavedRow(start, end, payload), edge, before)
            for start, end, payload, edge, before in waiting
        ]


def packer_of(source: StreamSource, name: str | None = None) -> Packer:
    """Return a packer, with a door, for one run of a source, under a name."""
    return Packer(
        Door(source.settings, name or source.name),
        PayloadReader(source.schema),
        source.least_rows,
        source.time,
        omits_ctis=source.omits_ctis,
    )


def read_batches(source: StreamSource) -> Iterator[EventBatch]:
    """Yield what goes on of a source that is read to its end, alone."""
    packer, cursor = packer_of(source), source.open()
    batch: EventBatch | None
    for item in cursor:
        if isinstance(item, EventBatch):
            batch = packer.take_batch(item if cursor.checked else packer.check_batch(item))
        else:
            batch = packer.take(item)
        if batch is not None:
            yield batch
    last = packer.finish()
    if last is not None:
        yield last


def _ends(event: RowEvent) -> bool:
    return isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END
