"""*Dangers of time travel*: its examples, the failing one and the mended ones."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt

START = datetime(2012, 5, 30, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def source() -> rxt.Streamable:
    """The document's source: one row that is open for ten seconds of a stream's CTIs."""
    events: Iterator[Any] = iter(
        [
            rxt.EdgeEvent.create_cti(START),
            rxt.EdgeEvent.create_start(START, 0),
            rxt.EdgeEvent.create_cti(START + 10 * SECOND),
            rxt.EdgeEvent.create_end(START, START + 10 * SECOND, 0),
            rxt.EdgeEvent.create_cti(START + 11 * SECOND),
        ]
    )
    return rxt.from_events(events, schema={"payload": int})


def twice(time: datetime) -> datetime:
    """Time at double speed, `e.StartTime.AddTicks(e.StartTime.Ticks)`."""
    return time + (time - EPOCH)


def test_shifting_by_a_fixed_amount_is_safe() -> None:
    """Back and forward: the CTIs move with the events."""
    for by in (timedelta(seconds=-1), timedelta(days=7)):
        events = source().shift_event_time(by).to_events(rxt.EventShape.EDGE, ctis=True)
        assert events[:-1] == [
            rxt.Cti(START + by),
            rxt.EdgeEvent.create_start(START + by, 0),
            rxt.Cti(START + 10 * SECOND + by),
            rxt.EdgeEvent.create_end(START + by, START + 10 * SECOND + by, 0),
            rxt.Cti(START + 11 * SECOND + by),
        ]


def test_doubling_the_speed_of_starts_alone_violates_a_cti() -> None:
    """The end edge, which is not moved as far as the CTI is, lands before it."""
    fast_forward = source().alter_event_start_time(twice)
    with pytest.raises(rxt.CtiViolationError) as raised:
        fast_forward.to_events()
    message = str(raised.value)
    late = twice(START) + 10 * SECOND
    assert "the end of [2012-05-30T12:00:00Z, 2012-05-30T12:00:10Z) {'payload': 0}" in message
    assert f"lands at {late.isoformat()[:-6]}Z, before CTI " in message
    assert f"{twice(START + 10 * SECOND).isoformat()[:-6]}Z" in message
    assert "shift_event_time), a fixed duration, and changes of both ends" in message
    assert "in alter_event_start_time, composed at " in message


def test_the_failure_is_addressed_by_end_edges_at_double_speed() -> None:
    """The order of starts and ends stays."""
    fast_forward = source().alter_event_lifetime(
        twice, lambda row: timedelta(microseconds=(row.end - row.start) * 2)
    )
    assert fast_forward.to_events() == [
        rxt.IntervalEvent(twice(START), twice(START) + 20 * SECOND, 0)
    ]


def test_the_loophole_of_a_fixed_duration() -> None:
    """No end edges are produced that could violate a CTI."""
    fast_forward = source().alter_event_lifetime(twice, SECOND)
    assert fast_forward.to_events() == [rxt.IntervalEvent(twice(START), twice(START) + SECOND, 0)]


def test_the_start_may_not_depend_on_the_payload() -> None:
    """“This is because CTI events, which are also modified by the selector, carry no payloads.”"""
    with pytest.raises(rxt.ArgumentError, match="CTIs, which have no payload"):
        source().alter_event_start_time(pl.col("start") + pl.col("payload"))
