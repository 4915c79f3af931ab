"""Late events as data: told to whoever listens to a run, and as a stream of a plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from reactivex import Observable

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import RowEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_door import REASONS, LateRows
from rxtemporal.ingress.late_source import LATE_FIELDS, LateSource
from rxtemporal.ingress.lateness import LateEvent, LateReason
from rxtemporal.ingress.unpacker import row_events
from rxtemporal.reactive.lift import Entry
from rxtemporal.reactive.meters import Meter
from rxtemporal.reactive.subjects import TransformSubject
from rxtemporal.reactive.synchronize import synchronize


class LateFeed:
    """The late events of one run, as an observable."""

    def __init__(self) -> None:
        self._subject: TransformSubject[LateEvent, LateEvent] = TransformSubject(synchronize())
        self._listened = 0
        self.observable: Observable[LateEvent] = Observable(self._subscribe)

    @property
    def listened(self) -> bool:
        """Whether anybody has subscribed: until then nothing is made."""
        return self._listened > 0

    def _subscribe(self, observer: Any, scheduler: Any = None) -> Any:
        self._listened += 1
        return self._subject.subscribe(observer)

    def tell(self, late: LateEvent) -> None:
        """Hand one over."""
        self._subject.on_next(late)

    def end(self) -> None:
        """The run has ended."""
        self._subject.on_completed()


class _Told(NamedTuple):
    """A late event as it is gathered, with its payload as it came."""

    reason: str
    by: int
    start: int
    end: int
    cti: int
    payload: Any


class Hearing:
    """What one door tells of late events: to a run's feed, and gathered for streams of them."""

    def __init__(
        self,
        name: str,
        feed: LateFeed,
        payloads: PayloadReader,
        form: Callable[[], TimeForm | None],
        gathers: bool,
    ) -> None:
        self._name = name
        self._feed = feed
        self._payloads = payloads
        self._form = form
        self._gathers = gathers
        # behind a hand-off the door is on one thread, and whoever asks for these on another
        self._lock = threading.Lock()
        self._events: list[_Told] = []
        self._rows: list[LateRows] = []

    def event(self, event: RowEvent, reason: LateReason, cti: int, by: int) -> None:
        """Take one late event."""
        if self._gathers or self._feed.listened:
            if self._gathers:
                told = _Told(reason.value, by, event.start, event.end, cti, event.payload)
                with self._lock:
                    self._events.append(told)
            if self._feed.listened:
                self._feed.tell(LateEvent(event, self._name, reason, cti, by))

    def rows(self, late: LateRows) -> None:
        """Take the late rows of a batch; they become events only if somebody listens."""
        if self._gathers:
            with self._lock:
                self._rows.append(late)
        if not self._feed.listened:
            return
        events = row_events(late.rows, self._form() or "ticks")
        columns = late.reason.tolist(), late.cti.tolist(), late.by.tolist()
        for event, number, cti, by in zip(events, *columns, strict=True):
            reason = REASONS[number]
            assert reason is not None
            self._feed.tell(LateEvent(event, self._name, reason, cti, by))

    def gathered(self) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return what has been gathered since: fields and payloads; None if there is nothing."""
        with self._lock:
            events, self._events = self._events, []
            batches, self._rows = self._rows, []
        parts = [(self._fields_of_rows(each), each.rows.payload) for each in batches]
        if events:
            payload = self._payloads.frame([each.payload for each in events])
            parts.append((self._fields_of_events(events), payload))
        if not parts:
            return None
        fields, payloads = zip(*parts, strict=True)
        return pl.concat(fields), pl.concat(payloads)

    def saved(self) -> list[Any]:
        """Return what has been gathered and not yet been told."""
        with self._lock:
            events = [[*told[:-1], to_fields(told.payload)] for told in self._events]
            rows = [[each.rows, each.reason, each.cti, each.by] for each in self._rows]
        return [events, rows]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on with what had been gathered."""
        events, rows = state
        self._events = [_Told(*each) for each in events]
        self._rows = [LateRows(*each) for each in rows]

    def _fields_of_events(self, late: Sequence[_Told]) -> pl.DataFrame:
        reason, by, start, end, cti, _ = zip(*late, strict=True)
        return self._fields(reason, by, start, end, cti)

    def _fields_of_rows(self, late: LateRows) -> pl.DataFrame:
        names = np.array([None if each is None else each.value for each in REASONS], object)
        rows = late.rows
        return self._fields(names[late.reason].tolist(), late.by, rows.start, rows.end, late.cti)

    def _fields(self, reason: Any, by: Any, start: Any, end: Any, cti: Any) -> pl.DataFrame:
        times = pl.DataFrame(
            {"by": by, "start": start, "end": end, "cti": cti}, schema=dict.fromkeys(_TICKS, int)
        )
        return times.select(
            pl.lit(self._name).alias("source"),
            pl.Series("reason", reason, pl.String),
            pl.col("by").cast(LATE_FIELDS["by"]),
            pl.col("start").cast(LATE_FIELDS["start"]),
            pl.when(pl.col("end") < MAX_TIME).then(pl.col("end")).cast(LATE_FIELDS["end"]),
            pl.col("cti"),
        )


_TICKS = ("by", "start", "end", "cti")


class WithLate:
    """Where a source enters a run: the stream itself, and the streams of its late events.

    Each of these gets what was late with the batch that went on, and the same CTI.
    """

    def __init__(self, main: Entry, lates: Sequence[tuple[LateSource, Entry]]) -> None:
        self._main = main
        self._lates = lates
        self._cti = MIN_TIME
        self.hearing: Hearing | None = None

    @property
    def meter(self) -> Meter:
        """What has gone on from here into the query."""
        return self._main.meter

    @property
    def gathers(self) -> bool:
        """Whether there are streams of late events."""
        return bool(self._lates)

    def saved(self) -> list[Any]:
        """Return how far it has come, and what was late and has not been told."""
        meter = self._main.meter
        told = None if self.hearing is None else self.hearing.saved()
        return [self._cti, meter.rows, meter.cti, told]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from what ``saved`` returned."""
        meter = self._main.meter
        self._cti, meter.rows, meter.cti, told = state
        if self.hearing is not None and told is not None:
            self.hearing.restore(told)

    def on_next(self, batch: EventBatch) -> None:
        """Push a batch, and then what was late."""
        self._main.on_next(batch)
        try:
            self._tell_late(batch.cti, batch.schema)
        except Exception as error:  # a late payload does not fit, and the producer cannot help it
            self.on_error(error)

    def _tell_late(self, cti: int, payload: pl.Schema | None = None) -> None:
        if not self._lates or self.hearing is None:
            return
        late = self.hearing.gathered()
        if late is None and (cti <= self._cti or payload is None):
            return
        self._cti = max(self._cti, cti)
        if late is None:
            late = self.hearing._fields([], [], [], [], []), pl.DataFrame(schema=payload)
        for source, subject in self._lates:
            subject.on_next(source.batch(*late, self._cti))

    def on_error(self, error: Exception) -> None:
        """Fail all of them."""
        self._main.on_error(error)
        for _, subject in self._lates:
            subject.on_error(error)

    def on_completed(self) -> None:
        """End all of them; what was late after the last batch comes first."""
        try:
            self._tell_late(self._cti)
        except Exception as error:
            self.on_error(error)
            return
        self._main.on_completed()
        for _, subject in self._lates:
            subject.on_completed()
