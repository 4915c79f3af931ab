"""The hash table of integers, against a dict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.engine.kernels import hash_table as hashing
from rxtemporal.engine.kernels.hash_table import IntTable, find_first_rows

LOWEST, HIGHEST = -(2**63), 2**63 - 1
# few, so that they come again; or any
KEYS = st.one_of(
    st.integers(-4, 40), st.sampled_from([LOWEST, LOWEST + 1, HIGHEST, 2**32, -(2**32), 2**31]),
    st.integers(LOWEST, HIGHEST),
)  # fmt: skip
BATCHES = st.lists(st.lists(KEYS, max_size=90), max_size=5)
MOVES = st.lists(st.tuples(st.sampled_from(["insert", "pop", "find"]), st.lists(KEYS, max_size=60)))


def ints(values: list[int]) -> np.ndarray:
    """Return the values as an array of the table's type."""
    return np.array(values, np.int64)


@given(batches=BATCHES)
def test_numbers_are_by_first_appearance(batches: list[list[int]]) -> None:
    """Each distinct value has the next number, which is the same in every batch."""
    table, model = IntTable(), {}
    for values in batches:
        known = len(model)
        expected = [model.setdefault(value, len(model)) for value in values]
        codes = table.number(ints(values))
        assert codes.tolist() == expected
        assert table.next_code == len(table) == len(model)
        first = [expected.index(code) for code in range(known, len(model))]
        assert find_first_rows(codes, known, table.next_code).tolist() == first


@given(batches=st.lists(st.lists(st.one_of(st.none(), KEYS), max_size=90), max_size=5))
def test_null_has_a_number_of_its_own(batches: list[list[int | None]]) -> None:
    """Null is a value of its own, whatever integer fills its place."""
    table, model = IntTable(), {}
    for values in batches:
        expected = [model.setdefault(value, len(model)) for value in values]
        valid = np.array([value is not None for value in values], np.bool_)
        given_values = ints([i if value is None else value for i, value in enumerate(values)])
        numbered = table.number(given_values, None if valid.all() else valid)
        assert numbered.tolist() == expected
        assert table.next_code == len(model)
        assert len(table) == len(model.keys() - {None})


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


@given(batches=BATCHES, more=st.lists(KEYS, max_size=90), nulls=st.booleans())
def test_a_restored_table_continues(batches: list[list[int]], more: list[int], nulls: bool) -> None:
    """A restored table gives the numbers that the original gives."""
    table = IntTable()
    for values in batches:
        valid = np.arange(len(values)) % 7 > 0 if nulls else None
        table.number(ints(values), valid)
    restored = IntTable.restore(*table.state())
    valid = np.arange(len(more)) % 5 > 0
    assert restored.number(ints(more), valid).tolist() == table.number(ints(more), valid).tolist()
    assert (len(restored), restored.next_code) == (len(table), table.next_code)


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
    table.number(keys)
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
    assert table.number(matrix[:, 0]).tolist() == [0, 1, 2] * 3 + [0]
    assert table.find(matrix[::3, 0]).tolist() == [0, 0, 0, 0]
