"""A streaming DataFrame as a stream on the Rx side: micro-batches, restarts, what is refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from test_process import SOON, Log
from test_resuming import Table
from test_streaming import READINGS, SETTINGS, hourly
from trickling import Trickle

import rxtemporal as rxt
from rxtemporal import EventShape
from rxtemporal.spark import from_dataframe
from rxtemporal.testing import assert_same_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

CUTS = (0, 13, 25, 40, 60)
PARTS = [READINGS[first:last] for first, last in pairwise(CUTS)]
WHOLE = rxt.from_polars(READINGS.drop("received"), start="time", advance_time=SETTINGS)


def trickled(folder: Path, parts: list[pl.DataFrame]) -> Trickle:
    """A folder with a file for each micro-batch, its rows in no order."""
    trickle = Trickle(folder, READINGS.schema)
    for part in parts:
        trickle.add(part.sample(fraction=1, shuffle=True))
    return trickle


def readings(spark: SparkSession, trickle: Trickle, **options: Any) -> rxt.Streamable:
    """The readings that a folder has, as a stream that completes when they have been read."""
    options = {"trigger": "availableNow", "name": "readings", **options}
    return from_dataframe(
        trickle.frame(spark),
        start="time",
        advance_time=SETTINGS,
        order_by="received",
        batch_rows=7,
        **options,
    )


def test_without_a_folder_each_run_begins_at_the_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The rows of a micro-batch come in order; late or not is as in the DataFrame as a whole."""
    read = hourly(readings(spark, trickled(tmp_path / "in", PARTS)))
    expected = hourly(WHOLE).to_polars()
    for _ in range(2):
        found = read.to_polars()
        assert found.sort(found.columns).equals(expected.sort(found.columns))


@pytest.mark.parametrize("shape", EventShape)
def test_a_run_goes_on_with_the_next_micro_batch(
    spark: SparkSession, tmp_path: Path, shape: EventShape
) -> None:
    """Three runs over a folder that grows make one, in every shape."""
    trickle, got = trickled(tmp_path / "in", PARTS[:1]), list[rxt.EventBatch]()
    for parts in (PARTS[1:3], PARTS[3:], []):
        sink = Table(shape, got, 10**6, "")
        assert hourly(readings(spark, trickle)).run(sink, resume=tmp_path / "kept").wait(SOON)
        for part in parts:
            trickle.add(part)
    whole = Log(shape)
    hourly(WHOLE).run(whole).wait(SOON)
    assert_same_history(whole.batches, got, tolerance=0)
