"""Pushed sources and the wall clock: one wrong clock, restarts, jumps, offsets, and lateness."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reactivex.testing import TestScheduler

import rxtemporal as rxt
from rxtemporal.core.ticks import TICKS_PER_SECOND

SECOND = TICKS_PER_SECOND
YEAR_2036 = 2_082_758_400
MINUTE = timedelta(minutes=1)


def reading(second: int, device: str = "a") -> dict[str, Any]:
    """A row at a second."""
    return {"ts": second * SECOND, "device": device}


class Devices:
    """A pushed source of readings, run at second 100 of virtual time."""

    def __init__(self, *, run: Any = (), **options: Any) -> None:
        self.clock = TestScheduler()
        self.clock.advance_to(100)
        self.source = rxt.PushSource("readings", schema={"device": str}, start="ts", **options)
        self.sink = rxt.Collect()
        self.process = self.source.stream.run(self.sink, scheduler=self.clock, **dict(run))

    def push_all(self, count: int, *, many: bool) -> int:
        """Push readings of the last minute from ten devices; return how many were late."""
        rows = [reading(50 + n * 50 // count, f"d{n % 10}") for n in range(count)]
        pushes = [rows] if many else [[row] for row in rows]
        return sum(len(self.source.push(push, input="good").late) for push in pushes)

    @property
    def inputs(self) -> Any:
        """The counters of each input, as the process tells them."""
        (stream,) = self.process.diagnostics().streams
        assert stream.inputs == self.source.stats().inputs
        assert stream.largest_lateness == self.source.stats().largest_lateness
        return stream.inputs


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("when", rxt.WhenAhead)
def test_one_clock_in_2036_makes_nobody_late(
    tmp_path: Path, when: rxt.WhenAhead, many: bool
) -> None:
    """A thousand of a thousand readings after it are accepted, and after a restart, too."""
    options: Any = {"ahead": MINUTE, "when_ahead": when, "run": {"resume": tmp_path}}
    before = Devices(**options)
    verdict = before.source.push(reading(YEAR_2036), input="wrong")
    fate = (verdict.accepted, len(verdict.late), len(verdict.rejected))
    assert fate == ((1, 0, 0), (0, 1, 0), (0, 0, 1))[list(rxt.WhenAhead).index(when)]
    assert before.push_all(1_000, many=many) == 0
    before.process.stop()
    after = Devices(**options)
    assert after.source.cti == 99 * SECOND
    assert after.inputs["good"].late == 0
    assert after.inputs["good"].lag == 0
    assert len(after.source.push([reading(99)] * 5).late) == 0
    after.process.stop()


@pytest.mark.parametrize("many", [False, True])
def test_without_a_guard_it_makes_all_late_and_is_saved(tmp_path: Path, many: bool) -> None:
    """The same without ``ahead=``: a thousand of a thousand are lost, and the next life is lost."""
    before = Devices(run={"resume": tmp_path})
    before.source.push(reading(YEAR_2036), input="wrong")
    assert before.push_all(1_000, many=many) == 1_000
    before.process.stop()
    after = Devices(run={"resume": tmp_path})
    assert after.push_all(10, many=many) == 10
    after.process.stop()


def test_a_cti_ahead_is_ignored() -> None:
    """A pushed CTI is compared with the clock like a row, and counted by its input."""
    devices = Devices(ahead=MINUTE)
    devices.source.push([reading(90), rxt.Cti(YEAR_2036 * SECOND)], input="wrong")
    assert devices.source.cti == 90 * SECOND
    assert devices.inputs["wrong"].ahead == 1
    devices.process.stop()


def test_a_jump_is_logged_with_the_name_of_the_input(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each input that moves the CTI by more than a day beyond the clock."""
    devices = Devices()
    for name, second in ("a", 95), ("b", YEAR_2036), ("b", YEAR_2036 + 1), ("c", YEAR_2036 + 2):
        devices.source.push(reading(second), input=name)
    told = [each.getMessage() for each in caplog.records if "more than a day" in each.getMessage()]
    assert [("input='b'" in each, "input='c'" in each) for each in told] == [
        (True, False),
        (False, True),
    ]
    devices.process.stop()


@pytest.mark.parametrize("when", rxt.WhenAhead)
def test_a_wrong_clock_is_seen_in_the_offset_of_its_input(when: rxt.WhenAhead) -> None:
    """Whatever has come before: a row ahead always shows."""
    devices = Devices(ahead=MINUTE, when_ahead=when)
    for second in 97, 98:
        devices.source.push(reading(second), input="wrong")
    devices.source.push(reading(95), input="right")
    devices.source.push(reading(1_000), input="wrong")
    inputs = devices.inputs
    assert inputs["right"].clock_offset == -5 * SECOND
    assert inputs["wrong"].clock_offset == 900 * SECOND
    assert (inputs["wrong"].ahead, inputs["right"].ahead) == (1, 0)
    devices.process.stop()


@pytest.mark.parametrize("many", [False, True])
def test_an_input_whose_rows_are_all_late_has_a_lag_and_an_offset(many: bool) -> None:
    """A late row tells of its device's clock, however it is pushed."""
    devices = Devices()
    devices.source.push(reading(90), input="right")
    late = reading(30)
    verdict = devices.source.push([late, late] if many else late, input="wrong")
    assert len(verdict.late) == (2 if many else 1)
    wrong = devices.inputs["wrong"]
    assert (wrong.lag, wrong.clock_offset) == (60 * SECOND, -70 * SECOND)
    devices.process.stop()


def test_of_a_push_of_many_the_latest_row_is_compared_with_the_clock() -> None:
    """Also where its rows are judged one by one."""
    devices = Devices()
    events = [rxt.PointEvent(second * SECOND, {"device": "a"}) for second in (70, 95, 80)]
    devices.source.push(events, input="events")
    devices.source.push([reading(70), reading(95), reading(80)], input="dicts")
    assert [devices.inputs[name].clock_offset for name in ("events", "dicts")] == [-5 * SECOND] * 2
    devices.process.stop()


def test_the_time_of_an_end_edge_is_its_end() -> None:
    """So an input that ends its rows keeps up; no input has reached the end of time."""
    devices = Devices(end="end", shape=rxt.EventShape.EDGE)
    for name, end in ("a", 95), ("b", 40), ("b", None):
        row = reading(30, name)
        devices.source.push(row, input=name)
        ends = rxt.MAX_TIME if end is None else end * SECOND
        devices.source.push({**row, "end": ends}, input=name)
    devices.source.push(rxt.Cti(rxt.MAX_TIME), input="c")
    assert {name: each.lag for name, each in devices.inputs.items()} == {
        "a": 0, "b": 55 * SECOND, "c": None,
    }  # fmt: skip
    assert devices.inputs["c"].clock_offset is None
    devices.process.stop()


pushes_drawn = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.lists(st.integers(0, 40), min_size=1, max_size=40),
        st.none() | st.integers(0, 40),
    ),
    min_size=1,
    max_size=6,
)


@given(pushes=pushes_drawn, delay=st.integers(0, 30), single=st.booleans())
def test_the_largest_lateness_is_the_delay_that_would_have_lost_nothing(
    pushes: Any, delay: int, single: bool
) -> None:
    """With it as the delay nothing is late, with a tick less something is; also by input."""

    def stats(delay: int) -> Any:
        source = rxt.PushSource("s", schema={}, start="ts", delay=delay)
        process = source.stream.run(rxt.Collect(), scheduler=TestScheduler())
        for name, times, cti in pushes:
            rows = [{"ts": time} for time in times]
            for push in rows if single else [rows]:
                source.push(push, input=name)
            if cti is not None:
                source.push(rxt.Cti(cti), input=name)
        told = source.stats()
        (stream,) = process.diagnostics().streams
        assert stream.largest_lateness == told.largest_lateness
        process.stop()
        return told

    now = stats(delay)
    again = stats(now.largest_lateness)
    assert (again.late, again.largest_lateness) == (0, now.largest_lateness)
    if now.largest_lateness > 0:
        assert stats(now.largest_lateness - 1).late > 0
    for name, each in now.inputs.items():
        assert stats(each.largest_lateness).inputs[name].late == 0
        if each.largest_lateness > 0:
            assert stats(each.largest_lateness - 1).inputs[name].late > 0
