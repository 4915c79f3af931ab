"""Lifetimes cut at the bounds of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators.hopping_window.slices import RegularBounds

FEW = 4
lifetimes = st.tuples(st.integers(-10, 10), st.integers(0, 8) | st.just(MAX_TIME))


def list_pieces(rows: list[tuple[int, int]], is_bound: Any) -> list[tuple[int, int, int]]:
    """Return row, start and end of all pieces, tick by tick; of rows of few pieces."""
    pieces = []
    for row, (begin, end) in enumerate(rows):
        if end < MAX_TIME:
            cuts = [at for at in range(begin + 1, end) if is_bound(at)]
            if len(cuts) < FEW and begin < end:
                pieces += [(row, *each) for each in zip([begin, *cuts], [*cuts, end], strict=True)]
    return pieces


@given(
    drawn=st.lists(lifetimes, max_size=12),
    duration=st.integers(1, 20),
    period=st.integers(1, 12),
    alignment=st.integers(-5, 5),
    ordered=st.booleans(),
)
def test_rows_are_cut_at_the_starts_and_ends_of_windows(
    drawn: Any, duration: int, period: int, alignment: int, ordered: bool
) -> None:
    """Rows of few pieces are cut, in order of the stretches of time; the others wait."""
    rows = [(at, MAX_TIME if length == MAX_TIME else at + length) for at, length in drawn]
    rows = sorted(rows) if ordered else rows
    bounds = RegularBounds(duration, period, alignment)
    begin, end = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    row, start, until, waits, whole = bounds.cut(begin, end, FEW)
    if whole:
        row = np.arange(len(rows))

    def is_bound(at: int) -> bool:
        return 0 in ((at - alignment) % period, (at - alignment - duration) % period)

    expected = list_pieces(rows, is_bound)
    made = list(zip(row.tolist(), start.tolist(), until.tolist(), strict=True))
    assert sorted(made) == expected
    cut = {each[0] for each in expected}
    empty = {n for n, (begins, ends) in enumerate(rows) if begins >= ends}
    assert set(waits.tolist()) == set(range(len(rows))) - cut - empty
    # no piece lies in an earlier stretch than the one before it
    stretch = [
        max(at for at in range(piece - period, piece + 1) if is_bound(at)) for piece in start
    ]
    assert stretch == sorted(stretch)


def test_distant_rows_are_cut_in_their_own_order() -> None:
    """A table of all bounds between rows that are far from each other would fill the memory."""
    begin = np.array([10**15 + 7, 4, 10**14])
    row, start, until, waits, whole = RegularBounds(10, 10, 0).cut(begin, begin + 10, FEW)
    assert row.tolist() == [0, 0, 1, 1, 2]
    assert start.tolist() == [10**15 + 7, 10**15 + 10, 4, 10, 10**14]
    assert until.tolist() == [10**15 + 10, 10**15 + 17, 10, 14, 10**14 + 10]
    assert not len(waits)
    assert not whole
