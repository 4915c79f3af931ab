"""Lifetimes cut at the bounds of windows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.batch import EventBatch
from rxtemporal.operators.hopping_window.slices import RegularBounds, Slicer

lifetimes = st.tuples(st.integers(-10, 10), st.integers(0, 30))
SCHEMA = pl.Schema({"x": pl.Int64()})


def list_pieces(rows: list[tuple[int, int]], is_bound: Any) -> list[tuple[int, int, int]]:
    """Return row, start and end of all pieces, tick by tick."""
    pieces = []
    for row, (begin, end) in enumerate(rows):
        if begin < end:
            cuts = [at for at in range(begin + 1, end) if is_bound(at)]
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
    """The pieces are in order of the stretches of time; a row that is empty has none."""
    rows = [(at, at + length) for at, length in drawn]
    rows = sorted(rows) if ordered else rows
    bounds = RegularBounds(duration, period, alignment)
    begin, end = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
    row, start, until, whole = bounds.cut(begin, end)
    if whole:
        row = np.arange(len(rows))

    def is_bound(at: int) -> bool:
        return 0 in ((at - alignment) % period, (at - alignment - duration) % period)

    made = list(zip(row.tolist(), start.tolist(), until.tolist(), strict=True))
    assert sorted(made) == list_pieces(rows, is_bound)
    # no piece lies in an earlier stretch than the one before it
    stretch = [
        max(at for at in range(piece - period, piece + 1) if is_bound(at)) for piece in start
    ]
    assert stretch == sorted(stretch)


def test_distant_rows_are_cut_in_their_own_order() -> None:
    """A table of all bounds between rows that are far from each other would fill the memory."""
    begin = np.array([10**15 + 7, 4, 10**14])
    row, start, until, whole = RegularBounds(10, 10, 0).cut(begin, begin + 10)
    assert row.tolist() == [0, 0, 1, 1, 2]
    assert start.tolist() == [10**15 + 7, 10**15 + 10, 4, 10, 10**14]
    assert until.tolist() == [10**15 + 10, 10**15 + 17, 10, 14, 10**14 + 10]
    assert not whole


def test_pieces_of_rows_that_wait_are_in_order_with_those_of_new_rows() -> None:
    """Windows would sort a batch that is out of order, which costs more than the cuts."""
    slicer = Slicer(RegularBounds(10, 10, 0), SCHEMA)

    def cut(rows: list[tuple[int, int]], cti: int) -> list[tuple[int, int, int]]:
        start, end = (np.array([row[side] for row in rows], np.int64) for side in (0, 1))
        payload = pl.DataFrame({"x": start})
        pieces = slicer.slice(EventBatch(start, end, None, payload, cti))
        found = pieces.start.tolist(), pieces.end.tolist(), pieces.columns["x"].tolist()
        return list(zip(*found, strict=True))

    # a row is cut up to the next bound, and its rest waits until the CTI is there
    assert cut([(3, 535), (8, 12)], 9) == [(3, 10, 3), (8, 10, 8)]
    assert (slicer.rows, slicer.next_due) == (2, 10)
    first, second = [(10, 20, 3), (10, 12, 8), (11, 20, 11)], [(20, 30, 3), (20, 25, 11)]
    assert cut([(11, 25), (21, 32)], 29) == [*first, *second, (21, 30, 21)]
    assert (slicer.rows, slicer.next_due) == (2, 30)
    # a row that begins after the next bound is cut at once, if it has few pieces
    assert cut([(41, 52), (40, 999)], 39) == [
        *[(30, 40, 3), (30, 32, 21)],
        *[(41, 50, 41), (50, 52, 41)],
    ]
    assert (slicer.rows, slicer.next_due) == (2, 40)
    assert [each[:2] for each in cut([], 998)][-1] == (980, 990)
    assert (slicer.rows, slicer.next_due) == (1, 999)
    assert cut([], 999) == [(990, 999, 40)]
    assert (slicer.rows, slicer.next_due) == (0, None)


@pytest.mark.parametrize("sizes", [[1] * 3_000, [1_500] * 70, [2_000, 1, 3, 1_100] * 30])
def test_rests_wait_in_a_few_batches(sizes: list[int]) -> None:
    """A batch for each row would cost a hundred times the memory of the row."""
    slicer, count = Slicer(RegularBounds(10**6, 10**6, 0), SCHEMA), 0
    for size in sizes:
        at = np.arange(count, count + size)
        end = np.full(size, 2 * 10**6 + 1)
        slicer.slice(EventBatch(at, end, None, pl.DataFrame({"x": at}), count))
        count += size
    assert slicer.rows == count
    assert len(slicer._rests) <= 18
    pieces = slicer.slice(EventBatch.empty(SCHEMA, 10**6))
    assert pieces.columns["x"].tolist() == list(range(count))
    assert set(pieces.start.tolist()) == {10**6}
    assert set(pieces.end.tolist()) == {2 * 10**6}


def test_a_rest_keeps_no_other_row_of_its_batch_in_memory() -> None:
    """Rows that polars gathers from a column of strings share the bytes of all."""
    schema = pl.Schema({"t": pl.String()})
    slicer = Slicer(RegularBounds(10**9, 10**9, 0), schema)
    texts = pl.DataFrame({"t": [f"{n:>90}" for n in range(5_000)]})
    at = np.arange(5_000)
    slicer.slice(EventBatch(at, np.where(at == 7, 10**9 + 1, at + 1), None, texts, 0))
    (rest,) = slicer._rests
    (text,) = rest.columns.list_series()
    assert text.to_list() == [f"{7:>90}"]
    assert len(text.to_arrow().buffers()[2]) < 1_000
