"""The largest lateness of a door is the delay that would have lost nothing, and no tick more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.ingress.door import Door

ADJUST, DROP = rxt.AdvanceTimePolicy.ADJUST, rxt.AdvanceTimePolicy.DROP

frequencies = st.integers(1, 4) | st.integers(1, 9).map(lambda n: timedelta(microseconds=n))
starts = st.integers(-5, 40)


@st.composite
def arrivals(draw: st.DrawFn) -> list[Any]:
    """Events in any order of time; an end edge comes after its start edge."""
    events: list[Any] = []
    opened: list[Any] = []
    for n in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["point", "interval", "start", "end"]))
        start, length = draw(starts), draw(st.integers(1, 12))
        if kind == "end" and opened:
            row = opened.pop(draw(st.integers(0, len(opened) - 1)))
            end = row.start + length
            events.append(EdgeEvent.create_end(row.start, end, row.payload))
        elif kind == "start":
            opened.append(EdgeEvent.create_start(start, {"n": n}))
            events.append(opened[-1])
        elif kind == "interval":
            events.append(IntervalEvent(start, start + length, {"n": n}))
        else:
            events.append(PointEvent(start, {"n": n}))
    return events


def door_after(
    events: list[Any], frequency: Any, delay: int, policy: Any, *, delays_ctis: bool = False
) -> Door:
    """A door that has judged the events."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay)
    settings = rxt.AdvanceTimeSettings(generation, policy=policy)
    door = Door(settings, "s", delays_ctis=delays_ctis)
    for event in events:
        door.accept(event)
    return door


@pytest.mark.parametrize("policy", [DROP, ADJUST])
@given(events=arrivals(), frequency=frequencies, delay=st.integers(-4, 30))
def test_it_is_the_delay_that_would_have_lost_nothing(
    policy: Any, events: list[Any], frequency: Any, delay: int
) -> None:
    """With that delay nothing is late, with a tick less something is; whatever the delay is now."""
    largest = door_after(events, frequency, delay, policy).largest_lateness
    again = door_after(events, frequency, largest, policy)
    assert (again.late.total(), again.largest_lateness) == (0, largest)
    if largest > 0:
        assert door_after(events, frequency, largest - 1, policy).late.total() > 0


@given(
    events=st.lists(st.one_of(starts.map(lambda t: PointEvent(t, t)), starts.map(Cti)), min_size=1),
    frequency=frequencies,
    delay=st.integers(0, 30),
)
def test_ctis_that_the_delay_holds_for_count_as_sent(
    events: list[Any], frequency: Any, delay: int
) -> None:
    """Where a sent CTI counts less the delay, the delay helps against it, too."""
    largest = door_after(events, frequency, delay, DROP, delays_ctis=True).largest_lateness
    assert door_after(events, frequency, largest, DROP, delays_ctis=True).late.total() == 0
    if largest > 0:
        less = door_after(events, frequency, largest - 1, DROP, delays_ctis=True)
        assert less.late.total() > 0


def test_the_end_of_time_is_not_delayed_and_not_counted() -> None:
    """No delay helps against the end of time, so what comes after it counts for nothing."""
    events = [PointEvent(5, "a"), Cti(rxt.MAX_TIME), PointEvent(9, "b")]
    door = door_after(events, 1, 3, DROP, delays_ctis=True)
    assert (door.cti, door.late.total(), door.largest_lateness) == (rxt.MAX_TIME, 1, 0)


def test_what_comes_from_outside_has_no_part_in_it() -> None:
    """An event late by an imported CTI alone is counted as such: no delay of this stream helps."""
    door = door_after([PointEvent(5, "a")], 1, 0, DROP)
    door.import_cti(50)
    door.accept(PointEvent(7, "b"))
    assert (door.late.total(), door.late_by_import, door.largest_lateness) == (1, 1, 0)


@given(
    times=st.lists(starts, min_size=1),
    frequency=frequencies,
    delay=st.integers(-4, 30),
    cut=st.integers(0, 9),
)
def test_columns_find_the_same(times: list[int], frequency: Any, delay: int, cut: int) -> None:
    """Rows in columns give what events give, in order or not, however they are cut."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay)
    door = Door(rxt.AdvanceTimeSettings(generation, policy=DROP), "s")
    for part in times[:cut], times[cut:], sorted(times):
        start = np.array(part, np.int64)
        door.accept_batch(EventBatch.of_rows(start, start + 1, pl.DataFrame({"n": part}), MIN_TIME))
    events = [PointEvent(time, time) for time in [*times, *sorted(times)]]
    other = door_after(events, frequency, delay, DROP)
    assert (door.state, door.largest_lateness) == (other.state, other.largest_lateness)


@given(times=st.lists(st.lists(starts, min_size=1), min_size=2, max_size=3))
def test_streams_judged_together_find_the_same(times: list[list[int]]) -> None:
    """Frames that are merged by time give the delay that each of them needs by itself."""
    assume(any(each != sorted(each) for each in times))
    generation = rxt.AdvanceTimeGenerationSettings(1, 0)
    app = rxt.Application("merged")
    for n, each in enumerate(times):
        imports = rxt.AdvanceTimeImportSettings(f"s{(n + 1) % len(times)}")
        frame = pl.DataFrame({"t": each, "n": each})
        stream = rxt.from_polars(
            frame,
            start="t",
            advance_time=rxt.AdvanceTimeSettings(generation, imports, policy=DROP),
        )
        app.query(f"q{n}", app.define_stream(f"s{n}", stream))
    sinks = {f"q{n}": rxt.Collect() for n in range(len(times))}
    with app.run(sinks=sinks) as process:
        process.wait(10)
    ran = process.diagnostics()
    expected = [
        door_after([PointEvent(t, t) for t in each], 1, 0, DROP).largest_lateness for each in times
    ]
    assert [each.largest_lateness for each in ran.streams] == expected
    assert ran.largest_lateness == max(expected)
