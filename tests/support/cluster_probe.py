"""Try a cluster: ``cluster_probe.py FOLDER NAME=VALUE…`` with settings of Spark.

A query runs over a bounded DataFrame and over a streaming one, which is restarted; the cluster is
checked, and metrics are read. ``FOLDER/found`` is what came out, as JSON.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import check, metrics, run, session, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
# rows in each of the files of a stream: five hours
ROWS, FILES, BUCKETS = 30, 2, 3
SCHEMA = {"time": pl.Datetime("us", "UTC"), "room": pl.Int64, "temp": pl.Float64}


def warm(readings: rxt.Streamable) -> rxt.Streamable:
    """Hours of each room, with a state that a restart needs."""
    hours = readings.group_by("room").hopping_window("2h", "1h")
    return hours.aggregate(n=agg.count(), mean=agg.mean("temp"))


def rows(file: int) -> pl.DataFrame:
    """Return the rows of a file."""
    numbers = range(file * ROWS, (file + 1) * ROWS)
    made = [(BEGIN + timedelta(minutes=10 * n), n % 4, float(n % 7)) for n in numbers]
    return pl.DataFrame(made, schema=SCHEMA, orient="row")


def expected() -> pl.DataFrame:
    """Return the results in this process, of all rows."""
    whole = pl.concat([rows(file) for file in range(FILES)])
    return warm(rxt.from_polars(whole, start="time")).to_polars()


def last_cti() -> datetime:
    """Return the CTI at the end of the last file, that of its last row."""
    return BEGIN + timedelta(minutes=10 * (ROWS * FILES - 1))


def run_bounded(spark: SparkSession) -> list[Any]:
    """Return the results over a bounded DataFrame."""
    whole = pl.concat([rows(file) for file in range(FILES)])
    frame = spark.createDataFrame(whole.to_arrow(compat_level=pl.CompatLevel.oldest()))
    return as_rows(run(warm, buckets=BUCKETS, readings=stream(frame, start="time")))


def run_streaming(spark: SparkSession, folder: Path) -> list[Any]:
    """Return the results over a stream of files, with a restart after each."""
    arriving = folder / "arriving"
    arriving.mkdir()
    for number in range(FILES):
        frame = rows(number).with_columns(promised=pl.lit(None, SCHEMA["time"]))
        promised = frame.tail(1).with_columns(promised=pl.col("time"), room=None, temp=None)
        pl.concat([frame, promised]).write_parquet(arriving / f"{number}.parquet")
        schema = "time timestamp, room bigint, temp double, promised timestamp"
        given = spark.readStream.schema(schema).parquet(str(arriving))
        result = run(warm, buckets=BUCKETS, readings=stream(given, start="time", cti="promised"))
        written = result.writeStream.queryName("warm").trigger(availableNow=True)
        options = {"path": str(folder / "out"), "checkpointLocation": str(folder / "checkpoint")}
        written.format("parquet").options(**options).start().awaitTermination()
    return as_rows(spark.read.parquet(str(folder / "out")))


def as_rows(frame: Any) -> list[Any]:
    """Return results as plain values, sorted."""
    found = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    return sorted(map(list, found.with_columns(pl.selectors.datetime().to_physical()).rows()))


def main(folder: Path, *settings: str) -> None:
    """Run everything in one session."""
    spark = session(**dict(each.split("=", 1) for each in settings))
    listening = metrics(spark)
    report = check(spark)
    found = {
        "report": str(report),
        "ok": report.ok,
        "executors": [*report.executors],
        "bounded": run_bounded(spark),
        "streaming": run_streaming(spark, folder),
    }
    # events reach the listener in a thread of Spark's
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    found["metrics"] = {each.metric.name: each.value for each in listening.collect()}
    found["queries"] = sorted({each.labels[0] for each in listening.collect()})
    listening.stop()
    (folder / "found").write_text(json.dumps(found), "utf-8")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
