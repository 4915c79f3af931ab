"""The numbers of integers, against a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.engine.kernels.value_codes import (
    NEAR,
    PairCodes,
    ValueCodes,
    find_first_rows,
)

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# few, so that they come again; or any
KEYS = st.one_of(
    st.integers(-4, 40), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST, 2**32, -(2**32), 2**31]),
    st.integers(LOWEST, HIGHEST),
)  # fmt: skip
BATCHES = st.lists(st.lists(KEYS, max_size=90), max_size=5)


def ints(values: list[int]) -> np.ndarray:
    """Return the values as an array of the type that is numbered."""
    return np.array(values, np.int64)


@given(batches=BATCHES)
def test_numbers_are_by_first_appearance(batches: list[list[int]]) -> None:
    """Each distinct value has the next number, which is the same in every batch."""
    numbers, model = ValueCodes(), {}
    for values in batches:
        known = len(model)
        expected = [model.setdefault(value, len(model)) for value in values]
        codes = numbers.number(ints(values))
        assert codes.tolist() == expected
        assert numbers.next_code == len(model)
        first = [expected.index(code) for code in range(known, len(model))]
        assert find_first_rows(codes, known, numbers.next_code).tolist() == first


@given(batches=st.lists(st.lists(st.one_of(st.none(), KEYS), max_size=90), max_size=5))
def test_null_has_a_number_of_its_own(batches: list[list[int | None]]) -> None:
    """Null is a value of its own, whatever integer fills its place."""
    numbers, model = ValueCodes(), {}
    for values in batches:
        expected = [model.setdefault(value, len(model)) for value in values]
        valid = np.array([value is not None for value in values], np.bool_)
        given_values = ints([i if value is None else value for i, value in enumerate(values)])
        numbered = numbers.number(given_values, None if valid.all() else valid)
        assert numbered.tolist() == expected
        assert numbers.next_code == len(model)


@given(
    begin=st.sampled_from([LOWEST, -5, 0, 2**40, HIGHEST - 3 * NEAR]),
    steps=st.lists(
        st.tuples(st.integers(0, 3 * NEAR), st.integers(1, 900), st.sampled_from([1, 3, -1, 700]))
    ),
)
def test_values_that_come_in_runs_have_a_number(
    begin: int, steps: list[tuple[int, int, int]]
) -> None:
    """Ids that are given in turn, up or down, near each other or not, are numbered too."""
    numbers, model = ValueCodes(), {}
    for first, count, step in steps:
        values = [begin + (first + i * step) % (3 * NEAR) for i in range(count)]
        expected = [model.setdefault(value, len(model)) for value in values]
        assert numbers.number(ints(values)).tolist() == expected
    assert numbers.next_code == len(model)


def test_room_for_near_values_depends_on_their_number() -> None:
    """Ids that rise for ever are looked up by themselves; values far apart take no room."""
    for values, fewest, most in (
        (np.arange(300_000) * 3 + 10**12, 900_000, 2_000_000),
        (np.arange(300_000)[::-1] + 10**12, 300_000, 600_000),
        (np.arange(100) * 10**6, 0, 100),
    ):
        numbers = ValueCodes()
        for batch in np.split(values, 100):
            numbers.number(batch)
        assert numbers.next_code == len(values)
        assert fewest <= len(numbers._near) <= most


PARTNERS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2**31)), max_size=60), max_size=5
)


@pytest.mark.parametrize("signs", [[1], [-1], [1, -1]], ids=["rising", "falling", "both"])
def test_values_that_spread_are_moved_a_few_times(signs: list[int]) -> None:
    """Room grows with the values, at the end, or the ends, at which more of them come."""
    values = np.outer(np.arange(1, 20_001), signs).ravel()
    codes, moves = ValueCodes(), 0
    for begin in range(0, len(values), 50):
        before = codes._near
        assert codes.number(values[begin : begin + 50])[0] == begin
        moves += codes._near is not before
    assert 2 < moves < 30


@given(batches=PARTNERS, size=st.sampled_from([np.int64, np.int32]), nulls=st.booleans())
def test_pairs_are_by_first_appearance(
    batches: list[list[tuple[int, int]]], size: Any, nulls: bool
) -> None:
    """Each distinct pair has the next number, of a code with one partner or with many.

    Partners may be integers of any size, of which codes are found only where they are needed.
    """
    numbers, partners_of, model, asked = PairCodes(), ValueCodes(), {}, []
    for pairs in batches:
        shown = [(first, None if nulls and second == 0 else second) for first, second in pairs]
        expected = [model.setdefault(pair, len(model)) for pair in shown]
        codes, partners = ints([first for first, _ in pairs]), ints([each for _, each in pairs])
        valid = partners != 0 if nulls else None

        def find(begin: int, partners: Any = partners, valid: Any = valid) -> Any:
            asked.append(begin)
            return partners_of.number(partners[begin:], None if valid is None else valid[begin:])

        numbers.number(codes, (2_000_000_000 - partners).astype(size), 10, valid, find)
        assert codes.tolist() == expected
        assert numbers.next_code == len(model)
    several = len(model) > len({first for first, _ in model})
    assert bool(asked) == (several or any(second is None for _, second in model))


def test_strided_and_read_only_arrays_are_taken() -> None:
    """A column of a matrix and a read-only view give the same numbers as any array."""
    matrix = np.arange(20, dtype=np.int64).reshape(10, 2) % 6
    matrix.flags.writeable = False
    assert ValueCodes().number(matrix[:, 0]).tolist() == [0, 1, 2] * 3 + [0]
