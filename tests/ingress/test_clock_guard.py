"""Clocks that run ahead of the wall clock: they do not advance time, by event and by column."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import Cti, EdgeEvent, EventBatch, IntervalEvent, LateReason, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import END_EDGE, ROW, START_EDGE
from rxtemporal.errors import AdvanceTimeError, ArgumentError
from rxtemporal.ingress.clock_guard import WINDOW, ClockGuard, ClockOffset
from rxtemporal.ingress.door import Door

DROP, ADJUST = rxt.AdvanceTimePolicy.DROP, rxt.AdvanceTimePolicy.ADJUST
KEEP, LATE, REJECT = rxt.WhenAhead.KEEP, rxt.WhenAhead.LATE, rxt.WhenAhead.REJECT


def settings(
    frequency: Any = 1, delay: int = 0, policy: Any = DROP, when: rxt.WhenAhead = KEEP
) -> rxt.AdvanceTimeSettings:
    """Settings with a guard of ten ticks."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay)
    return rxt.AdvanceTimeSettings(generation, policy=policy, ahead=10, when_ahead=when)


# The guard --------------------------------------------------------------------------------------


def test_what_is_further_ahead_than_allowed_is_found() -> None:
    """Rows count by their starts, CTIs by their times; end edges and the end of time never do."""
    guard = ClockGuard(10, lambda: 100)
    cases = {
        PointEvent(110, "a"): False,
        PointEvent(111, "a"): True,
        IntervalEvent(50, 900, "a"): False,
        EdgeEvent.create_start(111, "a"): True,
        EdgeEvent.create_end(111, 120, "a"): False,
        Cti(110): False,
        Cti(111): True,
        Cti(MAX_TIME): False,
    }
    assert {event: guard.is_ahead(event) for event in cases} == cases
    assert not guard.is_ahead("no event")


def test_the_clock_is_read_only_if_an_item_is_ahead_of_the_last_reading() -> None:
    """An item in time costs no reading of the clock; one ahead costs one."""
    readings = iter([100, 200])
    guard = ClockGuard(10, lambda: next(readings))
    assert [guard.is_time_ahead(time) for time in (105, 110, 90, 205, 210)] == [False] * 5
    with pytest.raises(StopIteration):
        guard.is_time_ahead(211)


def test_a_wall_clock_that_is_set_back_is_soon_asked_again() -> None:
    """What it said before does not count: a row that is ahead of the right time is found."""
    minute = 60_000_000
    readings = iter([1_000 * minute, 10 * minute])
    guard = ClockGuard(minute, lambda: next(readings))
    assert not guard.is_time_ahead(9 * minute)
    assert guard.is_time_ahead(900 * minute)


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.sampled_from([ROW, START_EDGE, END_EDGE])), max_size=9
    )
)
def test_a_mask_of_rows_says_what_is_said_of_each(rows: list[tuple[int, int]]) -> None:
    """The mask has the answer for each row; without a row ahead there is none."""
    makes = {
        ROW: lambda s: PointEvent(s, "a"),
        START_EDGE: lambda s: EdgeEvent.create_start(s, "a"),
        END_EDGE: lambda s: EdgeEvent.create_end(s, s + 5, "a"),
    }
    guard = ClockGuard(10, lambda: 20)
    expected = [guard.is_ahead(makes[kind](start)) for start, kind in rows]
    start, kind = np.array([*rows, (0, 0)], np.int64)[:-1].T
    mask = guard.rows_ahead(start, kind.astype(np.int8))
    assert (mask is None) == (not any(expected))
    assert mask is None or mask.tolist() == expected


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"ahead": -1}, "ahead"),
        ({"ahead": "1 minute"}, "ahead"),
        ({"when_ahead": "late"}, "WhenAhead.KEEP or LATE, got 'late'"),
        ({"when_ahead": LATE}, "no effect without ahead="),
        ({"ahead": 1, "when_ahead": REJECT}, "an rxt.PushSource rejects rows"),
    ],
)
def test_settings_that_make_no_guard_are_refused(given_: dict[str, Any], message: str) -> None:
    """A wrong ``ahead`` or ``when_ahead`` is an error where the settings are made."""
    generation = rxt.AdvanceTimeGenerationSettings(1, 0)
    with pytest.raises((ArgumentError, AdvanceTimeError), match=message):
        rxt.AdvanceTimeSettings(generation, policy=DROP, **given_)


# The door ---------------------------------------------------------------------------------------


def test_an_event_ahead_makes_no_cti_and_is_kept() -> None:
    """Events after it are in time; it does not count for the frequency, nor does its CTI."""
    door = Door(settings(frequency=2), "s")
    assert door.accept(PointEvent(5, "a"))[0] is not None
    assert door.accept(PointEvent(900, "ahead"), ahead=True)[0] == PointEvent(900, "ahead")
    assert door.accept(Cti(900), ahead=True) == (None, 0, None)
    assert max(door.cti, MIN_TIME) == MIN_TIME
    door.accept(PointEvent(6, "b"))
    assert (door.cti, door.events, door.late.total()) == (6, 3, 0)


def test_an_event_ahead_may_be_dropped_as_late() -> None:
    """It is counted under a reason of its own; so its end edge has no open row."""
    door = Door(settings(when=LATE), "s")
    door.accept(PointEvent(5, "a"))
    kept, row, late = door.accept(EdgeEvent.create_start(900, "b"), ahead=True)
    assert (kept, row, late) == (None, 0, (LateReason.AHEAD, 5, 0))
    door.accept(EdgeEvent.create_end(900, 950, "b"))
    assert door.late == {LateReason.AHEAD: 1, LateReason.NO_OPEN_ROW: 1}
    assert door.cti == 5


frequencies = st.integers(1, 3) | st.integers(1, 9).map(lambda n: timedelta(microseconds=n))
rows_drawn = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 9), st.booleans()), min_size=1, max_size=12
)


def events_of(rows: Sequence[tuple[int, int, bool]]) -> list[rxt.IntervalEvent]:
    """The drawn rows as intervals, numbered."""
    return [IntervalEvent(s, s + length, {"n": n}) for n, (s, length, _) in enumerate(rows)]


@pytest.mark.parametrize("when", [KEEP, LATE])
@pytest.mark.parametrize("policy", [DROP, ADJUST])
@given(rows=rows_drawn, frequency=frequencies, delay=st.integers(-3, 8), cut=st.integers(0, 12))
def test_columns_pass_the_guard_as_events_do(
    policy: Any, when: rxt.WhenAhead, rows: Any, frequency: Any, delay: int, cut: int
) -> None:
    """Accepted rows, late ones, CTIs and counters are the same, however batches are cut."""
    given_ = settings(frequency, delay, policy, when)
    single, columns = Door(given_, "s"), Door(given_, "s")
    events, out, late = events_of(rows), [], []
    for event, (_, _, ahead) in zip(events, rows, strict=True):
        kept, _, lateness = single.accept(event, ahead)
        out += [] if kept is None else [(kept.start, kept.end, kept.payload["n"])]
        late += [] if lateness is None else [lateness]
    found: list[Any] = []
    found_late: list[Any] = []
    for part in slice(0, cut), slice(cut, None):
        some = events[part]
        batch = EventBatch.of_rows(
            np.array([each.start for each in some], np.int64),
            np.array([each.end for each in some], np.int64),
            pl.DataFrame({"n": [each.payload["n"] for each in some]}, schema={"n": pl.Int64}),
            MIN_TIME,
        )
        mask = np.array([ahead for _, _, ahead in rows[part]], np.bool_)
        accepted, lates = columns.accept_batch(batch, mask if mask.any() else None)
        found += zip(
            accepted.start.tolist(), accepted.end.tolist(), accepted.payload["n"], strict=True
        )
        found_late += [] if lates is None else zip(lates.reason, lates.cti, lates.by, strict=True)
    reasons = [None, *LateReason]
    assert (found, [(reasons[r], c, b) for r, c, b in found_late]) == (out, late)
    for name in "state", "largest_lateness", "late", "events":
        assert getattr(columns, name) == getattr(single, name)


@pytest.mark.parametrize("when", [KEEP, LATE])
def test_edges_ahead_in_columns_keep_their_rows(when: rxt.WhenAhead) -> None:
    """A start edge ahead opens its row if it is kept; a dropped one takes its end edge along."""
    door = Door(settings(when=when), "s")
    columns = np.array([[5, MAX_TIME, 1], [900, MAX_TIME, 2], [900, 950, 2], [5, 9, 1]]).T.copy()
    batch = EventBatch(*columns, pl.DataFrame({"n": [0, 1, 1, 0]}), MIN_TIME)
    accepted, late = door.accept_batch(batch, np.array([False, True, False, False]))
    assert accepted.start.tolist() == ([5, 900, 900, 5] if when is KEEP else [5, 5])
    assert (late is None) == (when is KEEP)
    assert door.late == ({} if when is KEEP else {LateReason.AHEAD: 1, LateReason.NO_OPEN_ROW: 1})
    assert door.cti == 5


# The offset -------------------------------------------------------------------------------------


def test_the_offset_is_that_of_the_quickest_item_of_late() -> None:
    """The highest difference counts; what is older than two windows is forgotten."""
    offset = ClockOffset()
    for time, now in (100, 107), (110, 112), (115, 130):
        offset.note(time, now)
    assert offset.ticks == -2
    offset.note(WINDOW, 107 + WINDOW)
    assert offset.ticks == -2
    offset.note(2 * WINDOW, 207 + 2 * WINDOW)
    assert offset.ticks == -107
    offset.note(5 * WINDOW, 5 * WINDOW - 3)
    assert offset.ticks == 3


def test_an_offset_from_before_the_wall_clock_was_set_back_does_not_count() -> None:
    """It was taken by another clock, and the next item shows the one that counts now."""
    offset = ClockOffset()
    offset.note(900, 500)
    assert offset.ticks == 400
    offset.note(310, 300)
    assert offset.ticks == 10
