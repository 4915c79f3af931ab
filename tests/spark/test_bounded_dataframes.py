"""A DataFrame as a stream on the Rx side: in order, piece by piece, as often as one likes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import polars as pl
import pytest
from hourly_readings import READINGS, SETTINGS, hourly
from law_seven import in_spark
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal.spark import from_dataframe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


def test_in_order(spark: SparkSession) -> None:
    """Whatever the order of the rows in Spark, they come in order of start, and again if asked."""
    rows = READINGS.drop("received")
    shuffled = in_spark(spark, rows.sample(fraction=1, shuffle=True)).repartition(3)
    read = from_dataframe(shuffled, start="time", batch_rows=7)
    starts = [start for batch in read.to_batches() for start in batch.start.tolist()]
    assert starts == sorted(starts)
    assert len(starts) == rows.height
    expected = hourly(rxt.from_polars(rows, start="time")).to_polars()
    for _ in range(2):
        found = hourly(read).to_polars()
        assert_frame_equal(found.sort(found.columns), expected.sort(expected.columns))


def test_judged_in_the_order_of_a_column(spark: SparkSession) -> None:
    """Late rows are late by the order of a column, which is not part of the payload."""
    shuffled = in_spark(spark, READINGS.sample(fraction=1, shuffle=True))
    read = from_dataframe(shuffled, start="time", advance_time=SETTINGS, order_by="received")
    expected = hourly(
        rxt.from_polars(READINGS.drop("received"), start="time", advance_time=SETTINGS)
    )
    assert expected.to_polars()["n"].sum() < READINGS.height
    assert_frame_equal(hourly(read).to_polars(), expected.to_polars(), check_row_order=False)


def test_the_ends_of_time_and_nulls(spark: SparkSession) -> None:
    """Rows that never end, the first and the last tick, and fields that are null come through."""
    rows = pl.DataFrame(
        {
            "start_time": [rxt.MIN_TIME, 0, 5],
            "end_time": [3, None, rxt.MAX_TIME - 1],
            "span": [timedelta(microseconds=1), None, timedelta(days=-1)],
            "n": pl.Series([None, 2**53 + 1, -1], dtype=pl.Int64),
        },
        schema_overrides={"span": pl.Duration("us")},
    )
    read = from_dataframe(in_spark(spark, rows), end="end_time")
    assert_frame_equal(pl.concat([b.to_polars("ticks") for b in read.to_batches()]), rows)


def test_refused(spark: SparkSession) -> None:
    """A column that is not there, and no size, are refused when a stream is composed."""
    frame = in_spark(spark, READINGS)
    with pytest.raises(rxt.SchemaError, match="no column 'start_time'"):
        from_dataframe(frame)
    with pytest.raises(rxt.ArgumentError, match="batch_rows must be positive"):
        from_dataframe(frame, start="time", batch_rows=0)
