"""Law 7 over a year of flights and weather: Spark gives what the Rx side gives, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
import year
from file_streams import read_all

from rxtemporal.spark import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.full, pytest.mark.java]


@pytest.mark.parametrize("name", year.QUERIES)
def test_bounded(spark: SparkSession, name: str) -> None:
    """The whole year at once, each query by itself, in more buckets than there are airports."""
    year.need_year()
    query, names = year.QUERIES[name]
    given = {each: frame for each, frame in year.frames().items() if each in names}
    found = run(query, buckets=4, **year.in_spark(spark, given))
    year.same(pl.DataFrame(pl.from_arrow(found.toArrow())), year.on_rx(query, given))


def test_streaming(spark: SparkSession, tmp_path: Path) -> None:
    """All queries as one, in four micro-batches, started anew for the last two of them."""
    year.need_year()
    given, bring = year.stream_files(spark, year.frames(), tmp_path, 4)
    result, tables = run(year.all_in_one, buckets=3, **given), list[pa.Table]()
    for _ in range(2):
        bring(2)
        tables += read_all(result, tmp_path / "checkpoint")
    year.all_same(pl.DataFrame(pl.from_arrow(pa.concat_tables(tables))))
