"""alter_event_lifetime and its halves: functions in every form, violations, wrong results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import physical
import polars as pl
import pytest
from oracle import MAX_TIME, MIN_TIME
from tables import LENGTH, ROWS, A, edges, history, outputs

from rxtemporal import ArgumentError, CtiViolationError, EventBatch, EventError, SchemaError
from rxtemporal.operators.alter.plan import (
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
)
from rxtemporal.operators.chop.plan import chop
from rxtemporal.operators.clip.plan import clip_to_limit
from rxtemporal.operators.lifetimes.plan import extend_lifetime, shift_event_time


@pytest.mark.parametrize("duration", [4, pl.col("x") * 4, timedelta(microseconds=4)])
def test_a_duration_that_does_not_read_the_end_completes_rows_at_once(duration: Any) -> None:
    """Rows that never ended end now, and end edges are dropped."""
    items = [*edges(start=5, end=20, ctis=(15,)), ("interval", 16, MAX_TIME, A)]
    expected = [[(5, 9, 0, "a"), MIN_TIME], [15], [15], [(16, 20, 0, "a"), 15]]
    assert outputs(items, alter_event_duration(duration)) == expected


@pytest.mark.parametrize("duration", [LENGTH + 1, lambda row: row.end - row.start + 1])
def test_a_duration_that_reads_the_end_leaves_rows_open(duration: Any) -> None:
    """The end edge sets the end to f(start) + g(row); rows that never end stay endless."""
    items = [*edges(start=5, end=20, ctis=(15,)), ("interval", 16, MAX_TIME, A)]
    expected = [[(5, "-", 1, "a"), MIN_TIME], [15], [(5, 21, 1, "a"), 15], [(16, "-", 0, "a"), 15]]
    assert outputs(items, alter_event_duration(duration)) == expected


# Violations ---------------------------------------------------------------------------------------


def test_a_cti_that_lands_before_an_earlier_one_is_a_violation() -> None:
    """Time does not go back."""
    with pytest.raises(CtiViolationError, match=r"CTI \d+ .*time would go back.*shift_event_time"):
        outputs([("cti", 5), ("cti", 6)], alter_event_start_time(lambda t: -t))


def test_a_start_that_lands_before_the_cti_is_a_violation() -> None:
    """The message names the event, both times and the operator with its line."""
    items = [("cti", 10), ("point", 12, A)]
    made = physical.batches(items, [slice(0, 1), slice(1, 2)])
    with pytest.raises(CtiViolationError) as raised:
        physical.run(made, alter_event_start_time(lambda t: t if t == 10 else 0))
    message = str(raised.value)
    assert "the start of [12, " in message
    assert "{'k': 'a', 'x': 1, 'y': None} lands at 0," in message
    assert "before CTI 10," in message
    assert "in alter_event_start_time, composed at " in message
    assert "test_alter.py" in message


def test_an_end_that_lands_before_the_cti_is_a_violation() -> None:
    """A shorter duration violates a CTI if the row is open too long; a complete row never does."""
    shorter = alter_event_duration(lambda row: row.end - row.start - 5)
    assert history([("interval", 5, 20, A)], shorter) == [(5, 15, "a")]
    with pytest.raises(CtiViolationError, match="the end of"):
        outputs(edges(start=5, end=20, ctis=(18,)), shorter)


@pytest.mark.parametrize("shape", ["interval", "edge", "endless"])
@pytest.mark.parametrize("duration", [pl.col("x") - 1, pl.when(pl.col("x") > 1).then(1)])
def test_a_duration_that_is_not_positive_is_an_error(shape: str, duration: pl.Expr) -> None:
    """It is an error in every shape, the message shows the row, and null is not a duration."""
    items = {
        "interval": [("interval", 5, 9, A)],
        "edge": [("start", 5, A)],
        "endless": [("interval", 5, MAX_TIME, A)],
    }[shape]
    with pytest.raises(EventError, match=r"has to be positive, got (0 ticks|none) for .*'k': 'a'"):
        outputs(items, alter_event_duration(duration))


def test_a_duration_that_is_not_positive_is_an_error_when_the_end_comes() -> None:
    """A duration that reads the end is computed when the end edge arrives."""
    items = edges(start=5, end=9, ctis=(7,))
    for duration in (LENGTH - 4, lambda row: timedelta(microseconds=row.end - row.start - 6)):
        with pytest.raises(EventError, match="has to be positive"):
            outputs(items, alter_event_duration(duration))


@pytest.mark.parametrize("result", [1.5, None, True, "1", datetime(2020, 1, 1)])
def test_a_function_that_returns_something_else_is_refused(result: Any) -> None:
    """The message shows the argument and the result."""
    with pytest.raises(SchemaError, match=r"function of time returns .* for the time 3"):
        history(ROWS, alter_event_start_time(lambda t: result))
    with pytest.raises(SchemaError, match=r"duration returns .* for IntervalEvent\(3, 14"):
        history(ROWS, alter_event_duration(lambda row: result))


def test_an_expression_that_gives_no_time_is_refused() -> None:
    """A null start is not a time."""
    with pytest.raises(EventError, match="gives no time for start "):
        history(ROWS, alter_event_start_time(pl.when(pl.col("start") < 5).then(pl.col("start"))))


def test_an_exception_of_a_function_names_the_line() -> None:
    """The user's exception keeps its type and text."""
    with pytest.raises(ZeroDivisionError) as raised:
        history(ROWS, alter_event_start_time(lambda t: t // 0))
    assert "in alter_event_start_time" in raised.value.__notes__[0]


# Functions, given in several ways -----------------------------------------------------------------


def to_the_hour(time: datetime) -> datetime:
    """Return the full hour before a time."""
    return time.replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize(
    "start",
    [
        to_the_hour,
        lambda t: t.replace(minute=0, second=0, microsecond=0),
        lambda t: t - timedelta(minutes=34, seconds=56),
        lambda t: t // 3_600_000_000 * 3_600_000_000,
        lambda t: np.int64(t // 3_600_000_000 * 3_600_000_000),
        pl.col("start").dt.truncate("1h"),
        pl.col("start") // 3_600_000_000 * 3_600_000_000,
    ],
)
def test_a_function_of_time_in_every_form(start: Any) -> None:
    """Functions get ticks, or datetimes if annotated or needed; expressions a type that fits."""
    at = int(datetime(2020, 5, 1, 12, 34, 56, tzinfo=UTC).timestamp()) * 1_000_000
    hour = int(datetime(2020, 5, 1, 12, tzinfo=UTC).timestamp()) * 1_000_000
    rows = [("interval", at, at + 5, A)]
    assert history(rows, alter_event_lifetime(start, 7)) == [(hour, hour + 7, "a")]
    assert history(rows, alter_event_start_time(start)) == [(hour, hour + 5, "a")]


@pytest.mark.parametrize(
    "duration",
    [
        3,
        timedelta(microseconds=3),
        pl.lit(3),
        pl.duration(microseconds=3),
        pl.col("x") + 2,
        pl.duration(microseconds=pl.col("x") + 2),
        LENGTH - 8,
        LENGTH - timedelta(microseconds=8),
        pl.min_horizontal(LENGTH, pl.lit(3)),
        lambda row: 3,
        lambda row: timedelta(microseconds=3),
        lambda row: np.int64(row.payload["x"] + 2),
    ],
)
def test_a_duration_in_every_form(duration: Any) -> None:
    """Spans, expressions over payload and lifetime, functions of the row."""
    assert history(ROWS[:1], alter_event_duration(duration)) == [(3, 6, "a")]


def test_the_lifetime_hides_fields_of_its_names() -> None:
    """In an expression start and end are the row's, not the payload's."""
    batch = EventBatch.from_dicts([{"start_time": 3, "end_time": 14, "start": 100, "end": 0}])
    (out,) = physical.run([batch.replace(cti=20)], alter_event_duration(LENGTH * 2))
    assert out.end.tolist() == [25]


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda: alter_event_lifetime(), "takes start=, duration= or both"),
        (lambda: alter_event_start_time(timedelta(1)), "use shift_event_time"),
        (lambda: alter_event_start_time(5), "use shift_event_time"),
        (lambda: alter_event_start_time("start"), "takes a function of time"),
        (lambda: alter_event_start_time(pl.col("end")), "reads 'end'"),
        (lambda: alter_event_start_time(pl.col("start") + pl.col("x")), "CTIs, which have no"),
        (lambda: alter_event_start_time(pl.col("start") * 1.5), "gives Float64.*cast it to Int64"),
        (lambda: alter_event_start_time(pl.col("start").dt.date()), "gives Date"),
        (lambda: alter_event_start_time(pl.col("start").max()), "looks at other rows"),
        (lambda: alter_event_duration(0), "duration must be positive, got 0"),
        (lambda: alter_event_duration(timedelta(-1)), "duration must be positive"),
        (
            lambda: alter_event_duration(2.5),
            "duration is a timedelta, a text such as '5m', or an int",
        ),
        (lambda: alter_event_duration(pl.col("x").sum()), "looks at other rows"),
        (lambda: alter_event_duration(pl.sum_horizontal(pl.all())), "names its fields"),
        (lambda: shift_event_time(1.5), "d is a timedelta, a text such as '5m', or an int"),
        (lambda: extend_lifetime(None), "d is a timedelta, a text such as '5m', or an int"),
        (lambda: clip_to_limit(0), "limit must be positive"),
        (lambda: chop(0), "period must be positive"),
        (lambda: chop(-5), "period must be positive"),
        (lambda: chop(5, 2.5), "a time is an aware datetime, an ISO 8601 text"),
    ],
)
def test_arguments_are_checked_when_composed(compose: Callable[[], Any], message: str) -> None:
    """The message says what was given, what is allowed, and a hint."""
    with pytest.raises((ArgumentError, SchemaError, EventError), match=message):
        compose()


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        (pl.col("nosuch"), "nosuch.*there are k: String"),
        (pl.col("k"), "gives String; a duration is a Duration or an integer"),
        (pl.col("x") / 2, "gives Float64"),
        (pl.col("start"), "gives Datetime"),
    ],
)
def test_a_duration_is_checked_against_the_schema(duration: pl.Expr, message: str) -> None:
    """An unknown field or a wrong type fails when the fields are known, not at a row."""
    operator = alter_event_duration(duration)
    with pytest.raises(SchemaError, match=message):
        operator.check(pl.Schema(physical.SCHEMA), ())


@dataclasses.dataclass
class Slower:
    """Callable object as a function of time."""

    by: int

    def __call__(self, time: int) -> int:
        """Return a time moved to later."""
        return time + self.by


def test_anything_callable_is_a_function_of_time() -> None:
    """A function whose signature cannot be seen gets ticks."""
    assert history(ROWS[:1], alter_event_start_time(Slower(2))) == [(5, 16, "a")]
    assert history(ROWS[:1], alter_event_start_time(int)) == [(3, 14, "a")]
