"""The open rows of a stream: those that have not ended before its CTI, however many have come."""

import numpy as np
import polars as pl
import pytest

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.open_tail import FEW, LEAST_ROWS, OpenTail


def make_batch(begin: int, rows: int, length: int, cti: int) -> EventBatch:
    """Return rows that start one after another."""
    start = np.arange(begin, begin + rows)
    return EventBatch(
        start, start + length, np.zeros(rows, np.int64), pl.DataFrame({"x": start}), cti
    )


def find_numbers(batch: EventBatch | None) -> list[int]:
    """Return the payloads of the rows."""
    assert batch is not None
    return batch.payload["x"].to_list()


@pytest.mark.parametrize(
    ("rows", "batches", "length"), [(1_000, 40, 700), (1, 3 * LEAST_ROWS, 500), (5_000, 9, 10**9)]
)
def test_rows_that_have_ended_are_dropped(rows: int, batches: int, length: int) -> None:
    """The open ones are there, and all that is held are at most some thousands more."""
    tail, cti = OpenTail(), 0
    for number in range(batches):
        cti = (number + 1) * rows
        tail.add(make_batch(number * rows, rows, length, cti))
        open_rows = min(length, cti)
        assert tail._rows <= 2 * open_rows + LEAST_ROWS + rows
        assert len(tail._batches) <= LEAST_ROWS + 1
    expected = [x for x in range(rows * batches) if x + length > cti]
    assert find_numbers(tail.collect(cti)) == expected
    later = cti + length // 2
    assert find_numbers(tail.collect(later)) == [x for x in expected if x + length > later]


def test_rows_all_of_which_have_ended_show_their_fields() -> None:
    """Whoever begins there knows the schema of what comes."""
    tail = OpenTail()
    for number in range(5):
        tail.add(make_batch(number * LEAST_ROWS, LEAST_ROWS, 1, (number + 1) * LEAST_ROWS))
    found = tail.collect(10 * LEAST_ROWS)
    assert find_numbers(found) == []
    assert list(found.schema) == ["x"]


def test_a_row_whose_end_is_in_another_batch_is_dropped_with_it() -> None:
    """An end edge closes the row of a start edge that came thousands of rows before."""
    tail = OpenTail()
    opened = EventBatch(
        np.array([0, 1]), np.array([MAX_TIME, MAX_TIME]), np.array([7, 8]),
        pl.DataFrame({"x": [-1, -2]}), 1,
    )  # fmt: skip
    tail.add(opened)
    tail.add(make_batch(2, LEAST_ROWS, 1, LEAST_ROWS))
    closed = EventBatch(
        np.array([0]), np.array([LEAST_ROWS + 5]), np.array([7]), pl.DataFrame({"x": [-1]}),
        LEAST_ROWS + 5,
    )  # fmt: skip
    tail.add(closed)
    tail.add(make_batch(LEAST_ROWS + 6, 2 * LEAST_ROWS, 1, 4 * LEAST_ROWS))
    assert find_numbers(tail.collect(4 * LEAST_ROWS)) == [-2]


def test_many_large_batches_of_open_rows_are_gone_through_seldom() -> None:
    """A row costs a constant: the number of batches that is allowed doubles with them."""
    tail, batches, allowed = OpenTail(), LEAST_ROWS + 500, set()
    for number in range(batches):
        tail.add(make_batch(number * FEW, FEW, 10**9, number * FEW))
        allowed.add(tail._most)
    assert len(allowed) <= 4
    assert len(tail._batches) == batches <= tail._most
    assert len(find_numbers(tail.collect(batches * FEW))) == batches * FEW
