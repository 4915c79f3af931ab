"""Events made from columns: equal to those of the constructors, and as frozen."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import pytest

from rxtemporal import MAX_TIME, EdgeEvent, EdgeType, IntervalEvent, PointEvent
from rxtemporal.core.event_columns import (
    make_edge,
    make_events,
    make_interval,
    make_point,
    pause_collection,
)
from rxtemporal.core.ticks import to_datetime

PAYLOAD = {"speed": 1.0}
PAIRS: list[tuple[Any, Any]] = [
    (make_point(5, 5, PAYLOAD), PointEvent(5, PAYLOAD)),
    (make_interval(5, 5, 9, PAYLOAD), IntervalEvent(5, 9, PAYLOAD)),
    (
        make_edge(EdgeType.START, 5, 5, MAX_TIME, PAYLOAD),
        EdgeEvent.create_start(5, PAYLOAD),
    ),
    (make_edge(EdgeType.END, 5, 5, 9, PAYLOAD), EdgeEvent.create_end(5, 9, PAYLOAD)),
    (make_point(to_datetime(5), 5, PAYLOAD), PointEvent(to_datetime(5), PAYLOAD)),
    (
        make_events(IntervalEvent, [to_datetime(5)], [5], [9], [PAYLOAD])[0],
        IntervalEvent(to_datetime(5), to_datetime(9), PAYLOAD),
    ),
    (make_events(PointEvent, [5], [5], [6], [PAYLOAD])[0], PointEvent(5, PAYLOAD)),
]


@pytest.mark.parametrize(("made", "expected"), PAIRS)
def test_an_event_of_columns_is_one_of_its_constructor(made: Any, expected: Any) -> None:
    """Type, times, text, pickle and copy are those of an event that its constructor makes."""
    assert type(made) is type(expected)
    assert made == expected
    assert repr(made) == repr(expected)
    assert (made.start_time, made.end_time) == (expected.start_time, expected.end_time)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == expected
    assert made.shape is expected.shape


@pytest.mark.parametrize(("made", "expected"), PAIRS)
def test_an_event_of_columns_is_frozen(made: Any, expected: Any) -> None:
    """Neither an attribute can be set nor deleted."""
    with pytest.raises(AttributeError, match="immutable"):
        made.start = 7
    with pytest.raises(AttributeError, match="immutable"):
        del made.payload
    assert made == expected


def test_a_pause_of_the_collector_ends() -> None:
    """The collector is on again after the pause, also after an error."""
    seen = []

    def fail() -> None:
        with pause_collection():
            seen.append(gc.isenabled())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert seen == [False]
    assert gc.isenabled()


def test_a_collector_that_is_off_stays_off() -> None:
    """A program that has turned the collector off is not overruled."""
    gc.disable()
    try:
        with pause_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
