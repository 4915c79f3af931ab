"""Users' aggregates and operators over many windows, whose rows are read together."""

from itertools import groupby
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.windows.user_functions import READ_ROWS


class Spread(agg.UserDefinedAggregate):
    """The highest value less the lowest; -1 of none."""

    def compute(self, values: list[int]) -> int:
        """Return the difference."""
        return max(values) - min(values) if values else -1


class Weighted(agg.TimeSensitiveAggregate):
    """The sum of the values, each as many times as its event has ticks."""

    def compute(self, events: list[rxt.IntervalEvent], window: Any) -> int:
        """Return the sum."""
        assert all(window.start <= each.start < each.end <= window.end for each in events)
        return sum((each.end - each.start) * each.payload["x"] for each in events)


def make_rows(lengths: list[int]) -> pl.DataFrame:
    """Return rows of windows of 100,000 ticks, so many in each."""
    starts = [100_000 * w + n for w, length in enumerate(lengths) for n in range(length)]
    return pl.DataFrame({"t": starts, "x": [start * 7 % 1_009 for start in starts]})


def read_windows(frame: pl.DataFrame) -> list[list[int]]:
    """Return the values of each window that has rows."""
    rows = groupby(frame.iter_rows(), key=lambda row: row[0] // 100_000)
    return [[x for _, x in values] for _, values in rows]


LENGTHS = [
    [3] * 20_000,
    [READ_ROWS - 1, 2, 5, READ_ROWS + 3, 1, 1, 2 * READ_ROWS, 4],
    [1, 0, READ_ROWS, 0, 0, 2],
]


@pytest.mark.parametrize("lengths", LENGTHS, ids=["small", "large", "gaps"])
def test_each_window_has_its_own_rows(lengths: list[int]) -> None:
    """However many rows of how many windows are read at once."""
    frame = make_rows(lengths)
    windows = rxt.from_polars(frame, start="t", unit="ticks").tumbling_window(100_000)
    found = windows.aggregate(spread=Spread("x"), weighted=Weighted()).to_polars()
    expected = read_windows(frame)
    assert found["spread"].to_list() == [max(each) - min(each) for each in expected]
    assert found["weighted"].to_list() == [sum(each) for each in expected]


def test_a_window_none_of_whose_rows_counts_has_no_values() -> None:
    """The function is called with an empty list; rows before and after keep their windows."""
    frame = make_rows([4, 3, READ_ROWS + 1, 2])
    counted = frame.filter(pl.col("x") % 2 == 0)
    spread = Spread("x", where=(pl.col("x") % 2 == 0) & (pl.col("t") // 100_000 != 1))
    rows = rxt.from_polars(frame.with_columns(s=pl.col("t")), start="s", unit="ticks")
    found = rows.tumbling_window(100_000).aggregate(spread=spread).to_polars()
    expected = [max(each) - min(each) for each in read_windows(counted)]
    expected[1] = -1
    assert found["spread"].to_list() == expected


def test_a_constant_has_one_value_for_each_row() -> None:
    """As any other expression that is computed row by row."""

    class Count(agg.UserDefinedAggregate):
        def compute(self, values: list[int]) -> int:
            return len(values)

    rows = rxt.from_polars(make_rows([4, 1, 3]), start="t", unit="ticks")
    found = rows.tumbling_window(100_000).aggregate(n=Count(pl.lit(1))).to_polars()
    assert found["n"].to_list() == [4, 1, 3]
