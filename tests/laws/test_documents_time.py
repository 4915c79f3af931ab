"""What three reference documents say of application time: their rules as tables.

*Advancing Application Time*, *Synchronizing Streams in Time* and *Dangers of time travel*; times
are small integers, and a second of the documents is one tick.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from document_events import END_OF_TIME, Cti, Interval, Point, Unsized, end, generated, start
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg

# Advancing Application Time: generation and policies ----------------------------------------------


def test_a_cti_after_every_tenth_event() -> None:
    """``AdvanceTimeGenerationSettings(10, 5 s, true)``: each lies five seconds behind its event."""
    points = [Point(second, "x") for second in range(1, 26)]
    stream = rxt.from_events(Unsized(*points), advance_time=generated(10, 5))
    assert stream.to_events(rxt.EventShape.POINT, ctis=True) == [
        *points[:10],
        Cti(5),
        *points[10:20],
        Cti(15),
        *points[20:],
        END_OF_TIME,
    ]


def test_end_edges_are_not_counted() -> None:
    """Only start edges are considered when a count says how often CTIs are made."""
    edges = [start(1, "a"), end(1, 2, "a"), start(3, "b"), end(3, 4, "b"), start(5, "c")]
    stream = rxt.from_events(Unsized(*edges), advance_time=generated(2, 0, to_infinity=False))
    assert stream.to_events(rxt.EventShape.EDGE, ctis=True) == [*edges[:3], Cti(3), *edges[3:]]


def test_start_edges_alone_count_for_a_span_too() -> None:
    """“They are also not considered when using a duration as a frequency.”

    “Only start edges are considered in the case of edge events for both frequency and duration.”
    """
    edges = [start(1, "a"), end(1, 9, "a"), start(5, "b"), end(5, 30, "b"), start(11, "c")]
    ten = generated(timedelta(microseconds=10), 0, to_infinity=False)
    stream = rxt.from_events(Unsized(*edges), advance_time=ten)
    out = stream.to_events(rxt.EventShape.EDGE, ctis=True)
    assert [event for event in out if isinstance(event, Cti)] == [Cti(1), Cti(11)]


def test_late_events_within_the_delay_violate_nothing() -> None:
    """“So that the event source can enqueue late events without violating CTI semantics.”

    “(As long as the events are never more than five seconds late.)”
    """
    points = [Point(10, "makes the CTI 5"), Point(5, "five late"), Point(4, "six late")]
    stream = rxt.from_events(Unsized(*points), advance_time=generated(1, 5))
    assert stream.to_polars(time="ticks")["payload"].to_list() == ["five late", "makes the CTI 5"]


@pytest.mark.parametrize(("to_infinity", "out"), [(True, [1, 3]), (False, [1])])
def test_the_flag_flushes_what_remains(to_infinity: bool, out: list[int]) -> None:
    """“This is used to flush all remaining events from the query's operators.”"""
    points = [Point(1, "x"), Point(3, "x")]
    stream = rxt.from_events(Unsized(*points), advance_time=generated(1, 0, to_infinity))
    assert [event.start for event in stream.to_events()] == out


LEGAL = [Point(5, "a"), Interval(5, 6, "b"), start(5, "c")]
BROKEN = [Point(4, "a"), Interval(4, 9, "b"), start(4, "c")]


@pytest.mark.parametrize("event", LEGAL)
def test_a_start_at_or_after_the_cti_keeps_the_promise(event: Any) -> None:
    """“The event's start time needs to be at or after the CTI.”"""
    assert len(rxt.from_events([Cti(5), event]).to_events()) == 1


@pytest.mark.parametrize("event", BROKEN)
def test_a_start_before_the_cti_is_a_violation(event: Any) -> None:
    """“If these rules are violated, we speak of a CTI violation.”"""
    with pytest.raises(rxt.CtiViolationError, match="breaks CTI"):
        rxt.from_events([Cti(5), event]).to_events()


def test_of_an_end_edge_the_end_counts() -> None:
    """“For events of shape Edge end: The event's end time needs to be at or after the CTI.”"""
    legal = [start(1, "a"), Cti(5), end(1, 5, "a")]
    assert [event.end for event in rxt.from_events(legal).to_events()] == [5]
    with pytest.raises(rxt.CtiViolationError, match="breaks CTI"):
        rxt.from_events([start(1, "a"), Cti(5), end(1, 4, "a")]).to_events()


LATE = [
    Interval(10, 12, "makes the CTI"),
    Point(9, "point before"),
    Interval(2, 8, "wholly before"),
    Interval(5, 15, "overlapping"),
    Interval(10, 11, "at the CTI"),
]
POLICIES = {
    "DROP": [(10, 11, "at the CTI"), (10, 12, "makes the CTI")],
    "ADJUST": [(10, 11, "at the CTI"), (10, 12, "makes the CTI"), (10, 15, "overlapping")],
}


@pytest.mark.parametrize(("policy", "kept"), POLICIES.items())
def test_violation_policies(policy: str, kept: list[Any]) -> None:
    """Drop drops what violates a CTI; Adjust lets what overlaps it start there."""
    stream = rxt.from_events(Unsized(*LATE), advance_time=generated(1, 0, policy=policy))
    assert sorted(stream.to_polars(time="ticks").rows()) == kept


# delay of the CTI that each point makes: the points that are committed when no more come
COMMITTED = {0: [1, 2], -1: [1, 2, 3]}


@pytest.mark.parametrize(("delay", "committed"), COMMITTED.items())
def test_liveliness(delay: int, committed: list[int]) -> None:
    """A CTI at a point does not commit it; one a tick later, by a negative delay, does."""
    points = [Point(second, "x") for second in (1, 2, 3)]
    stream = rxt.from_events(points, advance_time=generated(1, delay, to_infinity=False))
    counts = stream.snapshot_window().aggregate(n=agg.count())
    assert [event.start for event in counts.to_events(rxt.EventShape.POINT)] == committed


# Advancing Application Time: CTIs and query operators ---------------------------------------------

# what each operator makes of a CTI at 23
CTIS: dict[str, tuple[Callable[[rxt.Streamable], rxt.Streamable], int]] = {
    "where": (lambda s: s.where(pl.col("payload") > 0), 23),
    "snapshot window": (lambda s: s.snapshot_window().aggregate(n=agg.count()), 23),
    "tumbling window": (lambda s: s.tumbling_window(10).aggregate(n=agg.count()), 20),
    "hopping window": (lambda s: s.hopping_window(10, 5).aggregate(n=agg.count()), 15),
    "point at the window's end": (
        lambda s: s.hopping_window(10, 5, output=rxt.WindowOutput.POINT_AT_END).aggregate(
            n=agg.count()
        ),
        23,
    ),
    "shift back": (lambda s: s.shift_event_time(-5), 18),
    "shift forward": (lambda s: s.shift_event_time(7), 30),
    "alter start": (lambda s: s.alter_event_start_time(lambda t: 2 * t), 46),
    "alter lifetime": (
        lambda s: s.alter_event_lifetime(start=lambda t: t + 100, duration=1),
        123,
    ),
    "alter duration": (lambda s: s.alter_event_duration(4), 23),
}


@pytest.mark.parametrize(("query", "cti"), CTIS.values(), ids=CTIS)
def test_ctis_and_operators(query: Callable[[rxt.Streamable], rxt.Streamable], cti: int) -> None:
    """Hopping windows pull CTIs back to a window's beginning; altered starts alter CTIs as well."""
    stream = query(rxt.from_events(Unsized(Point(22, 1), Cti(23)), schema={"payload": pl.Int64}))
    out = stream.to_events(rxt.EventShape.EDGE, ctis=True)
    assert [event for event in out if isinstance(event, Cti)] == [Cti(cti), END_OF_TIME]


# Synchronizing Streams in Time --------------------------------------------------------------------


class Live:
    """A query over two live streams, and what has come out since it was last asked."""

    def __init__(self, query: Callable[[rxt.Streamable, rxt.Streamable], rxt.Streamable]) -> None:
        self.inputs = {"sensor": Subject(), "place": Subject()}
        schemas = {
            "sensor": {"id": pl.Int64, "temp": pl.Int64},
            "place": {"id": pl.Int64, "room": pl.String},
        }
        streams = [
            rxt.from_observable(subject, schema=schemas[name], name=name)
            for name, subject in self.inputs.items()
        ]
        self.seen: list[Any] = []
        query(*streams).subscribe(self.seen.append, ctis=True)

    def push(self, name: str, event: Any) -> list[Any]:
        """Push an event in; return what comes out."""
        self.seen.clear()
        self.inputs[name].on_next(event)
        return list(self.seen)


HALL = Interval(0, 100, {"id": 1, "room": "hall"})


def reading(time: int, temp: int) -> Any:
    """A measurement."""
    return Point(time, {"id": 1, "temp": temp})


def measured(time: int, temp: int) -> Any:
    """A measurement, with its place."""
    return Interval(time, time + 1, {"id": 1, "temp": temp, "room": "hall"})


def test_a_join_goes_at_the_pace_of_its_slower_input() -> None:
    """There is output only when both inputs advance time, and up to the older of their CTIs."""
    live = Live(lambda sensor, place: sensor.join(place, on="id"))
    for event in reading(5, 20), Cti(6), reading(7, 21), Cti(8), reading(9, 22), Cti(10):
        assert live.push("sensor", event) == []
    assert live.push("place", HALL) == []
    assert live.push("place", Cti(8)) == [measured(5, 20), measured(7, 21), Cti(8)]
    assert live.push("sensor", Cti(20)) == []
    assert live.push("place", Cti(15)) == [measured(9, 22), Cti(15)]


def test_a_union_advances_with_its_slower_input() -> None:
    """The output's CTI is the older of the most recent ones from either side."""
    live = Live(lambda sensor, place: sensor.select("id").union(place.select("id")))
    assert live.push("sensor", Cti(6)) == []
    assert live.push("place", Cti(4)) == [Cti(4)]
    assert live.push("place", Cti(9)) == [Cti(6)]
    assert live.push("sensor", Cti(20)) == [Cti(9)]


# Dangers of time travel ---------------------------------------------------------------------------

TIME = 100


def source() -> rxt.Streamable:
    """The document's source: one edge of ten seconds."""
    events = [
        Cti(TIME),
        start(TIME, 0),
        Cti(TIME + 10),
        end(TIME, TIME + 10, 0),
        Cti(TIME + 11),
    ]
    return rxt.from_events(
        Unsized(*events),
        schema={"payload": pl.Int64},
        advance_time=rxt.STRICTLY_INCREASING_START_TIME,
    )


def double(time: int) -> int:
    """Time at double speed."""
    return time + time


def test_the_source() -> None:
    """The edge is ten seconds long; its settings add a CTI a tick after its start."""
    out = source().to_events(rxt.EventShape.EDGE, ctis=True)
    assert [event for event in out if not isinstance(event, Cti)] == [
        start(100, 0),
        end(100, 110, 0),
    ]
    assert [event.start for event in out if isinstance(event, Cti)][:-1] == [100, 101, 110, 111]


# the document's queries and the rows that they give
SAFE: dict[str, tuple[Callable[[rxt.Streamable], rxt.Streamable], tuple[int, int]]] = {
    "shiftedBack": (lambda s: s.shift_event_time(-1), (99, 109)),
    "shiftedForward": (lambda s: s.shift_event_time(7), (107, 117)),
    "fastForward, both ends": (
        lambda s: s.alter_event_lifetime(
            start=double, duration=lambda event: (event.end - event.start) * 2
        ),
        (200, 220),
    ),
    "fastForwardFixedInterval": (
        lambda s: s.alter_event_lifetime(start=double, duration=1),
        (200, 201),
    ),
    "fixed duration": (lambda s: s.alter_event_duration(3), (100, 103)),
    "clip": (lambda s: s.clip_event_duration(4), (100, 104)),
    "clip by another": (
        lambda s: s.clip_event_duration(
            rxt.from_events([Point(99, 1), Point(100, 1), Point(106, 1), Point(108, 1)])
        ),
        (100, 106),
    ),
    "hopping window": (lambda s: s.hopping_window(20, 20).aggregate(n=agg.count()), (100, 120)),
}


@pytest.mark.parametrize(("query", "lifetime"), SAFE.values(), ids=SAFE)
def test_safe_time_travel(
    query: Callable[[rxt.Streamable], rxt.Streamable], lifetime: tuple[int, int]
) -> None:
    """Fixed shifts, fixed durations, both ends in order, clips and windows violate no CTI."""
    rows = query(source()).to_polars(time="ticks").rows()
    assert [row[:2] for row in rows] == [lifetime]


# the document's query that fails, and others that leave times out of order
DANGEROUS: dict[str, Callable[[rxt.Streamable], rxt.Streamable]] = {
    "alter_event_start_time": lambda s: s.alter_event_start_time(double),
    "alter_event_lifetime": lambda s: s.alter_event_lifetime(
        start=double, duration=lambda event: event.end - event.start
    ),
    "alter_event_duration": lambda s: s.alter_event_duration(
        lambda event: (event.end - event.start) // 2
    ),
}


@pytest.mark.parametrize(("name", "query"), DANGEROUS.items())
def test_dangerous_time_travel(
    name: str, query: Callable[[rxt.Streamable], rxt.Streamable]
) -> None:
    """An end that lands before what is committed brings the query down, and the error says where.

    Starts that go at double speed take the CTIs with them; ends that do not are left behind.
    """
    with pytest.raises(rxt.CtiViolationError, match=name):
        query(source()).to_events()


def test_time_does_not_run_backwards() -> None:
    """A change that turns the order of times round turns that of CTIs round, and is an error."""
    with pytest.raises(rxt.CtiViolationError, match="alter_event_start_time"):
        source().alter_event_start_time(lambda time: -time).to_events()


def test_results_change_over_time() -> None:
    """A join gives output for coincident rows: where the intersection is empty there is none."""
    left = rxt.from_events([Interval(0, 10, {"a": 1}), Interval(20, 30, {"a": 2})])
    right = rxt.from_events([Interval(5, 20, {"b": 3}), Interval(30, 40, {"b": 4})])
    assert left.cross_join(right).to_events() == [Interval(5, 10, {"a": 1, "b": 3})]
