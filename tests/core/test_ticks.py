"""Ticks: what a time and a span may be, and how sums behave at the ends of time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import rxtemporal as rxt
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add, describe, match_form, time_ticks
from rxtemporal.errors import ArgumentError, EventError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")


class Nowhere(tzinfo):
    """A time zone that does not say how far it is from UTC."""

    def utcoffset(self, dt: datetime | None) -> None:
        """Return nothing."""
        return


def test_a_tick_is_a_microsecond_since_1970() -> None:
    """A tick after the epoch is a microsecond after 1970-01-01T00:00:00Z, before it negative."""
    assert rxt.TICK == 1
    assert rxt.ticks(EPOCH) == 0
    assert rxt.ticks(EPOCH + timedelta(microseconds=1)) == 1
    assert rxt.ticks(EPOCH - timedelta(microseconds=1)) == -1
    assert rxt.ticks(timedelta(days=-1, seconds=1, microseconds=2)) == -86_398_999_998


def test_the_ends_of_time_are_the_calendars() -> None:
    """MIN_TIME and MAX_TIME are the first and the last microsecond that a datetime has."""
    assert type(rxt.MIN_TIME) is type(rxt.MAX_TIME) is int
    assert rxt.ticks(datetime(1, 1, 1, tzinfo=UTC)) == rxt.MIN_TIME
    assert rxt.ticks(datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == rxt.MAX_TIME
    assert rxt.to_datetime(rxt.MIN_TIME) == datetime.min.replace(tzinfo=UTC)
    assert rxt.to_datetime(rxt.MAX_TIME) == datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize("tick", [MIN_TIME, -1, 0, 1, 1_357_880_400_123_457, MAX_TIME])
def test_a_tick_survives_the_way_there_and_back(tick: int) -> None:
    """No microsecond is lost between ticks and datetimes, however far from the epoch."""
    assert rxt.ticks(rxt.to_datetime(tick)) == tick
    assert rxt.to_datetime(tick).tzinfo is UTC


def test_the_zone_of_a_datetime_changes_no_instant() -> None:
    """The same instant in two zones is the same tick, on both sides of a clock change too."""
    plus_two = datetime(2026, 7, 1, 14, tzinfo=timezone(timedelta(hours=2)))
    assert rxt.ticks(plus_two) == rxt.ticks(datetime(2026, 7, 1, 12, tzinfo=UTC))
    first = datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=0)
    second = datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=1)
    assert rxt.ticks(second) - rxt.ticks(first) == rxt.ticks(timedelta(hours=1))


@pytest.mark.parametrize("naive", [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=Nowhere())])
def test_a_naive_datetime_is_refused(naive: datetime) -> None:
    """A datetime that names no instant is refused by name, with what to do about it."""
    with pytest.raises(EventError, match=r"naive datetime 2026-01-01T00:00:00 .*tzinfo=UTC"):
        rxt.ticks(naive)


@pytest.mark.parametrize("value", [5, 1.5, "2026-01-01", None, date(2026, 1, 1)])
def test_ticks_takes_datetimes_and_timedeltas_only(value: Any) -> None:
    """What is neither a datetime nor a timedelta is refused, and named."""
    with pytest.raises(ArgumentError, match="takes an aware datetime or a timedelta, got"):
        rxt.ticks(value)


@pytest.mark.parametrize("tick", [MIN_TIME - 1, MAX_TIME + 1])
def test_there_is_nothing_outside_of_time(tick: int) -> None:
    """Ticks before the first or after the last instant are refused wherever they come in."""
    with pytest.raises(ArgumentError, match=str(tick)):
        rxt.to_datetime(tick)
    with pytest.raises(EventError, match=str(tick)):
        time_ticks(tick)


def test_a_time_is_a_datetime_or_an_int() -> None:
    """Ticks pass as they are, numpy's integers too; a datetime is converted."""
    assert time_ticks(7) == 7
    assert time_ticks(np.int64(7)) == 7
    assert type(time_ticks(np.int64(7))) is int
    assert time_ticks(EPOCH + timedelta(seconds=1)) == 1_000_000


@pytest.mark.parametrize("value", [True, 1.0, b"5", None, date(2026, 1, 1), timedelta(1)])
def test_what_is_no_time_is_refused(value: Any) -> None:
    """A bool, a float, bytes, a date and a timedelta are not times."""
    with pytest.raises(
        EventError,
        match="a time is an aware datetime, an ISO 8601 text with",
    ):
        time_ticks(value)


def test_a_time_may_be_an_iso_text_with_an_offset() -> None:
    """The text names an instant whatever its offset."""
    assert (
        time_ticks("1970-01-01T00:00:01Z") == time_ticks("1970-01-01T02:00:01+02:00") == 1_000_000
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-05-01", r"no offset and names no instant. Hint: .*'2026-05-01T00:00:00Z' for UTC"),
        ("2026-05-01T12:00", r"no offset .* '2026-05-01T12:00:00\+02:00'"),
        (
            "01/02/2026",
            "'01/02/2026' is not a valid time. Hint: write it in ISO 8601 with its offset",
        ),
        ("5", "'5' is not a valid time"),
    ],
)
def test_a_text_that_names_no_instant_is_refused(text: str, message: str) -> None:
    """The message says how to write the time."""
    with pytest.raises(EventError, match=message):
        time_ticks(text)


@pytest.mark.parametrize(
    ("time", "length", "result"),
    [
        (5, 3, 8),
        (5, -8, -3),
        (MAX_TIME, -5, MAX_TIME),
        (MIN_TIME, 5, MIN_TIME),
        (MAX_TIME - 1, 5, MAX_TIME),
        (MIN_TIME + 1, -5, MIN_TIME),
        (0, 2**70, MAX_TIME),
        (0, -(2**70), MIN_TIME),
        (MIN_TIME + 1, MAX_TIME - MIN_TIME, MAX_TIME),
    ],
)
def test_adding_saturates_and_leaves_infinity_alone(time: int, length: int, result: int) -> None:
    """Nothing wraps: sums stop at the ends of time, and adding to an end leaves it as it is."""
    assert add(time, length) == result


def test_a_time_goes_back_in_the_form_it_came() -> None:
    """Ticks come back as ticks, and a datetime in the zone of the one that was given."""
    assert match_form(5, 0) == 5
    back = match_form(3_600_000_000, datetime(2026, 1, 1, tzinfo=PARIS))
    assert isinstance(back, datetime)
    assert (back.isoformat(), back.tzinfo) == ("1970-01-01T02:00:00+01:00", PARIS)


@pytest.mark.parametrize("hours", [-12, 12])
@pytest.mark.parametrize("tick", [MIN_TIME, MIN_TIME + 1, MAX_TIME - 1, MAX_TIME])
def test_the_ends_of_time_have_a_form_in_every_zone(tick: int, hours: int) -> None:
    """Where a zone has no date for an instant, it comes in UTC and is still the same instant."""
    like = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=hours)))
    back = match_form(tick, like)
    assert isinstance(back, datetime)
    assert rxt.ticks(back) == tick


@pytest.mark.parametrize(
    ("tick", "text"),
    [
        (0, "0"),
        (-1, "-1"),
        (86_400_000_000, "1970-01-02T00:00:00Z"),
        (MAX_TIME, "the end of time"),
        (MIN_TIME, "the beginning of time"),
        (MIN_TIME - 1, "the beginning of time"),
    ],
)
def test_messages_show_times_as_people_write_them(tick: int, text: str) -> None:
    """A time in a message is an ISO time in UTC, or the name of an end of time."""
    assert describe(tick) == text
