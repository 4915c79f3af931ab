"""Law 7 over a year of flights and weather: Spark gives what the Rx side gives, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
import year
from polars.testing import assert_frame_equal
from trickling import read_out

from rxtemporal.spark import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


@pytest.mark.parametrize("name", year.QUERIES)
def test_bounded(spark: SparkSession, name: str) -> None:
    """The whole year at once, in more buckets than there are airports."""
    year.need_year()
    query, names = year.QUERIES[name]
    given = {each: frame for each, frame in year.frames().items() if each in names}
    found = run(query, buckets=4, **year.in_spark(spark, given))
    made = pl.DataFrame(pl.from_arrow(found.toArrow()))
    expected = year.on_rx(query, given)
    assert expected.height > 1_000
    assert_frame_equal(made.sort(made.columns), expected)


def test_streaming(spark: SparkSession, tmp_path: Path) -> None:
    """All of the queries in four micro-batches, started anew for the last two of them."""
    year.need_year()
    frames = year.frames()
    given, bring = year.trickled(spark, frames, tmp_path, 4)
    result, tables = run(year.all_in_one, buckets=3, **given), []
    for _ in range(2):
        bring(2)
        tables += read_out(result, tmp_path / "checkpoint")
    made = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
    for name, (query, names) in year.QUERIES.items():
        expected = year.on_rx(query, {each: frames[each] for each in names})
        assert expected.height > 1_000
        assert_frame_equal(year.result_of(name, made, expected), expected)
