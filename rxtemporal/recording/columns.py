"""What came to a door, as columns: events, rows and marks into the frame of a segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.batch import EventBatch
from rxtemporal.events import Cti, EdgeEvent, EdgeType, Event, IntervalEvent, PointEvent
from rxtemporal.payloads import PayloadReader
from rxtemporal.recording.layout import KINDS, kind_of

__all__ = ["Item", "Mark", "Rows", "empty", "framed"]


class Mark(NamedTuple):
    """Something that came from elsewhere: ``outside`` with a CTI, ``completed``, ``failed``."""

    kind: str
    time: int | None = None


class Rows(NamedTuple):
    """Rows that came together; ``own``: with a CTI of their own."""

    batch: EventBatch
    own: bool


Item: TypeAlias = Event | Mark | Rows

_END = kind_of("end")
_CODES = {
    PointEvent: kind_of("point"),
    IntervalEvent: kind_of("interval"),
    EdgeEvent: kind_of("start"),
    Cti: kind_of("cti"),
}


def framed(items: Sequence[Item], reader: PayloadReader) -> pl.DataFrame:
    """Return the records as columns, in order; ``reader`` turns payload objects into fields."""
    frames = list(_frames(items, reader))
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def empty(schema: pl.Schema) -> pl.DataFrame:
    """Return no records of a stream with these fields."""
    return _frame([], [], [], pl.DataFrame(schema=schema))


def _frames(items: Sequence[Item], reader: PayloadReader) -> Iterator[pl.DataFrame]:
    for in_rows, group in groupby(items, key=lambda item: isinstance(item, Rows)):
        if in_rows:
            for rows in group:
                assert isinstance(rows, Rows)
                yield _of_rows(rows)
        else:
            yield _of_each(list(group), reader)


def _of_rows(rows: Rows) -> pl.DataFrame:
    batch = rows.batch
    frame = _frame(
        np.full(len(batch), kind_of("row"), np.uint8), batch.start, batch.end, batch.payload
    )
    if batch.edge.any():
        frame.insert_column(3, pl.Series("edge", batch.edge, pl.Int64))
    if not rows.own:
        return frame
    cti = _frame([kind_of("cti")], [batch.cti], [None], _nothing(1, batch.schema))
    return pl.concat([frame, cti], how="diagonal")


def _of_each(items: list[Any], reader: PayloadReader) -> pl.DataFrame:
    kinds: list[int] = []
    starts: list[int | None] = []
    ends: list[int | None] = []
    payloads: list[Any] = []
    places: list[int | None] = []  # where each record's payload is
    for item in items:
        plain = isinstance(item, (Mark, Cti))
        kinds.append(_code(item))
        starts.append(item.time if isinstance(item, Mark) else item.start)
        ends.append(None if plain else item.end)
        places.append(None if plain else len(payloads))
        if not plain:
            payloads.append(item.payload)
    payload = reader.frame(payloads)
    if len(payloads) < len(items):
        payload = payload.select(pl.all().gather(pl.Series(places, dtype=pl.UInt32)))
        payload = payload if payload.width else pl.DataFrame(height=len(items))
    return _frame(kinds, starts, ends, payload)


def _code(item: Any) -> int:
    if isinstance(item, Mark):
        return kind_of(item.kind)
    if isinstance(item, EdgeEvent) and item.edge_type is EdgeType.END:
        return _END
    return _CODES[type(item)]


def _frame(kinds: Any, starts: Any, ends: Any, payload: pl.DataFrame) -> pl.DataFrame:
    columns = [
        pl.Series("kind", kinds, pl.UInt8).cat.to(KINDS),
        pl.Series("start_time", starts, pl.Int64),
        pl.Series("end_time", ends, pl.Int64),
    ]
    # a struct keeps the payload's names apart from these; without fields there is none
    if payload.width:
        columns.append(payload.to_struct("payload"))
    return pl.DataFrame(columns)


def _nothing(height: int, schema: pl.Schema) -> pl.DataFrame:
    columns = [pl.Series(name, [None] * height, dtype) for name, dtype in schema.items()]
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=height)
