"""Readers of many pushed rows at once, by columns.

Each returns all rows, or raises if one does not fit: then they are read one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timezone
from itertools import chain
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.fields import Field, UnfitError
from rxtemporal.core.safe_text import brief, type_name
from rxtemporal.core.schema import conform
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, Time, ticks, to_datetime
from rxtemporal.core.time_forms import TimeForm, Unit, read_number, read_number_column

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# time zones whose code is not the user's own
_ZONES = frozenset({timezone, ZoneInfo})
# in an array of sequence numbers: the row has none
NO_SEQ = -1
_MOST_SEQ = np.iinfo(np.int64).max
# fewer times are plain arithmetic: a series has fixed costs
_MANY = 1_000
_HINT = (
    "a time is an aware datetime, an ISO 8601 text with an offset, or an int: of ticks, or with "
    "unit= a Unix time"
)


def plain_time(value: Any, name: str, unit: Unit | None = None) -> Time:
    """Return a time as ticks or as an aware datetime whose code is Python's own.

    A number of a ``unit`` is a datetime. ``UnfitError`` if it is not a valid time, or not
    an instant; it may still lie outside of time.
    """
    kind = type(value)
    if unit not in (None, "ticks") and _is_number(value):
        return to_datetime(read_number(value, unit))
    if kind is int:
        return value  # type: ignore[no-any-return]
    if kind is datetime:
        return _plain_datetime(value)
    if isinstance(value, str):
        return _parse(value, name)
    if isinstance(value, datetime):
        return to_datetime(ticks(value))
    if hasattr(value, "__index__") and kind is not bool:
        return int(value.__index__())
    raise UnfitError(
        f"{name!r} is not a valid time: {brief(value)} ({type_name(value)}). Hint: {_HINT}."
    )


def _is_number(value: Any) -> bool:
    is_number = isinstance(value, float) or hasattr(value, "__index__")
    return is_number and not isinstance(value, bool)


def _plain_datetime(value: datetime) -> datetime:
    zone = value.tzinfo
    if zone is UTC or zone is None or type(zone) in _ZONES:
        return value  # what is naive is refused by the event
    return to_datetime(ticks(value))


def _parse(text: str, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(str.__str__(text))
    except ValueError:
        raise UnfitError(f"{name!r} is not a valid time: {brief(text)}. Hint: {_HINT}.") from None
    if time.tzinfo is None:
        raise UnfitError(
            f"{name!r} has no offset and names no instant: {brief(text)}. "
            "Hint: write it with its offset, as in 2026-05-01T12:00:00Z."
        )
    return time


def check_seq(value: Any, name: str) -> int | None:
    """Return a sequence number, or None for a row without one; ``UnfitError`` for another value."""
    if value is None:
        return None
    if type(value) is int and 0 <= value <= _MOST_SEQ:
        return value
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int.__int__(value) if isinstance(value, int) else int(value)
        if 0 <= number <= _MOST_SEQ:
            return number
    raise UnfitError(
        f"{name!r} is not a sequence number, an int from 0 to {_MOST_SEQ}: "
        f"{brief(value)} ({type_name(value)})"
    )


def read_times(values: Sequence[Any], unit: Unit | None = None) -> tuple[Int64s, TimeForm]:
    """Return times of one kind as ticks, and their form; raise if one is not a valid time."""
    kinds = set(map(type, values))
    if unit not in (None, "ticks") and (kinds == {int} or kinds == {float}):
        instants = read_number_column(pl.Series(values, strict=True), unit)
        return instants.to_physical().to_numpy(writable=True), "datetime"
    if kinds == {int}:
        return np.array(values, np.int64), "ticks"
    if kinds == {str}:
        values = list(map(datetime.fromisoformat, values))
    elif kinds != {datetime}:
        raise UnfitError("times of several kinds")
    # a naive one cannot be subtracted
    since = [time - _EPOCH for time in values]
    if len(since) < _MANY:
        days = [each.days * 86_400_000_000 for each in since]
        parts = [each.seconds * 1_000_000 + each.microseconds for each in since]
        return np.array(days, np.int64) + np.array(parts, np.int64), "datetime"
    # polars is ten times as fast at this as numpy
    spans = pl.Series(since, dtype=pl.Duration("us"))
    return spans.to_physical().to_numpy(writable=True), "datetime"


def check_lifetimes(start: Int64s, end: Int64s) -> None:
    """Raise if a lifetime is empty or lies outside of time."""
    if not len(start):
        return
    inside = start.min() >= MIN_TIME and start.max() < MAX_TIME and end.max() <= MAX_TIME
    if not inside or not (start < end).all():
        raise UnfitError("a lifetime is empty or lies outside of time")


class RowBatch(NamedTuple):
    """Rows as a batch, their sequence numbers, the form of their times, their unknown fields."""

    batch: EventBatch
    seq: Int64s | None
    time: TimeForm | None
    extra: Mapping[Any, int] = {}


class RowColumns:
    """Reader of dicts of complete rows."""

    def __init__(
        self,
        fields: Sequence[Field],
        start: str | None,
        end: str | None,
        seq: str | None,
        unit: Unit | None = None,
    ) -> None:
        self._fields, self._start, self._end, self._seq = fields, start, end, seq
        self._unit = unit
        names = {field.name for field in fields} | {start, end, seq}
        self._known = names - {None}

    def read(self, rows: Sequence[dict[str, Any]]) -> RowBatch:
        """Return rows as columns; raise if one of them does not fit."""
        start, time = self._read_starts(rows)
        end = start + TICK
        if self._end is not None:
            end = _read_ends([row[self._end] for row in rows], time, self._unit)
        check_lifetimes(start, end)
        columns = [field.column([row[field.name] for row in rows]) for field in self._fields]
        payload = pl.DataFrame(columns) if columns else pl.DataFrame(height=len(rows))
        seq = None
        if self._seq is not None:
            numbers = [check_seq(row.get(self._seq), self._seq) for row in rows]
            seq = np.array([NO_SEQ if each is None else each for each in numbers], np.int64)
        return RowBatch(
            EventBatch.of_rows(start, end, payload, MIN_TIME), seq, time, self._extra(rows)
        )

    def _read_starts(self, rows: Sequence[dict[str, Any]]) -> tuple[Int64s, TimeForm]:
        name = self._start
        if name is None:
            return np.zeros(len(rows), np.int64), "datetime"  # until the door stamps them
        return read_times([row[name] for row in rows], self._unit)

    def _extra(self, rows: Sequence[dict[str, Any]]) -> Mapping[Any, int]:
        unnumbered = 0 if self._seq is None else sum(self._seq not in row for row in rows)
        if sum(map(len, rows)) == len(rows) * len(self._known) - unnumbered:
            return {}
        counts = Counter(chain.from_iterable(rows))
        return {name: count for name, count in counts.items() if name not in self._known}


def _read_ends(values: Sequence[Any], form: TimeForm, unit: Unit | None) -> Int64s:
    ends = np.full(len(values), MAX_TIME)  # a null end: the row never ends
    given = [n for n, value in enumerate(values) if value is not None]
    if given:
        ends[given], found = read_times([values[n] for n in given], unit)
        if found != form:
            raise UnfitError("starts and ends of different forms")
    return ends


class FrameReader:
    """Reader of frames of complete rows."""

    def __init__(
        self,
        fields: Sequence[Field],
        schema: pl.Schema,
        start: str | None,
        end: str | None,
        seq: str | None,
        unit: Unit | None = None,
    ) -> None:
        self._start, self._end, self._seq = start, end, seq
        self._unit = unit
        self._payload = PayloadFrame(fields, schema)
        self._names = [*(name for name in (start, end) if name is not None), *schema]
        self._known = {*self._names, seq}

    def read(self, frame: pl.DataFrame) -> RowBatch:
        """Return the rows of a frame as columns; raise if one of them does not fit."""
        batch = self._read_batch(frame.select(self._names))
        batch = batch.replace(payload=self._payload.read(batch.payload))
        seq = None if self._seq is None else read_seqs(frame, self._seq)
        extra = {name: frame.height for name in frame.columns if name not in self._known}
        return RowBatch(batch, seq, batch.time, extra)

    def _read_batch(self, frame: pl.DataFrame) -> EventBatch:
        if self._start is not None:
            rows = read_unit(frame, {self._start, self._end}, self._unit)
            return EventBatch.from_polars(rows, start=self._start, end=self._end)
        start = np.zeros(len(frame), np.int64)  # until the door stamps them
        return EventBatch(start, start + TICK, None, frame, MIN_TIME, time="datetime")


def read_unit(frame: pl.DataFrame, names: Iterable[str | None], unit: Unit | None) -> pl.DataFrame:
    """Return a frame in which the columns named that have numbers of a unit have instants."""
    if unit is None:
        return frame
    numbers = [frame[name] for name in names if name is not None]
    return frame.with_columns(
        read_number_column(each, unit) for each in numbers if each.dtype.is_numeric()
    )


class PayloadFrame:
    """Reader of frames of payloads, cast to the fields of a schema where nothing is lost."""

    def __init__(self, fields: Sequence[Field], schema: pl.Schema) -> None:
        self._fields, self._schema = fields, schema

    def read(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Return a frame of exactly the schema's fields; raise if a value does not fit."""
        if not self._schema:
            return pl.DataFrame(height=frame.height)
        columns = [frame.get_column(name) for name in self._schema]
        # an integer is a float, too
        widened = [
            column.cast(dtype) if dtype == pl.Float64() and column.dtype.is_integer() else column
            for column, dtype in zip(columns, self._schema.values(), strict=True)
        ]
        payload = conform(pl.DataFrame(widened), self._schema)
        for field in self._fields:
            if not field.is_in_range(payload.get_column(field.name)):
                raise UnfitError("a time that cannot be read back")
        return payload


def read_seqs(frame: pl.DataFrame, name: str) -> Int64s | None:
    """Return the sequence numbers of rows, None if they have no column for them; or raise."""
    if name not in frame.columns or (column := frame[name]).dtype == pl.Null:
        return None
    if not column.dtype.is_integer():
        raise UnfitError(f"{name!r} is not a column of sequence numbers")
    if ((least := column.min()) is not None) and least < 0:  # type: ignore[operator]
        raise UnfitError(f"{name!r} has negative sequence numbers")
    numbers = column.cast(pl.Int64, strict=True).fill_null(NO_SEQ).to_numpy()
    return np.ascontiguousarray(numbers)


def own_batch(batch: EventBatch) -> EventBatch:
    """Return a copy of a batch that cannot be changed; raise if it is not a valid batch."""
    columns = [batch.start, batch.end, batch.edge]
    sound = all(isinstance(each, np.ndarray) and each.dtype == np.int64 for each in columns)
    lengths = {each.shape for each in columns} if sound else set()
    if not isinstance(batch.payload, pl.DataFrame) or lengths != {(batch.payload.height,)}:
        raise UnfitError("the columns of a batch are int64 arrays and a frame of one length")
    cti = plain_time(batch.cti, "cti")
    if type(cti) is not int or not MIN_TIME <= cti <= MAX_TIME:
        raise UnfitError("the CTI of a batch is an int of ticks inside of time")
    start, end, edge = (each.copy() for each in columns)
    return EventBatch(start, end, edge, batch.payload.clone(), cti, time=batch.time)


def find_bad_lifetimes(batch: EventBatch) -> npt.NDArray[np.intp]:
    """Return the numbers of the rows whose lifetime is empty or lies outside of time."""
    good = (batch.start >= MIN_TIME) & (batch.start < batch.end) & (batch.end <= MAX_TIME)
    return np.flatnonzero(~(good & (batch.start < MAX_TIME)))


def frame_rows(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as dicts; a value without a Python form is ``UNREADABLE``."""
    columns = {column.name: _list_values(column) for column in frame.get_columns()}
    return [{name: column[row] for name, column in columns.items()} for row in range(frame.height)]


class _Unreadable:
    """A value that polars holds and Python cannot: a time in the year 10000."""

    def __repr__(self) -> str:
        return "a value outside of Python's range"


UNREADABLE = _Unreadable()


def _list_values(column: pl.Series) -> list[Any]:
    if getattr(column.dtype, "time_unit", None) == "ns":
        column = column.dt.cast_time_unit("us")
    try:
        return column.to_list()
    except (Exception, pl.exceptions.PanicException):
        return [_get(column, row) for row in range(len(column))]


def _get(column: pl.Series, row: int) -> Any:
    try:
        return column[row]
    except (Exception, pl.exceptions.PanicException):
        return UNREADABLE
