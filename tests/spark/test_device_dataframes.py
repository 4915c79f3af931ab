"""Devices with times of their own in DataFrames: inside Spark, and as streams of this process."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from file_streams import FileStream, read_all
from law_seven import in_spark

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import explain, from_dataframe, run, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

DEVICES, STEPS = 6, 40


def draw_rows() -> pl.DataFrame:
    """Return rows in order of arrival: each device is an hour further behind, a row is late."""
    random = Random(4)
    rows = [
        (f"d{device}", 10_000 - 500 * device + 7 * step + random.randrange(4), step)
        for step in range(STEPS)
        for device in range(DEVICES)
    ]
    rows.append(("d0", 10_000, -1))
    frame = pl.DataFrame(rows, schema=["k", "time", "x"], orient="row")
    return frame.with_row_index("n").cast({"n": pl.Int64})


ROWS = draw_rows()
SETTINGS = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 5, advance_to_infinity_on_shutdown=False),
    policy=rxt.AdvanceTimePolicy.DROP,
)


def each(rows: rxt.Streamable) -> rxt.Streamable:
    """Each device's windows."""
    return rows.group_by("k").tumbling_window(50).aggregate(n=agg.count(), x=agg.sum("x"))


def fleet(rows: rxt.Streamable) -> rxt.Streamable:
    """The windows of all devices, whose windows by device are final."""
    windows = each(rows).synchronize(5_000).tumbling_window(100)
    return windows.aggregate(n=agg.sum("n"))


def compute_here(query: Any, **options: Any) -> list[Any]:
    """Return the results of this process."""
    frame = ROWS.drop("n")
    given = {"advance_time": SETTINGS, "clock": "k", "spread": 0, **options}
    return sorted(
        query(rxt.from_polars(frame, start="time", **given)).to_polars(time="ticks").rows()
    )


@pytest.mark.parametrize(
    ("query", "buckets"), [pytest.param(each, 2, marks=pytest.mark.full), (each, 20), (fleet, 20)]
)
def test_bounded(spark: SparkSession, query: Any, buckets: int) -> None:
    """With fewer and with more buckets than devices; and to the end of time."""
    for ends in (False, True):
        settings = SETTINGS if not ends else 5
        given = stream(
            in_spark(spark, ROWS), start="time", advance_time=settings, order_by="n", clock="k",
            spread=0,
        )  # fmt: skip
        found = run(query, rows=given, buckets=buckets).collect()
        here = compute_here(query, advance_time=settings)
        assert sorted(map(tuple, found)) == here
        assert len(here) > (DEVICES if ends or query is each else -1)


@pytest.mark.parametrize(
    ("query", "size"),
    [(each, 121), *(pytest.param(query, 60, marks=pytest.mark.full) for query in (each, fleet))],
)
def test_streaming(spark: SparkSession, tmp_path: Path, query: Any, size: int) -> None:
    """Micro-batch by micro-batch, over a restart; late rows are counted."""
    files = FileStream(tmp_path / "in", ROWS.schema)
    parts = [ROWS[first : first + size] for first in range(0, ROWS.height, size)]
    half = len(parts) // 2
    found: list[Any] = []
    for some in (parts[:half], parts[half:]):
        for part in some:
            files.add(part.sample(fraction=1, shuffle=True, seed=1))
        given = stream(
            files.frame(spark), start="time", advance_time=SETTINGS, order_by="n", clock="k",
            spread=0, late="late rows",
        )  # fmt: skip
        results = run(query, rows=given, buckets=3)
        for table in read_all(results, tmp_path / "checkpoint"):
            found += [tuple(row.values()) for row in table.to_pylist()]
    assert sorted(found) == compute_here(query)


def test_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    """A bounded DataFrame, and a streaming one."""
    options: dict[str, Any] = {"start": "time", "order_by": "n", "clock": "k", "spread": 0}
    bounded = from_dataframe(in_spark(spark, ROWS), advance_time=SETTINGS, **options)
    assert sorted(each(bounded).to_polars(time="ticks").rows()) == compute_here(each)
    files = FileStream(tmp_path / "in", ROWS.schema)
    files.add(ROWS)
    arriving = from_dataframe(
        files.frame(spark), advance_time=SETTINGS, trigger="availableNow", **options
    )
    assert sorted(each(arriving).to_polars(time="ticks").rows()) == compute_here(each)


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    """When it is composed."""
    frame = in_spark(spark, ROWS)
    judged: dict[str, Any] = {"start": "time", "advance_time": 5, "order_by": "n"}
    with pytest.raises(rxt.SchemaError, match="there is no field 'device'"):
        stream(frame, clock="device", **judged)
    with pytest.raises(rxt.AdvanceTimeError, match="clock= makes a CTI for each device"):
        stream(frame, start="time", clock="k")
    with pytest.raises(rxt.AdvanceTimeError, match="and with clock= each device has its own"):
        stream(frame, start="time", cti="x", clock="k")
    with pytest.raises(rxt.ArgumentError, match="behind='1h' is about the clocks of devices"):
        stream(frame, behind="1h", **judged)
    given = stream(frame, clock="k", **judged)
    with pytest.raises(rxt.ArgumentError, match=r"needs rows together that differ in k"):
        run(lambda rows: rows.tumbling_window(50).aggregate(n=agg.count()), rows=given)
    with pytest.raises(rxt.ArgumentError, match=r"\.synchronize\('1h'\) at the end"):
        run(each, rows=stream(frame, clock="k", **{**judged, "advance_time": SETTINGS}), cti="c")
    assert "'rows' by k" in explain(each, rows=given, buckets=4)
