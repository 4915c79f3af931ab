"""Bad input: one clear error that says where and what to do, and nothing accepted is lost."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from input_ways import FRAME, PushedEvents, both_subjects, collect, parametrize_ways, ways_in
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, PointEvent, agg
from rxtemporal.core.events import Event
from rxtemporal.errors import (
    ArgumentError,
    CtiViolationError,
    EventError,
    RxTemporalError,
    SchemaError,
    SourceError,
)

# two rows that are final, one that is not, and then something bad
GOOD: list[Any] = [
    PointEvent(1, {"x": 1}),
    PointEvent(2, {"x": 2}),
    Cti(5),
    PointEvent(6, {"x": 6}),
]
FINAL = [IntervalEvent(1, 2, {"x": 1}), IntervalEvent(2, 3, {"x": 2})]
ACCEPTED = [*FINAL, IntervalEvent(6, 7, {"x": 6})]


# Events: one error, and what was accepted before it comes out -----------------------------------

BAD_EVENTS: dict[str, tuple[list[Any], type[RxTemporalError], str]] = {
    "payload is a list": (
        [PointEvent(7, [1])],
        SchemaError,
        r"'payload' .*in \{'payload': \[1\]\}",
    ),
    "payload is a set": ([PointEvent(7, {1})], SchemaError, r"'payload' .*\{'payload': \{1\}\}"),
    "payload is any object": ([PointEvent(7, object())], SchemaError, "'payload' .*object object"),
    "a nested record": (
        [PointEvent(7, {"x": {"y": 1}})],
        SchemaError,
        r"'x' .*\{'y': 1\} \(dict\)",
    ),
    "a nested list": ([PointEvent(7, {"x": [1]})], SchemaError, r"'x' is Int64 .*\[1\] \(list\)"),
    "a field appears": (
        [PointEvent(7, {"x": 1, "y": 2})],
        SchemaError,
        "'y' appears in mid-stream",
    ),
    "a field vanishes": (
        [PointEvent(7, {})],
        SchemaError,
        "'x' is missing in {}.*fields are x: Int64",
    ),
    "a field changes its type": (
        [PointEvent(7, {"x": "7"})],
        SchemaError,
        r"'x' is Int64 and cannot hold '7' \(str\)\. Hint: a field keeps its type; convert the",
    ),
    "a naive datetime in a field of ints": (
        [PointEvent(7, {"x": datetime(2026, 1, 1)})],
        SchemaError,
        r"'x' is Int64 and cannot hold datetime",
    ),
    "an end edge without a start": (
        [EdgeEvent.create_end(1, 9, {"x": 1})],
        EventError,
        r"create_end\(1, 9, .*ends a row that is not open.*Hint: an end edge names its start",
    ),
    "a start before the CTI": (
        [PointEvent(4, {"x": 4})],
        CtiViolationError,
        r"PointEvent\(4, \{'x': 4\}\) of stream '.*' breaks CTI 5 by 1 ticks\. Hint: adv",
    ),
    "a CTI that goes back": (
        [Cti(3)],
        CtiViolationError,
        r"Cti\(3\) of stream '.*' is before its last CTI, 5\. Hint: give the stream",
    ),
    "something that is not an event": (
        ["hello"],
        EventError,
        "takes PointEvent, IntervalEvent, EdgeEvent and Cti, got 'hello'",
    ),
}


@parametrize_ways("bad, error, message", BAD_EVENTS)
def test_a_bad_event_is_one_error_after_what_came_before_it(
    stream_of: Callable[..., rxt.Streamable],
    bad: list[Any],
    error: type[RxTemporalError],
    message: str,
) -> None:
    """What was final comes out, then on_error tells of the event; what follows is not taken."""
    after = [PointEvent(8, {"x": 8}), Cti(20)]
    events, errors = collect(stream_of([*GOOD, *bad, *after]))
    assert events == FINAL
    assert [type(each) for each in errors] == [errors[0].__class__]
    assert isinstance(errors[0], error)
    assert re.search(message, str(errors[0]), re.DOTALL)


@parametrize_ways("bad", {name: each[:1] for name, each in BAD_EVENTS.items()})
def test_all_that_was_accepted_comes_out_as_it_begins(
    stream_of: Callable[..., rxt.Streamable], bad: list[Any]
) -> None:
    """In point shape, where nothing waits to be final, every row before the bad event comes out."""
    events, errors = collect(stream_of([*GOOD, *bad]), shape=rxt.EventShape.POINT)
    assert events == [PointEvent(row.start, row.payload) for row in ACCEPTED]
    assert len(errors) == 1


@ways_in
def test_the_first_of_two_errors_is_told(stream_of: Callable[..., rxt.Streamable]) -> None:
    """A payload that does not fit is not hidden by a late event that comes after it."""
    bad = [PointEvent(7, {"x": "seven"}), PointEvent(3, {"x": 3})]
    events, errors = collect(stream_of([*GOOD, *bad]))
    assert events == FINAL
    assert "cannot hold 'seven'" in str(errors[0])


@ways_in
def test_the_first_event_may_be_the_bad_one(stream_of: Callable[..., rxt.Streamable]) -> None:
    """A stream that begins with a payload that is not a record says which field is wrong."""
    events, errors = collect(stream_of([PointEvent(1, {"x": 1, "y": {"z": 2}}), Cti(5)]))
    assert events == []
    assert re.search(r"field 'y' holds \{'z': 2\} \(dict\).*flat record", str(errors[0]))


@ways_in
def test_an_error_of_the_query_comes_after_what_was_right(
    stream_of: Callable[..., rxt.Streamable],
) -> None:
    """What a user's function raises for one batch does not take back the batches before it."""

    def small(row: dict[str, Any]) -> bool:
        if row["x"] > 5:
            raise OverflowError(f"{row['x']} is too much")
        return True

    line = sys._getframe().f_lineno + 1
    stream = stream_of([*GOOD, Cti(10)]).where(small)
    events, errors = collect(stream)
    assert events in (FINAL, [])  # those of a list and of gathered rows come in one batch
    assert (len(errors), type(errors[0]), str(errors[0])) == (1, OverflowError, "6 is too much")
    assert errors[0].__notes__ == [f"in where, composed at {__file__}:{line}"]


def test_an_error_of_the_source_comes_after_what_was_accepted() -> None:
    """An iterator that raises, and an observable that fails, end the query with their own error."""

    def broken() -> Iterator[Event]:
        yield from GOOD
        raise ConnectionError("gone")

    subject: Subject[Any] = Subject()
    events: list[Any] = []
    errors: list[Any] = []
    rxt.from_observable(subject).subscribe(events.append, errors.append)
    for event in GOOD:
        subject.on_next(event)
    subject.on_error(ConnectionError("gone"))
    for out, failed in (collect(rxt.from_events(broken())), (events, errors)):
        assert out == FINAL
        assert repr(failed) == "[ConnectionError('gone')]"


def test_an_error_before_the_first_event_is_not_mistaken_for_another() -> None:
    """A source that fails before its fields are known gives its own error, whatever the query."""

    def broken() -> Iterator[Event]:
        yield Cti(5)
        raise ConnectionError("gone")

    stream = rxt.from_events(broken()).where(pl.col("x") > 1).group_by("k").snapshot_window()
    assert repr(collect(stream.aggregate(n=agg.count()))[1]) == "[ConnectionError('gone')]"


@pytest.mark.parametrize(
    ("second", "error", "message"),
    [
        (
            EventBatch.from_dicts([{"start_time": 3, "x": 1}], cti=9),
            CtiViolationError,
            "breaks CTI",
        ),
        (EventBatch.empty({"x": pl.Int64}, 3), CtiViolationError, "goes back from"),
        (EventBatch.from_dicts([{"start_time": 6, "y": 1}]), SchemaError, r"\['y'\] do not fit"),
        (EventBatch.from_dicts([{"start_time": 6, "x": "a"}], cti=9), SchemaError, "'x' is String"),
    ],
    ids=["late row", "CTI back", "other field", "other type"],
)
def test_a_bad_batch_is_one_error_after_the_batches_before_it(
    second: EventBatch, error: type[Exception], message: str
) -> None:
    """A stream of batches keeps its promises and its fields, or says what broke them."""
    if second.schema == pl.Schema({"y": pl.Int64}):
        second = second.replace(cti=9)
    first = EventBatch.from_dicts([{"start_time": 1, "x": 1}], cti=5)
    events, errors = collect(rxt.from_observable(PushedEvents([first, second])))
    assert events == [IntervalEvent(1, 2, {"x": 1})]
    assert [type(each) for each in errors] == [error]
    assert re.search(message, str(errors[0]))


def test_a_stream_may_be_of_events_and_batches() -> None:
    """Events that still wait come out before the batch that follows them, and both in order."""
    batch = EventBatch.from_dicts([{"start_time": 6, "x": 1}], cti=9)
    events, errors = collect(
        rxt.from_observable(PushedEvents([*GOOD, batch, PointEvent(9, {"x": 2})]))
    )
    assert events == [*ACCEPTED, IntervalEvent(6, 7, {"x": 1}), IntervalEvent(9, 10, {"x": 2})]
    assert errors == []


# Times ------------------------------------------------------------------------------------------


def test_a_naive_datetime_makes_no_event() -> None:
    """The constructor refuses it, on the line that made the event."""
    with pytest.raises(
        EventError, match=r"naive datetime 2026-01-01T00:00:00 .*Hint: give it a ti"
    ):
        PointEvent(datetime(2026, 1, 1), 1)


def test_a_naive_column_makes_no_stream() -> None:
    """A frame's column of naive datetimes is refused by name when the stream is made."""
    frame = pl.DataFrame({"t": [datetime(2026, 1, 1)]})
    with pytest.raises(
        EventError, match=r"column 't' holds naive datetimes.*Hint: .*replace_time_z"
    ):
        rxt.from_polars(frame, start="t")


def test_a_naive_datetime_does_not_become_an_instant_in_a_payload() -> None:
    """A field of instants takes no naive datetime, which would be read as one in UTC."""
    events = [PointEvent(1, datetime(2026, 1, 1))]
    _, errors = collect(rxt.from_events(events, schema={"payload": datetime}))
    assert "'payload' is Datetime(time_unit='us', time_zone='UTC') and cannot hold" in str(
        errors[0]
    )


@pytest.mark.parametrize("make", [IntervalEvent, EdgeEvent.create_end])
def test_an_end_before_its_start_makes_no_event(make: Any) -> None:
    """The constructor refuses it with both times."""
    with pytest.raises(EventError, match=r"ends after it starts, got start 5 and end 3\. Hint"):
        make(5, 3, 1)


def test_a_row_of_a_frame_that_ends_before_it_starts_is_an_error() -> None:
    """The batches before it come out, and on_error names the row's lifetime and payload."""
    frame = pl.DataFrame({"s": [1, 2, 5], "e": [2, 4, 3], "x": [1, 2, 3]})
    stream = rxt.from_polars(frame, start="s", end="e", batch_rows=2)
    events, errors = collect(stream, shape=rxt.EventShape.POINT)
    assert [event.payload["x"] for event in events] == [1, 2]
    assert re.search(r"ends before it starts: .*\{'x': 3\}", str(errors[0]))


def test_a_null_start_is_an_error() -> None:
    """A row without a start is refused with the column's name and how to leave such rows out."""
    frame = pl.DataFrame({"t": [1, None], "x": [1, 2]})
    with pytest.raises(EventError, match=r"column 't' is null in row 1.*Hint: filter with"):
        rxt.from_polars(frame, start="t").to_polars()


# Sources ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [rxt.read_csv, rxt.read_parquet, rxt.read_json])
def test_a_missing_file_is_an_error_when_the_stream_is_made(read: Any, tmp_path: Path) -> None:
    """The path is named before any query is built on it."""
    path = tmp_path / "nothing.here"
    with pytest.raises(
        SourceError, match=rf"there is no file {re.escape(str(path))}\. Hint: check"
    ):
        read(path, start="t")


@pytest.mark.parametrize(("start", "end"), [("when", None), ("t", "until")])
def test_a_missing_column_is_an_error_when_the_stream_is_made(
    start: str, end: str | None, tmp_path: Path
) -> None:
    """The column is named with those that there are, for frames and for files."""
    path = tmp_path / "a.csv"
    FRAME.write_csv(path)
    for make in (lambda **at: rxt.from_polars(FRAME, **at), lambda **at: rxt.read_csv(path, **at)):
        with pytest.raises(SchemaError, match=f"has no column '{end or start}'; it has t, x, s"):
            make(start=start, end=end)


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        (pl.struct("x", "s"), r"'nested' has type Struct.*Hint: .*flatten them"),
        (
            pl.concat_list("x", "x"),
            r"'nested' has type List\(Int64\).*Hint: .*lists exist only",
        ),
        (pl.col("x").cast(pl.UInt64), r"'nested' has type UInt64.*Hint: Spark has no UInt64; cast"),
    ],
)
def test_a_column_that_no_payload_can_carry_is_an_error_when_the_stream_is_made(
    nested: pl.Expr, message: str
) -> None:
    """A nested column is refused by name, with what to do."""
    with pytest.raises(SchemaError, match=message):
        rxt.from_polars(FRAME.with_columns(nested=nested), start="t")


@both_subjects
@pytest.mark.parametrize("shape", ["point", "interval", "edge"])
def test_a_negative_delay_is_an_error_when_the_subject_is_made(kind: Any, shape: str) -> None:
    """The delay is named, with the operator that does what was meant."""
    with pytest.raises(
        ArgumentError, match=r"delay must not be negative, got -5\. Hint: .*shift_ev"
    ):
        getattr(kind, f"create_{shape}")(-5)


# Nobody is left without a word ----------------------------------------------------------------


def test_an_error_nobody_handles_is_raised_where_the_source_is_read() -> None:
    """``subscribe(print)`` on a query that fails raises, and does not end in silence."""
    failing = rxt.from_events([PointEvent(5, 1), Cti(9), PointEvent(2, 1)])
    seen: list[Any] = []
    with pytest.raises(rxt.CtiViolationError, match="breaks CTI"):
        failing.subscribe(seen.append)
    assert [event.start for event in seen] == [5]


def test_a_bad_row_of_a_frame_is_counted_from_where_its_batch_begins() -> None:
    """The message names the frame and the row from which the row's number counts."""
    frame = pl.DataFrame({"start": [1, 2, 3, 4], "end": [2, 3, 4, 1]})
    query = rxt.from_polars(frame, start="start", end="end", batch_rows=2, name="flights")
    with pytest.raises(rxt.EventError, match=r"row 1 ends.*of flights, counted from its row 2"):
        query.to_polars()
