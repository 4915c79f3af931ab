"""Sequence numbers that have been seen, in bounded memory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.ingress import pushed_inputs
from rxtemporal.ingress.pushed_inputs import NEW, RANGES, REPEAT, UNSURE, NumberRanges, SeenNumbers

NUMBERS = st.lists(st.integers(0, 30), max_size=60)


@given(NUMBERS)
def test_the_numbers_are_a_set(numbers):
    """A number is new the first time that it comes, in any order."""
    seen, expected = NumberRanges(), set()
    for number in numbers:
        assert seen.add(number) == (REPEAT if number in expected else NEW)
        expected.add(number)
    assert seen.highest == max(expected, default=None)
    missing = set(range(40)) - expected
    assert seen.mark == seen.known == min(missing)


@given(NUMBERS, st.integers(1, 3))
def test_a_new_number_is_never_a_repeat(numbers, ranges):
    """In whatever memory: a number that has come is a repeat or unsure, another is not a repeat."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pushed_inputs, "RANGES", ranges)
        seen, expected = NumberRanges(), set()
        for number in numbers:
            found = seen.add(number)
            assert found in ((REPEAT, UNSURE) if number in expected else (NEW, UNSURE))
            assert len(seen.save()[2]) <= ranges
            expected.add(number)


@given(
    st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=8, unique=True), max_size=4),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=20),
    st.lists(st.booleans(), min_size=40, max_size=40),
)
def test_a_count_that_begins_anew_is_recognized(counts, repeats, aheads):
    """Each row comes as new once, and as a repeat as often as it is repeated.

    A sender counts anew from 0; its first row is later than all before it, the others come in any
    order. Rows of the last two counts are repeated at any time; some rows are ahead of the clock.
    """
    rows = [
        (number, 100 * count + number)
        for count, numbers in enumerate(counts)
        for number in [0, *(each for each in numbers if each)]
    ]
    flags = dict(zip(rows, aheads, strict=False))
    pushes = [(row, False) for row in rows]
    for place, which in sorted(repeats):
        before = [row for row, _ in pushes[: place % (len(pushes) + 1)]]
        known = [row for row in before if row[1] // 100 >= before[-1][1] // 100 - 1]
        if known:
            pushes.insert(len(before), (known[which % len(known)], True))
    seen, since = SeenNumbers(), -1
    for (number, start), is_repeat in pushes:
        if not is_repeat:
            since = max(since, start // 100)
        # an early row is in time when it is repeated
        ahead = flags[number, start] and not is_repeat
        found = seen.add(number, start, ahead=ahead)
        if is_repeat and start // 100 >= since - 1:
            assert found is REPEAT
        elif not is_repeat:
            assert found is not REPEAT
        else:
            assert found is not NEW


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(-1, 30), st.integers(0, 9), st.sampled_from([0, 0, 0, 1])),
            min_size=1,
        ),
        max_size=6,
    )
)
def test_many_numbers_are_added_as_one_by_one(parts):
    """Columns of numbers give the same answers as single numbers, and the state can be saved."""
    columns, single = SeenNumbers(), SeenNumbers()
    for part in parts:
        numbers, start, flags = np.array(part, np.int64).T
        ahead = flags.astype(bool) if flags.any() else None
        found = columns.add_all(numbers, start, ahead).tolist()
        assert found == [
            NEW if n < 0 else single.add(n, at, ahead=bool(flag)) for n, at, flag in part
        ]
        loaded = SeenNumbers()
        loaded.load(columns.save())
        columns = loaded
    assert columns.save() == single.save()


def test_rows_without_a_number_are_always_new():
    """A negative number stands for none, and leaves no trace."""
    seen = SeenNumbers()
    numbers = np.array([-1, 0, 1, 1, -1], np.int64)
    found = seen.add_all(numbers, np.zeros(5, np.int64))
    assert found.tolist() == [NEW, NEW, NEW, REPEAT, NEW]
    assert seen.add_all(np.array([-1, -1], np.int64), np.array([9, 9])).all()
    assert seen.save()[0] == [2, 2, [], []]


def test_a_contiguous_run_is_one_range():
    """Numbers in order cost no memory, whether or not they begin at 0."""
    seen, numbers = SeenNumbers(), np.arange(5, 10_000)
    assert (seen.add_all(numbers, numbers) == NEW).all()
    assert not seen.add_all(numbers, numbers).any()
    assert seen.add(10_000, 10_000) is NEW
    assert seen.save()[0] == [0, 0, [5], [10_001]]


def test_the_lowest_gap_is_given_up():
    """With too many gaps the lowest is forgotten: its numbers, and those below it, are unsure."""
    seen = NumberRanges()
    for number in range(3, 2 * RANGES + 4, 2):
        assert seen.add(number) is NEW
    assert (seen.known, seen.mark) == (0, 4)
    # what comes afterwards is known again
    assert [seen.add(number) for number in (0, 3, 4, 5)] == [UNSURE, UNSURE, NEW, REPEAT]


def test_rows_of_a_count_that_is_forgotten_are_unsure():
    """Two counts are remembered; a row that is older than both may be a repeat."""
    seen = SeenNumbers()
    found = [seen.add(0, 10 * count) for count in range(4)]
    assert found == [NEW, UNSURE, UNSURE, UNSURE]
    assert [seen.add(0, 10 * count) for count in range(4)] == [UNSURE, UNSURE, REPEAT, REPEAT]


def test_the_rows_ahead_of_the_clock_that_are_remembered_are_limited(monkeypatch):
    """The oldest is forgotten first; its repeat begins a count, and is told as unsure."""
    monkeypatch.setattr(pushed_inputs, "EARLY", 2)
    seen = SeenNumbers()
    assert seen.add(0, 10) is NEW
    for number in (1, 2, 3):
        assert seen.add(number, 100 + number, ahead=True) is NEW
    assert [seen.add(number, 100 + number) for number in (3, 2)] == [REPEAT, REPEAT]
    assert seen.add(1, 101) is UNSURE
    assert seen.add(1, 101) is REPEAT
