"""State of streaming queries inside Spark: time and bytes of a micro-batch against keys.

    python benchmarks/spark_state.py [--keys 1000 1000000] [--rows 10000 100000] [--batches 12]

``windows``: count and mean of each key in hours every twelve minutes, so that five windows are open
for each key. ``join``: pairs of rows with the same key within five seconds. Both are computed here
and by Spark's own operators, over the same files, one file in each micro-batch, in one session with
Java's second compiler (``measure.check_compilers``). All keys come once before the micro-batches
that are timed. Bytes are those of RocksDB's changelogs and of all files that the checkpoint has got
meanwhile, beside the bytes of the rows: 8 for each time, key and value. ``rebuilding``: loading a
bucket with this many keys, in this process.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import measure
import numpy as np
import polars as pl
from pyspark.sql import functions as sf

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import run, session, stream

SECOND = 1_000_000
MINUTE = 60 * SECOND
# keys that come in one micro-batch before those that are timed
FILL = 200_000
ROW_BYTES = 24
# micro-batches that start processes and compile
WARM = 2
REACH = 5 * SECOND
COLUMNS = "start bigint, key bigint, value double, cti bigint"


class Files(NamedTuple):
    """A folder of micro-batches; the first ones, which bring the keys, are not timed."""

    path: Path
    untimed: int


class Figures(NamedTuple):
    """Figures of a micro-batch: seconds, bytes of changelogs, bytes of all files."""

    seconds: float
    changelog: float
    written: float
    checkpoint: int


def write_files(folder: Path, keys: int, rows: int, batches: int, seed: int) -> Files:
    """Write micro-batches, a second apart, whose CTIs are at their ends."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    fill = [np.arange(first, min(keys, first + FILL)) for first in range(0, keys, FILL)]
    timed = [random.integers(0, keys, rows) for _ in range(batches + WARM)]
    for number, some in enumerate([*fill, *timed]):
        start = np.sort(number * SECOND + random.integers(0, SECOND, len(some)))
        values = {"start": start, "key": some, "value": random.random(len(some))}
        cti = pl.DataFrame({"start": [(number + 1) * SECOND], "cti": [(number + 1) * SECOND]})
        frame = pl.concat([pl.DataFrame(values), cti], how="diagonal")
        frame.write_parquet(folder / f"{number:04}.parquet")
        time.sleep(0.005)  # files are read in the order of their times
    return Files(folder, len(fill) + WARM)


def read(spark: Any, files: Files) -> Any:
    """Return a folder as a streaming DataFrame."""
    reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(files.path))


def read_rows(spark: Any, files: Files) -> Any:
    """Return the same for Spark's operators: without CTIs, and with a watermark."""
    rows = read(spark, files).where("cti is null").drop("cti")
    return rows.withColumn("at", sf.timestamp_micros("start")).withWatermark("at", "0 seconds")


# The queries --------------------------------------------------------------------------------------


def count_here(spark: Any, *files: Files) -> Any:
    """Compute the windows."""

    def query(points: rxt.Streamable) -> rxt.Streamable:
        windows = points.group_by("key").hopping_window(60 * MINUTE, 12 * MINUTE)
        return windows.aggregate(n=agg.count(), mean=agg.mean("value"))

    return run(query, points=stream(read(spark, files[0]), start="start", cti="cti"))


def count_by_spark(spark: Any, *files: Files) -> Any:
    """Compute the windows by Spark's own aggregation."""
    windows = sf.window("at", "60 minutes", "12 minutes")
    grouped = read_rows(spark, files[0]).groupBy("key", windows)
    return grouped.agg(sf.count("*").alias("n"), sf.avg("value").alias("mean"))


def join_here(spark: Any, *files: Files) -> Any:
    """Compute the pairs."""

    def query(left: rxt.Streamable, right: rxt.Streamable) -> rxt.Streamable:
        sides = (each.alter_event_duration(REACH) for each in (left, right))
        one, other = sides
        return one.join(other, on="key", suffix="_right")

    left, right = (stream(read(spark, each), start="start", cti="cti") for each in files)
    return run(query, left=left, right=right)


def join_by_spark(spark: Any, *files: Files) -> Any:
    """Compute the pairs by Spark's own join."""
    left, right = (read_rows(spark, each) for each in files)
    right = right.select(*(sf.col(name).alias(f"r_{name}") for name in right.columns))
    near = sf.expr(
        "key = r_key and at > r_at - interval 5 seconds and at < r_at + interval 5 seconds"
    )
    return left.join(right, near)


Query = Callable[..., Any]
WINDOWS = {"here": count_here, "Spark's own": count_by_spark}
JOIN = {"here": join_here, "Spark's own": join_by_spark}


# Measuring ----------------------------------------------------------------------------------------


def time_query(frame: Any, untimed: int, folder: Path) -> Figures:
    """Run a query to the end of its files."""
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder)).start()
    query.awaitTermination()
    progress = query.recentProgress[untimed:]
    seconds = [each["durationMs"]["triggerExecution"] / 1e3 for each in progress]
    first = next((folder / "commits").glob(f"{untimed - 1}")).stat().st_mtime
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    changelogs = [path.stat() for path in folder.rglob("*.changelog")]
    count = len(seconds)
    return Figures(
        statistics.median(seconds),
        sum(each.st_size for each in changelogs if each.st_mtime > first) / count,
        sum(each.st_size for each in found if each.st_mtime > first) / count,
        sum(each.st_size for each in found),
    )


def compare(spark: Any, queries: dict[str, Query], files: list[Files], rows: int) -> None:
    """Print the figures of a query here and by Spark."""
    figures = {}
    for name, query in queries.items():
        with tempfile.TemporaryDirectory() as folder:
            figures[name] = time_query(query(spark, *files), files[0].untimed, Path(folder))
    size = ROW_BYTES * rows * len(files)
    for name, each in figures.items():
        print(
            f"  {name:<12} {each.seconds:6.2f} s, {size / ROW_BYTES / each.seconds:10,.0f} rows/s, "
            f"changelog {each.changelog / 1e6:7.2f} MB ({each.changelog / size:5.1f} x the rows), "
            f"all files {each.written / size:5.1f} x, checkpoint {each.checkpoint / 1e6:7.1f} MB"
        )
    here, spark_ = figures.values()
    print(f"  {spark_.seconds / here.seconds:.2f} x the rate of Spark's own")


def measure_rebuilding(keys: int) -> None:
    """Print the seconds in which a bucket is loaded, and the bytes of its base."""
    from rxtemporal.engine.codec import dumps, loads
    from rxtemporal.run.stepper import Stepwise
    from rxtemporal.spark.query.bucket_state import compress, decompress

    windows = rxt.from_events([], schema={"key": pl.Int64(), "value": pl.Float64()}, name="points")
    windows = windows.group_by("key").hopping_window(60 * MINUTE, 12 * MINUTE)
    plan = windows.aggregate(n=agg.count(), mean=agg.mean("value"))._node
    steps = Stepwise(plan)
    payload = pl.DataFrame({"key": np.arange(keys), "value": np.zeros(keys)})
    steps.push("points", rxt.EventBatch.of_rows(np.arange(keys), np.arange(keys) + 1, payload, 0))
    steps.push("points", rxt.EventBatch.empty(payload.schema, SECOND))
    whole = dumps("bucket", steps.save())
    base = compress(whole)
    begun = time.perf_counter()
    Stepwise(plan).load(loads("bucket", decompress(base, len(whole))))
    print(
        f"rebuilding {keys:,} keys: {time.perf_counter() - begun:.2f} s, state "
        f"{len(whole) / 1e6:.1f} MB, base {len(base) / 1e6:.1f} MB"
    )


def main() -> None:
    """Print the figures."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    asked.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    asked.add_argument("--batches", type=int, default=12)
    asked.add_argument("--only", choices=["windows", "join", "rebuilding"])
    options = asked.parse_args()
    if options.only in (None, "rebuilding"):
        for keys in options.keys:
            measure_rebuilding(keys)
    if options.only == "rebuilding":
        return
    spark = session(**{"spark.master": "local[2]"})
    measure.check_compilers(spark)
    with tempfile.TemporaryDirectory() as name:
        cases = [(keys, rows) for keys in options.keys for rows in options.rows]
        for number, (keys, rows) in enumerate(cases):
            files = [
                write_files(Path(name, f"{number}-{side}"), keys, rows, options.batches, side)
                for side in range(2)
            ]
            if options.only in (None, "windows"):
                print(f"windows, {keys:,} keys, {rows:,} rows a micro-batch")
                compare(spark, WINDOWS, files[:1], rows)
            if options.only in (None, "join"):
                print(f"join, {keys:,} keys, {rows:,} rows a micro-batch on each side")
                compare(spark, JOIN, files, rows)
    spark.stop()


if __name__ == "__main__":
    main()
