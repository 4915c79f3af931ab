"""Row events: what they hold, what makes two equal, and which cannot be made."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pytest

from rxtemporal import (
    MAX_TIME,
    MIN_TIME,
    Cti,
    EdgeEvent,
    EdgeType,
    EventKind,
    EventShape,
    IntervalEvent,
    PointEvent,
)
from rxtemporal.errors import EventError

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
PAYLOAD = {"speed": 1.0}

EVENTS: list[Any] = [
    PointEvent(5, PAYLOAD),
    IntervalEvent(5, 9, PAYLOAD),
    EdgeEvent.create_start(5, PAYLOAD),
    EdgeEvent.create_end(5, 9, PAYLOAD),
    Cti(5),
]


@pytest.mark.parametrize(
    ("event", "start", "end", "shape"),
    [
        (PointEvent(5, PAYLOAD), 5, 6, EventShape.POINT),
        (IntervalEvent(5, 9, PAYLOAD), 5, 9, EventShape.INTERVAL),
        (IntervalEvent(5, MAX_TIME, PAYLOAD), 5, MAX_TIME, EventShape.INTERVAL),
        (EdgeEvent.create_start(5, PAYLOAD), 5, MAX_TIME, EventShape.EDGE),
        (EdgeEvent.create_end(5, 9, PAYLOAD), 5, 9, EventShape.EDGE),
    ],
)
def test_an_event_has_a_lifetime_and_a_payload(
    event: Any, start: int, end: int, shape: EventShape
) -> None:
    """A point lives one tick, an interval as long as it says, a start edge without end."""
    assert (event.start_time, event.end_time) == (event.start, event.end) == (start, end)
    assert event.event_kind is EventKind.INSERT
    assert event.shape is shape
    assert event.payload is PAYLOAD


def test_a_cti_has_a_time_and_no_payload() -> None:
    """A CTI has start_time and event_kind as every event, and is of no shape."""
    cti = Cti(5)
    assert (cti.start_time, cti.start, cti.event_kind) == (5, 5, EventKind.CTI)
    assert not hasattr(cti, "payload")


def test_the_documents_constructors_are_there_under_their_names() -> None:
    """create_insert, create_start, create_end and create_cti make what the classes make."""
    assert PointEvent.create_insert(5, "a") == PointEvent(5, "a")
    assert IntervalEvent.create_insert(5, 9, "a") == IntervalEvent(5, 9, "a")
    assert EdgeEvent.create_insert(5, "a") == EdgeEvent.create_start(5, "a")
    assert EdgeEvent.create_start(5, "a").edge_type is EdgeType.START
    assert EdgeEvent.create_end(5, 9, "a").edge_type is EdgeType.END
    for made in (PointEvent.create_cti(5), IntervalEvent.create_cti(5), EdgeEvent.create_cti(5)):
        assert made == Cti(5)


def test_any_object_is_a_payload() -> None:
    """Events do not look into payloads: None, an array or a class come out the same object."""
    for payload in (None, np.zeros(3), object, {"a": [1]}):
        assert PointEvent(5, payload).payload is payload


def test_times_are_handed_back_as_they_were_given() -> None:
    """Datetimes stay datetimes of their zone, ticks stay ticks, and both are read as ticks."""
    zone = timezone(timedelta(hours=5, minutes=30))
    point = PointEvent(NOON.astimezone(zone), "a")
    assert point.start_time == NOON
    assert point.start_time.tzinfo is zone
    assert point.end_time == NOON + timedelta(microseconds=1)
    assert point.end_time.tzinfo is zone
    interval = IntervalEvent(NOON, LATER, "a")
    assert (interval.start_time, interval.end_time) == (NOON, LATER)
    assert interval.end - interval.start == 3_600_000_000


def test_numpy_integers_are_ticks() -> None:
    """An event made of a column's values is the one made of ints, and shows as such."""
    made = IntervalEvent(np.int64(5), np.int64(9), "a")
    assert made == IntervalEvent(5, 9, "a")
    assert repr(made) == "IntervalEvent(5, 9, 'a')"
    assert repr(Cti(np.int64(5))) == "Cti(5)"


def test_events_compare_by_instant_and_payload() -> None:
    """Equal are events of one shape with the same instants and equal payloads, in any zone."""
    assert PointEvent(NOON, "a") == PointEvent(NOON.astimezone(timezone(timedelta(hours=1))), "a")
    assert hash(IntervalEvent(1, 2, "a")) == hash(IntervalEvent(1, 2, "a"))
    assert IntervalEvent(1, 2, "a") != IntervalEvent(1, 2, "b")
    assert IntervalEvent(1, 2, "a") != PointEvent(1, "a")
    assert EdgeEvent.create_start(1, "a") != EdgeEvent.create_end(1, MAX_TIME, "a")
    assert Cti(1) != PointEvent(1, None)
    assert len({Cti(1), Cti(1), Cti(2)}) == 2


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_an_event_is_frozen(event: Any) -> None:
    """No attribute can be set, added or deleted."""
    for name in ("start_time", "new"):
        with pytest.raises(AttributeError):
            setattr(event, name, 1)
    with pytest.raises(AttributeError, match="immutable"):
        del event.start_time
    assert not hasattr(event, "__dict__")


@pytest.mark.parametrize("event", EVENTS, ids=repr)
def test_an_event_survives_pickling_copying_and_its_repr(event: Any) -> None:
    """Pickled, copied or evaluated from its repr, an event is equal to itself."""
    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.deepcopy(event) == event
    assert eval(repr(event)) == event


def test_a_repr_with_datetimes_reads_as_times() -> None:
    """A time in a repr is ISO, and the ends of time have names."""
    assert repr(PointEvent(NOON, "a")) == "PointEvent(2026-01-01T12:00:00Z, 'a')"
    assert repr(Cti(MAX_TIME)) == "Cti(the end of time)"
    assert repr(Cti(MIN_TIME)) == "Cti(the beginning of time)"


@pytest.mark.parametrize("end", [5, 4, MIN_TIME])
@pytest.mark.parametrize("make", [IntervalEvent, EdgeEvent.create_end])
def test_an_end_comes_after_its_start(make: Any, end: int) -> None:
    """An end at or before the start is refused with both, and with the way to say an instant."""
    with pytest.raises(EventError, match=rf"start 5 and end {end}\. Hint: .*PointEvent"):
        make(5, end, "a")


@pytest.mark.parametrize(
    "make",
    [
        lambda time: PointEvent(time, "a"),
        lambda time: IntervalEvent(time, LATER, "a"),
        lambda time: IntervalEvent(NOON, time, "a"),
        lambda time: EdgeEvent.create_start(time, "a"),
        lambda time: EdgeEvent.create_end(NOON, time, "a"),
        Cti,
    ],
)
def test_every_constructor_refuses_naive_datetimes(make: Any) -> None:
    """A naive datetime is refused wherever an event takes a time."""
    with pytest.raises(EventError, match="naive datetime 2026-01-01T12:30:00"):
        make(datetime(2026, 1, 1, 12, 30))


@pytest.mark.parametrize("time", [1.0, "now", None, True, MAX_TIME + 1, MIN_TIME - 1])
def test_what_is_no_time_makes_no_event(time: Any) -> None:
    """Floats, strings, bools, None and ticks outside of time are refused."""
    with pytest.raises(EventError):
        PointEvent(time, "a")
    with pytest.raises(EventError):
        Cti(time)


def test_a_unix_time_of_nanoseconds_is_told_to_be_no_ticks() -> None:
    """A source with ``unit="ns"`` takes them in rows, and an event does not."""
    with pytest.raises(EventError, match=r"ticks lie outside of time.*Hint: a tick is a micros"):
        Cti(1_777_636_800_000_000_000)


@pytest.mark.parametrize(
    "make", [PointEvent, EdgeEvent.create_start, lambda t, p: IntervalEvent(t, t, p)]
)
def test_the_last_tick_of_time_is_reserved(make: Any) -> None:
    """No row starts at the end of time; a CTI does stand there."""
    with pytest.raises(EventError, match="reserved"):
        make(MAX_TIME, "a")
    assert Cti(MAX_TIME).start == MAX_TIME


def test_a_moved_event_keeps_payload_shape_and_form() -> None:
    """Moving changes the lifetime alone: the payload is the same object, times keep their form."""
    assert PointEvent(5, PAYLOAD).with_lifetime(7, 99) == PointEvent(7, PAYLOAD)
    assert IntervalEvent(5, 9, "a").with_lifetime(7, 8) == IntervalEvent(7, 8, "a")
    moved = EdgeEvent.create_end(NOON, LATER, PAYLOAD).with_lifetime(7, 8)
    assert (moved.edge_type, moved.payload) == (EdgeType.END, PAYLOAD)
    assert moved.payload is PAYLOAD
    assert isinstance(moved.start_time, datetime)
