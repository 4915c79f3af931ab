"""Columns of records: events, rows and marks in one frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from itertools import compress, count, groupby, pairwise
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
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
from rxtemporal.core.schema import to_fields
from rxtemporal.engine.codec import load_frame
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.storage.event_log.layout import KIND_NAMES, KINDS, kind_code

_TYPES = {
    "input": pl.String(),
    "seq": pl.Int64(),
    "ahead": pl.Boolean(),
    "named_start": pl.Int64(),
}
NOBODY = (None, None, False, None)


def get_event(item: Any) -> Any:
    """Return an item without its sender."""
    return item.event if type(item) is Sent else item


def add_senders(frame: pl.DataFrame, items: Sequence[Any]) -> pl.DataFrame:
    """Add the senders of items to their records, of which each item is one."""
    return add_columns(frame, [item[1:] if type(item) is Sent else NOBODY for item in items])


def add_columns(frame: pl.DataFrame, senders: Sequence[Sequence[Any]]) -> pl.DataFrame:
    """Add the values of a sender to each record."""
    return _add(frame, *map(list, zip(*senders, strict=True)))


def add_row_senders(frame: pl.DataFrame, sent: SentRows) -> pl.DataFrame:
    """Add the sender of a batch to its records: its rows, and its CTI if there is one more."""
    rows = len(sent.batch)
    name = pl.Series([sent.input], dtype=pl.String).new_from_index(0, frame.height)
    seq: Any = sent.seq
    if seq is not None and frame.height > rows:
        seq = [*seq.tolist(), None]
    ahead = None
    if sent.ahead is not None or sent.cti_ahead:
        ahead = np.zeros(frame.height, np.bool_)
        ahead[rows:] = sent.cti_ahead
        if sent.ahead is not None:
            ahead[:rows] = sent.ahead
    return _add(frame, name, seq, ahead, None)


def _add(frame: pl.DataFrame, *values: Any) -> pl.DataFrame:
    made = [
        pl.Series(name, column, dtype)
        for (name, dtype), column in zip(_TYPES.items(), values, strict=True)
        if column is not None
    ]
    # hstack takes a tenth of what with_columns does
    return frame.hstack([each for each in made if _has_values(each)])


def _has_values(column: pl.Series) -> bool:
    return column.any() if column.dtype == pl.Boolean else column.count() > 0


class Senders:
    """The senders of the records of a segment."""

    def __init__(self, columns: pl.DataFrame) -> None:
        self._columns = columns
        same = pl.struct("input", pl.col("seq").is_null()).rle_id()
        self._stretch = columns.select(same).to_series().to_numpy()
        self._ahead = columns.get_column("ahead").to_numpy()

    @classmethod
    def from_frame(cls, frame: pl.DataFrame) -> Senders | None:
        """Return the senders of records; None if none has one."""
        if not any(name in frame.columns for name in _TYPES):
            return None
        missing = [pl.lit(None, of).alias(k) for k, of in _TYPES.items() if k not in frame.columns]
        columns = frame.with_columns(missing).select(*_TYPES)
        return cls(columns.with_columns(pl.col("ahead").fill_null(value=False)))

    def stretches(self, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the bounds of the stretches of records of one input, all with numbers or none."""
        cuts = np.flatnonzero(np.diff(self._stretch[begin:end])) + 1 + begin
        return pairwise([begin, *cuts.tolist(), end])

    def add_to_rows(self, batch: EventBatch, begin: int) -> EventBatch | SentRows:
        """Return the rows of one stretch, which begin at a record, with their sender."""
        columns = self._columns.slice(begin, len(batch))
        name, numbers = columns.item(0, "input"), columns.get_column("seq")
        seq = None if numbers.null_count() else numbers.to_numpy()
        ahead = self._ahead[begin : begin + len(batch)]
        if name is None and seq is None and not ahead.any():
            return batch
        return SentRows(batch, name, seq, ahead if ahead.any() else None)

    def add_to_events(self, events: Iterable[Event], begin: int) -> Iterator[Event | Sent]:
        """Yield events, whose records begin at ``begin``, with their senders."""
        for event, row in zip(events, self._columns[begin:].iter_rows(), strict=False):
            yield event if row == NOBODY else Sent(event, *row)


# from more records on a frame is made faster
MOST_RECORDS = 64
# the least and the most int of each type; a float takes those that it has exactly
_INTS = {
    **{f"Int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)},
    "Float32": (-(2**24), 2**24),
    "Float64": (-(2**53), 2**53),
}
_OTHERS: dict[str, type] = {"String": str, "Boolean": bool, "Null": NoneType}
_EXACT = {"String": str, "Boolean": bool, "Float64": float, "Float32": float}
# the types whose values are written as text or as microseconds, and how they are read
_TIMES: dict[str, Callable[[Any], Any]] = {
    "Date": date.fromisoformat,
    "Datetime": datetime.fromisoformat,
    "Duration": lambda length: timedelta(microseconds=length),
}
_DTYPES = {name: getattr(pl, name)() for name in (*_INTS, *_OTHERS, *_TIMES)}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
# what records as JSON begin with; a frame begins with other bytes
_MARK = b'{"fields":'
# records are made here, of plain values, and are in no circle
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_POINT = kind_code("point")


def make_json_encoder(schema: pl.Schema) -> Callable[[Sequence[Item]], bytes | None]:
    """Return a function that encodes the records of one stream with declared fields as JSON.

    It returns None for many items, and if JSON cannot hold one of them exactly.

    >>> from rxtemporal import PointEvent
    >>> encode = make_json_encoder(pl.Schema({"temp": pl.Float64}))
    >>> content = encode([PointEvent(5, {"temp": 20.5})])
    >>> content
    b'{"fields":{"temp":"Float64"},"records":[[0,5,6,[20.5]]]}'
    >>> load_records([content]).rows()
    [('point', 5, 6, {'temp': 20.5})]
    >>> encode([PointEvent(5, {"temp": "hot"})]) is None
    True
    """
    names = {field: _find_name(dtype) for field, dtype in schema.items()}
    if None in names.values():
        return lambda items: None
    # and the type whose values are written unchanged
    fields = [
        (field, _EXACT.get(name), _make_encoder(name)) for field, name in names.items() if name
    ]
    width = len(fields)
    head = f'{_MARK.decode()}{_to_json(names)},"records":'

    def make_list(item: Any) -> list[Any]:
        # this runs once for each event that is pushed into a run with a log
        sender: Sequence[Any] = ()
        kind = type(item)
        if kind is Sent:
            item, *sender = item
            kind = type(item)
        if kind is Rows:
            raise TypeError
        if kind is Cti or (kind is Mark and item.payload is None):
            return [find_code(item), item.start, None, None, *sender]
        payload = item.payload
        given = payload if type(payload) is dict else to_fields(payload)
        if len(given) != width:
            raise TypeError
        values = [
            value if type(value := given[name]) is exact else encode(value)
            for name, exact, encode in fields
        ]
        if kind is Mark:
            return [find_code(item), item.start, None, values, *sender]
        code = _POINT if kind is PointEvent else find_code(item)
        return [code, item.start, item.end, values, *sender]

    def encode_items(items: Sequence[Item]) -> bytes | None:
        if len(items) > MOST_RECORDS:
            return None
        try:
            return f"{head}{_to_json([make_list(item) for item in items])}}}".encode()
        except Exception:  # a payload's own code; the frame tells what does not fit
            return None

    return encode_items


def _find_name(dtype: pl.DataType) -> str | None:
    """Return the name of a type, for datetimes with their zone; None if values are not plain."""
    if isinstance(dtype, pl.Datetime) and dtype.time_unit == "us":
        return f"Datetime {dtype.time_zone}" if dtype.time_zone else "Datetime"
    return _NAMES.get(dtype)


def _make_encoder(name: str) -> Callable[[Any], Any]:
    """Return a function that returns a value for JSON, and raises if that is not exact."""
    if name in _INTS:
        return partial(_encode_number, *_INTS[name], name.startswith("Float"))
    if name in _OTHERS:
        return partial(_encode_plain, _OTHERS[name])
    of, _, zone = name.partition(" ")
    if of == "Datetime":
        return partial(_encode_datetime, UTC if zone else None)
    return _encode_date if of == "Date" else _encode_length


def _encode_plain(of: type, value: Any) -> Any:
    if type(value) is of or value is None:
        return value
    raise TypeError


def _encode_number(least: int, most: int, is_float: bool, value: Any) -> Any:
    kind = type(value)
    if (kind is int and least <= value <= most) or (kind is float and is_float) or value is None:
        return value
    raise TypeError


def _encode_datetime(zone: tzinfo | None, value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is datetime and value.tzinfo is zone:
        return value.isoformat()
    raise TypeError


def _encode_date(value: Any) -> str | None:
    if value is None:
        return None
    if type(value) is date:
        return value.isoformat()
    raise TypeError


def _encode_length(value: Any) -> int | None:
    if value is None:
        return None
    if type(value) is timedelta and abs(length := value // timedelta.resolution) < 2**63:
        return length
    raise TypeError


def load_records(contents: Sequence[bytes]) -> pl.DataFrame:
    """Return the records in contents, each JSON or a frame, as one frame."""
    frames = [
        frame
        for is_json, group in groupby(contents, key=lambda each: each.startswith(_MARK))
        for frame in (_load_json(group) if is_json else map(load_frame, group))
    ]
    # CTIs alone show no fields, and a field that was always null no type
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal_relaxed")


def _load_json(contents: Iterator[bytes]) -> Iterator[pl.DataFrame]:
    """Yield a frame for each stretch of contents with the same fields."""
    loaded = map(json.loads, contents)
    for fields, group in groupby(loaded, key=lambda each: [*each["fields"].items()]):
        yield _make_frame(fields, [record for each in group for record in each["records"]])


def _make_frame(fields: list[tuple[str, str]], records: list[list[Any]]) -> pl.DataFrame:
    kinds, starts, ends, rows = map(list, zip(*(each[:4] for each in records), strict=True))
    nothing = [None] * len(fields)
    values = zip(*(nothing if row is None else row for row in rows), strict=True)
    payload = pl.DataFrame(
        [
            _make_column(field, name, column)
            for (field, name), column in zip(fields, values, strict=True)
        ]
    )
    frame = make_frame(kinds, starts, ends, payload)
    senders = [each[4:] or NOBODY for each in records]
    return frame if all(each is NOBODY for each in senders) else add_columns(frame, senders)


def _make_column(field: str, name: str, values: Sequence[Any]) -> pl.Series:
    of, _, zone = name.partition(" ")
    dtype = pl.Datetime("us", zone) if zone else _DTYPES[of]
    if of in _TIMES:
        values = [None if each is None else _TIMES[of](each) for each in values]
    return pl.Series(field, values, dtype)


class Mark(NamedTuple):
    """Record without a row: time from ``outside`` with its CTI, ``completed``, ``failed``.

    Also a ``cti`` that holds for one device; then, and of such a time from outside, ``payload`` has
    the fields that name the device, and null for the others. ``outside`` without a time: from here
    on the device is silent, by the wall clock, or without ``payload`` all are.
    """

    kind: str
    start: int | None = None
    payload: Mapping[str, Any] | None = None


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
            error.count_before(seen)
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
    have = [isinstance(item, RowEvent) or _names_device(item) for item in items]
    ends = [item.end if isinstance(item, RowEvent) else None for item in items]
    payload = _payloads(list(compress(items, have)), reader)
    # the index of each record's payload, if it has one
    numbers = count()
    places = pl.Series([next(numbers) if one else None for one in have], dtype=pl.UInt32)
    payload = payload.select(pl.all().gather(places))
    return make_frame(
        kinds, starts, ends, payload if payload.width else pl.DataFrame(height=len(have))
    )


def _names_device(item: Any) -> bool:
    return type(item) is Mark and item.payload is not None


def _payloads(events: Sequence[Any], reader: PayloadReader) -> pl.DataFrame:
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
