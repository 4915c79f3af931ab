"""advance_time= as a span: how late an event may be, before it is dropped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.errors import AdvanceTimeError, ArgumentError
from rxtemporal.ingress.settings import read_advance_time

LONG = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, timedelta(minutes=5)), policy=rxt.AdvanceTimePolicy.DROP
)


@pytest.mark.parametrize("given", [timedelta(minutes=5), "5m", LONG])
def test_a_span_stands_for_a_delay_after_which_events_are_dropped(given: Any) -> None:
    """A span is a CTI after each event, that far behind it, with DROP."""
    assert read_advance_time(given) == LONG


def test_ticks_are_a_span_too() -> None:
    """A stream in ticks drops what is later than the delay, and keeps the rest."""
    events = [rxt.PointEvent(time, "x") for time in (10, 5, 4, 20)]
    stream = rxt.from_events(events, advance_time=5)
    assert [event.start for event in stream.to_events()] == [5, 10, 20]
    assert [event.start for event in rxt.from_events(events, advance_time=0).to_events()] == [
        10,
        20,
    ]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ("five", ArgumentError, "advance_time='five' is not a span of time"),
        ("-5m", AdvanceTimeError, "advance_time='-5m' is negative: it is how late an event may be"),
        (
            True,
            ArgumentError,
            "advance_time is an AdvanceTimeSettings, or how late an event may be",
        ),
        (1.5, ArgumentError, "text such as '5m', or ticks\\), got 1.5"),
        (LONG.generation, ArgumentError, "no policy for late events. Hint: AdvanceTimeSettings"),
    ],
)
def test_what_is_no_delay_is_refused(given: Any, error: type[Exception], message: str) -> None:
    """The message says what is allowed."""
    with pytest.raises(error, match=message):
        rxt.from_events([rxt.PointEvent(1, "x")], advance_time=given)


def test_the_spans_of_the_settings_may_be_texts() -> None:
    """The settings hold timedeltas, however they were written."""
    made = rxt.AdvanceTimeGenerationSettings("1s", "5m")
    assert made == rxt.AdvanceTimeGenerationSettings(timedelta(seconds=1), timedelta(minutes=5))
    beat = rxt.Heartbeat(every="5s", delay="2s")
    assert str(beat) == "the wall clock less 2 s, after 5 s of silence and each 5 s of it"
    assert rxt.HandOff(linger="5ms").linger_seconds == 0.005
