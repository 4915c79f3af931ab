"""The wall clock of a machine that is set while a program runs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal.core.ticks import to_datetime
from rxtemporal.ingress.clock_guard import ClockGuard
from rxtemporal.reactive import clock as clocks
from rxtemporal.reactive.clock import LASTING, Clock, LastingTime, read_steady

SECOND = 10**9
START = 1_795_000_000 * SECOND
YEAR_2036 = 2_082_758_400 * SECOND


class Machine:
    """A machine whose wall clock somebody sets; times are nanoseconds."""

    def __init__(self) -> None:
        self.steady = 0
        self.wrong = 0
        self.clock = LastingTime(lambda: self.true + self.wrong, lambda: self.steady)

    @property
    def true(self) -> int:
        """The true time."""
        return START + self.steady

    def read(self) -> int:
        """What the clock reads beyond the true time."""
        return self.clock.read() - self.true


def test_a_step_counts_once_it_has_lasted() -> None:
    """For a minute time goes on as before; then the wall clock is believed, and a slewed one is."""
    machine = Machine()
    assert machine.read() == 0
    for wrong in YEAR_2036 - START, -START // 2:
        machine.wrong = wrong
        assert machine.read() == 0
        machine.steady += LASTING - 1
        assert machine.read() == 0
        machine.wrong = 0
        assert machine.read() == 0
    machine.wrong = 5 * SECOND
    assert machine.read() == 0
    machine.steady += LASTING
    assert machine.read() == 5 * SECOND
    for _ in range(10):
        machine.wrong += SECOND // 2
        assert machine.read() == machine.wrong


def test_a_step_that_is_followed_by_another_begins_to_last_anew() -> None:
    """A clock that is set again and again is not believed, and each time is logged."""
    machine = Machine()
    machine.read()
    for _ in range(5):
        machine.wrong += 10 * SECOND
        assert machine.read() == 0
        machine.steady += LASTING - SECOND


def test_a_clock_of_virtual_time_and_the_machine_are_read() -> None:
    """Both clocks go on; the steady one, too."""
    assert Clock().now() <= Clock().now()
    assert read_steady() <= read_steady()


steps = st.lists(
    st.tuples(
        st.integers(0, 14),
        st.sampled_from([0, 0, 3600, -3600, (YEAR_2036 - START) // SECOND, -START // SECOND]),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@given(steps, st.booleans())
def test_a_device_in_2036_never_moves_the_others(
    drawn: list[tuple[int, int, bool]], in_batches: bool
) -> None:
    """The wall clock is set for less than a minute at a time; punctual rows are never late."""
    machine, name = Machine(), "_MACHINE"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clocks, name, machine.clock)
        machine.read()
        source = rxt.PushSource("s", schema={"n": int}, ahead=timedelta(minutes=1))
        process = source.stream.run(rxt.Collect())
        wrong_since = 0
        for seconds, wrong, far in drawn:
            machine.steady += seconds * SECOND
            if not machine.wrong:
                wrong_since = machine.steady
            is_over = machine.steady - wrong_since >= LASTING // 2
            machine.wrong = 0 if is_over else wrong * SECOND
            if far:
                source.push([row(YEAR_2036)] if in_batches else row(YEAR_2036), input="far")
            verdict = source.push([row(machine.true)] if in_batches else row(machine.true))
            assert (verdict.accepted, verdict.late) == (1, ())
            assert verdict.cti == to_datetime(machine.true // 1000)
        process.stop()


def row(time: int) -> dict[str, Any]:
    """A row at a time in nanoseconds."""
    return {"time": to_datetime(time // 1000), "n": 1}


def test_one_wrong_reading_does_not_switch_a_guard_off() -> None:
    """The clock is in 2036 for a moment, and then right again; so is the guard."""
    reading = 100
    guard = ClockGuard(10, lambda: reading)
    assert not guard.is_time_ahead(105)
    reading = 10**9
    assert not guard.is_time_ahead(112)
    reading = 103
    assert guard.is_time_ahead(10**8)
    assert not guard.is_time_ahead(112)
