"""Order in time: sorting and merging are those of a stable sort."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.order import MANY, merge, sort

TIMES = st.lists(st.integers(0, 9) | st.sampled_from([MIN_TIME, -1, 1 << 61, MAX_TIME]))


@given(TIMES.filter(bool))
def test_entries_are_sorted_by_time_and_then_as_they_came(times: list[int]) -> None:
    """The order is that of a stable sort, be the times near each other or at the ends of time.

    The times of a batch are read-only.
    """
    given_times = np.array(times)
    given_times.setflags(write=False)
    time, what = sort(given_times, np.arange(len(times)))
    assert list(zip(time.tolist(), what.tolist(), strict=True)) == sorted(
        zip(times, range(len(times)), strict=True)
    )


@given(
    share=st.sampled_from([0.0005, 0.01, 0.2, 0.5, 1.0]),
    latest=st.sampled_from([3, 1_000, 1 << 62]),
    seed=st.integers(0, 99),
)
def test_many_entries_of_which_some_are_late_are_sorted(
    share: float, latest: int, seed: int
) -> None:
    """The order is that of a stable sort, however many are late, and by how much."""
    rng = np.random.default_rng(seed)
    count = MANY + seed
    times = np.arange(count) // 3  # some are equal
    is_late = rng.random(count) < share
    times[is_late] -= rng.integers(0, latest, int(is_late.sum()))
    time, what = sort(times, np.arange(count))
    order = np.argsort(times, kind="stable")
    assert what.tolist() == order.tolist()
    assert time.tolist() == times[order].tolist()


@given(TIMES, TIMES)
def test_runs_are_merged_and_the_first_comes_first(one: list[int], two: list[int]) -> None:
    """A merge is a stable sort of the first run followed by the second."""
    one, two = sorted(one), sorted(two)
    numbers = np.arange(len(one) + len(two))
    time, what = merge(
        np.array(one, np.int64), numbers[: len(one)], np.array(two, np.int64), numbers[len(one) :]
    )
    assert list(zip(time.tolist(), what.tolist(), strict=True)) == sorted(
        zip(one + two, numbers.tolist(), strict=True)
    )
