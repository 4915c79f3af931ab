"""Records of a few events as JSON, since making a frame for a push costs more than the disk does.

::

    {"fields": {"room": "String", "temp": "Float64"},
     "records": [[0, 5, 6, ["hall", 20.5], "device 7", 4711, false, null], [4, 9, null, null]]}

A record has the code of its kind, its start and end, the values of its fields, and its sender if it
has one, see ``senders``. Only values that come back exactly are written so: bools, numbers, strings
and null; dates, and datetimes that are naive or in UTC, as text; timedeltas in microseconds. Other
records are written as a frame.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import partial
from itertools import groupby
from types import NoneType
from typing import Any

import polars as pl

from rxtemporal.core.events import Cti, PointEvent
from rxtemporal.core.schema import to_fields
from rxtemporal.engine.codec import load_frame
from rxtemporal.ingress.source import Sent
from rxtemporal.storage.event_log.columns import Item, Mark, Rows, find_code, make_frame
from rxtemporal.storage.event_log.layout import kind_code
from rxtemporal.storage.event_log.senders import NOBODY, add_columns

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


class PlainRecords:
    """Encoder of the records of one stream with declared fields.

    >>> from rxtemporal import PointEvent
    >>> records = PlainRecords(pl.Schema({"temp": pl.Float64}))
    >>> content = records.dump([PointEvent(5, {"temp": 20.5})])
    >>> content
    b'{"fields":{"temp":"Float64"},"records":[[0,5,6,[20.5]]]}'
    >>> load_records([content]).rows()
    [('point', 5, 6, {'temp': 20.5})]
    >>> records.dump([PointEvent(5, {"temp": "hot"})]) is None
    True
    """

    def __init__(self, schema: pl.Schema) -> None:
        names = {field: _find_name(dtype) for field, dtype in schema.items()}
        self._encoders = {field: _make_encoder(name) for field, name in names.items() if name}
        # and the type of which each value is written as it is
        self._fields = [
            (field, _EXACT.get(names[field] or ""), encode)
            for field, encode in self._encoders.items()
        ]
        self._width = len(self._encoders)
        self._is_plain = None not in names.values()
        self._head = f'{_MARK.decode()}{_to_json(names)},"records":'

    def dump(self, items: Sequence[Item]) -> bytes | None:
        """Return items as JSON; None if they are many, or JSON cannot hold one of them exactly."""
        if not self._is_plain or len(items) > MOST_RECORDS:
            return None
        try:
            records = [self._list(item) for item in items]
            return f"{self._head}{_to_json(records)}}}".encode()
        except Exception:  # a payload's own code; the frame tells what does not fit
            return None

    def _list(self, item: Any) -> list[Any]:
        # this runs once for each event that is pushed into a run with a log
        sender: Sequence[Any] = ()
        kind = type(item)
        if kind is Sent:
            item, *sender = item
            kind = type(item)
        if kind is Rows:
            raise TypeError
        if kind is Cti or kind is Mark:
            return [find_code(item), item.start, None, None, *sender]
        payload = item.payload
        fields = payload if type(payload) is dict else to_fields(payload)
        if len(fields) != self._width:
            raise TypeError
        values = [
            value if type(value := fields[name]) is exact else encode(value)
            for name, exact, encode in self._fields
        ]
        code = _POINT if kind is PointEvent else find_code(item)
        return [code, item.start, item.end, values, *sender]


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
