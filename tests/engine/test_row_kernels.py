"""Kernels over numbers of rows, beside numpy and a dict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.engine.holdings import KeyRecords
from rxtemporal.engine.kernels import rows as kernels

SIZES = pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint16, np.int32, np.float32, np.int64, np.float64]
)


@SIZES
@pytest.mark.parametrize("few", [0, 1_000])
def test_values_are_taken_and_moved_as_numpy_does(
    dtype: Any, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every size, in any order, and also by read-only numbers."""
    monkeypatch.setattr(kernels, "FEW", few)
    generator = np.random.default_rng(1)
    values = generator.integers(0, 100, 50).astype(dtype)
    for count in (0, 1, 7, 50, 200):
        numbers = generator.integers(0, 50, count)
        numbers.setflags(write=False)
        assert kernels.gather(values, numbers).tolist() == values[numbers].tolist()
        assert kernels.gather(values, numbers).dtype == values.dtype
        rising, moved = np.unique(numbers), values.copy()
        kernels.move_rows(moved, rising)
        assert moved[: len(rising)].tolist() == values[rising].tolist()
        assert moved[len(rising) :].tolist() == values[len(rising) :].tolist()


@pytest.mark.parametrize("number", [3, -1, 2**40])
@pytest.mark.parametrize("height", [0, 3])
def test_a_number_of_no_row_is_refused(
    number: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is read that is not there."""
    monkeypatch.setattr(kernels, "FEW", 0)
    for find in (kernels.gather, kernels.move_rows):
        with pytest.raises(IndexError, match=f"among {height}"):
            find(np.arange(height), np.array([number]))


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(0, 10))
def test_rows_that_repeat_are_numbered_by_first_appearance(rows: list[int], room: int) -> None:
    """If there is room for the distinct ones; the array of those seen is as before in any case."""
    model = {row: number for number, row in enumerate(dict.fromkeys(rows))}
    seen, few = np.full(10, -1), np.full(room, -5)
    numbers = np.empty(len(rows), np.int64)
    count = kernels.number_repeated(np.array(rows, np.int64), seen, numbers, few)
    assert seen.tolist() == [-1] * 10
    if len(model) > room:
        assert count == -1
        return
    assert count == len(model)
    assert few[:count].tolist() == list(model)
    assert numbers.tolist() == [model[row] for row in rows]


@pytest.mark.parametrize("keys", [1, 63, 64, 65, 100, 128, 129, 1_000])
def test_records_of_new_keys_have_their_fills(keys: int) -> None:
    """However many there are, and those of known keys stay."""
    kind = KeyRecords((1, 2, 3))
    for have in (0, 1, 63, 64, 70):
        records = np.arange(3 * have).reshape(-1, 3)
        grown = kind.grow(records, keys)
        assert len(grown) >= max(keys, have)
        assert grown[:have].tolist() == records.tolist()
        assert grown[have:].tolist() == [[1, 2, 3]] * (len(grown) - have)
