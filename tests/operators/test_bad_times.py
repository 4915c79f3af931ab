"""Errors that only data can show: a broken CTI, infinitely many results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from input_ways import collect, from_iterator, place_pattern

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, IntervalEvent, PointEvent, WindowOutput, agg
from rxtemporal.errors import CtiViolationError, UnboundedWindowError

Stream = rxt.Streamable
Compose = Callable[[Stream], Stream]

SAFE = r"Hint: a fixed shift \(shift_event_time\), a fixed duration, and changes of both ends"


def ended(start: int, cti: int, end: int) -> list[Any]:
    """A row that is open at a CTI and ends after it."""
    opened, closed = EdgeEvent.create_start(start, "a"), EdgeEvent.create_end(start, end, "a")
    return [opened, Cti(cti), closed, Cti(end + 1)]


TRAVELS: dict[str, tuple[Compose, list[Any], str, str]] = {
    "an end": (
        lambda st: st.alter_event_start_time(lambda t: 2 * t),
        ended(100, 110, 110),
        "alter_event_start_time",
        r"the end of \[100, 110\) .*'a'.* lands at 210, before CTI 220",
    ),
    "an end that is shortened": (
        lambda st: st.alter_event_duration(lambda row: row.end - row.start - 5),
        ended(1, 100, 101),
        "alter_event_duration",
        r"the end of \[1, 101\) .* lands at 96, before CTI 100",
    ),
    "a start": (
        lambda st: st.alter_event_lifetime(start=lambda t: 3 if t == 15 else t),
        [PointEvent(1, "a"), Cti(10), PointEvent(15, "b"), Cti(20)],
        "alter_event_lifetime",
        r"the start of \[15, 16\) .*'b'.* lands at 3, before CTI 10",
    ),
    "a CTI": (
        lambda st: st.alter_event_start_time(lambda t: -t),
        [PointEvent(1, "a"), Cti(10), PointEvent(15, "b"), Cti(20)],
        "alter_event_start_time",
        r"CTI 20 lands at -20, before CTI -10, .* out: time would go back",
    ),
    "an expression": (
        lambda st: st.alter_event_start_time(100 - pl.col("start").cast(pl.Int64)),
        [PointEvent(1, "a"), Cti(10), PointEvent(15, "b"), Cti(20)],
        "alter_event_start_time",
        "time would go back",
    ),
}


@pytest.mark.parametrize(
    ("compose", "events", "operator", "message"), TRAVELS.values(), ids=TRAVELS
)
def test_time_travel_that_breaks_a_promise_is_a_cti_violation(
    compose: Compose, events: list[Any], operator: str, message: str
) -> None:
    """The error names the operator, its line, the row, both times and the safe forms."""
    out, [error] = collect(compose(from_iterator(events)))
    assert all(event.start < 10 for event in out)
    assert isinstance(error, CtiViolationError)
    assert re.search(rf"(?s){message}.*{SAFE}.*{place_pattern(operator, __file__)}", str(error))


ENDLESS = [IntervalEvent(1, rxt.MAX_TIME, {"x": 1}), PointEvent(2, {"x": 2}), Cti(50)]

UNBOUNDED: dict[str, tuple[Compose, str, str]] = {
    "hopping": (
        lambda st: st.hopping_window(10, 5).aggregate(n=agg.count()),
        "hopping_window().aggregate",
        "hopping_window2, which gives a row only",
    ),
    "tumbling by centuries": (
        lambda st: st.tumbling_window(10**15).aggregate(n=agg.first("x")),
        "tumbling_window().aggregate",
        "hopping_window2, which gives a row only",
    ),
    "points": (
        lambda st: st.tumbling_window(10, output=WindowOutput.POINT_AT_END).aggregate(
            n=agg.min("x")
        ),
        "tumbling_window().aggregate",
        "hopping_window2, which gives a row only",
    ),
    "top_k": (
        lambda st: st.hopping_window(10, 5).top_k(1, "x"),
        "hopping_window().top_k",
        "hopping_window2, which gives a row only",
    ),
    "chop": (lambda st: st.chop(10), "chop", "never end, such as .*'x': 1.*clip_event_duration"),
    "sample": (lambda st: st.sample(10), "sample", "never end, such as .*'x': 1"),
    "chop by a tick": (
        lambda st: st.clip_event_duration(10**15).chop(1),
        "chop",
        "into 1e.15 pieces. Hint: choose a longer period",
    ),
}


@pytest.mark.parametrize(("compose", "operator", "message"), UNBOUNDED.values(), ids=UNBOUNDED)
def test_rows_that_never_end_have_no_last_window(
    compose: Compose, operator: str, message: str
) -> None:
    """At the end of time an operator with infinitely many results raises an error with a hint."""
    _, [error] = collect(compose(from_iterator(ENDLESS)))
    assert isinstance(error, UnboundedWindowError)
    assert re.search(rf"(?s){message}.*{place_pattern(operator, __file__)}", str(error))


def test_windows_of_endless_rows_are_returned_up_to_the_cti() -> None:
    """Results that are final before the end of time leave; those of hopping_window2 are finite."""
    count = {"n": agg.count()}
    out, _ = collect(from_iterator(ENDLESS).tumbling_window(10).aggregate(**count))
    assert [(event.start, event.payload["n"]) for event in out][:2] == [(0, 2), (10, 1)]
    out, errors = collect(from_iterator(ENDLESS).hopping_window2(10, 10).aggregate(**count))
    assert errors == []
    assert out == [IntervalEvent(10, 20, {"n": 2}), IntervalEvent(20, rxt.MAX_TIME, {"n": 1})]


def test_a_window_that_ends_with_time_gives_no_point() -> None:
    """No row starts at the last tick; the point of a window before it is there."""
    late = from_iterator([PointEvent(rxt.MAX_TIME - 3, {"x": 1}), Cti(rxt.MAX_TIME)])
    windows = late.hopping_window(4, 2, output=WindowOutput.POINT_AT_END)
    points = rxt.Collect(rxt.EventShape.POINT)
    with windows.aggregate(n=agg.count()).run(points):
        pass
    assert points.batch.start.tolist() == [rxt.MAX_TIME - 1]
