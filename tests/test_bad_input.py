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
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, PointEvent, agg
from rxtemporal.errors import (
    ArgumentError,
    CtiViolationError,
    EventError,
    RxTemporalError,
    SchemaError,
    SourceError,
)
from rxtemporal.events import Event

FRAME = pl.DataFrame({"t": [1, 2, 3], "x": [1, 2, 3], "s": ["a", "b", "c"]})
BOTH_SUBJECTS = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)
both_subjects = pytest.mark.parametrize("kind", BOTH_SUBJECTS)

# two rows that are final, one that is not, and then something bad
GOOD: list[Any] = [
    PointEvent(1, {"x": 1}),
    PointEvent(2, {"x": 2}),
    Cti(5),
    PointEvent(6, {"x": 6}),
]
FINAL = [IntervalEvent(1, 2, {"x": 1}), IntervalEvent(2, 3, {"x": 2})]
ACCEPTED = [*FINAL, IntervalEvent(6, 7, {"x": 6})]


def listed(events: list[Any], **options: Any) -> rxt.Streamable:
    """A stream of a list."""
    return rxt.from_events(events, **options)


def iterated(events: list[Any], **options: Any) -> rxt.Streamable:
    """A stream of an iterator."""
    return rxt.from_events(iter(events), **options)


def followed(events: list[Any], **options: Any) -> rxt.Streamable:
    """A stream of an observable that pushes as soon as somebody listens."""
    return rxt.from_observable(_Pushing(events), **options)


def gathered(events: list[Any], **options: Any) -> rxt.Streamable:
    """The same, with rows that gather into batches."""
    return followed(events, batch_rows=100, **options)


class _Pushing(Subject[Any]):
    """An observable whose events are pushed by a producer that nothing may reach."""

    def __init__(self, events: list[Any]) -> None:
        super().__init__()
        self._events = events

    def subscribe(self, *arguments: Any, **options: Any) -> Any:
        """Subscribe, then push."""
        subscription = super().subscribe(*arguments, **options)
        for event in self._events:
            self.on_next(event)
        self.on_completed()
        return subscription


ways_in = pytest.mark.parametrize("stream_of", [listed, iterated, followed, gathered])


def heard(stream: rxt.Streamable, **options: Any) -> tuple[list[Any], list[Any]]:
    """The events and the errors that a subscriber hears."""
    events: list[Any] = []
    errors: list[Any] = []
    completed: list[None] = []
    stream.subscribe(events.append, errors.append, lambda: completed.append(None), **options)
    assert bool(errors) != bool(completed)
    return events, errors


def here(line: int) -> str:
    """This file and a line of it, as errors give the place that composed an operator."""
    return re.escape(f"{__file__}:{line}")


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
        r"'x' is Int64 and cannot hold '7' \(str\)\. Hint: a field keeps its type; convert it",
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
        r"PointEvent\(4, \{'x': 4\}\) of stream '.*' breaks CTI 1970-.*05Z by 1 ticks\. Hint: adv",
    ),
    "a CTI that goes back": (
        [Cti(3)],
        CtiViolationError,
        r"Cti\(3\) of stream '.*' goes back from CTI 1970-.*05Z\. Hint: give the stream advance_",
    ),
    "something that is no event": (
        ["hello"],
        EventError,
        "takes PointEvent, IntervalEvent, EdgeEvent and Cti, got 'hello'",
    ),
}


@pytest.mark.parametrize(("bad", "error", "message"), BAD_EVENTS.values(), ids=BAD_EVENTS)
@ways_in
def test_a_bad_event_is_one_error_after_what_came_before_it(
    stream_of: Callable[..., rxt.Streamable],
    bad: list[Any],
    error: type[RxTemporalError],
    message: str,
) -> None:
    """What was final comes out, then on_error tells of the event; what follows is not taken."""
    after = [PointEvent(8, {"x": 8}), Cti(20)]
    events, errors = heard(stream_of([*GOOD, *bad, *after]))
    assert events == FINAL
    assert [type(each) for each in errors] == [errors[0].__class__]
    assert isinstance(errors[0], error)
    assert re.search(message, str(errors[0]), re.DOTALL)


@pytest.mark.parametrize("bad", [each[0] for each in BAD_EVENTS.values()], ids=BAD_EVENTS)
@ways_in
def test_all_that_was_accepted_comes_out_as_it_begins(
    stream_of: Callable[..., rxt.Streamable], bad: list[Any]
) -> None:
    """In point shape, where nothing waits to be final, every row before the bad event comes out."""
    events, errors = heard(stream_of([*GOOD, *bad]), shape=rxt.EventShape.POINT)
    assert events == [PointEvent(row.start, row.payload) for row in ACCEPTED]
    assert len(errors) == 1


@ways_in
def test_the_first_of_two_errors_is_told(stream_of: Callable[..., rxt.Streamable]) -> None:
    """A payload that does not fit is not hidden by a late event that comes after it."""
    bad = [PointEvent(7, {"x": "seven"}), PointEvent(3, {"x": 3})]
    events, errors = heard(stream_of([*GOOD, *bad]))
    assert events == FINAL
    assert "cannot hold 'seven'" in str(errors[0])


@ways_in
def test_the_first_event_may_be_the_bad_one(stream_of: Callable[..., rxt.Streamable]) -> None:
    """A stream that begins with a payload that is no record says which field is wrong."""
    events, errors = heard(stream_of([PointEvent(1, {"x": 1, "y": {"z": 2}}), Cti(5)]))
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
    events, errors = heard(stream)
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
    for out, failed in (heard(rxt.from_events(broken())), (events, errors)):
        assert out == FINAL
        assert repr(failed) == "[ConnectionError('gone')]"


def test_an_error_before_the_first_event_is_not_mistaken_for_another() -> None:
    """A source that fails before its fields are known gives its own error, whatever the query."""

    def broken() -> Iterator[Event]:
        yield Cti(5)
        raise ConnectionError("gone")

    stream = rxt.from_events(broken()).where(pl.col("x") > 1).group_by("k").snapshot_window()
    assert repr(heard(stream.aggregate(n=agg.count()))[1]) == "[ConnectionError('gone')]"


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
    events, errors = heard(rxt.from_observable(_Pushing([first, second])))
    assert events == [IntervalEvent(1, 2, {"x": 1})]
    assert [type(each) for each in errors] == [error]
    assert re.search(message, str(errors[0]))


def test_a_stream_is_not_of_events_and_batches() -> None:
    """A batch among events that still wait is refused, and the events come out."""
    batch = EventBatch.from_dicts([{"start_time": 6, "x": 1}], cti=9)
    events, errors = heard(rxt.from_observable(_Pushing([*GOOD, batch])))
    assert events == FINAL
    assert "either of events or of batches" in str(errors[0])


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
    _, errors = heard(rxt.from_events(events, schema={"payload": datetime}))
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
    events, errors = heard(stream, shape=rxt.EventShape.POINT)
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


def test_a_column_that_no_payload_can_carry_is_an_error_when_the_stream_is_made() -> None:
    """A nested column is refused by name, with what to do."""
    frame = FRAME.with_columns(nested=pl.concat_list("x", "x"))
    with pytest.raises(SchemaError, match=r"'nested' has type List\(Int64\).*Hint: .*flatten them"):
        rxt.from_polars(frame, start="t")


@both_subjects
@pytest.mark.parametrize("shape", ["point", "interval", "edge"])
def test_a_negative_delay_is_an_error_when_the_subject_is_made(kind: Any, shape: str) -> None:
    """The delay is named, with the operator that does what was meant."""
    with pytest.raises(
        ArgumentError, match=r"delay must not be negative, got -5\. Hint: .*shift_ev"
    ):
        getattr(kind, f"create_{shape}")(-5)


# Queries ----------------------------------------------------------------------------------------

BAD_QUERIES: dict[str, tuple[Callable[[rxt.Streamable], Any], str, str]] = {
    "where: unknown field": (
        lambda s: s.where(pl.col("z") > 1),
        "where",
        r'column "z".*there are x: Int64, s: String',
    ),
    "where: not boolean": (
        lambda s: s.where(pl.col("x")),
        "where",
        r'takes a predicate, got col\("x"\) of type Int64',
    ),
    "where: several results": (
        lambda s: s.where(pl.all().is_null()),
        "where",
        "one result.*gives 2",
    ),
    "select: unknown field": (lambda s: s.select("z"), "select", 'column "z".*there are x: Int64'),
    "select: two of one name": (
        lambda s: s.select("x", x=pl.col("s")),
        "select",
        "duplicate output name 'x'",
    ),
    "select: nested result": (
        lambda s: s.select(y=pl.concat_list("x", "x")),
        "select",
        r"field 'y' has type List\(Int64\)",
    ),
    "select: a key": (
        lambda s: s.group_by("s").select(s=pl.col("x")),
        "select",
        "'s' is a group key and cannot be changed. Hint",
    ),
    "with_columns: unknown field": (
        lambda s: s.with_columns(y=pl.col("z") + 1),
        "with_columns",
        'column "z"',
    ),
    "drop: unknown field": (lambda s: s.drop("z"), "drop", r"no field 'z'; there are \['x', 's'\]"),
    "drop: a key": (lambda s: s.group_by("s").drop("s"), "drop", "'s' is a group key"),
    "group_by: unknown field": (
        lambda s: s.group_by("z"),
        "group_by",
        r"no field 'z'; there are \['x', 's'\]",
    ),
    "group_by: twice": (
        lambda s: s.group_by("s").group_by("x"),
        "group_by",
        r"grouped already, by \['s'\]",
    ),
    "aggregate: unknown field": (
        lambda s: s.snapshot_window().aggregate(n=agg.sum("z")),
        "aggregate",
        'column "z".*there are x: Int64',
    ),
    "aggregate: name of a key": (
        lambda s: s.group_by("s").hopping_window2(2, 1).aggregate(s=agg.count()),
        "aggregate",
        "aggregate 's' has the name of a group key",
    ),
    "aggregate: sum of strings": (
        lambda s: s.snapshot_window().aggregate(n=agg.sum("s")),
        "aggregate",
        r"sum\(.*\) of type String is not defined. Hint",
    ),
}


@pytest.mark.parametrize(("compose", "operator", "message"), BAD_QUERIES.values(), ids=BAD_QUERIES)
def test_a_query_that_does_not_fit_is_an_error_where_it_is_composed(
    compose: Callable[[rxt.Streamable], Any], operator: str, message: str
) -> None:
    """The message names operator, field, what there is, and the file and line that composed it."""
    place = rf"\(in .*{operator}, composed at {re.escape(__file__)}:\d+\)$"
    with pytest.raises(SchemaError, match=rf"(?s){message}.*{place}"):
        compose(rxt.from_polars(FRAME, start="t"))


@pytest.mark.parametrize(("compose", "operator", "message"), BAD_QUERIES.values(), ids=BAD_QUERIES)
@ways_in
def test_a_query_over_unknown_fields_is_checked_at_the_first_event(
    stream_of: Callable[..., rxt.Streamable],
    compose: Callable[[rxt.Streamable], Any],
    operator: str,
    message: str,
) -> None:
    """Where a source has no schema the same error, with the same line, goes to on_error, once."""
    events = [PointEvent(1, {"x": 1, "s": "a"}), Cti(2), PointEvent(3, {"x": 1, "s": "a"})]
    out, errors = heard(compose(stream_of(events)))
    assert out == []
    [error] = errors
    assert isinstance(error, SchemaError)
    place = rf"\(in .*{operator}, composed at {re.escape(__file__)}:\d+\)$"
    assert re.search(rf"(?s){message}.*{place}", str(error))


def test_the_line_is_that_of_the_call() -> None:
    """An error's place is the very line that called the method, also from inside a function."""

    def query(stream: rxt.Streamable) -> rxt.Streamable:
        return stream.where(pl.col("z") > 1)  # this line

    line = query.__code__.co_firstlineno + 1
    with pytest.raises(SchemaError, match=here(line)):
        query(rxt.from_polars(FRAME, start="t"))


def test_a_users_own_package_beside_ours_is_named(tmp_path: Path) -> None:
    """Code whose folder begins with our package's name is a user's, not ours."""
    beside = Path(rxt.__file__).parent.with_name("rxtemporal_app") / "query.py"
    code = compile("query = stream.drop('z')", str(beside), "exec")
    with pytest.raises(SchemaError, match=re.escape(f"composed at {beside}:1")):
        exec(code, {"stream": rxt.from_polars(FRAME, start="t")})


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda s: s.where(), "where takes at least one predicate"),
        (lambda s: s.where("x"), "takes polars expressions or functions of the row, got 'x'"),
        (lambda s: s.where(True), "takes polars expressions or functions of the row, got True"),
        (lambda s: s.where(pl.col("x") > pl.col("x").mean()), r"looks at other rows \(Agg\). Hint"),
        (lambda s: s.select(), "select takes at least one field"),
        (lambda s: s.with_columns(), "with_columns takes at least one field"),
        (lambda s: s.drop(), "drop takes at least one field"),
        (lambda s: s.group_by(), "group_by takes at least one field"),
        (lambda s: s.group_by(pl.col("s")), "takes names of fields.*Hint: compute a key with"),
        (lambda s: s.group_by("s", "s"), r"names a field twice: \['s', 's'\]"),
        (lambda s: s.snapshot_window().aggregate(), "at least one name=aggregate"),
        (
            lambda s: s.snapshot_window().aggregate(n=5),
            "'n' is 5; it has to come from rxtemporal.ag",
        ),
        (lambda s: agg.sum(5), "agg.sum takes a field's name or a polars expression, got 5"),
        (lambda s: s.hopping_window2(0, 1), "duration must be positive, got 0"),
        (lambda s: s.hopping_window2(1, -1), "period must be positive, got -1"),
        (
            lambda s: s.hopping_window2(1.5, 1),
            "duration is a timedelta or an int of ticks, got 1.5",
        ),
        (lambda s: s.snap_to_window_intervals(1, 0), "period must be positive, got 0"),
    ],
)
def test_a_wrong_argument_is_an_error_where_it_is_given(compose: Any, message: str) -> None:
    """With or without known fields, the call that was given it raises at once."""
    for stream in (rxt.from_polars(FRAME, start="t"), rxt.from_events([])):
        with pytest.raises(ArgumentError, match=message):
            compose(stream)


def test_a_naive_alignment_is_an_error_where_it_is_given() -> None:
    """A window cannot be aligned with a time that names no instant."""
    with pytest.raises(EventError, match="naive datetime 2026-01-01"):
        rxt.from_polars(FRAME, start="t").hopping_window2(2, 1, datetime(2026, 1, 1))


def test_a_predicate_function_returns_a_bool() -> None:
    """Another result of a Python predicate is refused with the row it is for."""
    _, errors = heard(rxt.from_polars(FRAME, start="t").where(lambda row: row["x"]))
    assert "a predicate returns True, False or None, got 1 for {'x': 1, 's': 'a'}" in str(errors[0])


# One that fails hurts no other ------------------------------------------------------------------


@both_subjects
def test_a_subscriber_that_raises_hurts_no_other(kind: Any) -> None:
    """Neither the producer nor another subscriber notices; it is counted, and stays subscribed."""
    subject = kind.create_point(0)
    before: list[Any] = []
    tried: list[Any] = []
    after: list[Any] = []

    def bad(event: Any) -> None:
        tried.append(event)
        raise RuntimeError("not mine")

    subject.subscribe(before.append)
    subject.subscribe(bad)
    subject.subscribe(after.append)
    sent = [PointEvent(1, "a"), Cti(2), PointEvent(3, "b")]
    for event in sent:
        subject.on_next(event)
    assert before == tried == after == sent
    assert subject.stats().subscriber_errors == 3


@both_subjects
def test_a_query_that_fails_hurts_no_other(kind: Any) -> None:
    """Of two queries on one subject the one that fails ends, and the other goes on."""
    subject = kind.create_point(0)
    stream = rxt.from_observable(subject)
    good: list[Any] = []
    out: list[Any] = []
    errors: list[Any] = []
    stream.where(pl.col("z") > 1).subscribe(out.append, errors.append)
    stream.subscribe(good.append)
    for event in [PointEvent(1, {"x": 1}), Cti(2), PointEvent(3, {"x": 3}), Cti(4)]:
        subject.on_next(event)
    assert good == [IntervalEvent(1, 2, {"x": 1}), IntervalEvent(3, 4, {"x": 3})]
    assert (out, [type(error) for error in errors]) == ([], [SchemaError])


@both_subjects
def test_a_source_that_fails_hurts_no_other(kind: Any) -> None:
    """Its handle closes and its failure is kept; the others go on, and so does the subject."""
    subject = kind.create_point(0)
    got: list[Any] = []
    failed: list[Any] = []
    subject.subscribe(got.append, failed.append)
    one, two = subject.input("one"), subject.input("two")
    one.on_next(PointEvent(1, "a"))
    one.on_error(ConnectionError("gone"))
    two.on_next(PointEvent(2, "b"))
    two.on_next(Cti(3))
    assert (got, failed) == ([PointEvent(1, "a"), PointEvent(2, "b"), Cti(3)], [])
    assert subject.stats().sources["one"].failed == "ConnectionError('gone')"
    assert subject.stats().sources["two"].failed is None
    assert one.closed


@both_subjects
def test_a_bad_event_hurts_only_who_sent_it(kind: Any) -> None:
    """A wrong shape is refused to its sender, and others send on."""
    subject = kind.create_point(0)
    got: list[Any] = []
    subject.subscribe(got.append)
    one, two = subject.input("one"), subject.input("two")
    for bad in (IntervalEvent(1, 5, "a"), EdgeEvent.create_start(1, "a"), "hello", None):
        with pytest.raises(EventError, match="this subject takes point events and CTIs, got"):
            one.on_next(bad)
    two.on_next(PointEvent(2, "b"))
    one.on_next(PointEvent(3, "c"))
    assert got == [PointEvent(2, "b"), PointEvent(3, "c")]


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
