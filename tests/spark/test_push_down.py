"""Pushed-down operators give the same rows in Spark; others are not pushed down."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from law_seven import in_spark
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal.spark import explain, run, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

NAN = float("nan")
ROWS = pl.DataFrame(
    {
        "start_time": range(8),
        "end_time": [n + 5 for n in range(8)],
        "i": pl.Series([1, 2, None, 4, -5, 6, 7, 8], dtype=pl.Int16),
        "j": pl.Series([2, 2, 3, None, 5, -6, 2**40, 8], dtype=pl.Int64),
        "y": [0.0, -0.0, NAN, None, 1.5, -1.5, float("inf"), NAN],
        "z": [-0.0, 1.0, NAN, 2.0, None, float("-inf"), 3.0, 4.0],
        "f": pl.Series([0.1, 0.2, NAN, None, 1.5, 0.1, 7.0, 8.0], dtype=pl.Float32),
        "s": ["a", "B", None, "ä", "", "ab", "Z", "😀"],
        "b": [True, False, None, True, False, None, True, False],
    }
)
col = pl.col

HANDED: dict[str, Any] = {
    "integers": lambda r: r.where(col("i") >= col("j")),
    "an integer and a constant": lambda r: r.where(col("j") > 4, col("i") != 7),
    "doubles": lambda r: r.where(col("y") > col("z")),
    "equal doubles": lambda r: r.where(col("y") == col("z")),
    "a double and a constant": lambda r: r.where(col("y") <= 1.0),
    "strings": lambda r: r.where((col("s") > "Z") | (col("s") == "")),
    "logic of nulls": lambda r: r.where(~(col("b") & (col("i") > 3)) | col("y").is_null()),
    "no nulls": lambda r: r.where(col("s").is_not_null()),
    "chosen": lambda r: r.select("s", k="i").where(col("k") < 7),
    "left out": lambda r: r.drop("y", "z", "f"),
}
KEPT: dict[str, Any] = {
    "arithmetic": lambda r: r.where(col("j") * 2**30 > 3),
    "kinds that differ": lambda r: r.where(col("i") < col("y")),
    "a short float": lambda r: r.where(col("f") == 0.1),
    "a function": lambda r: r.where(lambda payload: payload["b"]),
    "computed": lambda r: r.select(n=col("i") + 1),
}


@pytest.mark.parametrize("cases", [HANDED, KEPT])
def test_the_same_rows(spark: SparkSession, cases: dict[str, Any]) -> None:
    """Nulls, NaN, signs of zero and letters of all kinds: the same rows, whoever looks at them."""
    given = in_spark(spark, ROWS)
    results = []
    for name, query in cases.items():
        told = "Spark itself does" in explain(query, r=given)
        assert told == (cases is HANDED), name
        made = run(query, r=given)
        results.append(made.selectExpr(f"'{name}' as name", "start_time", "end_time"))
    together = reduce(lambda one, other: one.union(other), results)
    found = pl.DataFrame(pl.from_arrow(together.toArrow()))
    for name, query in cases.items():
        rows = rxt.from_polars(ROWS, start="start_time", end="end_time")
        expected = query(rows).to_batches()
        starts = sorted(t for batch in expected for t in batch.start.tolist())
        assert 0 < len(starts) < ROWS.height or "where" not in explain(query, r=given)
        assert sorted(found.filter(name=name)["start_time"]) == starts, name


def test_not_before_a_door(spark: SparkSession) -> None:
    """A door counts every row, wanted or not; so nothing is taken from before it."""
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(2, 1), policy=rxt.AdvanceTimePolicy.DROP
    )
    came = ROWS.with_columns(received=pl.Series([3, 1, 2, 7, 4, 6, 5, 0]))
    given = stream(in_spark(spark, came), advance_time=settings, order_by="received")
    query = HANDED["an integer and a constant"]
    assert "Spark itself" not in explain(query, r=given)
    in_order = came.sort("received").drop("received")
    wanted = rxt.from_polars(in_order, start="start_time", end="end_time", advance_time=settings)
    found = pl.DataFrame(pl.from_arrow(run(query, r=given).toArrow()))
    expected = pl.concat([b.to_polars("ticks") for b in query(wanted).to_batches()])
    assert expected.height > 0
    assert_frame_equal(found.sort("start_time"), expected.sort("start_time"))
