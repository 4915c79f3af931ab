"""Log of the arrivals of one stream, with the verdict of its door on each."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import Cti, Event, RowEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.stage import RowHolder
from rxtemporal.ingress.batch_verdicts import EventRun, Verdicts, classify_rows, judge_rows
from rxtemporal.ingress.lateness import LateEvent, LateReason
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.operators.causes.history import (
    ACCEPTED,
    ADJUSTED,
    CTI,
    EDGE_END,
    EDGE_START,
    INTERVAL,
    LATE,
    POINT,
    TIME,
    Arrivals,
    find_kind,
)
from rxtemporal.run.reader import Reader
from rxtemporal.storage.event_log.layout import StreamFacts
from rxtemporal.storage.event_log.log import Log, StreamLog

# is told the number of arrivals so far
Progress: TypeAlias = Callable[[int], object]
PROGRESS_EVERY = 1_000


class Steps:
    """The number of the current step: ``every`` arrivals, or whatever the run takes at once."""

    def __init__(self, every: int, progress: Progress | None = None) -> None:
        self.now = -1
        self._every, self._left = every, 0
        self._progress = progress
        self._taken = self._told = 0
        # the log of the last arrivals
        self.log: Any = None
        self._probes: list[Probe] = []
        self._clock = 0.0
        # whether something has left a node in this step: otherwise each holds what it held
        self.has_flow = False

    def watch(self, probe: Probe) -> None:
        """Look at the rows held behind a probe after each step."""
        self._probes.append(probe)

    def next(self, log: Any, arrivals: int = 1) -> None:
        """Note that a log gets arrivals; begin the next step if they do not fit into this one."""
        self.log, self._clock = log, time.perf_counter()
        if self._left < arrivals:
            self.finish()
            self.now, self._left = self.now + 1, self._every
        self._left -= arrivals
        self._taken += arrivals
        if self._progress is not None and self._taken >= self._told + PROGRESS_EVERY:
            self._told = self._taken
            self._progress(self._taken)

    def finish(self) -> None:
        """Note the rows held at the end of a step."""
        if self.has_flow:
            self.has_flow = False
            for probe in self._probes:
                probe.note_held(self.now)

    def lap(self) -> float:
        """Return the seconds since the last call, or since the step has begun."""
        before, self._clock = self._clock, time.perf_counter()
        return self._clock - before


class Probe:
    """Record of what has left one node: batches, each with its step; CTIs; rows held; time."""

    def __init__(self, steps: Steps, holder: RowHolder | None = None) -> None:
        self._steps, self._holder = steps, holder
        self.batches: list[tuple[int, EventBatch]] = []
        self.ctis: list[tuple[int, int]] = []
        self.held: list[tuple[int, int]] = []
        self.seconds = 0.0
        self._cti, self._rows = MIN_TIME, 0

    def note(self, batch: EventBatch) -> None:
        """Note a batch that leaves the node."""
        self._steps.has_flow = True
        self.seconds += self._steps.lap()
        if len(batch):
            self.batches.append((self._steps.now, batch))
        if batch.cti > self._cti:
            self._cti = batch.cti
            self.ctis.append((self._steps.now, batch.cti))

    def note_held(self, step: int) -> None:
        """Note how many rows the node holds, if that has changed."""
        if self._holder is not None and (rows := self._holder.rows) != self._rows:
            self._rows = rows
            self.held.append((step, rows))


class ArrivalLog(StreamLog):
    """Log that keeps the arrivals of one stream in memory; each call is a step of the run.

    Late events that are judged one by one are told by ``note_late``.
    """

    def __init__(self, reader: Reader, steps: Steps) -> None:
        source = reader.source
        facts = StreamFacts(reader.name, source.in_columns, source.settings, source.time)
        super().__init__(Log(), 0, facts, source.schema)
        self._reader, self._steps = reader, steps
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "step",
                "start",
                "end",
                "kind",
                "verdict",
                "reason",
                "by",
                "input",
                "place",
            )
        }
        # payloads of events and of batches, and the place of each arrival's among these
        self._events: list[Any] = []
        self._batches: list[Columns] = []
        self._rows = 0
        self._cti = MIN_TIME
        # the arrivals that may still be told to be late, and the late events told of them
        self._open: list[int] = []
        self._told: list[LateEvent] = []

    # The log ---------------------------------------------------------------------------------

    def note_event(self, event: Event | Sent) -> None:
        """Note one event; its verdict follows."""
        self._begin(1)
        self._open = [self._add_event(event)]

    def note_events(self, events: Sequence[Event | Sent]) -> None:
        """Note a run of complete events, with the verdicts of the door, which has not changed."""
        self._begin(len(events))
        first = len(self)
        for each in events:
            self._add_event(each)
        run, door = EventRun.from_items(events), self._reader.door
        if self._reader.source.clock is not None:
            self._open = list(range(first, len(self)))
        elif run is not None:
            verdicts = judge_rows(run.start, run.end, door.rules, door.state, run.kind)
            self._mark_all(verdicts, first)

    def note_batch(self, batch: EventBatch | SentRows) -> None:
        """Note the rows of a batch, and its CTI if it has a new one."""
        sent = batch if isinstance(batch, SentRows) else SentRows(batch)
        self._begin(max(1, len(sent.batch)))
        rows, first = sent.batch, len(self)
        kinds = classify_rows(rows)
        self._add_rows(rows, sent.input, edges=bool(len(kinds)))
        if len(kinds) or self._reader.source.clock is not None:
            self._open = list(range(first, first + len(rows)))
        elif self._reader.door.settings is not None:
            verdicts = self._reader.door.judge_columns(rows, ahead=sent.ahead)
            self._mark_all(verdicts, first)
        if rows.cti > self._cti:
            self._cti = rows.cti
            self._note_time(rows.cti, sent.input)

    def note_end(self) -> None:
        """Note that the source has ended: it may let rows go that waited."""
        self._begin(1)

    def note_advance(self, cti: int, device: Any = None) -> None:
        """Note a CTI from outside."""
        self._begin(1)
        self._note_time(cti, None)

    def note_silence(self, devices: Sequence[Any] | None) -> None:
        """Note that devices have become silent: they may let rows go that waited."""
        self._begin(1)

    def note_failure(self, error: BaseException) -> None:
        """Note that the source has failed: it may let rows go that waited."""
        self._begin(1)

    def note_late(self, late: LateEvent) -> None:
        """Take the verdict on an arrival of the last step that is judged alone."""
        if self._open:
            self._told.append(late)

    def _begin(self, arrivals: int) -> None:
        """Begin a step."""
        self._settle_late()
        self._steps.next(self, arrivals)

    def _settle_late(self) -> None:
        """Find the arrivals that were late.

        The CTI rises, so of equal rows of a batch the last ones are late: those that came first
        are found last.
        """
        columns = [self._columns[name] for name in ("start", "end", "kind")]
        for late in reversed(self._told):
            event = late.event
            wanted = event.start, event.end, find_kind(event) >= EDGE_START
            while self._open:
                number = self._open.pop()
                start, end, kind = (column[number] for column in columns)
                if (start, end, kind >= EDGE_START) == wanted:
                    self._mark_late(number, late.reason, late.by)
                    break
        self._open, self._told = [], []

    # Columns ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._columns["start"])

    def _append(self, **values: Any) -> None:
        for name, value in values.items():
            self._columns[name].append(value)

    def _add_event(self, item: Event | Sent) -> int:
        event, sender = (item.event, item.input) if isinstance(item, Sent) else (item, None)
        if not isinstance(event, RowEvent):
            if isinstance(event, Cti):
                self._note_time(event.start, sender)
            return len(self) - 1
        self._append(
            step=self._steps.now,
            start=event.start,
            end=event.end,
            kind=find_kind(event),
            verdict=ACCEPTED,
            reason=None,
            by=0,
            input=sender,
            place=len(self._events),
        )
        self._events.append(event.payload)
        return len(self) - 1

    def _add_rows(self, rows: EventBatch, sender: str | None, *, edges: bool) -> None:
        n, points = len(rows), rows.end - rows.start == 1
        kinds = np.where(points, POINT, INTERVAL)
        if edges:
            begins = np.where(rows.end == MAX_TIME, EDGE_START, EDGE_END)
            kinds = np.where(rows.edge != 0, begins, kinds)
        made: dict[str, list[Any]] = {
            "step": [self._steps.now] * n,
            "start": rows.start.tolist(),
            "end": rows.end.tolist(),
            "kind": kinds.tolist(),
            "verdict": [ACCEPTED] * n,
            "reason": [None] * n,
            "by": [0] * n,
            "input": [sender] * n,
            # those of batches are counted down from -2
            "place": list(range(-2 - self._rows, -2 - self._rows - n, -1)),
        }
        for name, values in made.items():
            self._columns[name] += values
        if n:
            self._batches.append(rows.columns)
            self._rows += n

    def _note_time(self, cti: int, sender: str | None) -> None:
        self._append(
            step=self._steps.now,
            start=cti,
            end=cti,
            kind=CTI,
            verdict=TIME,
            reason=None,
            by=0,
            input=sender,
            place=-1,
        )

    def _mark_all(self, verdicts: Verdicts, first: int) -> None:
        numbers = (verdicts.late + first).tolist()
        for late in zip(numbers, verdicts.reasons, verdicts.by.tolist(), strict=True):
            self._mark_late(*late)

    def _mark_late(self, number: int, reason: LateReason, by: int) -> None:
        self._columns["verdict"][number] = ADJUSTED if reason.keeps_row else LATE
        self._columns["reason"][number] = reason.value
        self._columns["by"][number] = by

    # The end ---------------------------------------------------------------------------------

    def to_arrivals(self, entered: Int64s) -> Arrivals:
        """Return the arrivals; ``entered`` are the rows of what has entered the query, in order."""
        self._settle_late()
        columns = self._columns
        end = np.array(columns["end"], np.int64)
        kind = np.array(columns["kind"], np.uint8)
        verdict = np.array(columns["verdict"], np.uint8)
        # an end edge at the end of time leaves its row as it is, and does not enter
        enters = (verdict <= ADJUSTED) & ~((kind == EDGE_END) & (end == MAX_TIME))
        row = np.full(len(self), -1, np.int64)
        places = np.flatnonzero(enters)[: len(entered)]
        row[places] = entered[: len(places)]
        return Arrivals(
            step=np.array(columns["step"], np.int64),
            start=np.array(columns["start"], np.int64),
            end=end,
            kind=kind,
            verdict=verdict,
            reason=pl.Series("reason", columns["reason"], pl.String),
            by=np.array(columns["by"], np.int64),
            row=row,
            position=np.arange(len(self), dtype=np.int64),
            input=pl.Series("input", columns["input"], pl.String),
            payload=self._payload(),
        )

    def _payload(self) -> pl.DataFrame:
        """Return the payloads in order of arrival; of CTIs, and of what does not fit, nulls."""
        schema = self._reader.door.payloads.schema
        if not schema:
            return pl.DataFrame(height=len(self))
        nothing = pl.DataFrame(schema=schema).clear(1)
        events = _convert(self._events, schema)
        parts = [nothing, events]
        if self._batches:
            parts.append(Columns.concat(self._batches).frame.cast(schema))
        place = np.array(self._columns["place"], np.int64)
        rows = np.where(place >= 0, place + 1, np.where(place == -1, 0, len(events) - 1 - place))
        return pl.concat(parts)[rows]


def _convert(payloads: Sequence[Any], schema: pl.Schema) -> pl.DataFrame:
    try:
        return PayloadReader(schema).frame(payloads)
    except Exception:  # one of them has ended the run, whose error says so
        return pl.DataFrame(schema=schema).clear(len(payloads))
