"""Replay at the speed of the recorded times, under a clock of virtual time."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject
from reactivex.testing import TestScheduler
from runs import SOON, Log
from time_settings import settings

import rxtemporal as rxt
from rxtemporal import IntervalEvent, PointEvent
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.testing import Recorder, assert_same_history, hot

SECOND = 1_000_000
MINUTE = 60 * SECOND
PROMPT = rxt.STRICTLY_INCREASING_START_TIME


def points(*minutes: int) -> list[PointEvent]:
    """Points at these minutes, each its minute."""
    return [PointEvent(minute * MINUTE, minute) for minute in minutes]


def moments(stream: rxt.Streamable, speed: float) -> list[tuple[float, Any]]:
    """When each payload comes out, in seconds of the clock."""
    clock = TestScheduler()
    seen = Recorder(clock)
    rxt.at_speed(stream, speed, clock=clock).subscribe(seen)
    assert seen.failed is None
    return [(moment, event.payload) for moment, event in seen.events]


@pytest.mark.parametrize(("speed", "each"), [(1, 60.0), (60, 1.0), (120.0, 0.5), (0.5, 120.0)])
def test_events_come_when_their_time_has_passed(speed: float, each: float) -> None:
    """Relative to the first one, which comes at once, whatever its time."""
    events = rxt.from_events(points(100, 101, 105), advance_time=PROMPT)
    assert moments(events, speed) == [(0.0, 100), (each, 101), (5 * each, 105)]


def test_frames_are_cut_where_it_is_time(tmp_path: Path) -> None:
    """The rows of one frame come one by one, those of one time together; so does a recording's."""
    frame = pl.DataFrame({"t": [datetime(2026, 1, 1, 0, m, tzinfo=UTC) for m in (0, 1, 1, 4)]})
    frame = frame.with_columns(payload=pl.Series([0, 1, 1, 4]))
    generation = rxt.AdvanceTimeGenerationSettings(1, -1)
    made = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.ADJUST)
    stream = rxt.from_polars(frame, start="t", end=None, advance_time=made, name="f")
    expected = [(0.0, 0), (1.0, 1), (4.0, 4)]  # the second at one time is late
    assert moments(stream, 60) == expected
    with stream.run(Log(), record=tmp_path / "f"):
        pass
    assert moments(rxt.replay(tmp_path / "f")["f"], 60) == expected
    events = rxt.from_events(points(0, 1, 4), advance_time=PROMPT, name="e")
    with events.run(Log(), record=tmp_path / "e"):
        pass
    assert moments(rxt.replay(tmp_path / "e")["e"], 60) == expected


def test_an_event_out_of_order_comes_at_once() -> None:
    """And is late, as it was: time does not go back for it."""
    events = rxt.from_events(points(5, 3, 6), advance_time=PROMPT)
    assert moments(events, 60) == [(0.0, 5), (1.0, 6)]


def test_all_sources_of_a_run_have_one_beginning() -> None:
    """Two streams are as far apart as they were; what a union holds back comes with the other."""
    left = rxt.from_events(points(0, 10), advance_time=PROMPT, name="left")
    right = rxt.from_events(points(4, 5), advance_time=PROMPT, name="right")
    expected = [(4.0, 0), (10.0, 4), (10.0, 5), (10.0, 10)]
    assert moments(left.union(right), 60) == expected


def test_what_else_the_clock_brings_comes_in_between() -> None:
    """A source that is pushed by the same clock is joined where it belongs."""
    clock = TestScheduler()
    seen: list[Any] = []
    pushed = hot(clock, [(2.5, "pushed"), (9.0, "never")])
    pushed.subscribe(seen.append)
    events = rxt.from_events(points(0, 2, 3), advance_time=PROMPT)
    rxt.at_speed(events, 60, clock=clock).subscribe(lambda event: seen.append(event.payload))
    assert seen == [0, 2, "pushed", 3]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9)), max_size=20),
    st.integers(1, 3),
    st.booleans(),
)
def test_results_are_those_of_any_speed(rows: Any, every: int, frame: bool) -> None:
    """The pace changes when results come, and nothing else: late events too are the same."""
    made = settings(every, 3)
    if frame:
        frames = pl.DataFrame(rows, schema={"t": pl.Int64, "payload": pl.Int64}, orient="row")
        stream = rxt.from_polars(frames, start="t", advance_time=made, batch_rows=4)
    else:
        events = [IntervalEvent(start, start + n, n) for start, n in rows]
        stream = rxt.from_events(events, advance_time=made, schema={"payload": int})
    clock, sinks = TestScheduler(), (Log(), Log())
    told = []
    for each, sink in (stream, sinks[0]), (rxt.at_speed(stream, 1e-6, clock=clock), sinks[1]):
        with each.run(sink) as process:
            process.wait(SOON)
        told.append([(s.events_in, s.late) for s in process.diagnostics().streams])
    assert told[0] == told[1]
    assert_same_history(sinks[0].batches, sinks[1].batches)
    starts = [start for start, _ in rows]
    assert clock.clock == pytest.approx(max(starts) - starts[0] if starts else 0)


def test_a_run_that_is_stopped_does_not_wait() -> None:
    """A process that waits for an event a year ahead ends when it is told to, and so does take."""
    far = timedelta(days=365) // timedelta(microseconds=1)
    stream = rxt.from_events([PointEvent(0, 0), PointEvent(far, 1)], advance_time=PROMPT)
    sink = Log()
    process = rxt.at_speed(stream).run(sink)
    process.dispose()
    assert 1 not in sink.rows


def test_as_fast_as_possible_is_the_stream_itself() -> None:
    """An infinite speed waits for nothing, and needs no clock."""
    stream = rxt.from_events(points(1))
    assert rxt.at_speed(stream, math.inf) is stream


def test_what_cannot_be_paced_is_refused() -> None:
    """A speed that is none, a source that pushes, what is not a stream, two speeds in one run."""
    stream = rxt.from_events(points(1))
    for bad in (0, -1, math.nan, True, "fast"):
        with pytest.raises(ArgumentError, match="speed must be a positive number"):
            rxt.at_speed(stream, bad)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="at_speed takes a stream or a query"):
        rxt.at_speed(points(1))  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="'observable' pushes its events and cannot be"):
        rxt.at_speed(rxt.from_observable(Subject[Any]()).union(stream))
    pushed = rxt.from_observable(Subject[Any](), schema={"x": int}, advance_time=PROMPT)
    with pytest.raises(ArgumentError, match="'observable' pushes its events and cannot be"):
        rxt.at_speed(pushed.late_events())
    with pytest.raises(BindingError, match="one speed, by one clock; got 2, 3"):
        rxt.at_speed(stream, 2).union(rxt.at_speed(stream, 3)).to_events()
