"""Event batches made of rows as programs have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Event, IntervalEvent, PointEvent
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.schema import payload_schema
from rxtemporal.core.ticks import MIN_TIME, TimeLike, time_ticks
from rxtemporal.core.time_forms import Unit
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.row_reader import RowReader
from rxtemporal.ingress.verdict import Extra, Rejected, choose


def make_batch(
    rows: Any,
    *,
    schema: Any,
    start: str,
    end: str | None = None,
    extra: Extra = Extra.IGNORE,
    cti: TimeLike = MIN_TIME,
    unit: Unit | None = None,
) -> tuple[EventBatch, tuple[Rejected, ...]]:
    """Make a batch of rows; return it, and the rows that do not fit.

    ``rows`` are what ``PushSource.push`` takes: dicts, frames, ``JsonLines``, ``ArrowIpc``. Each is
    held to the schema as there, and a row that does not fit loses none of the others. ``start`` and
    ``end`` name the fields of the times; without ``end`` rows are points. ``unit`` is that of the
    numbers among the times, as in ``PushSource``. ``cti`` is the CTI of the batch. The result can
    be pushed into a subject, or into a query by ``from_observable``.

    >>> import rxtemporal as rxt
    >>> rows = [{"ts": 5, "temp": 20}, {"ts": 6, "temp": "hot"}]
    >>> batch, rejected = rxt.make_batch(rows, schema={"temp": float}, start="ts", cti=7)
    >>> batch.to_dicts(), rejected[0].index
    ([{'start_time': 5, 'end_time': 6, 'temp': 20.0}], 1)
    """
    extra = choose(Extra, extra, "extra")
    fields = payload_schema(schema)
    reader = RowReader("rows", fields, start=start, end=end, extra=extra, unit=unit)
    read = reader.read(rows)
    batch = read.items
    if not isinstance(batch, EventBatch):
        batch = pack_rows(batch, reader.schema)
    reached = max(batch.cti, time_ticks(cti))
    return batch.replace(cti=reached, time=reader.times.shown), read.rejected


def pack_rows(events: Sequence[Event], schema: pl.Schema) -> EventBatch:
    """Return points and intervals, whose payloads fit the schema, as a batch."""
    rows = [event for event in events if isinstance(event, PointEvent | IntervalEvent)]
    if len(rows) < len(events):
        raise ArgumentError(
            "a batch is made of rows with a whole lifetime, got edges or CTIs. "
            "Hint: cti= is the batch's CTI; edges can be pushed into a PushSource."
        )
    starts = np.array([row.start for row in rows], np.int64)
    ends = np.array([row.end for row in rows], np.int64)
    payload = PayloadReader(schema).frame([row.payload for row in rows])
    return EventBatch.of_rows(starts, ends, payload, MIN_TIME)
