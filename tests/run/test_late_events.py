"""Late events as data: as they happen on a process, and as a stream of their own in a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from input_ways import ways_in
from reactivex.subject import Subject
from runs import SOON, Log

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, LateEvent, LateReason, PointEvent, agg
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError, SchemaError
from rxtemporal.testing import Stepper

EACH = rxt.AdvanceTimeGenerationSettings(1, 0)
DROP = rxt.AdvanceTimeSettings(EACH, policy=rxt.AdvanceTimePolicy.DROP)
ADJUST = rxt.AdvanceTimeSettings(EACH, policy=rxt.AdvanceTimePolicy.ADJUST)
EDGES = [
    EdgeEvent.create_start(5, {"x": 1}),
    EdgeEvent.create_start(3, {"x": 2}),
    EdgeEvent.create_end(3, 8, {"x": 2}),
    EdgeEvent.create_start(9, {"x": 3}),
    EdgeEvent.create_end(5, 7, {"x": 1}),
]


def at(tick: int) -> datetime:
    """A tick as a datetime."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=tick)


def by(tick: int) -> timedelta:
    """A number of ticks."""
    return timedelta(microseconds=tick)


@ways_in
def test_late_events_are_points_at_the_cti_that_they_broke(stream_of: Any) -> None:
    """With source, reason, lateness, their own lifetime and payload, however the events come."""
    late = stream_of(EDGES, advance_time=DROP, name="doors").late_events()
    assert late.to_polars().rows() == [
        (5, 6, "doors", "dropped", by(2), at(3), None, 2),
        (5, 6, "doors", "no open row", by(0), at(3), at(8), 2),
        (9, 10, "doors", "end moved", by(2), at(5), at(7), 1),
    ]
    adjusted = stream_of(EDGES, advance_time=ADJUST).late_events()
    assert adjusted.select("reason", "x").to_polars().rows() == [
        (5, 6, "adjusted", 2),
        (9, 10, "end moved", 1),
    ]


def test_late_rows_of_a_frame() -> None:
    """A frame's late rows are told as events are, and the fields are known before it is read."""
    frame = pl.DataFrame({"t": [7, 5, 9, 2], "x": ["a", "b", "c", "d"]})
    late = rxt.from_polars(frame, start="t", advance_time=DROP, batch_rows=2).late_events()
    assert late.schema is not None
    assert list(late.schema) == ["source", "reason", "by", "start", "end", "x"]
    assert late.to_polars().rows() == [
        (7, 8, "frame", "dropped", by(2), at(5), at(6), "b"),
        (9, 10, "frame", "dropped", by(7), at(2), at(3), "d"),
    ]


def test_their_ctis_are_those_of_the_stream() -> None:
    """So windows over late events are answered as soon as windows over the stream itself are."""
    source: Subject[Any] = Subject()
    stream = rxt.from_observable(source, schema={"x": int}, advance_time=DROP)
    counted = stream.late_events().group_by("reason").tumbling_window(10).aggregate(n=agg.count())
    seen: list[Any] = []
    counted.subscribe(seen.append, ctis=True)
    for time in 4, 2, 3, 9, 12:
        source.on_next(PointEvent(time, {"x": time}))
    assert seen == [
        Cti(0),
        rxt.IntervalEvent(0, 10, {"reason": "dropped", "n": 2}),
        Cti(10),
    ]
    source.on_completed()
    assert seen[-1] == Cti(rxt.MAX_TIME)


class Once:
    """Events that may be iterated once."""

    def __init__(self, events: list[Any]) -> None:
        self._events = events
        self.opened = 0

    def __iter__(self) -> Any:
        self.opened += 1
        return iter(self._events)


def test_the_stream_is_read_once_for_both() -> None:
    """A stream and its late events in one process go through one door."""
    app = rxt.Application("both")
    source = Once([PointEvent(7, 1), PointEvent(5, 2), PointEvent(8, 3)])
    stream = app.define_stream("points", source, schema={"payload": int}, advance_time=DROP)
    app.query("in time", stream)
    app.query("late", stream.late_events().select("source", "payload"))
    sinks = {"in time": Log(), "late": Log()}
    process = app.run(sinks=sinks)
    process.wait(SOON)
    assert source.opened == 1
    assert (sinks["in time"].rows, sinks["late"].rows) == ([1, 3], [2])
    told = process.diagnostics()
    assert [(each.name, each.events_in) for each in told.streams] == [("points", 3)]
    late = [each.payload["source"].to_list() for each in sinks["late"].batches if len(each)]
    assert late == [["points"]]


@pytest.mark.parametrize("batches", [False, True])
def test_a_process_tells_late_events_as_they_happen(batches: bool) -> None:
    """Each with its source, the CTI that it broke and by how much; then the end."""
    source: Subject[Any] = Subject()
    stream = rxt.from_observable(source, schema={"x": int}, advance_time=DROP, name="s")
    process = stream.run(Log())
    seen: list[Any] = []
    process.late.subscribe(seen.append, None, lambda: seen.append("ended"))
    events = [
        PointEvent(7, {"x": 1}),
        PointEvent(5, {"x": 2}),
        EdgeEvent.create_end(1, 9, {"x": 3}),
    ]
    if batches:
        rows = [{"start_time": 7, "x": 1}, {"start_time": 5, "x": 2}]
        source.on_next(rxt.EventBatch.from_dicts(rows))
        frame = pl.DataFrame({"x": [3]})
        one = (pl.Series([each], dtype=pl.Int64).to_numpy() for each in (1, 9, 77))
        source.on_next(rxt.EventBatch(*one, frame, rxt.MIN_TIME))
    else:
        for event in events:
            source.on_next(event)
    source.on_completed()
    process.wait(SOON)
    assert seen == [
        LateEvent(events[1], "s", LateReason.DROPPED, 7, 2),
        LateEvent(events[2], "s", LateReason.NO_OPEN_ROW, 7, 0),
        "ended",
    ]


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(1, 5), st.integers(0, 4))
def test_every_event_is_in_time_or_late(starts: list[int], every: int, delay: int) -> None:
    """A stream and its late events together are all that came."""
    generation = rxt.AdvanceTimeGenerationSettings(every, delay)
    made = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    frame = pl.DataFrame({"t": starts, "n": range(len(starts))}, schema={"t": int, "n": int})
    stream = rxt.from_polars(frame, start="t", advance_time=made, batch_rows=7)
    both = stream.select("n").union(stream.late_events().select("n")).to_polars()
    assert sorted(both["n"]) == list(range(len(starts)))


def test_late_events_that_there_cannot_be_are_refused() -> None:
    """Of a computed stream, of one without settings, and of a payload with their fields' names."""
    points = rxt.from_events([PointEvent(1, {"reason": 1})], schema={"reason": int})
    with pytest.raises(AdvanceTimeError, match="'events' has no late events"):
        points.late_events()
    with pytest.raises(BindingError, match="only an input stream has late events"):
        points.where(pl.col("reason") > 0).late_events()
    events = [PointEvent(7, {"reason": 1}), PointEvent(5, {"reason": 2})]
    named = rxt.from_events(events, schema={"reason": int}, advance_time=DROP)
    with pytest.raises(SchemaError, match=r"the payload has 'reason'.*late_events\(suffix="):
        named.late_events()
    late = named.late_events(suffix="_sent").select("reason", "reason_sent")
    assert late.to_polars().rows() == [(7, 8, "dropped", 2)]


def test_a_stepper_takes_no_late_events() -> None:
    """A stepper has no doors, so it finds no late events."""
    named = rxt.from_events([PointEvent(7, {"x": 1})], schema={"x": int}, advance_time=DROP)
    with pytest.raises(ArgumentError, match="a stepper finds no late events"):
        Stepper(named.late_events()).drain()


def test_after_the_end_of_time_late_events_are_only_counted() -> None:
    """No row starts at the end of time, so the stream of late events has ended as well."""
    source: Subject[Any] = Subject()
    stream = rxt.from_observable(source, schema={"x": int}, advance_time=DROP)
    sink = Log()
    process = stream.late_events().run(sink)
    for event in Cti(rxt.MAX_TIME), PointEvent(5, {"x": 2}):
        source.on_next(event)
    source.on_completed()
    process.wait(SOON)
    assert sum(map(len, sink.batches)) == 0
    assert process.diagnostics().late == {LateReason.DROPPED: 1}


def test_a_stream_of_late_events_waits_for_its_stream() -> None:
    """What holds it back is the stream whose events are late, under that one's name."""
    source: Subject[Any] = Subject()
    stream = rxt.from_observable(source, schema={"x": int}, name="doors", advance_time=DROP)
    with stream.late_events().run(Log()) as process:
        for time in 7, 5:
            source.on_next(PointEvent(time, {"x": time}))
        (held,) = process.diagnostics().stalls
        assert (held.stream, held.cti) == ("doors", 7)
        source.on_completed()


def test_a_late_payload_that_does_not_fit_fails_the_run() -> None:
    """Two late events whose fields differ in type: the run ends by the error, not the producer."""
    subject = Subject[Any]()
    stream = rxt.from_observable(subject, name="mixed", advance_time=DROP)
    sink = Log(rxt.EventShape.POINT)
    process = stream.late_events().run(sink)
    subject.on_next(PointEvent(at(9), {"x": 1}))
    subject.on_next(PointEvent(at(1), {"x": "one"}))
    subject.on_next(PointEvent(at(10), {"x": 2}))
    with pytest.raises(SchemaError, match="x"):
        process.wait(SOON)
