"""Spans of time: timedeltas, texts, ticks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.spans import describe_span, span
from rxtemporal.errors import ArgumentError


def test_a_span_is_a_timedelta_or_an_int() -> None:
    """A span of ticks passes as it is, a timedelta is converted; both may be negative."""
    assert span(timedelta(milliseconds=-1), "delay") == -1_000
    assert span(-1, "delay") == -1


@pytest.mark.parametrize(
    ("text", "delta"),
    [
        ("10us", timedelta(microseconds=10)),
        ("500ms", timedelta(milliseconds=500)),
        ("90s", timedelta(seconds=90)),
        ("1m", timedelta(minutes=1)),
        ("1 min", timedelta(minutes=1)),
        ("2h30m", timedelta(hours=2, minutes=30)),
        ("1d 12h", timedelta(days=1, hours=12)),
        ("1w", timedelta(weeks=1)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        (" -5s ", timedelta(seconds=-5)),
        ("0s", timedelta(0)),
    ],
)
def test_a_span_may_be_a_text(text: str, delta: timedelta) -> None:
    """Numbers with units are added up, exactly."""
    assert span(text, "delay") == span(delta, "delay")


@pytest.mark.parametrize("length", [1, 250_000, 90_000_000, 3_600_000_000, 86_400_000_000])
def test_what_a_message_shows_can_be_written(length: int) -> None:
    """A span in the form of messages is a span."""
    shown = describe_span(length)
    assert span(shown.replace("tick", "us"), "delay") == length


@pytest.mark.parametrize(
    "text", ["", "5", "m", "soon", "5 minutes", "1mo", "5M", "1h-5m", "1e3s", "٣s", "1s" * 99]
)
def test_a_text_that_is_no_span_is_refused(text: str) -> None:
    """The message names the argument, and lists the units."""
    with pytest.raises(
        ArgumentError, match=r"period=.* is not a span of time\. .*d \(days\), h \(h"
    ):
        span(text, "period")


def test_a_unit_that_is_unknown_is_named() -> None:
    """The message says which part of the text is wrong."""
    with pytest.raises(
        ArgumentError, match=r"period='1h5x' is not a span of time\. 'x' is not a unit"
    ):
        span("1h5x", "period")


def test_a_text_finer_than_a_tick_is_refused() -> None:
    """No part of a span is lost."""
    with pytest.raises(ArgumentError, match=r"'0\.5us' is not a whole number of microseconds"):
        span("0.5us", "period")


@pytest.mark.parametrize("value", [True, 1.5, None, datetime(1970, 1, 1, tzinfo=UTC)])
def test_what_is_no_span_is_refused_under_its_name(value: Any) -> None:
    """The message names the argument, what was given and what is allowed."""
    with pytest.raises(
        ArgumentError, match="period is a timedelta, a text such as '5m', or an int"
    ):
        span(value, "period")


@pytest.mark.parametrize(
    ("least", "value", "message"),
    [
        (1, 0, "period must be positive, got 0"),
        (1, timedelta(seconds=-5), "period must be positive, got -1 day, 23:59:55"),
        (0, -1, "period must not be negative, got -1"),
        (0, "-1s", "period must not be negative, got -1s"),
        (3, 2, "period must >= 3, got 2"),
    ],
)
def test_a_span_may_have_a_least_value(least: int, value: Any, message: str) -> None:
    """A span below the least is refused with the value as it was given."""
    with pytest.raises(ArgumentError) as refused:
        span(value, "period", least=least)
    assert str(refused.value) == message


@pytest.mark.parametrize("value", [timedelta.max, 2**63, "99999999w"])
def test_a_span_longer_than_time_is_refused(value: Any) -> None:
    """A window of it is an error of ours, before any kernel sees it."""
    events = rxt.from_events([rxt.PointEvent(1, {"x": 1})])
    with pytest.raises(ArgumentError, match=r"duration is too long: .* is 3,652,059 days"):
        events.tumbling_window(value).aggregate(n=agg.count())


def test_operators_take_texts_for_spans_and_times() -> None:
    """A text gives the rows that the timedelta or the datetime gives."""
    start = datetime(2026, 1, 5, 12, 7, tzinfo=UTC)
    events = rxt.from_events([rxt.PointEvent("2026-01-05T12:07:00Z", {"x": 1})])
    assert events.to_events() == [
        rxt.IntervalEvent(start, start + timedelta(microseconds=1), {"x": 1})
    ]
    ten = timedelta(minutes=10)
    ways = [
        (events.tumbling_window("10m", "2026-01-05T12:05Z"),
         events.tumbling_window(ten, datetime(2026, 1, 5, 12, 5, tzinfo=UTC))),
        (events.hopping_window("10m", "5m"), events.hopping_window(ten, ten / 2)),
        (events.session_window("10m"), events.session_window(ten)),
    ]  # fmt: skip
    for text, delta in ways:
        assert (
            text.aggregate(m=agg.mean("x"))
            .to_polars()
            .equals(delta.aggregate(m=agg.avg("x")).to_polars())
        )
    longer = events.extend_lifetime("1h")
    assert (
        longer.clip_event_duration("5m").to_events()
        == events.alter_event_duration("5m").to_events()
    )
    assert (
        longer.chop("30m", "7m").to_events() == longer.chop("30m", "1970-01-01T00:07Z").to_events()
    )
