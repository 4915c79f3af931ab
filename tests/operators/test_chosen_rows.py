"""Extremes over windows hold those rows of a batch on which they depend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch
from rxtemporal.operators import snapshot_window, tumbling_window
from rxtemporal.operators.windows.kernels.cells import number_cells
from rxtemporal.operators.windows.results import FEW

WINDOWS = {
    "snapshot": lambda rows: rows.snapshot_window(),
    "tumbling": lambda rows: rows.tumbling_window(3),
    "hopping": lambda rows: rows.hopping_window(5, 2),
    "whole": lambda rows: rows.whole_window(),
    "count": lambda rows: rows.count_window(2),
}
EXTREMES = {
    "low": agg.min("x"), "high": agg.max("x"), "least": agg.min("y"), "most": agg.max("y"),
    "some": agg.max("x", where=pl.col("x") < 3),
}  # fmt: skip
ROWS = st.lists(
    st.tuples(
        st.integers(0, 6), st.integers(1, 5), st.integers(0, 1),
        st.one_of(st.none(), st.integers(0, 4)),
        st.one_of(st.none(), st.sampled_from([math.nan, -math.inf, -1.0, 0.0, 2.0])),
    ),
    min_size=FEW, max_size=4 * FEW,
)  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS)
@given(rows=ROWS, names=st.sets(st.sampled_from([*EXTREMES]), min_size=1))
def test_extremes_of_chosen_rows_are_those_of_all(
    window: str, rows: list[tuple[Any, ...]], names: set[str]
) -> None:
    """They are those of a query that counts, too, for which no row is passed over."""
    columns = zip(*rows, strict=True)
    schema = {"start": pl.Int64, "n": pl.Int64, "k": pl.Int64, "x": pl.Int64, "y": pl.Float64}
    frame = pl.DataFrame([*columns], schema=schema).with_columns(end=pl.col("start") + pl.col("n"))
    ends = None if window in {"whole", "count"} else "end"
    stream = rxt.from_polars(frame, start="start", end=ends, advance_time=10, name="rows")
    over = WINDOWS[window](stream.group_by("k"))
    asked = {name: EXTREMES[name] for name in sorted(names)}
    chosen, counted = over.aggregate(**asked), over.aggregate(**asked, rows=agg.count())
    by = ["k", "start_time"]
    expected = counted.to_polars().drop("rows").sort(by)
    assert chosen.to_polars().sort(by).equals(expected)


@pytest.mark.parametrize("chooses", [True, False])
def test_a_window_holds_the_extremes_of_a_batch(chooses: bool) -> None:
    """A batch adds two rows for each key and lifetime, unless results depend on all rows."""
    more: dict[str, Any] = {} if chooses else {"n": agg.count()}
    made = snapshot_window().aggregate(low=agg.min("x"), high=agg.max("x"), **more)
    (operator,) = made.operators
    schema = pl.Schema({"k": pl.Int64(), "x": pl.Int64()})
    step: Any = operator.make(schema, ("k",))
    start, key = np.arange(1_200) % 3, np.arange(1_200) % 4
    payload = pl.DataFrame({"k": key, "x": np.arange(1_200)}, schema=schema)
    step.on_batch(EventBatch.of_rows(start, start + 5, payload, 0, ("k",)))
    assert len(step._rows) == (2 * 12 if chooses else 1_200)


def test_late_points_of_tumbling_windows_are_chosen() -> None:
    """Points that are not in order are held, one for each key and window."""
    (operator,) = tumbling_window(100).aggregate(high=agg.max("x")).operators
    schema = pl.Schema({"k": pl.Int64(), "x": pl.Int64()})
    step: Any = operator.make(schema, ("k",))
    start = np.arange(200)[::-1].copy()
    payload = pl.DataFrame({"k": start % 2, "x": start}, schema=schema)
    step.on_batch(EventBatch.of_rows(start, start + 1, payload, 0, ("k",)))
    # those of the first window are in its results already
    assert len(step._rows) == 2


@given(rows=st.lists(st.tuples(*3 * [st.integers(0, 2)]), max_size=90))
def test_cells_are_of_equal_rows(rows: list[tuple[int, int, int]]) -> None:
    """Rows with the same key and places have one number, in order of first appearance."""
    key, begin, until = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    cell, count = number_cells(key * 1_000, begin, until)
    model: dict[tuple[int, int, int], int] = {}
    assert cell.tolist() == [model.setdefault(row, len(model)) for row in rows]
    assert count == len(model)
