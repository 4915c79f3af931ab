"""Rows of reference data: the one valid for a key is the greatest of those that have begun."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.operators.reference.kernel import VOID, replace_rows

ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=9
)
OPEN = 100


@given(ROWS)
def test_a_row_is_valid_until_a_greater_one_begins(rows: list[tuple[int, int, int]]) -> None:
    """At each time the valid row of a key has the greatest ``(since, start, number)``."""
    key, start, since = (np.array(column) for column in zip(*rows, strict=True))
    end, valid = np.full(len(rows), OPEN), np.full(3, -1)
    due = np.argsort(start, kind="stable")
    over = replace_rows(due, start, since, key, end, valid).tolist()
    for time in range(8):
        for each in range(3):
            begun = [n for n in range(len(rows)) if key[n] == each and start[n] <= time]
            greatest = max(begun, key=lambda n: (since[n], start[n], n), default=None)
            lives = [n for n in begun if time < end[n]]
            assert lives == ([] if greatest is None else [greatest])
    assert sorted(over) == [n for n in range(len(rows)) if end[n] != OPEN]
    assert all(end[n] == VOID or end[n] > start[n] for n in over)
    assert valid.tolist() == [
        next((n for n in range(len(rows)) if key[n] == each and end[n] == OPEN), -1)
        for each in range(3)
    ]
