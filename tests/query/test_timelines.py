"""Timelines of queries: what their inputs and results are over time."""

from __future__ import annotations

import pytest
import reactivex as rx

import rxtemporal as rxt
from rxtemporal.errors import ArgumentError
from rxtemporal.query.timelines import make_timeline
from rxtemporal.testing import table
from rxtemporal.text.timeline import Bar

DROP = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 2), policy=rxt.AdvanceTimePolicy.DROP
)


def test_inputs_stand_above_the_result() -> None:
    """Each with its rows, the ends of edges, and its CTIs."""
    events = table("start 0 id=a\ninterval 3..9 id=b\ncti 4\nend 0..6 id=a\ncti 9\nstart 9 id=c")
    stream = rxt.from_events(events, name="readings")
    timeline = make_timeline(stream.shift_event_time(1), name="later")
    above, below = timeline.lanes
    assert (above.name, below.name, below.result) == ("readings", "later", True)
    assert [(bar.start, bar.end, bar.label) for bar in above.bars] == [
        (0, 6, "a"), (3, 9, "b"), (9, None, "c"),
    ]  # fmt: skip
    assert above.ctis == (4, 9, None)
    assert [(bar.start, bar.end) for bar in below.bars] == [(1, 7), (4, 10), (10, None)]
    assert timeline.form == "ticks"


def test_late_events_are_marked_with_the_cti_that_they_broke() -> None:
    """They are in the lane of their source, with their own times and payload."""
    events = [rxt.PointEvent(t, {"by": t}) for t in (1, 9, 3)]
    lane, _ = make_timeline(rxt.from_events(events, advance_time=DROP).extend_lifetime(2)).lanes
    assert [bar for bar in lane.bars if bar.broken_cti is not None] == [
        Bar(3, 4, "3", "by=3", broken_cti=7)
    ]


def test_a_source_alone_is_one_lane() -> None:
    """There is nothing below it."""
    (lane,) = make_timeline(rxt.from_events([rxt.PointEvent(1, 2)], name="visits")).lanes
    assert (lane.name, lane.bars) == ("visits", (Bar(1, 2, "2", "payload=2"),))


def test_rows_beyond_the_bound_are_counted() -> None:
    """The cost of a picture does not grow with the stream."""
    events = [rxt.PointEvent(n, n) for n in range(100)]
    (lane,) = make_timeline(rxt.from_events(events), most=10).lanes
    assert (len(lane.bars), lane.more) == (10, 90)


def test_the_values_of_a_field_have_colours() -> None:
    """Rows with the same value share one."""
    events = [rxt.PointEvent(n, {"room": "ab"[n % 2]}) for n in range(4)]
    (lane,) = make_timeline(rxt.from_events(events), by="room").lanes
    assert [bar.key for bar in lane.bars] == [1, 2, 1, 2]


def test_a_source_that_pushes_is_refused() -> None:
    """A picture is of what is there."""
    with pytest.raises(ArgumentError, match=r"'observable' pushes its events.*Hint: record a run"):
        make_timeline(rxt.from_observable(rx.never()))


def test_an_error_of_the_query_comes_out() -> None:
    """As out of ``to_polars``."""
    events = [rxt.PointEvent(5, 1), rxt.Cti(9), rxt.PointEvent(2, 1)]
    with pytest.raises(rxt.CtiViolationError):
        make_timeline(rxt.from_events(events))
