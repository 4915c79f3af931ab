"""Pace of lanes: when they are told the times of their devices, and when one may be split."""

from __future__ import annotations

import pytest

from rxtemporal.operators.lanes.pace import LanePace


class Clock:
    """Clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    """Return a clock at its beginning."""
    return Clock()


def split(pace: LanePace, clock: Clock, seconds: float, *, is_split: bool = True) -> None:
    """Take so long to split a lane, or to find that this is of no use."""
    with pace.split() as note_split:
        clock.seconds += seconds
        if is_split:
            note_split()


def test_lanes_are_told_after_a_second_or_many_rows(clock: Clock) -> None:
    """Whichever comes first; until then they are awaited, and afterwards none is."""
    pace = LanePace(clock)
    pace.tell()
    assert pace.find_wait() is None
    pace.note_stale([3, 4])
    clock.seconds = 0.25
    assert not pace.count_rows(65_535)
    assert pace.find_wait() == 0.75
    assert pace.count_rows(1)
    assert pace.tell() == {3, 4}
    assert not pace.count_rows(1)
    clock.seconds = 1.25
    assert pace.count_rows(1)
    assert pace.tell() == set()


def test_a_lane_that_is_gone_is_told_nothing(clock: Clock) -> None:
    """It has been merged with another one."""
    pace = LanePace(clock)
    pace.note_stale([3, 4])
    pace.forget(4)
    assert pace.tell() == {3}


def test_quick_splits_follow_each_other(clock: Clock) -> None:
    """Some may come at once, until they have taken more than their share of the time."""
    pace = LanePace(clock)
    split(pace, clock, 0.04)
    assert pace.may_split()
    split(pace, clock, 0.04)
    assert not pace.may_split()


def test_a_slow_split_is_followed_by_another_after_a_second(clock: Clock) -> None:
    """However long it has taken."""
    pace = LanePace(clock)
    split(pace, clock, 5.0)
    pace.postpone(7)
    assert (pace.may_split(), pace.find_wait()) == (False, 1.0)
    clock.seconds += 1.0
    assert (pace.may_split(), pace.find_wait()) == (True, 0.0)
    assert (pace.take_postponed(), pace.take_postponed()) == ({7}, set())


def test_a_search_in_vain_counts(clock: Clock) -> None:
    """It costs the devices of a lane; but the second begins with the last split."""
    pace = LanePace(clock)
    split(pace, clock, 0.5, is_split=False)
    assert not pace.may_split()
    clock.seconds = 1.0
    assert pace.may_split()


def test_after_a_restart_all_lanes_may_wait(clock: Clock) -> None:
    """For their times, and to be split."""
    pace = LanePace(clock)
    pace.begin_with([1, 2])
    assert (pace.take_postponed(), pace.tell()) == ({1, 2}, {1, 2})
