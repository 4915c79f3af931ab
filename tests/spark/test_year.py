"""Law 7 over a year of flights and weather: Spark gives what the Rx side gives, row for row."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa
import pytest
import year
from polars.testing import assert_frame_equal
from trickling import Trickle, read_out

from rxtemporal.spark import run, stream

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


def test_on_a_cluster(tmp_path: Path) -> None:
    """Executors in processes of their own: two with a core each, which import what they need."""
    here = Path(__file__).parent
    script, result = here / "clustered.py", tmp_path / "result.parquet"
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), *sys.path]))
    ran = subprocess.run(
        [sys.executable, str(script), str(result)],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    expected, found = pl.read_parquet(tmp_path / "expected.parquet"), pl.read_parquet(result)
    assert expected.height > 100
    assert_frame_equal(found.sort(found.columns), expected.sort(expected.columns))


def test_streaming(spark: SparkSession, tmp_path: Path) -> None:
    """The year's join in four micro-batches, started anew for the last two of them."""
    year.need_year()
    query, _ = year.QUERIES["weather in the air"]
    frames = year.frames()
    given, waiting = {}, []
    for name, frame in frames.items():
        start, end = year.LIFETIMES[name]
        schema = pl.Schema({**frame.schema, "cti": frame.schema[start]})
        folder = Trickle(tmp_path / name, schema)
        parts = list(year.in_parts(frame, start, 4))
        for part in parts[:2]:
            folder.add(part)
        waiting.append((folder, parts[2:]))
        given[name] = stream(folder.frame(spark), start=start, end=end, cti="cti")
    result = run(query, buckets=3, **given)
    tables = read_out(result, tmp_path / "checkpoint")
    for folder, parts in waiting:
        for part in parts:
            folder.add(part)
    tables += read_out(result, tmp_path / "checkpoint")
    made = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
    assert_frame_equal(made.sort(made.columns), year.on_rx(query, frames))
