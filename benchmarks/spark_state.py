"""State of streaming queries inside Spark: time and bytes of a micro-batch against keys.

    python benchmarks/spark_state.py [--keys 1000 1000000] [--rows 10000 100000] [--batches 12]
    python benchmarks/spark_state.py --only join --json FILE

``windows``: count and mean of each key in hours every twelve minutes, so that five windows are open
for each key. ``join``: pairs of rows with the same key within five seconds. Both are computed here
and by Spark's own operators, over the same files, one file in each micro-batch, in one session with
Java's second compiler (``measure.check_compilers``). All keys come once before the micro-batches
that are timed. Bytes are those of RocksDB's changelogs and of all files that the checkpoint has got
meanwhile, beside the bytes of the rows: 8 for each time, key and value. The checkpoint at the end
is beside the bases and logs that are in it, and its bases before compression. ``rebuilding``:
loading a bucket with this many keys, in this process. ``start``: CPU time of a process until it has
got the work of a bucket as a worker of Spark does, loaded a small state, and taken its first rows.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import measure
import numpy as np
import polars as pl
from figures import Figure, Report, parse, summarize
from pyspark import cloudpickle
from pyspark.sql import functions as sf

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import run, session, stream
from rxtemporal.spark.query import processor
from rxtemporal.spark.query.bucket_state import PackedInput, StateHead, compress, decompress
from rxtemporal.spark.query.columns import ENDS, STARTS
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.query.streaming import BucketWork, QueryFingerprint
from rxtemporal.spark.schema import arrow_schema, spark_schema

SECOND = 1_000_000
MINUTE = 60 * SECOND
# keys that come in one micro-batch before those that are timed
FILL = 200_000
ROW_BYTES = 24
# micro-batches that start processes and compile
WARM = 4
REACH = 5 * SECOND
# of a row on the other side of a join; the results of more do not fit into memory
MOST_PARTNERS = 100
COLUMNS = "start bigint, key bigint, value double, cti bigint"


class Files(NamedTuple):
    """A folder of micro-batches; the first ones, which bring the keys, are not timed."""

    path: Path
    untimed: int


class Figures(NamedTuple):
    """Figures of a query: seconds of each micro-batch, and bytes.

    ``changelog`` and ``written``, of all files, are those of a micro-batch; ``checkpoint`` is the
    whole folder at the end.
    """

    seconds: list[float]
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
HERE, SPARK = "here", "Spark's own"
QUERIES: dict[str, dict[str, Query]] = {
    "windows": {HERE: count_here, SPARK: count_by_spark},
    "join": {HERE: join_here, SPARK: join_by_spark},
}


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
        seconds,
        sum(each.st_size for each in changelogs if each.st_mtime > first) / count,
        sum(each.st_size for each in found if each.st_mtime > first) / count,
        sum(each.st_size for each in found),
    )


def read_heads(spark: Any, folder: Path) -> list[StateHead]:
    """Return the heads of all buckets in a checkpoint of this package."""
    reader = spark.read.format("statestore").option("stateVarName", "state")
    rows = reader.load(str(folder)).where(f"user_map_key.number = {processor.HEAD}")
    return [StateHead.loads(bytes(row.user_map_value.data)) for row in rows.collect()]


def compare(
    spark: Any, report: Report, name: str, files: list[Files], keys: int, rows: int
) -> None:
    """Measure a query here and by Spark."""
    found = dict[str, Figures]()
    for who, query in QUERIES[name].items():
        with tempfile.TemporaryDirectory() as folder:
            found[who] = time_query(query(spark, *files), files[0].untimed, Path(folder))
            if who == HERE:
                heads = read_heads(spark, Path(folder))
    case = f"{name}, {keys:,} keys, {rows:,} rows"
    table = f"Spark, {name}: seconds of a micro-batch"
    for who, each in found.items():
        place = {"curve": f"{who}, {rows:,} rows", "size": keys}
        report.add(summarize(table, f"{case}, {who}", each.seconds, "s", **place))
    here, spark_ = found.values()
    faster = statistics.median(spark_.seconds) / statistics.median(here.seconds)
    report.add(
        Figure(f"Spark, {name}: ratios", f"{case}, rate here beside Spark's own", faster, "×")
    )
    size = ROW_BYTES * rows * len(files)
    for who, each in found.items():
        for what, value in (("changelog", each.changelog), ("all files", each.written)):
            words = f"{case}, {who}: {what} of a micro-batch beside its rows"
            report.add(Figure("Spark, bytes", words, value / size, "×"))
    stored = sum(head.base_bytes + head.log_bytes for head in heads)
    whole = sum(head.whole for head in heads)
    mega = Figure("Spark, bytes", f"{case}, {HERE}: checkpoint", here.checkpoint / 1e6, "MB")
    report.add(mega)
    for words, value in (("stored bases and logs", stored), ("bases before compression", whole)):
        beside = f"{case}, {HERE}: checkpoint beside its {words} ({value / 1e6:,.1f} MB)"
        report.add(Figure("Spark, bytes", beside, here.checkpoint / value, "×"))
    other = Figure("Spark, bytes", f"{case}, {SPARK}: checkpoint", spark_.checkpoint / 1e6, "MB")
    report.add(other)


def make_bucket() -> BucketWork:
    """Return the work of a bucket of the windows, as workers get it."""
    fields = {"key": pl.Int64(), "value": pl.Float64()}
    points = rxt.from_events([], schema=fields, name="points")
    windows = points.group_by("key").hopping_window(60 * MINUTE, 12 * MINUTE)
    plan = windows.aggregate(n=agg.count(), mean=agg.mean("value"))._node
    assert plan.schema is not None
    results = {"s": pl.Int64(), "e": pl.Int64(), **plan.schema}
    reader = InputReader("points", 0, pl.Schema(fields))
    written = arrow_schema(spark_schema(results))
    return BucketWork(plan, (reader,), written, QueryFingerprint((), {}, 1))


def make_rows(keys: int) -> list[PackedInput]:
    """Return a row of each key, with a CTI at the first of them."""
    start = np.arange(keys)
    fields = {"c0_0": start, "c0_1": np.random.default_rng(7).random(keys)}
    frame = pl.DataFrame({STARTS: start, ENDS: start + 1, **fields})
    return [PackedInput(0, 0, frame)]


def measure_rebuilding(keys: int, report: Report) -> None:
    """Measure the seconds in which a bucket is loaded, and the bytes of its base."""
    work = make_bucket()
    bucket = work.begin()
    bucket.take(make_rows(keys))
    whole = bucket.save()
    base = compress(whole)
    begun = time.perf_counter()
    work.begin().load(decompress(base, len(whole)))
    took = time.perf_counter() - begun
    table = "Spark, loading a state"
    report.add(Figure(table, f"{keys:,} keys", took, "s"))
    for what, data in (("state", whole), ("compressed", base)):
        report.add(Figure(table, f"{keys:,} keys, {what}", len(data) / 1e6, "MB"))


def measure_start(report: Report) -> None:
    """Measure the CPU time of a worker's start, with compiled kernels that are found.

    It ends when a state of a thousand keys is loaded and a thousand rows are taken.
    """
    work = make_bucket()
    bucket, rows = work.begin(), make_rows(1_000)
    bucket.take(rows)
    code = (
        "import os, pickle, sys, pyspark.worker\n"
        "work, state, rows = pickle.load(sys.stdin.buffer)\n"
        "bucket = work.begin(); bucket.load(state); bucket.take(rows)\n"
        "os._exit(0)"  # the end of a process is no part of its start
    )
    given = cloudpickle.dumps((work, bucket.save(), rows))
    seconds = []
    for _ in range(4):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], input=given, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # the first one compiles if nobody has before
    report.add(summarize("Spark, start of a worker", "CPU time", seconds[1:], "s"))


def main() -> None:
    """Measure what was asked for."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--keys", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    asked.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    # Spark keeps the files of the last ten micro-batches, of which bytes are counted
    asked.add_argument("--batches", type=int, choices=range(1, 10), default=8)
    asked.add_argument("--only", choices=[*QUERIES, "rebuilding", "start"])
    options = parse(asked, rounds=1)
    report = Report("_".join(["spark_state", *filter(None, [options.only])]), options)
    if options.only in (None, "start"):
        measure_start(report)
    if options.only in (None, "rebuilding"):
        for keys in options.keys:
            measure_rebuilding(keys, report)
    if queries := [name for name in QUERIES if options.only in (None, name)]:
        compare_all(queries, options, report)
    report.save()


def compare_all(queries: list[str], options: argparse.Namespace, report: Report) -> None:
    """Measure queries for each number of keys and of rows, in one session."""
    spark = session(**{"spark.master": "local[2]"})
    measure.check_compilers(spark)
    with tempfile.TemporaryDirectory() as name:
        cases = [(keys, rows) for keys in options.keys for rows in options.rows]
        for number, (keys, rows) in enumerate(cases):
            files = [
                write_files(Path(name, f"{number}-{side}"), keys, rows, options.batches, side)
                for side in range(2)
            ]
            for query in queries:
                partners = 2 * REACH // SECOND * rows // keys
                if query == "join" and partners > MOST_PARTNERS:
                    print(f"join, {keys:,} keys, {rows:,} rows: left out, {partners:,} pairs a row")
                    continue
                sides = files if query == "join" else files[:1]
                compare(spark, report, query, sides, keys, rows)
    spark.stop()


if __name__ == "__main__":
    main()
