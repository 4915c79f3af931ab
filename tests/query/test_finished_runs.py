"""Queries that have run to their end: what of them is left in memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg

ROWS = 50_000
NUMBERS = np.arange(ROWS)
FRAME = pl.DataFrame({"t": NUMBERS, "k": NUMBERS, "site": NUMBERS % 100, "x": np.ones(ROWS)})


def read(**options: object) -> rxt.Streamable:
    """Return a stream in which each row has a key of its own."""
    return rxt.from_polars(FRAME, start="t", unit="ticks", **options)


QUERIES: dict[str, Callable[[], object]] = {
    "windows": lambda: (
        read().group_by("k").tumbling_window(100).aggregate(total=agg.sum("x")).to_polars()
    ),
    "a join": lambda: read().join(read(), on="k", suffix="_2").to_polars(),
    "clocks": lambda: (
        read(clock="site", advance_time=0)
        .group_by("site", "k")
        .tumbling_window(100)
        .aggregate(n=agg.count())
        .to_polars()
    ),
    "clocks, in two runs of lanes": lambda: (
        read(clock="site", advance_time=0)
        .group_by("site", "k")
        .detect("A", A=pl.col("x") > 0)
        .tumbling_window(100)
        .aggregate(n=agg.count())
        .to_polars()
    ),
    "clocks that become one": lambda: (
        read(clock="site", advance_time=0)
        .synchronize(5)
        .group_by("k")
        .tumbling_window(100)
        .aggregate(n=agg.count())
        .to_polars()
    ),
    "a subscription": lambda: (
        read().join(read(), on="k", suffix="_2").to_observable().subscribe(lambda event: None)
    ),
    "a few rows": lambda: read().group_by("k").to_signal().head(2),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_finished_query_leaves_no_rows_to_the_collector(name: str) -> None:
    """What operators have held is free at once, though the parts of a run know each other.

    Otherwise each run of a loop adds megabytes until Python's collector looks for circles.
    """
    run = QUERIES[name]
    run()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run()
        left, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert left < ROWS * 8, f"{left:,} bytes are left"
