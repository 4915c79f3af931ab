"""The numbers of integers, against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.engine.kernels.numbering import Numbering, find_first_rows

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
    numbers, model = Numbering(), {}
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
    numbers, model = Numbering(), {}
    for values in batches:
        expected = [model.setdefault(value, len(model)) for value in values]
        valid = np.array([value is not None for value in values], np.bool_)
        given_values = ints([i if value is None else value for i, value in enumerate(values)])
        numbered = numbers.number(given_values, None if valid.all() else valid)
        assert numbered.tolist() == expected
        assert numbers.next_code == len(model)


def test_strided_and_read_only_arrays_are_taken() -> None:
    """A column of a matrix and a read-only view give the same numbers as any array."""
    matrix = np.arange(20, dtype=np.int64).reshape(10, 2) % 6
    matrix.flags.writeable = False
    assert Numbering().number(matrix[:, 0]).tolist() == [0, 1, 2] * 3 + [0]
