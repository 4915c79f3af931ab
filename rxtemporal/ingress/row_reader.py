"""Reader of pushed rows: dicts, events, batches and frames become what the door takes."""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import polars as pl
from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import has_nulls
from rxtemporal.core.event_columns import make_point
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    Event,
    EventShape,
    IntervalEvent,
    PlainRow,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.fields import Field, UnfitError, field_of, make_row_reader
from rxtemporal.core.log import get_logger
from rxtemporal.core.record_classes import find_record
from rxtemporal.core.safe_text import brief, describe_error, encodable, type_name
from rxtemporal.core.schema import SCALAR_FIELD, to_fields
from rxtemporal.core.spans import SECOND
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, Time, time_ticks
from rxtemporal.core.time_forms import Unit, check_unit, find_time_form, find_unit_form
from rxtemporal.errors import ArgumentError, EventError, SchemaError
from rxtemporal.ingress.arrivals import ARRIVAL, UNSTAMPED, ArrivalTime, check_arrival
from rxtemporal.ingress.encoded_rows import ArrowIpc, JsonLines, JsonMessages
from rxtemporal.ingress.row_columns import (
    NO_SEQ,
    FrameReader,
    PayloadFrame,
    RowBatch,
    RowColumns,
    check_seq,
    find_bad_lifetimes,
    frame_rows,
    own_batch,
    plain_time,
    read_seqs,
)
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.verdict import Extra, ReadRows, Rejected

T = TypeVar("T")


def finish(slices: Generator[None, None, T]) -> T:
    """Do all the work at once, and return its result.

    >>> def add_up(numbers):
    ...     total = 0
    ...     for number in numbers:
    ...         yield
    ...         total += number
    ...     return total
    >>> finish(add_up([1, 2, 3]))
    6
    """
    while True:
        try:
            next(slices)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


_log = get_logger(__name__)
# fewer rows than these are read one by one
COLUMN_ROWS = 32
# one by one, up to this many rows are read in one slice
SLICE_ROWS = 1_000
# so many unknown fields are counted by name
MOST_NAMES = 256
_OTHERS = "…"
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent})
# rows that are read in slices, between which their reader may do something else
Slices: TypeAlias = Generator[None, None, ReadRows]
One: TypeAlias = tuple[Event, int | None] | tuple[Rejected, None]
_BAD = (Exception, pl.exceptions.PanicException)


class RowReader:
    """Reader of what is pushed into one stream.

    A row is a dict (or another mapping, or a record) with the field ``start`` and, if
    named, ``end`` and ``seq``; or an event. Each row is held to the schema exactly, as by
    ``Field``; one that does not fit is returned as ``Rejected``, whatever its own code raises.
    Fields that are ``required`` are never null.
    What is returned cannot be changed by whoever pushed it, and fits the packer, the log and the
    query. Numbers among the times have the ``unit``, and times are of one form, see ``StreamTime``.
    The state is that form and the counts of ignored fields alone; any thread may read.

    >>> reader = RowReader("readings", pl.Schema({"temp": pl.Float64}), start="ts")
    >>> reader.read_one({"ts": 5, "temp": 20})
    (PointEvent(5, {'temp': 20.0}), None)
    """

    def __init__(
        self,
        name: str,
        schema: pl.Schema,
        *,
        start: str | ArrivalTime,
        end: str | None = None,
        shape: EventShape | None = None,
        seq: str | None = None,
        extra: Extra = Extra.IGNORE,
        unit: Unit | None = None,
        required: Sequence[str] = (),
    ) -> None:
        shape = shape or (EventShape.POINT if end is None else EventShape.INTERVAL)
        _check_names(start, end, seq, shape)
        self.name = name
        self._unit = check_unit(unit)
        # the form of the times, as far as it is declared; and in the run that takes the rows
        self.time = find_unit_form(unit)
        # True if rows start when they arrive: the door stamps them
        self.arrives = start is ARRIVAL
        start_field = None if isinstance(start, ArrivalTime) else start
        if self.arrives or isinstance(schema.get(start_field or ""), pl.Datetime):
            self.time = "datetime"
        self.times = StreamTime(self.time, f"the times of stream {name!r} are known")
        # ticks in a number; None: none, or no whole number of them
        self._factor = None if unit is None else {"s": SECOND, "ms": 1_000, "us": 1}.get(unit)
        self.schema = pl.Schema(
            {field: dtype for field, dtype in schema.items() if field not in (start_field, end)}
        )
        self.ignored: Counter[str] = Counter()
        self._ignored_lock = threading.Lock()
        self._start, self._end, self._seq, self._shape = start_field, end, seq, shape
        self._refuses = extra is Extra.REFUSE
        fields = [field_of(*each) for each in self.schema.items()]
        self._required = tuple(name for name in required if name in self.schema)
        self._checks = {
            each.name: partial(_require, each) if each.name in required else each.check
            for each in fields
        }
        self._read_row = make_row_reader(fields, self._checks)
        self._is_scalar = list(self.schema) == [SCALAR_FIELD]
        # the fields of an event's payload, and those of a row
        self._inner = frozenset(self.schema) | ({seq} if seq else set())
        self._outer = self._inner | {each for each in (start_field, end) if each}
        self._inner_width, self._outer_width = len(self._inner), len(self._outer)
        is_plain = self._shape is EventShape.POINT and seq is None and not self._is_scalar
        self._plain_width = self._outer_width if is_plain else -1
        self._columns = RowColumns(fields, start_field, end, seq, unit)
        self._frames = FrameReader(fields, self.schema, start_field, end, seq, unit)
        self._payload = PayloadFrame(fields, self.schema)
        self._fields = fields

    def join(self, times: StreamTime) -> RowReader:
        """Return a reader of such rows whose times have the form of other streams, too."""
        reader = copy.copy(self)
        reader.times = times
        return reader

    # One ------------------------------------------------------------------------------------------

    def read_one(self, item: Any, index: int = 0) -> One:
        """Return one row as an event, or a CTI, and its sequence number; else why not.

        ``index`` is its number in the push.
        """
        try:
            if type(item) is dict:
                return self._read_dict(item)
            return self._read_item(item)
        except _BAD as error:
            return Rejected(index, self._explain(error, item), item), None

    def read_plain(self, row: Any) -> PlainRow | None:
        """Return start, end and payload of a row if that is simple; None for any other item.

        Such a row is a dict of all fields of a point and no others, without a sequence number; or a
        list of one. Its start is of the form that the stream's times are known to have.
        """
        # this runs once for each row that is pushed
        if type(row) is not dict:
            if type(row) is not list or len(row) != 1:
                return None
            row = next(iter(row), None)  # another thread may have emptied it
            if type(row) is not dict:
                return None
        if len(row) != self._plain_width:
            return None
        start, read_row = self._start, self._read_row
        try:
            time: Any = UNSTAMPED if start is None else row[start]
            fields = read_row(row)
            form = self.times.form
            if form == "datetime":
                kind = type(time)
                if kind is int and self._factor is not None:
                    time *= self._factor
                else:
                    if kind is str:
                        time = plain_time(time, "start", self._unit)
                    if type(time) is not datetime or time.tzinfo is not UTC:
                        return None  # an event shows its time as it came
                    time = time_ticks(time)
            elif form is None or type(time) is not int:
                return None
            return (time, time + TICK, fields) if MIN_TIME <= time < MAX_TIME else None
        except _BAD:  # to be explained
            return None

    def _read_dict(self, row: dict[Any, Any]) -> One:
        # this runs once for each row that is pushed
        name = self._start
        time: Any = UNSTAMPED if name is None else row[name]
        given = time
        if name is not None and (type(time) is not int or self._unit is not None):
            time = plain_time(time, name, self._unit)
        fields = self._read_fields(row)
        seq = None if self._seq is None else check_seq(row.get(self._seq), self._seq)
        event: Event
        if self._end is None:
            is_plain = type(time) is int and MIN_TIME <= time < MAX_TIME
            event = make_point(time, time, fields) if is_plain else PointEvent(time, fields)
        else:
            end = self._end_of(row)
            event = self._make(time, end, fields)
            if end is not None:
                self._check_form(end, self._end, row[self._end])
        if len(row) != self._outer_width or (seq is None and self._seq):
            self._see_extra(row, self._outer)
        if name is not None:
            self._check_form(time, name, given)
        return event, seq

    def _check_form(self, time: Time, name: str, given: Any) -> None:
        """Raise an error if the times of the stream have another form."""
        if not self.times.takes(find_time_form(time)):
            raise UnfitError(f"{name!r} is {brief(given)}, {self.times.explain(given)}")

    def _read_fields(self, row: dict[Any, Any]) -> Any:
        """Return the payload of a row, each field in its plain form."""
        fields = self._read_row(row)
        return fields[SCALAR_FIELD] if self._is_scalar else fields

    def _end_of(self, row: dict[Any, Any]) -> Any:
        assert self._end is not None
        # a start edge has no end yet
        end = row.get(self._end) if self._shape is EventShape.EDGE else row[self._end]
        return None if end is None else plain_time(end, self._end, self._unit)

    def _make(self, start: Any, end: Any, fields: Any) -> Event:
        if self._shape is EventShape.INTERVAL:
            return IntervalEvent(start, MAX_TIME if end is None else end, fields)
        if end is None:
            return EdgeEvent.create_start(start, fields)
        return EdgeEvent.create_end(start, end, fields)

    def _read_item(self, item: Any) -> One:
        kind = type(item)
        if kind is Cti:
            time = self._plain_time(item.start_time, "time")
            self._check_form(time, "time", item.start_time)
            return Cti(time, self.read_device(item.device)), None
        if kind in _EVENTS:
            return self._read_event(item)
        if isinstance(item, Mapping):
            return self._read_dict(dict(item))
        if (record := find_record(kind)) is not None:
            return self._read_dict(record.read(item))
        raise UnfitError(f"a row is a dict or an event, got {brief(item)} ({type_name(item)})")

    def read_device(self, device: Any) -> Any:
        """Return the value of the fields that name a device, as they are in a row; None for none.

        ``UnfitError``: the stream's rows name no device, or others.
        """
        if device is None:
            return None
        names = self._required
        if not names:
            raise UnfitError(
                f"a CTI for the device {brief(device)} in a stream with one time for all its rows. "
                'Hint: clock="device" gives each device its own.'
            )
        values = (device,) if len(names) == 1 else device
        if not isinstance(values, (list, tuple)) or len(values) != len(names):
            raise UnfitError(f"a device is a tuple of {', '.join(names)}, got {brief(device)}")
        read = tuple(self._checks[name](each) for name, each in zip(names, values, strict=True))
        return read[0] if len(names) == 1 else read

    def _refuse_own_start(self) -> None:
        """Raise for an event, if rows start when they arrive."""
        if self.arrives:
            raise UnfitError(
                f"an event names its own start, and with start=rxt.ARRIVAL the rows of stream "
                f"{self.name!r} start when they arrive. Hint: push the payload alone."
            )

    def _read_event(self, event: RowEvent) -> One:
        self._refuse_own_start()
        row = to_fields(event.payload)
        fields = self._read_fields(row)
        seq = None if self._seq is None else check_seq(row.get(self._seq), self._seq)
        start = self._plain_time(event.start_time, "start_time")
        end = plain_time(event.end, "end")
        if type(event.start_time) is int:
            end = self._plain_time(end, "end")
        read: Event
        if type(event) is PointEvent:
            read = PointEvent(start, fields)
        elif type(event) is IntervalEvent:
            read = IntervalEvent(start, end, fields)
        else:
            assert isinstance(event, EdgeEvent)
            read = EdgeEvent(EdgeType(event.edge_type), start, end, fields)
        if len(row) != self._inner_width or (seq is None and self._seq):
            self._see_extra(row, self._inner)
        self._check_form(start, "start_time", event.start_time)
        return read, seq

    def _plain_time(self, time: Any, name: str) -> Time:
        """Return a time of an event, in which the ends of time have no unit."""
        return time if time in (MIN_TIME, MAX_TIME) else plain_time(time, name, self._unit)

    def _see_extra(self, row: dict[Any, Any], known: frozenset[str]) -> None:
        """Count the fields that the schema does not name, or refuse the row."""
        if names := [key for key in row if key not in known]:
            if self._refuses:
                raise UnfitError(
                    f"field {_name(names[0])!r} is not in the schema. "
                    "Hint: extra=rxt.Extra.IGNORE leaves unknown fields out."
                )
            self._count_ignored(Counter(map(_name, names)))

    def _count_ignored(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            with self._ignored_lock:
                if len(self.ignored) >= MOST_NAMES and name not in self.ignored:
                    name = _OTHERS
                is_new = name not in self.ignored
                self.ignored[name] += count
            if is_new:
                _log.warning(
                    "a field that the schema does not name is ignored", stream=self.name, field=name
                )

    def _explain(self, error: BaseException, item: Any) -> str:
        """Return the reason why reading an item raised an error."""
        if isinstance(error, UnfitError):
            return str(error)
        try:
            if isinstance(error, EventError):
                return encodable(str(error))
            if isinstance(error, KeyError) and (missing := self._missing(item)):
                return f"field {missing!r} is missing"
        except Exception:  # the row's own code
            pass
        return f"it could not be read: {describe_error(error)}"

    def _missing(self, item: Any) -> str | None:
        is_event = type(item) in _EVENTS
        row: Mapping[Any, Any] = to_fields(item.payload if is_event else item)
        times = () if is_event else (self._start, self._end)
        names: tuple[str | None, ...] = (*times, *self.schema)
        for name in names:
            if name is not None and name not in row:
                return name
        return None

    # Many -----------------------------------------------------------------------------------------

    def read(self, items: Any) -> ReadRows:
        """Return a list of rows, a batch or a frame as what goes on to the door, and the rest.

        Any other iterable of rows is read to its end first. Anything else is one row.
        """
        return finish(self.read_in_slices(items))

    def read_in_slices(self, items: Any) -> Slices:
        """Read as ``read`` does; yield now and then where rows have to be read one by one."""
        try:
            if type(items) is JsonLines or type(items) is JsonMessages:
                return items.read(self._read_rows, self.schema)
            if type(items) is EventBatch:
                return self._read_batch(items)
            return (yield from self._slice_rows(_list_items(items)))
        except _BAD as error:
            refused = Rejected(0, self._explain(error, items), items)
            return ReadRows([], [], None, (refused,), 1)

    def _read_rows(self, rows: Sequence[Any]) -> ReadRows:
        return finish(self._slice_rows(rows))

    def _slice_rows(self, rows: Sequence[Any] | pl.DataFrame) -> Slices:
        if isinstance(rows, pl.DataFrame):
            if self._shape is not EventShape.EDGE:
                with suppress(*_BAD):  # found row by row
                    return self._admit(self._frames.read(rows))
            return (yield from self._slice_each(frame_rows(rows)))
        columnar = len(rows) >= COLUMN_ROWS and self._shape is not EventShape.EDGE
        dicts = _list_dicts(rows) if columnar else None
        if dicts is None:
            return (yield from self._slice_each(rows))
        with suppress(*_BAD):  # found row by row
            return self._admit(self._columns.read(dicts))
        read = yield from self._slice_each(rows)
        with suppress(*_BAD):  # columns hold times of one kind
            return self._gather(read, [dicts[place] for place in read.index])
        return read

    def _gather(self, read: ReadRows, rows: Sequence[dict[str, Any]]) -> ReadRows:
        """Return the rows that fit as columns, which the door judges at once."""
        if not rows:
            return read
        gathered = self._columns.read(rows)
        return dataclasses.replace(read, items=gathered.batch, seq=gathered.seq, time=gathered.time)

    def _admit(self, read: RowBatch) -> ReadRows:
        if read.extra and self._refuses:
            raise UnfitError("a field is not in the schema")
        rows = len(read.batch)
        is_both = read.time == "ticks" and not read.batch.start.any()
        if rows and not self.times.takes(None if is_both else read.time):
            raise UnfitError("found row by row")
        self._refuse_nulls(read.batch)
        self._count_ignored({_name(key): count for key, count in read.extra.items()})
        return ReadRows(read.batch, range(rows), read.seq, (), rows, read.time)

    def _slice_each(self, rows: Sequence[Any]) -> Slices:
        items: list[Event] = []
        index: list[int] = []
        seqs: list[int] = []
        rejected: list[Rejected] = []
        ctis = 0
        for number, row in enumerate(rows):
            if number % SLICE_ROWS == SLICE_ROWS - 1:
                yield
            item, seq = self.read_one(row, number)
            if type(item) is Rejected:
                rejected.append(item)
                continue
            ctis += type(item) is Cti
            items.append(item)  # type: ignore[arg-type]
            index.append(number)
            seqs.append(NO_SEQ if seq is None else seq)
        numbers = None if self._seq is None else seqs
        return ReadRows(items, index, numbers, tuple(rejected), len(rows) - ctis)

    def _read_batch(self, given: EventBatch) -> ReadRows:
        self._refuse_own_start()
        batch = own_batch(given)
        if batch.time is not None and not self.times.takes(batch.time):
            raise UnfitError(f"the start of a batch is {self.times.explain(None)}")
        lifetimes = find_bad_lifetimes(batch)
        try:
            if len(lifetimes):
                raise UnfitError("found row by row")
            if self._refuses and len(batch.schema) > len(self._inner):
                raise UnfitError("found row by row")
            payload = self._payload.read(batch.payload)
            seq = None if self._seq is None else read_seqs(batch.payload, self._seq)
            extra = set(batch.schema) - self._inner
            self._count_ignored(dict.fromkeys(map(_name, extra), len(batch)))
            batch = batch.replace(payload=payload)
            self._refuse_nulls(batch)
            return ReadRows(batch, range(len(batch)), seq, (), len(batch), batch.time)
        except _BAD:
            return self._read_batch_rows(batch, set(lifetimes.tolist()))

    def _refuse_nulls(self, batch: EventBatch) -> None:
        """Raise if a row does not name its device."""
        if any(has_nulls(batch.columns[name]) for name in self._required):
            raise UnfitError("found row by row")

    def _read_batch_rows(self, batch: EventBatch, bad: set[int]) -> ReadRows:
        """Read the payloads of a batch one by one, as those of points."""
        index: list[int] = []
        payloads: list[Any] = []
        seqs: list[int] = []
        rejected: list[Rejected] = []
        for number, row in enumerate(frame_rows(batch.payload)):
            item, seq = self.read_one(PointEvent(0, row), number)
            if number in bad:
                reason = "its lifetime is empty or lies outside of time"
                rejected.append(Rejected(number, reason, row))
            elif isinstance(item, Rejected):
                rejected.append(dataclasses.replace(item, row=row))
            else:
                index.append(number)
                seqs.append(NO_SEQ if seq is None else seq)
                payloads.append(item.payload)  # type: ignore[union-attr]
        columns = [
            field.column([row if self._is_scalar else row[field.name] for row in payloads])
            for field in self._fields
        ]
        payload = pl.DataFrame(columns) if columns else pl.DataFrame(height=len(index))
        numbers = None if self._seq is None else np.array(seqs, np.int64)
        kept = np.array(index, np.int64)
        read = EventBatch(batch.start[kept], batch.end[kept], batch.edge[kept], payload, batch.cti)
        return ReadRows(read, index, numbers, tuple(rejected), len(batch), batch.time)


def _require(field: Field, value: Any) -> Any:
    """Return the value of a field that names the device of a row."""
    if value is None:
        raise UnfitError(
            f"field {field.name!r} is null, and it names the device whose time the row follows"
        )
    return field.check(value)


def _list_items(items: Any) -> Sequence[Any] | pl.DataFrame:
    """Return a frame, or the items of a list or other iterable; anything else is one item."""
    kind = type(items)
    if kind is list:
        return items.copy()  # type: ignore[no-any-return]
    if kind is ArrowIpc:
        return items.read_frame()  # type: ignore[no-any-return]
    if isinstance(items, pl.DataFrame):
        return items
    if hasattr(items, "__arrow_c_stream__") and not isinstance(items, type):
        return pl.DataFrame(items)
    # a NamedTuple is a sequence of its fields, and a pydantic model gives them as pairs
    is_one = isinstance(items, (str, bytes, bytearray, Mapping)) or find_record(kind) is not None
    if is_one or isinstance(items, type) or not isinstance(items, Iterable):
        return [items]
    return list(items)


def _list_dicts(rows: Sequence[Any]) -> Sequence[dict[str, Any]] | None:
    """Return rows that are dicts, or records of one class, as dicts; None for others."""
    kind = type(rows[0])
    if not all(type(row) is kind for row in rows):
        return None
    if kind is dict:
        return rows
    if (record := find_record(kind)) is not None:
        with suppress(*_BAD):  # the rows' own code; found row by row
            return list(map(record.read, rows))
    return None


def _name(key: Any) -> str:
    return encodable(key) if type(key) is str else brief(key)


def _check_names(
    start: str | ArrivalTime, end: str | None, seq: str | None, shape: EventShape
) -> None:
    names: dict[str, Any] = {"start": start, "end": end, "seq": seq}
    if start is ARRIVAL:
        check_arrival(end=end, shape=None if shape is EventShape.POINT else shape)
        del names["start"]
    for argument, name in names.items():
        if not isinstance(name, str | None) or name == "" or (name is None and argument == "start"):
            raise ArgumentError(f"{argument} is the name of a field, got {name!r}")
    named = [name for name in names.values() if name is not None]
    if len(set(named)) < len(named):
        raise ArgumentError(f"start, end and seq are different fields, got {', '.join(named)}")
    if (end is None) != (shape is EventShape.POINT):
        raise ArgumentError(
            f"rows of shape {shape.name} are read "
            + ("without end=" if end is not None else "with end=, which is missing")
            + ". Hint: a point has no end; an interval and an edge have one."
        )


_PASSED = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti, EventBatch})


class RowObserver(abc.ObserverBase[Any]):
    """Observer that passes rows on as events, and lists and frames of them as batches.

    Events, CTIs and batches pass as they are; events do not if rows start when they arrive. A row
    that cannot be read fails the stream.
    """

    def __init__(self, observer: abc.ObserverBase[Any], rows: RowReader) -> None:
        self._observer, self._rows = observer, rows
        self._push, self._read_one = observer.on_next, rows.read_one
        # with starts of arrival an event is read, and refused
        self._passed = frozenset({Cti}) if rows.arrives else _PASSED

    def on_next(self, value: Any) -> None:
        """Pass an item on."""
        kind = type(value)
        if kind in self._passed:
            self._push(value)
        elif kind is dict:
            event, _ = self._read_one(value)
            if type(event) is Rejected:
                self._refuse(event, 1)
            else:
                self._push(event)
        else:
            self._push_many(value)

    def _push_many(self, value: Any) -> None:
        read = self._rows.read(value)
        if read.rejected:
            self._refuse(read.rejected[0], read.rows)
            return
        items = read.items
        if isinstance(items, EventBatch):
            items = [items.replace(time=read.time)] if len(items) else []  # type: ignore[list-item]
        for item in items:
            self._push(item)

    def _refuse(self, rejected: Rejected, rows: int) -> None:
        count = "an item" if rows == 1 else f"row {rejected.index} of {rows}"
        self.on_error(
            SchemaError(
                f"{count} of stream {self._rows.name!r} cannot be read: {rejected.reason}. "
                "Hint: rxt.PushSource accepts the other rows, and gives a verdict on each."
            )
        )

    def on_error(self, error: Exception) -> None:
        """Fail the stream."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the stream."""
        self._observer.on_completed()
