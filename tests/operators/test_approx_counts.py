"""approx_count_distinct by example: its error, small numbers, state, and what it is not for."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.testing import Stepper

pytest.importorskip("datasketches", reason="the package of sketches is not there")

COUNT = 120_000
# four times the relative standard error
MOST = 4 * 1.04 / 64


def make_rows(count: int = COUNT) -> pl.DataFrame:
    """Return points with many values of three types."""
    values = np.random.default_rng(3).integers(0, count // 3, count)
    return pl.DataFrame({
        "t": np.arange(count), "k": values % 2, "n": values, "s": [f"device {v}" for v in values],
        "f": values / 7,
    })  # fmt: skip


WINDOWS: dict[str, Any] = {
    "tumbling": lambda s: s.tumbling_window(COUNT // 3),
    "hopping": lambda s: s.hopping_window(COUNT // 2, COUNT // 8),
    "session": lambda s: s.session_window(500),
    "whole": lambda s: s.whole_window(),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", WINDOWS)
def test_the_error_is_small(kind: str) -> None:
    """In each kind of window that no row leaves before its end, also of rows that are picked."""
    stream = rxt.from_polars(make_rows(), start="t", unit="ticks").group_by("k")
    where = pl.col("n") % 3 == 0
    found = WINDOWS[kind](stream).aggregate(
        n=agg.approx_count_distinct("n"),
        s=agg.approx_count_distinct("s"),
        f=agg.approx_count_distinct(pl.col("f") * 2, where=where),
        rows=agg.count(),
    )
    exact = WINDOWS[kind](stream).aggregate(
        n=agg.count_distinct("n"),
        s=agg.count_distinct("s"),
        f=agg.count_distinct("f", where=where),
        rows=agg.count(),
    )
    ours, theirs = (each.to_polars().sort("start_time", "k") for each in (found, exact))
    assert (ours["rows"] == theirs["rows"]).all()
    for name in ("n", "s", "f"):
        assert theirs[name].max() > 3_000
        assert ((ours[name] / theirs[name] - 1).abs() < MOST).all(), name


TYPES = [pl.Int64, pl.Float64, pl.String, pl.Binary, pl.Decimal(9, 2), pl.Date]


@pytest.mark.parametrize("dtype", TYPES)
def test_small_numbers_are_exact(dtype: Any) -> None:
    """Of any type, with nulls, and over batches whose state is saved in between."""
    values = pl.Series("x", [5, 7, None, 5, 9, 7, None, 11], dtype=pl.Int64)
    column = values.cast(pl.String).cast(dtype) if dtype == pl.Binary else values.cast(dtype)
    query = (
        rxt.from_events([], schema={"x": dtype}, name="s", unit="ticks")
        .hopping_window(4, 2)
        .aggregate(n=agg.approx_count_distinct("x"))
    )
    stepper, found = Stepper(query), list[tuple[Any, ...]]()
    for at in range(0, 8, 2):
        start = np.arange(at, at + 2)
        batch = rxt.EventBatch.of_rows(start, None, column[at : at + 2].to_frame(), at + 1)
        made = stepper.push("s", batch)
        found += [row for each in made for row in each.to_polars("ticks").rows()]
        fresh = Stepper(query)
        fresh.load(stepper.save())
        stepper = fresh
    made = stepper.push("s", rxt.EventBatch.empty({"x": dtype}, rxt.MAX_TIME))
    found += [row for each in made for row in each.to_polars("ticks").rows()]
    assert found == [(-2, 2, 2), (0, 4, 2), (2, 6, 3), (4, 8, 3), (6, 10, 1)]


@pytest.mark.parametrize("beside", [{}, {"sd": agg.std("x")}])
def test_rows_that_leave_a_window_that_goes_on(beside: dict[str, Any]) -> None:
    """A sketch cannot take them back, nor where others need rows one by one."""
    rows = rxt.from_events([rxt.IntervalEvent(t, t + 3, {"x": t}) for t in range(26)])
    points = rows.to_point_events().tumbling_window(10)
    windows = points if beside else rows.snapshot_window()
    query = windows.aggregate(n=agg.approx_count_distinct("x"), **beside)
    with pytest.raises(rxt.ArgumentError, match=r"cannot take back .* agg.count_distinct counts"):
        query.to_polars()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes when the query is composed, and names the exact count."""
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(rxt.ArgumentError, match=r"rxtemporal\[sketches\].*agg.count_distinct"):
        agg.approx_count_distinct("x")
