"""The ways in and the ways out: sources, schemas, shapes, forms of time."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
import reactivex
from reactivex import operators as rx
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, EventShape, IntervalEvent, PointEvent, agg
from rxtemporal.core.events import Event
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, EventError, SchemaError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
start, end = EdgeEvent.create_start, EdgeEvent.create_end
INTERVAL, EDGE, POINT = EventShape.INTERVAL, EventShape.EDGE, EventShape.POINT

ROWS = [IntervalEvent(1, 4, 10), IntervalEvent(2, 3, 20)]
FRAME = pl.DataFrame({"s": [2, 1], "e": [3, 4], "payload": [20, 10]})


@dataclasses.dataclass(frozen=True)
class Reading:
    """A payload as a dataclass."""

    room: str
    temp: float


class Pair(NamedTuple):
    """A payload as a NamedTuple."""

    room: str
    temp: float


def heard(stream: rxt.Streamable, **options: Any) -> list[Any]:
    """What a subscriber hears: events, then ``None`` for the end or the error."""
    out: list[Any] = []
    stream.subscribe(out.append, out.append, lambda: out.append(None), **options)
    return out


def pushed(events: list[Any], complete: bool = True, **options: Any) -> list[Any]:
    """What a subscriber hears of events pushed through a plain subject."""
    subject: Subject[Any] = Subject()
    out: list[Any] = []
    stream = rxt.from_observable(subject, **options)
    stream.subscribe(out.append, out.append, lambda: out.append(None), ctis=True)
    for event in events:
        subject.on_next(event)
    if complete:
        subject.on_completed()
    return out


# Ways in ----------------------------------------------------------------------------------------


def test_each_way_in_gives_the_same_stream(tmp_path: Path) -> None:
    """Events, an observable, batches, a frame, an Arrow table and three kinds of files agree."""
    pytest.importorskip("pyarrow")
    paths = [tmp_path / name for name in ("a.parquet", "a.csv", "a.json")]
    FRAME.write_parquet(paths[0])
    FRAME.write_csv(paths[1])
    FRAME.write_ndjson(paths[2])
    times = {"start": "s", "end": "e"}
    streams = [
        rxt.from_events(ROWS),
        rxt.from_events(iter(ROWS)),
        rxt.from_polars(FRAME, **times),
        rxt.from_polars(FRAME, **times, batch_rows=1),
        rxt.from_arrow(FRAME.to_arrow(), **times),
        rxt.read_parquet(paths[0], **times),
        rxt.read_csv(str(paths[1]), **times, unit="ticks", batch_rows=1),
        rxt.read_json(paths[2], **times, unit="ticks"),
    ]
    assert [stream.to_events() for stream in streams] == [ROWS] * len(streams)
    batch = EventBatch.from_polars(FRAME, start="s", end="e")
    for observable in (reactivex.from_iterable(ROWS), reactivex.of(batch)):
        assert heard(rxt.from_observable(observable)) == [*ROWS, None]


@pytest.mark.parametrize(
    "payload", [{"room": "hall", "temp": 20.0}, Reading("hall", 20.0), Pair("hall", 20.0)]
)
def test_records_of_each_kind_leave_as_dicts(payload: Any) -> None:
    """A dict, a dataclass and a NamedTuple are the same record on the way out."""
    stream = rxt.from_events([PointEvent(1, payload)])
    assert stream.to_events(POINT) == [PointEvent(1, {"room": "hall", "temp": 20.0})]
    assert stream.schema == pl.Schema({"room": pl.String, "temp": pl.Float64})


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([20, 20.5, None], pl.Float64),
        ([None, 20.5, 20], pl.Float64),
        ([20, None], pl.Int64),
        ([True, False], pl.Boolean),
        ([None, None], None),
        ([1, "x"], pl.Int64),  # the run names the event that does not fit
        ([20] * 1_000 + [20.5], pl.Int64),
    ],
)
def test_the_events_of_a_list_give_its_fields(values: list[Any], dtype: Any) -> None:
    """The first thousand events are looked at when the stream is made; a field of nulls waits."""
    stream = rxt.from_events([rxt.Cti(0), *(PointEvent(1, {"x": each}) for each in values)])
    assert stream.schema == (None if dtype is None else pl.Schema({"x": dtype}))


def test_integers_beside_floats_in_a_list_are_floats() -> None:
    """The first value of a field does not decide alone."""
    events = [PointEvent(1, {"x": 20}), PointEvent(2, {"x": 20.5})]
    assert rxt.from_events(events).to_polars()["x"].to_list() == [20.0, 20.5]


@pytest.mark.parametrize("schema", [{"room": str, "temp": float}, Reading, Pair])
def test_a_schema_may_be_given_in_three_ways(schema: Any) -> None:
    """With a schema the fields are known, and checked, before any event."""
    stream = rxt.from_events([], schema=schema)
    assert stream.schema == pl.Schema({"room": pl.String, "temp": pl.Float64})
    assert stream.to_polars().columns == ["start_time", "end_time", "room", "temp"]
    with pytest.raises(SchemaError, match="nothing"):
        stream.where(pl.col("nothing") > 0)


def test_a_bare_scalar_leaves_as_it_came() -> None:
    """A number is the field ``payload`` inside and a number again outside."""
    stream = rxt.from_events(ROWS)
    assert stream.where(pl.col("payload") > 10).to_events() == [IntervalEvent(2, 3, 20)]
    assert stream.to_polars().columns == ["start_time", "end_time", "payload"]


def test_edges_of_any_dataclass_find_each_other() -> None:
    """An end edge names its row by equal content, also where a payload has no hash."""
    unhashable = dataclasses.make_dataclass("Unhashable", [("x", float)])
    events = [start(1, unhashable(0.5)), end(1, 5, unhashable(0.5))]
    assert rxt.from_events(events).to_events() == [IntervalEvent(1, 5, {"x": 0.5})]


def test_the_start_edges_verdict_is_the_one_that_counts() -> None:
    """An end edge whose payload is equal as a key, but not to a predicate, still ends its row."""
    events = [
        start(1, {"x": 0.0}),
        end(1, 5, {"x": -0.0}),
        start(2, {"x": 1.0}),
        end(2, 4, {"x": 1}),
    ]
    positive = rxt.from_events(events).where(1 / pl.col("x") > 0)
    assert positive.to_events() == [
        IntervalEvent(1, 5, {"x": 0.0}),
        IntervalEvent(2, 4, {"x": 1.0}),
    ]


def test_an_end_edge_at_the_end_of_time_leaves_its_row_endless() -> None:
    """A row that is said to end never is one row that never ends."""
    events = [start(1, "a"), end(1, MAX_TIME, "a")]
    assert rxt.from_events(events).to_events() == [IntervalEvent(1, MAX_TIME, "a")]
    counted = rxt.from_events(events).snapshot_window().aggregate(n=agg.count())
    assert counted.to_events() == [IntervalEvent(1, MAX_TIME, {"n": 1})]


def test_an_end_edge_after_the_end_of_time_changes_nothing() -> None:
    """Under a policy an end that comes after CTI MAX_TIME is too late to end its row."""
    drop = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1_000, 0), policy=rxt.AdvanceTimePolicy.DROP
    )
    events = [start(1, "a"), Cti(MAX_TIME), end(1, 5, "a")]
    for source in (events, iter(events)):
        stream = rxt.from_events(source, advance_time=drop)
        assert stream.to_events() == [IntervalEvent(1, MAX_TIME, "a")]


def test_a_stream_may_have_no_events() -> None:
    """A query over nothing gives nothing, its fields known or not, and then time ends."""
    query = rxt.from_events([]).where(pl.col("x") > 1).group_by("k").snapshot_window()
    counted = query.aggregate(n=agg.count())
    assert counted.to_events(ctis=True) == [Cti(MAX_TIME)]
    assert counted.to_polars().height == 0
    assert pushed([]) == [Cti(MAX_TIME), None]


def test_a_stream_may_have_no_fields() -> None:
    """Rows that are nothing but times can be counted, filtered, and given fields."""
    times = pl.DataFrame({"t": [1, 2]})
    for stream in (
        rxt.from_polars(times, start="t"),
        rxt.from_events([PointEvent(1, {}), PointEvent(2, {})]),
        rxt.from_events([PointEvent(1, {"x": 1}), PointEvent(2, {"x": 1})]).drop("x"),
    ):
        assert stream.to_events(POINT) == [PointEvent(1, {}), PointEvent(2, {})]
        assert stream.select(x=7).to_events(POINT) == [
            PointEvent(1, {"x": 7}),
            PointEvent(2, {"x": 7}),
        ]
        assert stream.where(pl.lit(False)).to_events() == []
        ones = stream.snapshot_window().aggregate(n=agg.count())
        assert ones.to_polars(time="ticks").rows() == [(1, 2, 1), (2, 3, 1)]


def test_every_run_begins_anew() -> None:
    """Two requests for results are two runs over the same events."""
    stream = rxt.from_events(ROWS)
    assert stream.to_events() == stream.to_events() == ROWS
    assert stream.to_polars().equals(stream.to_polars())


def test_a_stream_of_batches_may_bring_time_alone() -> None:
    """A batch without rows advances the stream it comes on."""
    schema = {"x": pl.Int64}
    batches = [
        EventBatch.from_dicts([{"start_time": 1, "end_time": 3, "x": 1}], cti=2),
        EventBatch.empty(schema, 7),
    ]
    assert pushed(batches, complete=False) == [IntervalEvent(1, 3, {"x": 1}), Cti(2), Cti(7)]


def test_an_observable_is_answered_at_every_cti() -> None:
    """What is final comes at once, and nothing before; batch_rows lets rows gather."""
    events = [PointEvent(1, "a"), Cti(1), Cti(2), PointEvent(2, "b"), PointEvent(5, "c"), Cti(4)]
    answered = [Cti(1), PointEvent(1, "a"), Cti(2), PointEvent(2, "b"), Cti(4)]
    as_intervals = [
        IntervalEvent(e.start, e.end, e.payload) if isinstance(e, PointEvent) else e
        for e in answered
    ]
    assert pushed(events, complete=False) == as_intervals
    assert pushed(events[:3], complete=False, batch_rows=2) == []
    # the third row sends on what the CTIs so far have made final
    gathered = pushed(events, complete=False, batch_rows=3)
    assert gathered == [e for e in as_intervals if e != Cti(1)]


def test_an_iterator_is_read_no_further_than_it_is_followed() -> None:
    """A subscriber that has enough stops the reading, of an endless iterator too."""
    read: list[int] = []

    def endless() -> Iterator[Event]:
        while True:
            read.append(len(read))
            yield PointEvent(len(read), "a")
            yield Cti(len(read) + 1)

    got: list[Any] = []
    rxt.from_events(endless()).to_observable(ctis=False).pipe(rx.take(2)).subscribe(got.append)
    assert got == [IntervalEvent(1, 2, "a"), IntervalEvent(2, 3, "a")]
    assert len(read) == 2


def test_a_disposed_subscription_hears_nothing_more() -> None:
    """After dispose what the observable pushes goes nowhere."""
    subject: Subject[Any] = Subject()
    got: list[Any] = []
    subscription = rxt.from_observable(subject).subscribe(got.append)
    subject.on_next(PointEvent(1, "a"))
    subject.on_next(Cti(5))
    subscription.dispose()
    subject.on_next(PointEvent(6, "b"))
    subject.on_completed()
    assert got == [IntervalEvent(1, 2, "a")]
    assert not subject.observers


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rxt.from_events(5), "from_events takes an iterable of events, got 5"),  # type: ignore[arg-type]
        (lambda: rxt.from_observable([]), r"from_observable takes an observable, got \[\]"),  # type: ignore[arg-type]
        (lambda: rxt.from_polars([1], start="t"), "takes a polars DataFrame, got list"),  # type: ignore[arg-type]
        (lambda: rxt.from_polars(FRAME, start="s", batch_rows=0), "batch_rows must be positive"),
        (lambda: rxt.from_observable(Subject(), batch_rows=0), "batch_rows must be positive"),
        (lambda: rxt.from_observable(Subject(), batch_rows="9"), "must be positive, got '9'"),  # type: ignore[arg-type]
        (lambda: rxt.from_events([], advance_time=0.5), "advance_time is an AdvanceTimeSettings"),  # type: ignore[arg-type]
        (lambda: rxt.from_events([]).to_observable("edge"), "shape is an EventShape, got 'edge'"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_argument_is_refused_at_once(make: Any, message: str) -> None:
    """Nothing has to run for a wrong argument to be named."""
    with pytest.raises(ArgumentError, match=message):
        make()


def test_an_observable_is_waited_for_until_it_completes() -> None:
    """to_polars, to_events and to_batches give what it pushed, from whatever thread."""
    points = [PointEvent(1, "a"), PointEvent(2, "b")]
    cold = rxt.from_observable(reactivex.from_iterable(points))
    assert cold.to_events(POINT) == points
    assert [len(batch) for batch in cold.to_batches()] == [2]
    hot: Subject[Any] = Subject()

    def push() -> None:
        while not hot.observers:
            time.sleep(0.001)
        for point in points:
            hot.on_next(point)
        hot.on_completed()

    thread = threading.Thread(target=push)
    thread.start()
    assert rxt.from_observable(hot).to_polars()["payload"].to_list() == ["a", "b"]
    thread.join()


def test_an_observable_that_fails_is_raised() -> None:
    """What an observable fails with is raised, after what it had given."""
    failing = rxt.from_observable(
        reactivex.from_iterable([PointEvent(1, "a"), Cti(5)]).pipe(
            rx.concat(reactivex.throw(KeyError("gone")))
        )
    )
    taken = []
    with pytest.raises(KeyError, match="gone"):
        taken.extend(failing.to_batches())
    with pytest.raises(KeyError, match="gone"):
        failing.to_polars()


# Ways out ---------------------------------------------------------------------------------------


MIXED: list[Any] = [
    start(1, "a"),
    PointEvent(2, "b"),
    Cti(4),
    IntervalEvent(4, 7, "c"),
    Cti(6),
    end(1, 8, "a"),
    Cti(9),
]

SHAPES: list[tuple[EventShape, list[Any]]] = [
    (
        INTERVAL,
        # the CTI is held at 1, where the open row starts, until its end is known
        [
            Cti(1),
            IntervalEvent(1, 8, "a"),
            IntervalEvent(2, 3, "b"),
            IntervalEvent(4, 7, "c"),
            Cti(9),
        ],
    ),
    (
        EDGE,
        [
            start(1, "a"),
            start(2, "b"),
            end(2, 3, "b"),
            Cti(4),
            start(4, "c"),
            end(4, 7, "c"),
            Cti(6),
            end(1, 8, "a"),
            Cti(9),
        ],
    ),
    (
        POINT,
        [PointEvent(1, "a"), PointEvent(2, "b"), Cti(4), PointEvent(4, "c"), Cti(6), Cti(9)],
    ),
]


@pytest.mark.parametrize(("shape", "out"), SHAPES)
def test_a_stream_leaves_in_the_shape_asked_for(shape: EventShape, out: list[Any]) -> None:
    """Intervals wait for their ends and hold the CTI; edges and points come as they begin."""
    subject: Subject[Any] = Subject()
    got: list[Any] = []
    rxt.from_observable(subject).subscribe(got.append, shape=shape, ctis=True)
    for event in MIXED:
        subject.on_next(event)
    assert got == out
    assert rxt.from_events(iter(MIXED)).to_events(shape, ctis=True) == [*out, Cti(MAX_TIME)]


def test_intervals_leave_in_order_of_start() -> None:
    """Rows come sorted by start, however they arrived."""
    events = [IntervalEvent(5, 9, "b"), IntervalEvent(1, 20, "a"), IntervalEvent(3, 4, "c")]
    assert [e.start for e in rxt.from_events(events).to_events()] == [1, 3, 5]
    assert rxt.from_events(events).to_polars()["start_time"].to_list() == [1, 3, 5]


def test_rows_that_never_end_leave_at_the_end_of_time() -> None:
    """As an interval an endless row ends at MAX_TIME, in a frame its end is null."""
    for event in (start(1, "a"), IntervalEvent(1, MAX_TIME, "a")):
        stream = rxt.from_events([event])
        assert stream.to_events(ctis=True) == [IntervalEvent(1, MAX_TIME, "a"), Cti(MAX_TIME)]
        assert stream.to_events(EDGE) == [start(1, "a")]
        assert stream.to_polars().rows() == [(1, None, "a")]


def test_what_is_not_final_does_not_leave() -> None:
    """Where settings say that time stops with the source, rows at or after its CTI stay inside."""
    kept = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 0, advance_to_infinity_on_shutdown=False),
        policy=rxt.AdvanceTimePolicy.DROP,
    )
    events = [PointEvent(1, "a"), PointEvent(5, "b")]
    got = rxt.from_events(events, advance_time=kept).to_events(ctis=True)
    assert got == [IntervalEvent(1, 2, "a"), Cti(5)]


def test_times_leave_as_they_came() -> None:
    """Datetimes in give datetimes in UTC out, ticks give ticks, unless something else is asked."""
    zone = timezone(timedelta(hours=2))
    aware = rxt.from_events([PointEvent(NOON.astimezone(zone), "a")])
    [event] = aware.to_events()
    assert (event.start_time, event.start_time.tzinfo) == (NOON, UTC)
    assert aware.to_polars().schema["start_time"] == pl.Datetime("us", "UTC")
    assert aware.to_polars(time="ticks")["start_time"].to_list() == [1_767_268_800_000_000]
    plain = rxt.from_events(ROWS)
    assert plain.to_polars().schema["start_time"] == pl.Int64
    assert plain.to_events(time="datetime")[0].start_time == rxt.to_datetime(1)
    assert rxt.from_polars(FRAME, start="s").to_events()[0].start_time == 1


def test_a_cti_that_comes_first_shows_the_form_of_time() -> None:
    """Where no event has come yet, time is written as the first CTI gave it."""
    for first in (5, NOON):
        subject: Subject[Any] = Subject()
        got: list[Any] = []
        stream = rxt.from_observable(subject, schema={"payload": pl.String})
        stream.subscribe(got.append, ctis=True)
        subject.on_next(Cti(first))
        assert [type(cti.start_time) for cti in got] == [type(first)]


def test_batches_come_as_they_become_known() -> None:
    """to_batches yields the stream's own form, edges included, or the shape asked for."""
    batches = list(rxt.from_events(iter(MIXED)).to_batches())
    assert [batch.cti for batch in batches] == [4, 6, 9, MAX_TIME]
    assert [len(batch) for batch in batches] == [2, 1, 1, 0]
    assert batches[0].edge.tolist() == [1, 0]
    shaped = list(rxt.from_events(iter(MIXED)).to_batches(INTERVAL))
    assert [batch.cti for batch in shaped] == [1, 9, MAX_TIME]


def test_an_observable_of_a_query_is_one_run_for_each_subscriber() -> None:
    """Two subscribers hear the same, each from the beginning, CTIs included."""
    observable = rxt.from_events(ROWS).to_observable()
    heard_by: list[list[Any]] = [[], []]
    for each in heard_by:
        observable.subscribe(each.append)
    assert heard_by == [[*ROWS, Cti(MAX_TIME)]] * 2


def test_queries_can_be_joined_by_rx_operators() -> None:
    """What leaves is an observable like any other."""
    got: list[Any] = []
    one, two = (rxt.from_events([row]).to_observable(ctis=False) for row in ROWS)
    reactivex.concat(one, two).subscribe(got.append)
    assert got == ROWS


def test_a_frame_without_ctis_is_final_at_its_end_only() -> None:
    """Without settings a bounded source promises nothing before it has ended."""
    batches = list(rxt.from_polars(FRAME, start="s", batch_rows=1).to_batches())
    assert [batch.cti for batch in batches] == [MIN_TIME, MIN_TIME, MAX_TIME]


def test_a_frame_that_is_converted_whole_is_read_in_small_batches() -> None:
    """All batches but the last have ``batch_rows`` rows, and a null start is told as its row."""
    times = pl.DataFrame({"s": range(140_000)})
    sizes = [len(batch) for batch in rxt.from_polars(times, start="s", batch_rows=999).to_batches()]
    assert sizes == [999] * 140 + [140, 0]
    frame = pl.DataFrame({"s": [1, 2, 3, 4, 5, None, 7]})
    each = rxt.AdvanceTimeGenerationSettings(1, 0)
    settings = rxt.AdvanceTimeSettings(each, policy=rxt.AdvanceTimePolicy.DROP)
    got: list[EventBatch] = []
    process = rxt.from_polars(frame, start="s", batch_rows=2, advance_time=settings).run(got.append)
    with pytest.raises(EventError, match=r"null in row 1, .* counted from its row 4"):
        process.wait()
    assert [start for batch in got for start in batch.start.tolist()] == [1, 2, 3]
