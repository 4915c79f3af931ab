"""Event batches: what comes in and out as frames, dicts and Arrow tables, and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import polars as pl
import pytest

from rxtemporal import MAX_TIME, MIN_TIME, EventBatch
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns
from rxtemporal.errors import CtiViolationError, EventError, RxTemporalError, SchemaError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [
    {"start_time": 1, "end_time": 4, "x": 10},
    {"start_time": 2, "end_time": None, "x": 20},
    {"start_time": 3, "x": None},
]
OUT = [
    {"start_time": 1, "end_time": 4, "x": 10},
    {"start_time": 2, "end_time": None, "x": 20},
    {"start_time": 3, "end_time": 4, "x": None},
]


def batch(cti: int = 9) -> EventBatch:
    """Three rows: complete, endless and a point."""
    return EventBatch.from_dicts(ROWS, cti=cti)


def edges(rows: list[tuple[int, int, int]], cti: int = MIN_TIME) -> EventBatch:
    """A batch of (start, end, edge id) without fields."""
    columns = np.array(rows, np.int64).T
    return EventBatch(*columns, pl.DataFrame(height=len(rows)), cti)


def test_dicts_come_back_as_they_went_in() -> None:
    """A row without an end is a point, one with the end None never ends."""
    assert len(batch()) == 3
    assert batch().cti == 9
    assert batch().schema == pl.Schema({"x": pl.Int64})
    assert batch().edge.tolist() == [0, 0, 0]
    assert batch().end.tolist() == [4, MAX_TIME, 4]
    assert batch().to_dicts() == OUT


def test_types_are_found_however_late_they_show() -> None:
    """A field may be null in thousands of dicts before its first value."""
    rows: list[dict[str, Any]] = [{"start_time": i, "x": None} for i in range(2_000)]
    made = EventBatch.from_dicts([*rows, {"start_time": 2_000, "x": 1.5}])
    assert made.schema == pl.Schema({"x": pl.Float64})


def test_dicts_may_come_with_a_schema() -> None:
    """A given schema names the types, also of no rows at all."""
    assert EventBatch.from_dicts([], schema={"x": pl.Int32}).schema == pl.Schema({"x": pl.Int32})
    made = EventBatch.from_dicts([{"start_time": 1, "x": 1}], schema={"x": pl.Float64})
    assert made.to_dicts() == [{"start_time": 1, "end_time": 2, "x": 1.0}]


def test_a_dict_without_a_start_is_refused() -> None:
    """The row is named by its number and content."""
    with pytest.raises(EventError, match=r"row 1 has no 'start_time': \{'x': 2\}"):
        EventBatch.from_dicts([{"start_time": 1, "x": 1}, {"x": 2}])


def test_a_batch_may_have_no_rows_or_no_fields() -> None:
    """Without rows only time advances; without fields rows are still counted, taken and shown."""
    empty = EventBatch.empty({"x": pl.Int64}, 5)
    assert (len(empty), empty.cti, empty.to_dicts()) == (0, 5, [])
    bare = EventBatch.from_dicts([{"start_time": 1}, {"start_time": 2}])
    assert bare.to_dicts() == [{"start_time": 1, "end_time": 2}, {"start_time": 2, "end_time": 3}]
    assert bare.take(np.array([1])).to_dicts() == [{"start_time": 2, "end_time": 3}]
    assert len(EventBatch.concat([bare, bare]).check()) == 4


def test_frames_come_back_as_they_went_in() -> None:
    """A frame of ticks goes through a batch unchanged, null ends included."""
    frame = batch().to_polars("ticks")
    assert EventBatch.from_polars(frame, cti=9).to_polars("ticks").equals(frame)
    assert batch().to_polars("datetime").schema["end_time"] == pl.Datetime("us", "UTC")
    assert batch().to_polars("datetime")["end_time"].null_count() == 1


@pytest.mark.parametrize("form", ["ticks", "datetime"])
def test_a_batch_gives_times_in_its_own_form(form: Literal["ticks", "datetime"]) -> None:
    """As its source gave them: in frames, tables and dicts, of all its rows and of some."""
    read = EventBatch.from_polars(batch().to_polars(form), cti=9)
    assert (read.time, EventBatch.concat([read, read]).time) == (form, form)
    for some in (read, read.slice(0, 1), read.take(np.array([0])), read.replace(cti=10)):
        assert some.to_dicts() == some.to_dicts(form)
        assert some.to_polars().equals(some.to_polars(form))
    again = EventBatch.from_dicts(read.to_dicts(), cti=9)
    assert again.to_dicts() == read.to_dicts()


def test_arrow_tables_come_back_as_they_went_in() -> None:
    """An Arrow table of a batch reads as the same batch."""
    pytest.importorskip("pyarrow")
    assert EventBatch.from_arrow(batch().to_arrow()).to_dicts() == OUT


def test_columns_of_any_name_are_the_times() -> None:
    """start and end name columns, the others are the payload; without end rows are points."""
    frame = pl.DataFrame({"b": [5], "a": [3], "x": [1]})
    both = EventBatch.from_polars(frame, start="a", end="b")
    assert both.to_dicts() == [{"start_time": 3, "end_time": 5, "x": 1}]
    point = EventBatch.from_polars(frame, start="a", end=None)
    assert point.to_dicts() == [{"start_time": 3, "end_time": 4, "b": 5, "x": 1}]
    with pytest.raises(SchemaError, match=r"no column 'c'; there are \['b', 'a', 'x'\]"):
        EventBatch.from_polars(frame, start="a", end="c")


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_times_of_any_unit_and_zone_are_the_same_instants(unit: Any, zone: str) -> None:
    """An aware column is read as ticks, whatever its unit and zone."""
    column = pl.Series("start_time", [NOON]).cast(pl.Datetime(unit, "UTC"))
    frame = pl.DataFrame([column.dt.convert_time_zone(zone)])
    assert EventBatch.from_polars(frame, end=None).start.tolist() == [1_767_268_800_000_000]


def nanoseconds(name: str, *values: int) -> pl.Series:
    """A column of times finer than a tick."""
    return pl.Series(name, values).cast(pl.Datetime("ns", "UTC"))


def test_finer_times_are_floored_to_the_tick() -> None:
    """Flooring goes towards the beginning of time, before the epoch too."""
    frame = pl.DataFrame([nanoseconds("start_time", 1_999, 2_000, -1)])
    assert EventBatch.from_polars(frame, end=None).start.tolist() == [1, 2, -1]


@pytest.mark.parametrize("start", [nanoseconds("start_time", 2_100), pl.Series("start_time", [2])])
def test_a_lifetime_that_flooring_empties_is_one_tick(start: pl.Series) -> None:
    """A row that lives less than a tick lives one, whichever of its ends was finer."""
    if start.dtype.is_integer():
        start = start.cast(pl.Datetime("us", "UTC"))
    frame = pl.DataFrame([start, nanoseconds("end_time", 2_500)])
    rows = EventBatch.from_polars(frame)
    assert (rows.start.tolist(), rows.end.tolist()) == ([2], [3])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pl.Series([datetime(2026, 1, 1)]), r"'start_time' holds naive datetimes.*replace_time_z"),
        (pl.Series([NOON.date()]), "'start_time' of type Date is not a time"),
        (pl.Series(["2026-01-01"]), "'start_time' of type String is not a time"),
        (pl.Series([1.0]), "'start_time' of type Float64 is not a time"),
        (pl.Series([True]), "'start_time' of type Boolean is not a time"),
        (
            pl.Series([3, None, 4, None]),
            "'start_time' is null in row 1, but every row needs a start",
        ),
        (pl.Series([None]), "'start_time' is null in row 0, but every row needs a start"),
        (pl.Series([MAX_TIME + 1]), "'start_time' holds times outside of time"),
        (pl.Series([MIN_TIME - 1]), "'start_time' holds times outside of time"),
        (pl.Series([2**63 + 1], dtype=pl.UInt64), "'start_time' holds times outside of time"),
        (pl.Series([0, MAX_TIME]), "row 1 starts at the end of time: its last tick is reserved"),
    ],
)
def test_a_column_that_holds_no_starts_is_refused(column: pl.Series, message: str) -> None:
    """The message names the column, what is in it and what to do."""
    with pytest.raises(EventError, match=message):
        EventBatch.from_polars(column.alias("start_time").to_frame(), end=None)


@pytest.mark.parametrize("end", [2, 1])
def test_a_row_that_ends_before_it_starts_is_refused(end: int) -> None:
    """The row is named by number, lifetime and payload."""
    rows = [{"start_time": 0, "end_time": 9, "x": 1}, {"start_time": 2, "end_time": end, "x": 7}]
    with pytest.raises(EventError, match=r"row 1 ends before it starts: \[.*\) \{'x': 7\}"):
        EventBatch.from_dicts(rows)


@pytest.mark.parametrize(
    ("dtype", "carried"),
    [
        (pl.UInt8, pl.Int16()),
        (pl.UInt16, pl.Int32()),
        (pl.UInt32, pl.Int64()),
        (pl.Int8, pl.Int8()),
        (pl.Float32, pl.Float32()),
        (pl.Datetime("ms", "UTC"), pl.Datetime("us", "UTC")),
        (pl.Duration("ns"), pl.Duration("us")),
    ],
)
def test_payload_columns_travel_in_types_that_spark_has(dtype: Any, carried: pl.DataType) -> None:
    """Unsigned integers are widened and times brought to the tick; other types stay."""
    frame = pl.DataFrame({"start_time": [1], "x": pl.Series([5]).cast(dtype)})
    made = EventBatch.from_polars(frame, end=None)
    assert made.schema == pl.Schema({"x": carried})
    assert made.payload["x"].to_physical().to_list() in ([5], [5_000], [0])


@pytest.mark.parametrize(
    ("column", "hint"),
    [
        (pl.Series([5], dtype=pl.UInt64), "no UInt64; cast"),
        (pl.Series([[1]]), "flat record"),
        (pl.Series([{"a": 1}]), "flat record"),
        (pl.Series(["a"], dtype=pl.Categorical), "cast it to String"),
        (pl.Series(["a"], dtype=pl.Enum(["a"])), "cast it to String"),
        (pl.Series([object()], dtype=pl.Object), "flat record"),
    ],
)
def test_payload_columns_that_cannot_travel_are_refused(column: pl.Series, hint: str) -> None:
    """The field and its type are named, and what to do about it."""
    frame = pl.DataFrame([pl.Series("start_time", [1]), column.alias("x")])
    with pytest.raises(SchemaError, match=rf"field 'x' has type .*{hint}"):
        EventBatch.from_polars(frame, end=None)


def test_a_payload_field_cannot_be_called_as_the_lifetime_on_the_way_out() -> None:
    """A frame with two columns of one name is refused, with a hint."""
    named = EventBatch.from_polars(pl.DataFrame({"t": [1], "end_time": [2]}), start="t", end=None)
    with pytest.raises(SchemaError, match=r"'end_time'.*rename it with select"):
        named.to_polars()


def test_rows_are_taken_by_number_and_by_mask() -> None:
    """take keeps the CTI and the names of the keys."""
    assert batch().take(np.array([2, 0])).to_dicts() == [OUT[2], OUT[0]]
    assert batch().take(np.array([False, True, False])).to_dicts() == [OUT[1]]
    taken = batch().replace(keys=("x",)).take(np.array([2, 1]))
    assert taken.cti == 9
    assert taken.keys == ("x",)
    assert taken.payload["x"].to_list() == [None, 20]
    again = batch().take(np.array([0, 1, 2, 2, 0])).check()
    assert again.to_dicts() == [*OUT, OUT[2], OUT[0]]


def test_batches_put_together_have_the_last_cti() -> None:
    """Rows follow in order, and the promise is that of the last batch."""
    more = EventBatch.from_dicts([{"start_time": 10, "x": 1}], cti=20)
    both = EventBatch.concat([batch(), more])
    assert both.to_dicts() == [*OUT, {"start_time": 10, "end_time": 11, "x": 1}]
    assert both.cti == 20
    assert EventBatch.concat([more]) is more


def test_a_batch_shows_its_size_fields_and_cti() -> None:
    """The repr says how many rows, of what, and until when nothing changes."""
    assert repr(batch(MAX_TIME)) == "EventBatch(3 rows, fields ['x'], CTI the end of time)"


@pytest.mark.parametrize(
    ("made", "previous", "error", "message"),
    [
        (edges([(5, 6, 0)]), 6, CtiViolationError, "row 0 breaks CTI"),
        (edges([(7, 8, 0), (5, MAX_TIME, 1)], 9), 6, CtiViolationError, "row 1 breaks CTI"),
        (edges([(5, 6, 1)], 9), 7, CtiViolationError, "row 0 breaks CTI"),
        (edges([(4, 5, 0), (1, 2, 0), (9, 10, 0)]), 6, CtiViolationError, "row 1 breaks CTI"),
        (EventBatch.empty({}, 5), 6, CtiViolationError, "goes back"),
        (edges([(5, 5, 0)]), 0, EventError, "row 0 ends before it starts"),
        (batch().replace(start=np.array([1])), 0, SchemaError, "differ in length"),
    ],
)
def test_a_batch_that_breaks_its_contract_says_where(
    made: EventBatch, previous: int, error: type[RxTemporalError], message: str
) -> None:
    """A late row or end edge, a CTI that goes back, an empty lifetime and odd columns are named."""
    with pytest.raises(error, match=message):
        made.check(previous)


def test_an_end_edge_is_judged_by_its_end() -> None:
    """An end edge whose start lies before the CTI keeps the promise if its end does."""
    assert len(edges([(1, 7, 1)], 9).check(7)) == 1


def test_a_payload_that_is_no_frame_is_refused() -> None:
    """The error names the type; a later one would be polars' own."""
    with pytest.raises(SchemaError, match="payload is a polars frame, got NoneType"):
        EventBatch(*[np.zeros(1, np.int64)] * 3, None, 0)  # type: ignore[arg-type]


def test_a_batch_knows_its_edges() -> None:
    """Complete and endless rows are not edges; parts of a batch know what they have themselves."""
    mixed = edges([(1, 4, 0), (2, MAX_TIME, 7), (2, 5, 7), (3, MAX_TIME, 0)])
    ends = mixed.find_ends()
    assert mixed.has_edges
    assert ends is not None
    assert ends.tolist() == [False, False, True, False]
    assert mixed.take_begins().edge.tolist() == [0, 7, 0]
    assert not mixed.slice(0, 1).has_edges
    assert not mixed.take(np.array([0, 3])).has_edges
    assert mixed.replace(cti=9).has_edges
    assert batch().find_ends() is None
    assert batch().replace(edge=np.array([0, 1, 0])).has_edges


def test_a_batch_made_without_edges_has_none() -> None:
    """Its edges are zeros, however many rows it has, also after its rows have been put together."""
    for n in (0, 3, 70_000):
        times = np.arange(n)
        rows = EventBatch(times, times + 1, None, pl.DataFrame(height=n), 0)
        assert not rows.has_edges
        assert rows.edge.dtype == np.int64
        assert rows.edge.tolist() == [0] * n
    mixed = EventBatch.concat([rows, edges([(1, MAX_TIME, 7)])])
    assert mixed.has_edges
    assert mixed.edge.tolist() == [0] * n + [7]


def test_ends_of_points_are_made_when_they_are_read() -> None:
    """Parts of a batch of points have the same ends as if all had been made with it."""
    rows = EventBatch.from_polars(pl.DataFrame({"t": [1, 4, 9]}), start="t", end=None)
    moved = rows.replace(start=rows.start + 100)
    assert moved.end.tolist() == [2, 5, 10]
    for points in (rows, EventBatch.of_rows(rows.start, None, rows.columns, 9)):
        assert points.slice(1, 3).end.tolist() == [5, 10]
        assert points.take(np.array([2, 0])).end.tolist() == [10, 2]
        assert points.replace(cti=3).end.tolist() == [2, 5, 10]
        assert EventBatch.concat([points, points]).end.tolist() == [2, 5, 10] * 2
        mixed = EventBatch.concat([points, edges([(1, 4, 0), (2, MAX_TIME, 0)])])
        assert mixed.end.tolist() == [2, 5, 10, 4, MAX_TIME]
        assert points.end is points.end


def test_a_batch_knows_if_its_frame_was_in_order() -> None:
    """Parts of it know that, too, unless rows are picked by number or have other starts."""
    rows = EventBatch.from_polars(pl.DataFrame({"t": [1, 1, 4, 9]}), start="t", end=None)
    assert rows.in_order
    assert rows.highest_start == 9
    assert rows.slice(1, 3).in_order
    assert rows.take(np.array([True, False, True, False])).in_order
    assert rows.replace(cti=9, end=rows.end + 1).in_order
    assert not rows.take(np.array([2, 0])).in_order
    assert not rows.replace(start=rows.start[::-1]).in_order
    assert not EventBatch.concat([rows, rows]).in_order


@pytest.mark.parametrize("place", [1, 8_191, 8_192, 8_193, 19_999])
def test_one_row_out_of_order_is_found_wherever_it_is(place: int) -> None:
    """The rows of a frame are compared in blocks, and with the first row of the next one."""
    times = np.arange(0, 40_000, 2)
    times[place] = times[place - 1] - 1
    rows = EventBatch.from_polars(pl.DataFrame({"t": times}), start="t", end=None)
    assert not rows.in_order
    assert rows.highest_start == times.max()


@pytest.mark.parametrize("times", [[5, MIN_TIME - 1, 7], [5, MAX_TIME + 1, 7]])
def test_a_time_outside_of_time_is_found_between_others(times: list[int]) -> None:
    """Times that are not in order are all looked at."""
    with pytest.raises(EventError, match="holds times outside of time"):
        EventBatch.from_polars(pl.DataFrame({"t": times}), start="t", end=None)


def test_batches_without_rows_leave_those_with_rows_as_they_are() -> None:
    """One batch with rows among empty ones keeps its arrays; the last one has the CTI."""
    rows = batch()
    joined = EventBatch.concat([rows.none(3), rows, rows.none(12)])
    assert joined.start is rows.start
    assert joined.cti == 12


def test_the_edges_that_batches_share_cannot_be_written() -> None:
    """A mistake in one place would be one in every batch."""
    batch = EventBatch(np.arange(3), None, None, pl.DataFrame({"x": [1, 2, 3]}), 0)
    with pytest.raises(ValueError, match="read-only"):
        batch.edge[0] = 1


def test_what_is_not_replaced_stays() -> None:
    """Each attribute, but the number that a batch has among results."""
    clocks = Clocks(Columns.from_frame(pl.DataFrame({"d": ["a"]})), 3)
    start, edge = np.arange(2), np.array([0, 7])
    given = EventBatch(
        start, start + 1, edge, pl.DataFrame({"x": [1, 2]}), 5, ("x",), True, "ticks", clocks
    )
    assert given.has_edges
    given.set_number(4)
    replaced = given.replace()
    for name in EventBatch.__slots__:
        expected = None if name == "number" else getattr(given, name)
        assert getattr(replaced, name) is expected or getattr(replaced, name) == expected, name
    other = given.replace(time=None, clocks=None, in_order=False)
    assert (other.time, other.clocks, other.in_order) == (None, None, False)
