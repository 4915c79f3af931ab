"""Rows from an observable: dicts with their times in fields, one by one, in lists and frames."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import Cti, IntervalEvent, PointEvent
from rxtemporal.errors import ArgumentError, CtiViolationError, SchemaError

FIELDS = {"device": str, "temp": float}
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def play(items: list[Any], **options: Any) -> list[Any]:
    """Return what comes out of a stream of these items as events."""
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=FIELDS, **options)
    out = rxt.Collect()
    with stream.run(out):
        for item in items:
            subject.on_next(item)
        subject.on_completed()
    return out.to_events()


def row(time: Any, device: str = "a", temp: Any = 20.5, **more: Any) -> dict[str, Any]:
    """Return a row."""
    return {"time": time, "device": device, "temp": temp, **more}


def interval(start: Any, end: Any) -> IntervalEvent:
    """Return what comes out of a row."""
    return IntervalEvent(start, end, {"device": "a", "temp": 20.5})


def test_a_dict_is_a_point_at_its_time() -> None:
    """The time leaves the payload, and CTIs may stand between the rows."""
    assert play([row(5), Cti(6), row(7)], start="time") == [interval(5, 6), interval(7, 8)]


@pytest.mark.parametrize("time", [NOON, "2026-05-01T12:00:00Z", "2026-05-01T14:00:00+02:00"])
def test_a_time_is_a_datetime_or_a_text(time: Any) -> None:
    """Results have the form of the source's times."""
    for items in [row(time)], [[row(time), row(time)]]:
        events = play(items, start="time")
        assert {event.start_time for event in events} == {NOON}


def test_a_row_with_an_end_is_an_interval() -> None:
    """An end of None never comes."""
    rows = [row(5, until=9), row(6, until=None)]
    assert play(rows, start="time", end="until") == [interval(5, 9), interval(6, rxt.MAX_TIME)]


@given(
    st.lists(st.integers(0, 9), max_size=60), st.integers(1, 40), st.sampled_from(["list", "frame"])
)
def test_many_rows_are_the_same_as_one_by_one(times: list[int], size: int, form: str) -> None:
    """Lists and frames of rows give what their rows give one by one, late rows among them."""
    rows = [row(time) for time in times]
    together: list[Any] = [rows[n : n + size] for n in range(0, len(rows), size)]
    if form == "frame":
        together = [pl.DataFrame(each) for each in together]
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(1, 3), policy=rxt.AdvanceTimePolicy.DROP
    )
    options: dict[str, Any] = {"start": "time", "advance_time": settings}
    assert play(together, **options) == play(rows, **options)


def test_a_late_row_breaks_a_cti_without_settings() -> None:
    """As a late event does."""
    for item in row(4), [row(4)] * 40:
        with pytest.raises(CtiViolationError):
            play([row(5), Cti(6), item], start="time")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (row(5, temp="hot"), "an item of stream 'observable' cannot be read: field 'temp' is"),
        ({"time": 5}, "field 'device' is missing"),
        (row("noon"), "'time' is not a valid time: 'noon'"),
        (row(datetime(2026, 5, 1)), "naive datetime"),
        (7, "a row is a dict or an event, got 7"),
        ([row(5), row(6, temp="hot")], "row 1 of 2 of stream 'observable'"),
        ([row(5)] * 40 + [row(None)], "row 40 of 41 of stream"),
    ],
)
def test_a_row_that_does_not_fit_ends_the_stream(item: Any, reason: str) -> None:
    """The error says which row it is, and why; the rows before it have come out."""
    with pytest.raises(SchemaError) as caught:
        play([row(1), item], start="time")
    assert reason in str(caught.value)
    assert "Hint: rxt.PushSource" in str(caught.value)


def test_events_and_batches_may_be_mixed_with_rows() -> None:
    """They pass as without start=."""
    event = PointEvent(6, {"device": "a", "temp": 20.5})
    batch = rxt.EventBatch.from_dicts([{"start_time": 7, "device": "a", "temp": 20.5}], cti=8)
    found = play([row(5), event, batch, [row(8)]], start="time")
    assert found == [interval(5, 6), interval(6, 7), interval(7, 8), interval(8, 9)]


def test_rows_pass_a_hand_off_and_a_log(tmp_path: Any) -> None:
    """They are events behind whatever stands before the query."""
    assert play([row(5), row(6)], start="time", hand_off=rxt.HandOff(2)) == [
        interval(5, 6),
        interval(6, 7),
    ]
    subject: Subject[Any] = Subject()
    stream = rxt.from_observable(subject, schema=FIELDS, start="time")
    out = rxt.Collect()
    with stream.run(out, log=tmp_path / "log"):
        subject.on_next(row(NOON))
        subject.on_next([row(NOON + timedelta(hours=1)), row(NOON)])
        subject.on_completed()
    found = sorted(event.start_time for event in out.to_events())
    assert found == [NOON, NOON, NOON + timedelta(hours=1)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"start": "time"}, "are read by the schema"),
        ({"end": "until", "schema": FIELDS}, "goes with start="),
        ({"start": "", "schema": FIELDS}, "start is the name of a field"),
        ({"start": "time", "end": "time", "schema": FIELDS}, "different fields"),
    ],
)
def test_wrong_arguments_are_refused_at_once(options: dict[str, Any], reason: str) -> None:
    """The stream is not made."""
    with pytest.raises(ArgumentError, match=reason):
        rxt.from_observable(Subject(), **options)
