"""Columns of records: events, rows and marks in one frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress, count, groupby
from typing import Any, NamedTuple, TypeAlias

import polars as pl

from rxtemporal.core.batch import EventBatch
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
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.storage.event_log.layout import KIND_NAMES, KINDS, kind_code
from rxtemporal.storage.event_log.senders import add_row_senders, add_senders, get_event


class Mark(NamedTuple):
    """Record without an event: time from ``outside`` with its CTI, ``completed``, ``failed``."""

    kind: str
    start: int | None = None


class Rows(NamedTuple):
    """Rows that came together; ``own``: followed by their own CTI. ``sent`` has their sender."""

    batch: EventBatch
    own: bool
    sent: SentRows | None = None


Item: TypeAlias = Event | Sent | Mark | Rows

# so many consecutive payloads usually show all fields
SHOWING_ROWS = 1_024

_EACH_KIND = [pl.Series("kind", [kind], KINDS) for kind in KINDS.categories]
_ROW, _END = kind_code("row"), kind_code("end")
_CODES = {
    PointEvent: kind_code("point"),
    IntervalEvent: kind_code("interval"),
    EdgeEvent: kind_code("start"),
    Cti: kind_code("cti"),
}
# the types of items that are records of one kind
_ONE_CODE = frozenset({PointEvent, IntervalEvent, Cti})


def to_frame(items: Sequence[Item], reader: PayloadReader) -> pl.DataFrame:
    """Return the records as columns, in order; ``reader`` turns payload objects into fields."""
    frames = list(_frames(items, reader))
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def find_kinds(items: Sequence[Item]) -> set[str]:
    """Return the kinds of records that items stand for."""
    kinds = {type(item.event) if type(item) is Sent else type(item) for item in items}
    if kinds <= _ONE_CODE:  # as in nearly all entries
        return {KIND_NAMES[_CODES[kind]] for kind in kinds}
    codes = {find_code(item) for item in items if not isinstance(item, Rows)}
    for item in items:
        if isinstance(item, Rows):
            codes |= {_ROW} if len(item.batch) else set()
            codes |= {_CODES[Cti]} if item.own else set()
    return {KIND_NAMES[code] for code in codes}


def empty_frame(schema: pl.Schema) -> pl.DataFrame:
    """Return no records of a stream with these fields."""
    return make_frame([], [], [], pl.DataFrame(schema=schema))


def _frames(items: Sequence[Item], reader: PayloadReader) -> Iterator[pl.DataFrame]:
    seen = 0
    for in_rows, group in groupby(items, key=lambda item: isinstance(item, Rows)):
        if in_rows:
            for rows in group:
                assert isinstance(rows, Rows)
                yield _of_rows(rows)
            continue
        items_of = list(group)
        has_senders = Sent in set(map(type, items_of))
        events = list(map(get_event, items_of)) if has_senders else items_of
        try:
            frame = _of_each(events, reader)
            yield add_senders(frame, items_of) if has_senders else frame
        except BadPayloadError as error:
            error.row += seen  # the number among all events
            raise
        seen += sum(isinstance(each, RowEvent) for each in events)


def _of_rows(rows: Rows) -> pl.DataFrame:
    batch = rows.batch
    kinds = _EACH_KIND[_ROW].new_from_index(0, len(batch))
    frame = make_frame(kinds, batch.start, batch.end, batch.payload)
    if batch.edge.any():
        frame.insert_column(3, pl.Series("edge", batch.edge, pl.Int64))
    if rows.own:
        cti = make_frame([kind_code("cti")], [batch.cti], [None], _nothing(1, batch.schema))
        frame = pl.concat([frame, cti], how="diagonal")
    return frame if rows.sent is None else add_row_senders(frame, rows.sent)


def _of_each(items: Sequence[Any], reader: PayloadReader) -> pl.DataFrame:
    kinds = [find_code(item) for item in items]
    starts = [item.start for item in items]
    if set(map(type, items)).isdisjoint((Mark, Cti)):
        return make_frame(kinds, starts, [item.end for item in items], _payloads(items, reader))
    rows = [isinstance(item, RowEvent) for item in items]
    ends = [item.end if row else None for item, row in zip(items, rows, strict=True)]
    payload = _payloads(list(compress(items, rows)), reader)
    # the index of each record's payload, if it has one
    numbers = count()
    places = pl.Series([next(numbers) if row else None for row in rows], dtype=pl.UInt32)
    payload = payload.select(pl.all().gather(places))
    return make_frame(
        kinds, starts, ends, payload if payload.width else pl.DataFrame(height=len(rows))
    )


def _payloads(events: Sequence[RowEvent], reader: PayloadReader) -> pl.DataFrame:
    payloads = [event.payload for event in events]
    reader.learn(payloads[:SHOWING_ROWS])
    return reader.frame(payloads)


def find_code(item: Any) -> int:
    """Return the code of the kind of record that an item stands for."""
    of = type(item)
    if of is Sent:
        item, of = item.event, type(item.event)
    if of is Mark:
        return kind_code(item.kind)
    return _END if of is EdgeEvent and item.edge_type is EdgeType.END else _CODES[of]


def make_frame(kinds: Any, starts: Any, ends: Any, payload: pl.DataFrame) -> pl.DataFrame:
    """Return records as columns: their kinds, or the codes of these, their times and fields."""
    columns = [
        kinds if isinstance(kinds, pl.Series) else _kind_column(kinds),
        pl.Series("start_time", starts, pl.Int64),
        pl.Series("end_time", ends, pl.Int64),
    ]
    # a struct separates the payload's names from these; without fields there is none
    if payload.width:
        columns.append(payload.to_struct("payload"))
    return pl.DataFrame(columns)


def _kind_column(codes: Sequence[int]) -> pl.Series:
    if len(codes) and (len(codes) == 1 or min(codes) == max(codes)):
        # a tenth of what the general case costs
        return _EACH_KIND[int(codes[0])].new_from_index(0, len(codes))
    return pl.Series("kind", codes, pl.UInt8).cat.to(KINDS)


def _nothing(height: int, schema: pl.Schema) -> pl.DataFrame:
    columns = [pl.Series(name, [None] * height, dtype) for name, dtype in schema.items()]
    return pl.DataFrame(columns) if columns else pl.DataFrame(height=height)
