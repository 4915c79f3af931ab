"""Sequence numbers that have been seen, in bounded memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.ingress.seen_numbers import WINDOW, SeenNumbers

NUMBERS = st.lists(st.integers(0, 30), max_size=60)


@given(NUMBERS)
def test_the_numbers_are_a_set(numbers):
    """A number is new the first time that it comes, in any order."""
    seen, expected = SeenNumbers(), set()
    for number in numbers:
        assert (number in seen) == (number in expected)
        assert seen.add(number) == (number not in expected)
        expected.add(number)
    assert seen.highest == max(expected, default=None)
    missing = set(range(40)) - expected
    assert seen.mark == min(missing)


@given(st.lists(NUMBERS.filter(len), max_size=6))
def test_many_numbers_are_added_as_one_by_one(parts):
    """Columns of numbers give the same answers as single numbers, and the state can be saved."""
    columns, single = SeenNumbers(), SeenNumbers()
    for part in parts:
        found = columns.add_all(np.array(part, np.int64)).tolist()
        assert found == [single.add(number) for number in part]
        loaded = SeenNumbers()
        loaded.load(columns.save())
        columns = loaded
    assert columns.save() == single.save()


def test_rows_without_a_number_are_always_new():
    """A negative number stands for none, and leaves no trace."""
    seen = SeenNumbers()
    assert seen.add_all(np.array([-1, 0, 1, 1, -1], np.int64)).tolist() == [True] * 3 + [
        False,
        True,
    ]
    assert seen.add_all(np.array([-1, -1], np.int64)).all()
    assert seen.save() == [2, [], []]


def test_a_contiguous_run_is_one_range():
    """Numbers in order cost no memory, whether or not they begin at 0."""
    seen = SeenNumbers()
    assert seen.add_all(np.arange(5, 10_000)).all()
    assert not seen.add_all(np.arange(5, 10_000)).any()
    assert seen.add(10_000)
    assert seen.save() == [0, [5], [10_001]]


def test_the_lowest_gap_is_given_up():
    """With too many gaps the mark rises over the lowest; a number in it counts as seen then."""
    seen = SeenNumbers()
    for number in range(1, 2 * WINDOW + 2, 2):
        assert seen.add(number)
    assert seen.mark == 2
    assert not seen.add(0)
    assert seen.add(2)
    assert seen.mark == 4
