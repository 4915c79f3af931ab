"""Unpacker of event batches into row events, for output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    Event,
    EventShape,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.schema import SCALAR_FIELD
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, Time, to_datetime


def make_unpacker(
    emit: Callable[[Event], None],
    shape: EventShape,
    ctis: bool,
    time: Callable[[], TimeForm],
) -> Callable[[EventBatch], None]:
    """Return a function that takes batches and emits their rows one by one, then their CTI.

    A payload is a dict of its fields, or the bare value of a stream of scalars.
    """
    unpack = _Unpacker(shape, ctis, time)

    def on_batch(batch: EventBatch) -> None:
        for event in unpack.events(batch):
            emit(event)

    return on_batch


class _Unpacker:
    def __init__(self, shape: EventShape, ctis: bool, time: Callable[[], TimeForm]) -> None:
        self._make = {
            EventShape.POINT: _point,
            EventShape.INTERVAL: IntervalEvent,
            EventShape.EDGE: _edge,
        }[shape]
        self._edges = shape is EventShape.EDGE
        self._ctis = ctis
        self._time = time
        self._cti = MIN_TIME

    def events(self, batch: EventBatch) -> list[Event]:
        form: Callable[[int], Time] = to_datetime if self._time() == "datetime" else int
        events: list[Event] = []
        payloads = list_payloads(batch.payload)
        for start, end, edge, payload in zip(
            batch.start.tolist(), batch.end.tolist(), batch.edge.tolist(), payloads, strict=True
        ):
            if self._edges and edge and end != MAX_TIME:
                events.append(EdgeEvent.create_end(form(start), form(end), payload))
            elif self._edges:
                # a complete row becomes a pair of edges
                events.append(EdgeEvent.create_start(form(start), payload))
                if end != MAX_TIME:
                    events.append(EdgeEvent.create_end(form(start), form(end), payload))
            else:
                events.append(self._make(form(start), form(end), payload))  # type: ignore[arg-type]
        if self._ctis and batch.cti > self._cti:
            self._cti = batch.cti
            events.append(Cti(form(batch.cti)))
        return events


def list_events(batch: EventBatch, time: TimeForm) -> list[RowEvent]:
    """Return each row in its original form: point, interval or edge."""
    form: Callable[[int], Time] = to_datetime if time == "datetime" else int
    columns = (
        batch.start.tolist(),
        batch.end.tolist(),
        batch.edge.tolist(),
        list_payloads(batch.payload),
    )
    return [
        _row_event(form(start), form(end), end - start, edge, end == MAX_TIME, payload)
        for start, end, edge, payload in zip(*columns, strict=True)
    ]


def _row_event(
    start: Time, end: Time, length: int, edge: int, endless: bool, payload: Any
) -> RowEvent:
    if edge and endless:
        return EdgeEvent.create_start(start, payload)
    if edge:
        return EdgeEvent.create_end(start, end, payload)
    return PointEvent(start, payload) if length == TICK else IntervalEvent(start, end, payload)


def list_payloads(frame: pl.DataFrame) -> list[Any]:
    """Return each row of a frame as a payload: a dict, or the bare value of a scalar."""
    if frame.columns == [SCALAR_FIELD]:
        return frame[SCALAR_FIELD].to_list()
    return frame.to_dicts() if frame.width else [{}] * frame.height


def _point(start: Time, end: Time, payload: Any) -> RowEvent:
    return PointEvent(start, payload)


def _edge(start: Time, end: Time, payload: Any) -> RowEvent:
    return EdgeEvent.create_start(start, payload)
