"""The door that Spark runs over one bounded input, without Spark."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rxtemporal as rxt
from rxtemporal.spark.query.bounded_bucket import BoundedDoor, BucketRun
from rxtemporal.spark.query.reader import InputReader

READER = InputReader("readings", 0, pl.Schema({"n": pl.Int64()}))
WRITTEN = pa.schema(
    [
        ("_bucket", pa.int32()),
        ("_input", pa.int32()),
        ("_start", pa.int64()),
        ("_end", pa.int64()),
        ("_cti", pa.int64()),
        ("c0_0", pa.int64()),
    ]
)


def admit(policy: rxt.AdvanceTimePolicy, *, to_the_end: bool) -> list[dict[str, Any]]:
    """Return what the door yields for four rows, of which the third comes late."""
    generation = rxt.AdvanceTimeGenerationSettings(1, 0, advance_to_infinity_on_shutdown=to_the_end)
    settings = rxt.AdvanceTimeSettings(generation, policy=policy)
    rows = pl.DataFrame(
        {
            "_bucket": pl.Series([1, 1, 1, 1], dtype=pl.Int32),
            "_input": pl.Series([0, 0, 0, 0], dtype=pl.Int32),
            "_start": [1, 5, 3, 9],
            "_end": [2, 6, 8, 10],
            "_cti": pl.Series([None] * 4, dtype=pl.Int64),
            "c0_0": [10, 20, 30, 40],
        }
    )
    door = BoundedDoor(READER, settings, 2, WRITTEN)
    made = door(
        iter(rows.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(WRITTEN).to_batches())
    )
    return [row for batch in made for row in batch.to_pylist()]


@pytest.mark.parametrize(
    ("policy", "starts"),
    [(rxt.AdvanceTimePolicy.DROP, [1, 5, 9]), (rxt.AdvanceTimePolicy.ADJUST, [1, 5, 5, 9])],
)
def test_late_rows_are_dropped_or_adjusted(policy: rxt.AdvanceTimePolicy, starts: Any) -> None:
    """An adjusted row starts at the CTI that it broke."""
    assert [row["_start"] for row in admit(policy, to_the_end=True)] == starts


def test_the_last_cti_goes_to_each_bucket() -> None:
    """If time does not end, later results are not final; else no row says so."""
    drop = rxt.AdvanceTimePolicy.DROP
    rows = [row for row in admit(drop, to_the_end=False) if row["_cti"] is not None]
    assert [(row["_bucket"], row["_input"], row["_cti"]) for row in rows] == [(0, 0, 9), (1, 0, 9)]
    assert all(row["_cti"] is None for row in admit(drop, to_the_end=True))


def test_columns_that_say_nothing_may_be_missing() -> None:
    """Without them, rows are points of the only input, and no CTIs."""
    stream = rxt.from_events([], schema={"n": pl.Int64()}, name="readings")
    written = pa.schema([("s", pa.int64()), ("e", pa.int64()), ("f0", pa.int64())])
    plan = stream.where(pl.col("n") > 10).tumbling_window(4).aggregate(n=rxt.agg.sum("n"))._node
    work = BucketRun(plan, (READER,), written, steady=True)
    whole = pl.DataFrame({"_bucket": [1] * 4, "_start": [1, 3, 5, 9], "c0_0": [10, 20, 30, 40]})
    whole = whole.with_columns(
        pl.lit(0, pl.Int32).alias("_input"),
        (pl.col("_start") + 1).alias("_end"),
        pl.lit(None, pl.Int64).alias("_cti"),
    )
    expected = [{"s": 0, "e": 4, "f0": 20}, {"s": 4, "e": 8, "f0": 30}, {"s": 8, "e": 12, "f0": 40}]
    for rows in (whole, whole.select("_start", "c0_0")):
        made = work(iter(rows.to_arrow().to_batches()))
        assert [row for batch in made for row in batch.to_pylist()] == expected
