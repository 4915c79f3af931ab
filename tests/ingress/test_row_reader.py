"""Reader of pushed rows: each row fits the stream exactly, or is rejected with the reason."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pytest

from rxtemporal import Cti, EdgeEvent, EventBatch, EventShape, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.row_reader import COLUMN_ROWS, RowReader
from rxtemporal.ingress.verdict import Extra, Rejected, Rejects, choose

SCHEMA = pl.Schema({"device": pl.String, "temp": pl.Float64})
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
GOOD = {"time": 5, "device": "a", "temp": 20.5}
MANY = COLUMN_ROWS + 8


def make(schema: Any = SCHEMA, start: str = "time", **options: Any) -> RowReader:
    """Return a reader of readings."""
    return RowReader("readings", pl.Schema(schema), start=start, **options)


def reason(item: Any, **options: Any) -> str:
    """Return why one row is rejected."""
    rejected, seq = make(**options).read_one(item)
    assert isinstance(rejected, Rejected), rejected
    assert seq is None
    assert rejected.row is item
    return rejected.reason


# One row ------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """A row as a NamedTuple."""

    time: int
    device: str
    temp: float


@dataclasses.dataclass
class ReadingClass:
    """A row as a dataclass."""

    time: int
    device: str
    temp: float


class ReadingMap(Mapping[str, Any]):
    """A row as a mapping."""

    def __getitem__(self, name: str) -> Any:
        return GOOD[name]

    def __iter__(self):
        return iter(GOOD)

    def __len__(self) -> int:
        return len(GOOD)


@pytest.mark.parametrize(
    "row", [GOOD, Reading(5, "a", 20.5), ReadingClass(5, "a", 20.5), ReadingMap()], ids=type
)
def test_a_row_is_a_dict_or_a_record(row):
    """Dicts, NamedTuples, dataclasses and mappings are rows."""
    assert make().read_one(row) == (PointEvent(5, {"device": "a", "temp": 20.5}), None)


@pytest.mark.parametrize(
    ("time", "event_time"),
    [
        (NOON, NOON),
        (NOON.astimezone(timezone(timedelta(hours=2))), NOON),
        ("2026-05-01T12:00:00Z", NOON),
        ("2026-05-01T14:00:00+02:00", NOON),
        (7, 7),
        (np.int64(7), 7),
    ],
    ids=str,
)
def test_times(time, event_time):
    """Aware datetimes, ISO texts with an offset and ticks are times."""
    event, _ = make().read_one({**GOOD, "time": time})
    assert event.start_time == event_time
    assert isinstance(event.start_time, datetime) == isinstance(event_time, datetime)


@pytest.mark.parametrize(
    ("time", "why"),
    [
        (datetime(2026, 5, 1), "naive datetime 2026-05-01T00:00:00 names no instant"),
        ("2026-05-01T12:00:00", "'time' has no offset and names no instant: '2026-05-01T12:00:00'"),
        ("yesterday", "'time' is not a valid time: 'yesterday'"),
        (None, r"'time' is not a valid time: None \(NoneType\)"),
        (True, r"'time' is not a valid time: True \(bool\)"),
        (1.5, r"'time' is not a valid time: 1.5 \(float\)"),
        (MAX_TIME, "cannot start at the end of time"),
        (MAX_TIME + 1, "outside of time"),
        (MIN_TIME - 1, "outside of time"),
        (10**5000, "it could not be read|outside of time"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=5))), "time"),
        ([], "'time' is not a valid time"),
    ],
    ids=range(12),
)
def test_what_is_no_time_is_rejected(time, why):
    """A reason names the field and what it holds."""
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(reason({**GOOD, "time": time}))


def test_reasons():
    """A reason is a sentence for whoever sent the row."""
    assert reason({"time": 5, "device": "a"}) == "field 'temp' is missing"
    assert reason({"device": "a", "temp": 1.0}) == "field 'time' is missing"
    assert reason({**GOOD, "temp": "hot"}) == (
        "field 'temp' is Float64 and cannot hold 'hot' (str)"
    )
    assert reason(5) == "a row is a dict or an event, got 5 (int)"
    assert reason(None) == "a row is a dict or an event, got None (NoneType)"
    assert reason({**GOOD, "x": 1}, extra=Extra.REFUSE) == (
        "field 'x' is not in the schema. Hint: extra=rxt.Extra.IGNORE leaves unknown fields out."
    )
    assert reason(PointEvent(5, {"temp": 1.0})) == "field 'device' is missing"


def test_null_fits_and_an_int_is_a_float():
    """Any field but the start may be null; an int where a float is declared is taken."""
    event, _ = make().read_one({"time": 5, "device": None, "temp": 20})
    assert event.payload == {"device": None, "temp": 20.0}
    assert type(event.payload["temp"]) is float
    event, _ = make().read_one({**GOOD, "temp": math.nan})
    assert math.isnan(event.payload["temp"])


def test_shapes():
    """With end= a dict is an interval, or an edge; a null end never comes."""
    interval = make(end="until")
    assert interval.read_one({**GOOD, "until": 9})[0].end == 9
    assert interval.read_one({**GOOD, "until": None})[0].end == MAX_TIME
    assert reason(GOOD, end="until") == "field 'until' is missing"
    assert "ends after it starts" in reason({**GOOD, "until": 5}, end="until")
    edge = make(end="until", shape=EventShape.EDGE)
    payload = {"device": "a", "temp": 20.5}
    assert edge.read_one(GOOD)[0] == EdgeEvent.create_start(5, payload)
    assert edge.read_one({**GOOD, "until": None})[0] == EdgeEvent.create_start(5, payload)
    assert edge.read_one({**GOOD, "until": 9})[0] == EdgeEvent.create_end(5, 9, payload)


def test_events_of_every_shape_and_ctis():
    """An event keeps its shape and lifetime, whatever the shape of dicts; a CTI is a CTI."""
    payload = {"device": "a", "temp": 20.5}
    for event in (
        PointEvent(NOON, payload),
        IntervalEvent(5, 9, payload),
        EdgeEvent.create_start(5, payload),
        EdgeEvent.create_end(5, 9, payload),
        Cti(NOON),
    ):
        read, _ = make().read_one(event)
        assert read == event
        assert read is not event
        assert read.start_time == event.start_time


def test_what_was_read_cannot_be_changed():
    """The caller's dict is not kept, neither that of an event."""
    row, inner = dict(GOOD), {"device": "a", "temp": 1.0}
    reader = make()
    events = [reader.read_one(row)[0], reader.read_one(PointEvent(5, inner))[0]]
    row["temp"] = inner["temp"] = "hot"
    assert [event.payload["temp"] for event in events] == [20.5, 1.0]
    starts = np.array([5])
    batch = EventBatch(starts, starts + 1, starts * 0, pl.DataFrame([inner | {"temp": 1.0}]), 0)
    read = reader.read(batch)
    starts[0] = 7
    assert read.items.start.tolist() == [5]


def test_a_stream_of_scalars():
    """Events of a scalar stream have a bare payload; a dict names it."""
    reader = make({"payload": pl.Float64})
    assert reader.read_one(PointEvent(5, 1))[0] == PointEvent(5, 1.0)
    assert reader.read_one({"time": 5, "payload": 1})[0] == PointEvent(5, 1.0)
    assert "a row is" in reason(1.0, schema={"payload": pl.Float64})


def test_sequence_numbers():
    """The field seq= is read from each row, and leaves the payload unless it is declared."""
    reader = make(seq="n")
    event, seq = reader.read_one({**GOOD, "n": 4711})
    assert (event.payload, seq) == ({"device": "a", "temp": 20.5}, 4711)
    event, seq = reader.read_one(PointEvent(5, {"device": "a", "temp": 1.0, "n": np.int32(3)}))
    assert (event.payload, seq) == ({"device": "a", "temp": 1.0}, 3)
    declared = make({**SCHEMA, "n": pl.Int64}, seq="n")
    assert declared.read_one({**GOOD, "n": 1})[0].payload["n"] == 1
    for bad in (-1, True, "1", 2**63, 1.0):
        assert "is not a sequence number" in reason({**GOOD, "n": bad}, seq="n")


@pytest.mark.parametrize("count", [3, MANY])
def test_rows_without_a_number(count):
    """A number that is missing or null is none, in dicts, frames and batches; the others count."""
    rows = [{**GOOD, "time": n, "n": 100 + n} for n in range(count)]
    rows[1]["n"] = None
    frame = pl.DataFrame(rows)
    for pushed in (rows, frame, EventBatch.from_polars(frame, start="time", end=None)):
        read = make(seq="n").read(pushed)
        assert list(read.seq) == [100, -1, *range(102, 100 + count)]
        assert (len(read.items), read.rejected) == (count, ())
    del rows[1]["n"]
    assert list(make(seq="n").read(rows).seq)[:3] == [100, -1, 102]
    bare = frame.drop("n")
    for pushed in (bare, EventBatch.from_polars(bare, start="time", end=None)):
        assert make(seq="n").read(pushed).seq is None
    assert make(seq="n").read(frame.with_columns(n=None)).seq is None


@pytest.mark.parametrize("count", [3, MANY])
def test_an_unknown_field_in_the_place_of_a_number(count):
    """A row without a number, and with an unknown field instead, has that field counted."""
    rows = [{**GOOD, "number": n} for n in range(count)]
    reader = make(seq="n")
    assert reader.read(rows).rejected == ()
    event = PointEvent(5, {"device": "a", "temp": 1.0, "number": 7})
    assert reader.read_one(event) == (PointEvent(5, {"device": "a", "temp": 1.0}), None)
    assert reader.ignored == {"number": count + 1}
    assert len(make(seq="n", extra=Extra.REFUSE).read(rows).rejected) == count


def test_time_fields_leave_the_payload():
    """A declared time field is not a field of the payload."""
    reader = make({**SCHEMA, "time": pl.Datetime("us", "UTC")})
    assert dict(reader.schema) == dict(SCHEMA)


@pytest.mark.parametrize(
    "options",
    [
        {"start": "a", "end": "a"},
        {"start": "a", "seq": "a"},
        {"start": ""},
        {"start": "a", "shape": EventShape.EDGE},
        {"start": "a", "end": "b", "shape": EventShape.POINT},
    ],
    ids=str,
)
def test_names_that_do_not_fit_together(options):
    """Names and shape are checked when the source is made."""
    with pytest.raises(ArgumentError):
        make(**options)


def test_policies_by_name():
    """A policy may be given as its text."""
    assert choose(Rejects, "raise", "rejects") is Rejects.RAISE
    assert choose(Extra, Extra.REFUSE, "extra") is Extra.REFUSE
    with pytest.raises(ArgumentError, match=r"extra is one of Extra.IGNORE, Extra.REFUSE, got 'x'"):
        choose(Extra, "x", "extra")


# Unknown fields -----------------------------------------------------------------------------------


def test_a_new_field_is_ignored_counted_by_name_and_logged_once(caplog):
    """A firmware update that adds a field stops nobody."""
    reader = make()
    with caplog.at_level(logging.WARNING):
        reader.read_one({**GOOD, "unit": "C"})
        reader.read_one(PointEvent(5, {"device": "a", "temp": 1.0, "unit": "C"}))
        read = reader.read([{**GOOD, "unit": "C", 7: 8}] * MANY)
        reader.read(pl.DataFrame([{**GOOD, "unit": "C"}] * 3))
    assert isinstance(read.items, EventBatch)
    assert reader.ignored == {"unit": MANY + 5, "7": MANY}
    assert len(caplog.records) == 2


def test_names_of_unknown_fields_are_bounded():
    """Payloads with ever new names do not fill the memory."""
    reader = make()
    for n in range(1_000):
        reader.read_one({**GOOD, f"x{n}": 1})
    assert len(reader.ignored) <= 257
    assert reader.ignored.total() == 1_000


def test_a_new_field_is_refused():
    """With REFUSE every way of pushing rejects exactly the rows with unknown fields."""
    reader = make(extra=Extra.REFUSE)
    rows = [GOOD] * MANY
    rows[3] = {**GOOD, "unit": "C"}
    assert [each.index for each in reader.read(rows).rejected] == [3]
    frame = pl.DataFrame([{**GOOD, "unit": "C"}] * 3)
    assert len(reader.read(frame).rejected) == 3
    batch = EventBatch.from_polars(frame, start="time", end=None)
    assert len(reader.read(batch).rejected) == 3
    assert not reader.ignored


# Many rows ----------------------------------------------------------------------------------------


def columns_of(read: Any) -> list[tuple[int, int, dict[str, Any]]]:
    """Return what was read as rows."""
    items = read.items
    if isinstance(items, EventBatch):
        rows = items.payload.to_dicts() if items.payload.width else [{}] * len(items)
        return list(zip(items.start.tolist(), items.end.tolist(), rows, strict=True))
    return [(event.start, event.end, event.payload) for event in items]


WAYS = {
    "dicts": lambda rows: rows,
    "tuple": tuple,
    "iterator": iter,
    "frame": lambda rows: pl.DataFrame(rows),
    "arrow": lambda rows: pl.DataFrame(rows).to_arrow(),
    "batch": lambda rows: EventBatch.from_polars(pl.DataFrame(rows), start="time", end=None),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [0, 1, 5, MANY])
@pytest.mark.parametrize("time", [5, NOON], ids=["ticks", "datetime"])
def test_all_ways_to_push_many_rows_give_the_same(way, count, time):
    """A list, an iterator, a frame, an Arrow table and a batch are read alike."""
    if not count and way in ("frame", "arrow", "batch"):
        return
    rows = [{"time": time, "device": "a", "temp": n} for n in range(count)]
    read = make().read(WAYS[way](rows))
    start = ticks(time) if time == NOON else time
    expected = [(start, start + 1, {"device": "a", "temp": float(n)}) for n in range(count)]
    assert columns_of(read) == expected
    assert (read.rows, read.rejected, list(read.index)) == (count, (), list(range(count)))
    if isinstance(read.items, EventBatch):
        assert read.items.schema == SCHEMA
        assert read.time == ("ticks" if time == 5 else "datetime")


@pytest.mark.parametrize("way", WAYS)
def test_one_bad_row_among_many(way):
    """The bad row alone is rejected, with its number in the push."""
    rows = [{"time": n, "device": "a", "temp": 1} for n in range(MANY)]
    rows[7]["time"] = MAX_TIME
    if way == "batch":
        starts = np.array([row["time"] for row in rows])
        payload = pl.DataFrame(rows).drop("time")
        pushed: Any = EventBatch.of_rows(starts, starts + 1, payload, MIN_TIME)
    else:
        pushed = WAYS[way](rows)
    read = make().read(pushed)
    assert [each.index for each in read.rejected] == [7]
    assert [start for start, _, _ in columns_of(read)] == [n for n in range(MANY) if n != 7]
    assert list(read.index) == [n for n in range(MANY) if n != 7]
    assert read.rows == MANY


def test_a_mixed_list_keeps_its_order():
    """Events, dicts and CTIs in one list; CTIs are not counted as rows."""
    pushed = [GOOD, Cti(6), {"time": 7}, PointEvent(8, {"device": "b", "temp": 1.0}), Cti(9)]
    read = make(seq=None).read(pushed)
    assert read.items == [
        PointEvent(5, {"device": "a", "temp": 20.5}),
        Cti(6),
        PointEvent(8, {"device": "b", "temp": 1.0}),
        Cti(9),
    ]
    assert list(read.index) == [0, 1, 3, 4]
    assert (read.rows, [each.index for each in read.rejected]) == (3, [2])


@pytest.mark.parametrize("count", [3, MANY])
def test_sequence_numbers_of_many_rows(count):
    """Each row has its number, in dicts, frames and batches; a CTI has -1."""
    rows = [{**GOOD, "time": n, "n": 100 + n} for n in range(count)]
    frame = pl.DataFrame(rows)
    for pushed in (rows, frame, EventBatch.from_polars(frame, start="time", end=None)):
        read = make(seq="n").read(pushed)
        assert list(read.seq) == [100 + n for n in range(count)]
        assert columns_of(read)[0][2] == {"device": "a", "temp": 20.5}
    assert make(seq="n").read([*rows, Cti(99)]).seq[-1] == -1
    rows[1]["n"] = frame[1, "n"] = -1
    for pushed in (rows, frame, EventBatch.from_polars(frame, start="time", end=None)):
        read = make(seq="n").read(pushed)
        assert [each.index for each in read.rejected] == [1]
        assert list(read.seq) == [100 + n for n in range(count) if n != 1]


@pytest.mark.parametrize("count", [3, MANY])
def test_ends_of_many_rows(count):
    """Null ends never come, in dicts and in frames; edges are read one by one."""
    rows = [{**GOOD, "until": 9 if n else None} for n in range(count)]
    for pushed in (rows, pl.DataFrame(rows)):
        read = make(end="until").read(pushed)
        assert [end for _, end, _ in columns_of(read)] == [MAX_TIME] + [9] * (count - 1)
        read = make(end="until", shape=EventShape.EDGE).read(pushed)
        assert [type(event) for event in read.items] == [EdgeEvent] * count


def test_edges_in_a_batch_stay_edges():
    """A pushed batch keeps its edges and its CTI."""
    starts = np.array([5, 5, 6])
    payload = pl.DataFrame({"device": ["a", "a", "b"], "temp": [1.0, 1.0, None]})
    batch = EventBatch(starts, np.array([MAX_TIME, 8, 5]), np.array([1, 1, 0]), payload, 4)
    read = make().read(batch)
    assert (read.items.edge.tolist(), read.items.cti, read.rows) == ([1, 1], 4, 3)
    assert [each.index for each in read.rejected] == [2]


@pytest.mark.parametrize(
    "batch",
    [
        EventBatch([1], [2], [0], pl.DataFrame({"temp": [1.0]}), 0),  # type: ignore[arg-type]
        EventBatch(*[np.zeros(2, np.int64)] * 3, pl.DataFrame({"temp": [1.0]}), 0),
        EventBatch(*[np.zeros(1, np.int32)] * 3, pl.DataFrame({"temp": [1.0]}), 0),  # type: ignore[arg-type]
        EventBatch(*[np.zeros(1, np.int64)] * 3, pl.DataFrame({"temp": [1.0]}), "x"),  # type: ignore[arg-type]
        EventBatch(*[np.zeros(1, np.int64)] * 3, pl.DataFrame({"temp": [1.0]}), MAX_TIME + 1),
    ],
    ids=range(5),
)
def test_what_is_no_batch_is_rejected_as_one(batch):
    """A batch whose columns are not columns has no rows to keep."""
    read = make().read(batch)
    assert (read.rows, len(read.rejected), len(read.items)) == (1, 1, 0)
    assert read.rejected[0].row is batch


UTC_TIME = pl.Datetime("us", "UTC")
FRAMES = {
    "floats are not ints": (pl.Series([1.0, None]), pl.Int64(), [0]),
    "ints are floats": (pl.Series([1, None]), pl.Float64(), []),
    "ints in range": (pl.Series([1, 300]), pl.Int8(), [1]),
    "large ints": (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), pl.Int64(), [1]),
    "categories are texts": (pl.Series(["a", "b"], dtype=pl.Categorical), pl.String(), []),
    "texts are not numbers": (pl.Series(["1", None]), pl.Int64(), [0]),
    "bools are not numbers": (pl.Series([True, None]), pl.Float64(), [0]),
    "lists": (pl.Series([[1], None]), pl.Int64(), [0]),
    "structs": (pl.Series([{"x": 1}, None]), pl.String(), [0]),
    "objects": (pl.Series([object(), None], dtype=pl.Object), pl.String(), [0]),
    "nulls": (pl.Series([None, None]), pl.String(), []),
    "year 10,000": (pl.Series([0, 2**60]).cast(UTC_TIME), UTC_TIME, [1]),
    "naive": (pl.Series([datetime(2026, 1, 1), None]), pl.Datetime("us", "UTC"), [0]),
    "nanoseconds": (pl.Series([1_999, None]).cast(pl.Datetime("ns", "UTC")), UTC_TIME, []),
    "doubles": (pl.Series([1e300, 1.5]), pl.Float32(), [0]),
    "decimals": (pl.Series([Decimal("1.55"), None]), pl.Decimal(5, 1), [0]),
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMES)
def test_columns_of_frames_are_held_to_the_declared_types(name):
    """A column of another type is read value by value, as that of a list of dicts."""
    column, dtype, bad = FRAMES[name]
    frame = pl.DataFrame({"time": [1, 2], "x": column})
    reader = make({"x": dtype})
    for pushed in (frame, EventBatch.of_rows(np.array([1, 2]), np.array([3, 3]), frame[["x"]], 0)):
        read = reader.read(pushed)
        assert [each.index for each in read.rejected] == bad
        assert len(read.items) == 2 - len(bad)
        if isinstance(read.items, EventBatch):
            assert read.items.schema == reader.schema


def test_a_frame_without_a_field():
    """Each row is rejected."""
    read = make().read(pl.DataFrame({"time": [1, 2]}))
    assert [each.reason for each in read.rejected] == ["field 'device' is missing"] * 2


def test_texts_of_time_in_a_frame():
    """A column of ISO texts is read row by row."""
    rows = [{**GOOD, "time": NOON.isoformat()}, {**GOOD, "time": "x"}, {**GOOD, "time": None}]
    read = make().read(pl.DataFrame(rows))
    assert ([event.start for event in read.items], len(read.rejected)) == ([ticks(NOON)], 2)
