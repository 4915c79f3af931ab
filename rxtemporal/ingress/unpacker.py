"""Unpacker of event batches into row events, for output."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.event_columns import (
    FEW_OBJECTS,
    make_edge,
    make_events,
    make_interval,
    make_point,
    pause_collection,
)
from rxtemporal.core.events import (
    Cti,
    EdgeType,
    Event,
    EventShape,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.payloads import PayloadLister, list_payloads
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, Time, to_datetime

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# So many rows become events without a look for garbage, and so many at once: what these are made
# of stays in the processor's cache.
_PAUSE, _PART = 65_536, 16_384


def make_unpacker(
    emit: Callable[[Event], None],
    shape: EventShape,
    ctis: bool,
    time: Callable[[], TimeForm],
) -> Callable[[EventBatch], None]:
    """Return a function that takes batches and emits their rows one by one, then their CTI.

    A payload is a dict of its fields, or the bare value of a stream of scalars.
    """
    unpacker = Unpacker(shape, ctis, time)

    def on_batch(batch: EventBatch) -> None:
        for event in unpacker.list_events(batch):
            emit(event)

    return on_batch


class Unpacker:
    """Unpacker of the batches of one stream, whose rows leave as events of one shape.

    With ``ctis`` each CTI that is higher than the one before follows the rows of its batch; where
    each device has its own time, one for each device that has advanced.
    """

    def __init__(self, shape: EventShape, ctis: bool, time: Callable[[], TimeForm]) -> None:
        self._shape = shape
        self._ctis = ctis
        self._time = time
        self._cti = MIN_TIME
        # the CTI of each device, where each has its own time
        self._devices: dict[Any, int] = {}
        self._payloads: PayloadLister | None = None

    def list_events(self, batch: EventBatch) -> list[Event]:
        """Return the rows of a batch as events, then its CTI."""
        events: list[Event] = []
        self.add_events(batch, events)
        return events

    def add_events(self, batch: EventBatch, events: list[Event]) -> None:
        """Append the rows of a batch to a list as events, then its CTI."""
        form, rows = self._time(), len(batch)
        if rows >= FEW_OBJECTS:  # the context costs as much as one of them
            for begin in range(0, rows, _PAUSE):
                with pause_collection():
                    self._add_rows(batch, range(begin, min(begin + _PAUSE, rows)), form, events)
        elif rows:
            events += self._list_rows(batch, form)
        if self._ctis and batch.clocks is not None:
            self._add_device_ctis(batch, form, events)
        elif self._ctis and batch.cti > self._cti:
            self._cti = batch.cti
            events.append(Cti(to_datetime(batch.cti) if form == "datetime" else batch.cti))

    def _add_device_ctis(self, batch: EventBatch, form: TimeForm, events: list[Event]) -> None:
        """Append a CTI for each device that has advanced."""
        time = to_datetime(batch.cti) if form == "datetime" else batch.cti
        for device in batch.devices or ():
            if batch.cti > self._devices.get(device, MIN_TIME):
                self._devices[device] = batch.cti
                events.append(Cti(time, device))

    def _add_rows(
        self, batch: EventBatch, rows: range, form: TimeForm, events: list[Event]
    ) -> None:
        for begin in rows[::_PART]:
            end = min(begin + _PART, rows.stop)
            events += self._list_rows(batch.slice(begin, end), form)

    def _list_rows(self, batch: EventBatch, form: TimeForm) -> list[Any]:
        if self._shape is EventShape.EDGE:
            return _list_edges(batch, form)
        starts, columns, lister = batch.start.tolist(), batch.columns, self._payloads
        if lister is None or lister.schema is not columns.schema:
            self._payloads = lister = PayloadLister(columns.schema)
        payloads = lister.list_rows(columns)
        times = starts if form == "ticks" else list_times(batch.start)
        if self._shape is EventShape.INTERVAL:
            return make_events(IntervalEvent, times, starts, batch.end.tolist(), payloads)
        return make_events(PointEvent, times, starts, (batch.start + TICK).tolist(), payloads)


def list_times(ticks: Int64s) -> list[datetime]:
    """Return ticks as aware datetimes in UTC."""
    return list(map(_EPOCH.__add__, ticks.view("m8[us]").tolist()))


def _list_edges(batch: EventBatch, form: TimeForm) -> list[RowEvent]:
    events: list[RowEvent] = []
    for time, start, end, edge, payload in _rows(batch, form):
        # a complete row becomes a pair of edges
        if not edge or end == MAX_TIME:
            events.append(make_edge(EdgeType.START, time, start, MAX_TIME, payload))
        if end != MAX_TIME:
            events.append(make_edge(EdgeType.END, time, start, end, payload))
    return events


def list_events(batch: EventBatch, time: TimeForm) -> list[RowEvent]:
    """Return each row in its original form: point, interval or edge."""
    return [make_event(*row) for row in _rows(batch, time)]


def _rows(batch: EventBatch, form: TimeForm) -> Any:
    starts = batch.start.tolist()
    times = starts if form == "ticks" else list_times(batch.start)
    payloads = list_payloads(batch.columns)
    return zip(times, starts, batch.end.tolist(), batch.edge.tolist(), payloads, strict=True)


def make_event(time: Time, start: int, end: int, edge: int, payload: Any) -> RowEvent:
    """Return a row in its original form: point, interval, or edge if it has the id of one."""
    if edge:
        kind = EdgeType.START if end == MAX_TIME else EdgeType.END
        return make_edge(kind, time, start, end, payload)
    if end - start == TICK:
        return make_point(time, start, payload)
    return make_interval(time, start, end, payload)
