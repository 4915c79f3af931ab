"""Late events as data, and rejected rows: an observable of a run, and streams of a plan."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import polars as pl
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import RowEvent
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.driver import Entry
from rxtemporal.ingress.batch_verdicts import LateRows
from rxtemporal.ingress.lateness import LateEvent, Lateness
from rxtemporal.ingress.packer import Late, Packer
from rxtemporal.ingress.side_source import LATE_FIELDS, LateSource, RejectSource
from rxtemporal.ingress.verdict import Rejected
from rxtemporal.reactive.subjects import TransformSubject
from rxtemporal.reactive.synchronize import synchronize

_TICKS = ("by", "start", "end", "cti")


class LateFeed:
    """The late events of one run, as an observable."""

    def __init__(self) -> None:
        self._subject: TransformSubject[LateEvent, LateEvent] = TransformSubject(synchronize())
        self._listened = 0
        self.observable: Observable[LateEvent] = Observable(self._subscribe)

    @property
    def has_listeners(self) -> bool:
        """True if there are subscribers; without any, no late events are built."""
        return self._listened > 0

    def _subscribe(self, observer: Any, scheduler: Any = None) -> Any:
        self._listened += 1
        # disposing twice counts once
        return CompositeDisposable(self._subject.subscribe(observer), Disposable(self._leave))

    def _leave(self) -> None:
        self._listened -= 1

    def push(self, late: LateEvent) -> None:
        """Push a late event to the subscribers."""
        self._subject.on_next(late)

    def end(self) -> None:
        """Complete the observable when the run has ended."""
        self._subject.on_completed()


class _LateRow(NamedTuple):
    """A late event for a stream of late events, with its original payload."""

    reason: str
    by: int
    start: int
    end: int
    cti: int
    payload: Any


class LateEvents:
    """Late events of one source, for the run's feed and for streams of late events.

    It is the source's entry into the query in front of the stream itself: with each batch, every
    stream of late events gets the late events of that batch, and the same CTI.
    """

    def __init__(
        self,
        feed: LateFeed,
        packer: Packer,
        main: Entry | RejectedRows,
        streams: Sequence[tuple[LateSource, Entry]] = (),
    ) -> None:
        self._feed = feed
        self._packer = packer
        self._main = main
        self._streams = streams
        self._cti = MIN_TIME
        # with a hand-off, the door and the consumer of these run on different threads
        self._lock = threading.Lock()
        self._events: list[_LateRow] = []
        self._rows: list[LateRows] = []

    @property
    def entry(self) -> Entry | RejectedRows | LateEvents:
        """The source's entry into the query: this object, if there are streams of late events."""
        return self if self._streams else self._main

    def report(self, late: Sequence[Late]) -> None:
        """Take late events, in order."""
        if self._streams or self._feed.has_listeners:
            for each in late:
                if isinstance(each, LateRows):
                    self._take_rows(each)
                else:
                    self._take(*each)

    def _take(self, event: RowEvent, late: Lateness) -> None:
        reason, cti, by = late
        if self._streams:
            row = _LateRow(reason.value, by, event.start, event.end, cti, event.payload)
            with self._lock:
                self._events.append(row)
        if self._feed.has_listeners:
            self._feed.push(LateEvent(event, self._name, reason, cti, by))

    def _take_rows(self, late: LateRows) -> None:
        if self._streams:
            with self._lock:
                self._rows.append(late)
        if not self._feed.has_listeners:
            return
        for each in late.list_events(self._name, self._packer.time or "ticks"):
            self._feed.push(each)

    @property
    def _name(self) -> str:
        return self._packer.source

    def _take_all(self) -> tuple[pl.DataFrame, pl.DataFrame] | None:
        """Return fields and payloads collected since the last call; None if there are none."""
        with self._lock:
            events, self._events = self._events, []
            batches, self._rows = self._rows, []
        parts = [(self._to_fields_rows(each), each.rows.payload) for each in batches]
        if events:
            payload = self._packer.payloads.frame([each.payload for each in events])
            parts.append((self._to_fields_events(events), payload))
        if not parts:
            return None
        fields, payloads = zip(*parts, strict=True)
        return pl.concat(fields), pl.concat(payloads)

    def save(self) -> list[Any]:
        """Return the late events not yet pushed, and the CTI of the streams."""
        with self._lock:
            events = [[*row[:-1], to_fields(row.payload)] for row in self._events]
            rows = [[each.rows, each.reason, each.cti, each.by] for each in self._rows]
        return [self._cti, events, rows]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save``."""
        self._cti, events, rows = state
        self._events = [_LateRow(*each) for each in events]
        self._rows = [LateRows(*each) for each in rows]

    def _to_fields_events(self, late: Sequence[_LateRow]) -> pl.DataFrame:
        reason, by, start, end, cti, _ = zip(*late, strict=True)
        return self._fields(reason, by, start, end, cti)

    def _to_fields_rows(self, late: LateRows) -> pl.DataFrame:
        rows, names = late.rows, [each.value for each in late.reasons]
        return self._fields(names, late.by, rows.start, rows.end, late.cti)

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

    def on_next(self, batch: EventBatch) -> None:
        """Push a batch, and then the late events."""
        self._main.on_next(batch)
        try:
            self._push_late(batch.cti, batch.schema)
        except Exception as error:  # a late payload does not fit, which is not the producer's fault
            self.on_error(error)

    def _push_late(self, cti: int, payload: pl.Schema | None = None) -> None:
        late = self._take_all()
        if late is None and (cti <= self._cti or payload is None):
            return
        self._cti = max(self._cti, cti)
        if late is None:
            late = self._fields([], [], [], [], []), pl.DataFrame(schema=payload)
        for source, subject in self._streams:
            subject.on_next(source.batch(*late, self._cti))

    def on_error(self, error: Exception) -> None:
        """Fail the stream and its streams of late events."""
        self._main.on_error(error)
        for _, subject in self._streams:
            subject.on_error(error)

    def on_completed(self) -> None:
        """End the stream and its streams of late events; push pending late events before."""
        try:
            self._push_late(self._cti)
        except Exception as error:
            self.on_error(error)
            return
        self._main.on_completed()
        for _, subject in self._streams:
            subject.on_completed()


class RejectedRows(abc.ObserverBase[EventBatch]):
    """Entry of a source into the query in front of the stream itself, beside its rejected rows.

    Rejected rows are points at the CTI that the stream had when they came, and go into the query
    before the batch that advances it. ``wake`` asks for a batch, if only an empty one, and returns
    False if the run has ended. They are neither logged nor saved.
    """

    def __init__(self, main: Entry, source: RejectSource, entry: Entry) -> None:
        super().__init__()
        self._main, self._source, self._entry = main, source, entry
        self._waiting: list[Rejected] = []
        self._lock = threading.Lock()
        self._cti = MIN_TIME
        self.wake: Callable[[], bool] = lambda: True

    def listen(self, wake: Callable[[], bool]) -> None:
        """Take what the source rejects from now on; ``wake`` asks for a batch."""
        self.wake = wake
        self._source.listen(self)

    def copy_from(self, other: RejectedRows) -> None:
        """Take over the rows that wait, and the CTI; the other one goes on."""
        with other._lock:
            self._waiting, self._cti = [*other._waiting], other._cti

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Take rejected rows, from any thread."""
        with self._lock:
            self._waiting += rejected
        if not self.wake():
            self._waiting = []  # the run has ended

    def on_next(self, batch: EventBatch) -> None:
        """Push the rejected rows and a batch."""
        self._push_rejected(batch.cti)
        # also an empty one, for which an output by device may wait
        self._main.on_next(batch)

    def _push_rejected(self, cti: int) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting and cti <= self._cti:
            return
        # before its first CTI the stream has no time but that of the batch
        start = cti if self._cti == MIN_TIME < cti < MAX_TIME else self._cti
        self._cti = max(self._cti, cti)
        if start == MAX_TIME:
            waiting = []  # no row can start there
        self._entry.on_next(self._source.batch(waiting, start, self._cti))

    def on_error(self, error: Exception) -> None:
        """Fail the stream and that of its rejected rows."""
        self._main.on_error(error)
        self._entry.on_error(error)

    def on_completed(self) -> None:
        """End the stream and that of its rejected rows."""
        self._push_rejected(self._cti)
        self._main.on_completed()
        self._entry.on_completed()
