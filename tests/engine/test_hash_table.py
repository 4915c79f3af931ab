"""The hash table of integers, against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.engine.kernels import hash_table as hashing
from rxtemporal.engine.kernels.hash_table import IntTable

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# few, so that they come again; or any
KEYS = st.one_of(
    st.integers(-4, 40), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST, 2**32, -(2**32), 2**31]),
    st.integers(LOWEST, HIGHEST),
)  # fmt: skip
MOVES = st.lists(st.tuples(st.sampled_from(["insert", "pop", "find"]), st.lists(KEYS, max_size=60)))


def ints(values: list[int]) -> np.ndarray:
    """Return the values as an array of the table's type."""
    return np.array(values, np.int64)


@given(moves=MOVES)
def test_a_table_is_a_dict(moves: list[tuple[str, list[int]]]) -> None:
    """After any inserts and pops the table has the entries of a dict."""
    table, model, row = IntTable(), {}, 0
    for move, keys in moves:
        if move == "insert":
            values = list(range(row, row + len(keys)))
            row += len(keys)
            table.insert(ints(keys), ints(values))
            model.update(zip(keys, values, strict=True))
        elif move == "pop":
            assert table.pop(ints(keys)).tolist() == [model.pop(key, -1) for key in keys]
        else:
            assert table.find(ints(keys)).tolist() == [model.get(key, -1) for key in keys]
        assert len(table) == len(model)
    assert table.find(ints(list(model))).tolist() == list(model.values())


@given(moves=MOVES)
def test_a_table_whose_keys_all_collide_is_a_dict(moves: list[tuple[str, list[int]]]) -> None:
    """The kernels are correct for any hash: here all keys hash to a few slots at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hashing, "find_home", lambda key, mask: (int(key) % 3 - 2) & int(mask))
        for kernel in ("find", "insert", "remove", "refill"):
            interpreted = getattr(getattr(hashing, kernel), "py_func", getattr(hashing, kernel))
            patch.setattr(hashing, kernel, interpreted)
        test_a_table_is_a_dict.hypothesis.inner_test(moves)


def test_keys_that_come_and_go_do_not_fill_it() -> None:
    """The size of a table depends on the entries that it has at a time, not on all it ever had."""
    table = IntTable()
    for begin in range(0, 20_000, 100):
        keys = np.arange(begin, begin + 100, dtype=np.int64)
        table.insert(keys, keys)
        assert table.pop(keys).tolist() == keys.tolist()
    assert len(table) == 0
    assert table._slots.shape == (256, 2)


@pytest.mark.parametrize("distance", [1, 1_000_003, 86_400_000_000, 2**20, 2**32, 2**40, 2**52])
def test_regular_keys_lie_spread(distance: int) -> None:
    """Keys at any regular distance are found within a few slots."""
    table = IntTable()
    with np.errstate(over="ignore"):
        keys = np.arange(2_000, dtype=np.int64) * distance
    table.insert(keys, np.arange(len(keys)))
    mask = len(table._slots) - 1
    at = np.flatnonzero(table._slots[:, 1] >= 0)
    homes = np.array([hashing.find_home(key, mask) for key in table._slots[at, 0]])
    assert ((at - homes) & mask).mean() < 1.5


def test_a_value_below_0_is_refused() -> None:
    """-1 is the answer for a missing key."""
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        IntTable().insert(ints([1]), ints([-1]))


def test_strided_and_read_only_arrays_are_taken() -> None:
    """A column of a matrix and a read-only view give the same results as any array."""
    matrix = np.arange(20, dtype=np.int64).reshape(10, 2) % 6
    matrix.flags.writeable = False
    table = IntTable()
    table.insert(matrix[:3, 0], np.arange(3))
    assert table.find(matrix[::3, 0]).tolist() == [0, 0, 0, 0]
