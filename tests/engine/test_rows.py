"""The store of rows and the queue of what is due: what is held, through adding and forgetting."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal.core.columns import Columns
from rxtemporal.engine import rows as rows_module
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.engine.due_queue import Queue
from rxtemporal.engine.kernels import rows as kernels
from rxtemporal.engine.rows import RowStore

SCHEMA = pl.Schema(
    {
        "i": pl.Int16(), "f": pl.Float64(), "b": pl.Boolean(), "d": pl.Date(), "s": pl.String(),
        "m": pl.Decimal(10, 2), "l": pl.List(pl.Int64()), "n": pl.Null(),
    }
)  # fmt: skip
PAYLOADS = st.tuples(
    st.none() | st.integers(-9, 9), st.none() | st.floats(allow_nan=False),
    st.none() | st.booleans(), st.none() | st.dates(), st.none() | st.text(max_size=2),
    st.none() | st.just(Decimal("1.25")), st.none() | st.lists(st.integers(0, 3), max_size=2),
    st.none(),
)  # fmt: skip


def make_columns(payloads: list[Any]) -> Columns:
    """Return payloads as columns."""
    return Columns.from_frame(pl.DataFrame(payloads, SCHEMA, orient="row"))


@given(st.data())
def test_a_store_returns_what_it_was_given(data: st.DataObject) -> None:
    """Through releases, renumbering and a restart each row keeps its number, payload and types."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MANY", 4)
        patch.setattr(kernels, "FEW", data.draw(st.sampled_from([1, 1_000])))
        store, model = RowStore([np.int64], SCHEMA), dict[int, Any]()
        for number in range(data.draw(st.integers(1, 6))):
            added = data.draw(st.lists(PAYLOADS, max_size=5))
            given_numbers = store.append([np.full(len(added), number)], make_columns(added))
            model |= dict(zip(given_numbers.tolist(), added, strict=True))
            gone = data.draw(st.sets(st.sampled_from(sorted(model)))) if model else set()
            store.release(np.array(sorted(gone), np.int64))
            model = {row: payload for row, payload in model.items() if row not in gone}
            new = store.compact()
            if new is not None:
                model = {int(new[row]): payload for row, payload in model.items()}
            if data.draw(st.booleans()):
                saved, store = store.save(), RowStore([np.int64], SCHEMA)
                store.load(saved)
            asked = data.draw(st.lists(st.sampled_from(sorted(model)))) if model else []
            found = store.payload(np.array(asked, np.int64))
            assert found.frame.schema == SCHEMA
            assert found.frame.rows() == [model[row] for row in asked]
            assert len(store) == len(model)


def test_new_rows_have_fills_under_numbers_used_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """After rows have left, some or all of them, new rows have the fills again."""
    monkeypatch.setattr(rows_module, "MANY", 4)
    store = RowStore([np.int64, np.int64, np.bool_], None, [-2, True])
    for gone in (5, 8, 11):  # 3 of 8 rows stay, then 3 of 11, then none
        first = store.extend([np.arange(8)])
        _, number, flag = store.columns
        assert number[first:].tolist() == [-2] * 8
        assert flag[first:].tolist() == [True] * 8
        number[first:], flag[first:] = 7, False
        store.release(np.arange(gone))
        assert store.compact() is not None
        assert all(number == 7 for number in store.columns[1])
    assert not store.height
    store.extend([np.arange(100)])
    assert store.columns[1].tolist() == [-2] * 100


def test_what_a_queue_returned_stays_as_it_was() -> None:
    """Entries that are added later never overwrite those that were returned."""
    queue = Queue()
    returned = []
    for time in range(300):
        queue.push(np.array([time]), np.array([-time]))
        if time % 7 == 0:
            due, what = queue.pop_due(time - 2)
            returned.append((due, what, due.tolist()))
    for due, what, before in returned:
        assert due.tolist() == before
        assert what.tolist() == [-time for time in before]
    assert [time for _, _, before in returned for time in before] == list(range(292))


def test_columns_are_saved() -> None:
    """A state may hold columns."""
    columns = make_columns([(1, None, True, date(2026, 1, 2), "a", None, [1], None)])
    assert loads("step", dumps("step", columns)).frame.equals(columns.frame)


def test_rows_added_where_others_were_removed_are_alive() -> None:
    """A number that was released before is used again for a row that stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "MANY", 4)
        store = RowStore([np.int64])
        for count in (1, 2, 3):
            store.release(store.append([np.arange(8)])[:7])
            store.compact()
            assert store.columns[0].tolist() == [7] * count
        store.release(np.arange(3))
        store.compact()
        store.release(store.append([np.arange(8)])[1:])
        store.compact()
        assert store.columns[0].tolist() == [0]


def test_texts_are_found_in_whatever_parts_they_are() -> None:
    """Few rows are taken from parts as they are, many from parts that are joined, in any order."""
    store, expected = RowStore([np.int64], pl.Schema({"s": pl.String()})), []
    for count in (400, 150, 60, 20):
        texts = [f"{len(expected)} and {row}" for row in range(count)]
        expected += texts
        store.append([np.arange(count)], pl.DataFrame({"s": texts}))
        for low, high, step in ((0, None, 97), (-count, None, 1), (-count - 5, None, 7),
                                (-3, None, 1), (0, None, 1)):  # fmt: skip
            numbers = np.arange(len(expected))[low:high:step][::-1]
            taken = store.payload(numbers).frame["s"].to_list()
            assert taken == [expected[number] for number in numbers]


def test_new_rows_are_prepared_far_beyond_those_prepared_ahead() -> None:
    """However many rows come at once, all have their fills and are alive."""
    store = RowStore([np.int64, np.int64], fills=[-1])
    for count in (3, rows_module.AHEAD, 5, 9 * rows_module.AHEAD, 1):
        rows = store.append([np.arange(count)])
        assert (store.columns[1] == -1).all()
        assert store.alive.all()
        assert len(store.alive) == store.height == rows[-1] + 1


def test_a_store_that_is_cleared_after_a_burst_keeps_room_for_a_few() -> None:
    """The room for many rows is kept while many come, and left once few do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "LARGE", 100)
        store = RowStore([np.int64])
        rooms = []
        for count in (1_000, 1_000, 10, 10):
            store.release(store.append([np.arange(count)]))
            store.compact()
            rooms.append(len(store.arrays[0]))
        assert rooms == [1_000, 1_000, 0, 64]
        assert store.append([np.arange(3)]).tolist() == [0, 1, 2]
        assert len(store) == 3


@pytest.mark.parametrize("each", [1, 7, 40])
def test_texts_are_found_however_many_came_at_once(each: int) -> None:
    """A text is that of its row, alone and among others, while series are merged."""
    store, texts = RowStore([np.int64], pl.Schema({"s": pl.String()})), list[str]()
    for number in range(150):
        more = [f"{number} {place}" for place in range(each if number % 10 else 3 * each)]
        texts += more
        payload = Columns.from_frame(pl.DataFrame({"s": more}))
        (first, *_) = store.append([np.zeros(len(more), np.int64)], payload)
        for row in (int(first), len(texts) - 1, len(texts) // 2):
            assert store.payload(np.array([row])).frame["s"].to_list() == [texts[row]]
    several = np.array([0, len(texts) - 1, 5, 5])
    assert store.payload(several).frame["s"].to_list() == [texts[row] for row in several]
    store.release(np.arange(len(texts) - 1))
    if store.compact() is not None:
        assert store.payload(np.array([0])).frame["s"].to_list() == texts[-1:]
