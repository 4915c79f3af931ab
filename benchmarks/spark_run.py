"""Rates of W2 and W3 inside Spark, bounded, and of W2 streaming, beside Spark's own aggregation.

    python benchmarks/spark_run.py [--events 2000000] [--rounds 3] [--only bounded|streaming]
    python benchmarks/spark_run.py --only bounded --master "local-cluster[2,1,2048]"

Rows are read from Parquet. Results are checked once, and then written to a sink that keeps nothing.
W2 has windows of a second, W3 five at a time: of five seconds, every second.
The cost of a micro-batch is split by running it three times: without rows (Spark's part), with rows
that are only passed through the Python workers (transfer), and with the query (the engine's part).
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import measure
import polars as pl
import workloads
from figures import Report, parse, summarize
from pyspark.sql import functions as sf

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.spark import run, session, stream
from rxtemporal.spark.query import streaming
from rxtemporal.spark.query.cti_column import AFTER, BEFORE


def w2(points: rxt.Streamable) -> rxt.Streamable:
    """Compute count and mean of each key and second."""
    windows = points.group_by("key").tumbling_window(workloads.SECOND)
    return windows.aggregate(n=agg.count(), avg=agg.avg("value"))


def by_spark(points: Any) -> Any:
    """Compute the same with Spark's own aggregation."""
    second = (sf.col("start") / workloads.SECOND).cast("long")
    grouped = points.groupBy("key", second.alias("second"))
    return grouped.agg(sf.count("*").alias("n"), sf.avg("value").alias("avg"))


def w3(points: rxt.Streamable) -> rxt.Streamable:
    """Compute count and mean of each key, in five seconds every second."""
    windows = points.group_by("key").hopping_window(
        workloads.OVERLAP * workloads.SECOND, workloads.SECOND
    )
    return windows.aggregate(n=agg.count(), avg=agg.avg("value"))


def hop_by_spark(points: Any) -> Any:
    """Compute the same with Spark's own windows."""
    seconds = f"{workloads.OVERLAP} seconds"
    windows = sf.window(sf.timestamp_micros("start"), seconds, "1 second")
    return points.groupBy("key", windows).agg(sf.count("*").alias("n"), sf.avg("value"))


Query = Callable[[Any], Any]
BOUNDED: dict[str, tuple[Query, Query]] = {"w2": (w2, by_spark), "w3": (w3, hop_by_spark)}


def compare_bounded(
    spark: Any, work: workloads.Workload, folder: Path, rounds: int, report: Report
) -> None:
    """Print the rates of whole runs over files, as medians of interleaved rounds."""
    query, spark_query = BOUNDED[work.name]
    parts = folder / work.name
    parts.mkdir()
    half = work.rows.height // 2
    for number, rows in enumerate((work.rows[:half], work.rows[half:])):
        rows.write_parquet(parts / f"{number}.parquet")

    def points() -> Any:
        return spark.read.parquet(str(parts))

    def ours() -> Any:
        return run(query, points=stream(points(), start="start"))

    found = pl.DataFrame(pl.from_arrow(ours().toArrow())).rename({"start_time": "start"})
    work.check(dict(zip(found.columns, found, strict=True)))
    contenders: dict[str, Callable[[], Any]] = {
        "rxtemporal inside Spark": lambda: compute(ours()),
        "Spark's own aggregation": lambda: compute(spark_query(points())),
    }
    for contender in contenders.values():
        contender()
    seconds = measure.rounds(contenders, rounds)
    case = f"{spark.sparkContext.master}, {work.name.upper()}"
    print(f"bounded, {case}")
    measure.report(seconds, work.rows.height, "Spark's own aggregation")
    table = "Spark, bounded by key"
    for name, taken in seconds.items():
        rates = [work.rows.height / each / 1e6 for each in taken]
        report.add(summarize(table, f"{case}, {name}", rates, "million rows/s"))
    ratios = measure.ratios(seconds, *contenders)
    report.add(summarize(table, f"{case}, rate here beside Spark's own", ratios, "×"))


def compute(frame: Any) -> None:
    """Compute everything, and keep nothing."""
    frame.write.format("noop").mode("overwrite").save()


# cost per bucket: the extra time of empty micro-batches with the second number of buckets
BUCKETS = (8, 200)

# Streaming ----------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Passing:
    """Bucket that reads its rows, and computes nothing; workers get it in place of the query's."""

    plan: Any
    readers: Any
    written: Any
    fingerprint: Any
    repeatable: bool = True
    joins: bool = True

    def begin(self) -> Any:
        """Return a run at its beginning."""
        return PassingRun()


class PassingRun:
    """Run without a state."""

    def take(self, rows: Any) -> dict[str, Any]:
        """Return no result."""
        return {"data": [], BEFORE: [], AFTER: []}

    def save(self) -> bytes:
        """Return nothing."""
        return b""

    def load(self, data: bytes) -> None:
        """Do nothing."""


def micro_batches(rows: pl.DataFrame, folder: Path, size: int) -> Path:
    """Write the rows as files, each with a CTI at its end."""
    folder.mkdir()
    for number, first in enumerate(range(0, rows.height, size)):
        part, after = rows[first : first + size], rows[first + size :]
        cti = after["start"][0] if after.height else MAX_TIME
        promise = pl.DataFrame({"start": [cti], "cti": [cti]})
        part = part.with_columns(cti=pl.lit(None, pl.Int64))
        pl.concat([part, promise], how="diagonal").write_parquet(folder / f"{number:04}.parquet")
        time.sleep(0.005)  # files are read in the order of their times
    return folder


def stream_files(spark: Any, files: Path, buckets: int | None = None) -> Any:
    """Return the query over a folder of files, one in each micro-batch."""
    kinds = "start bigint, key int, value double, cti bigint"
    rows = spark.readStream.schema(kinds).option("maxFilesPerTrigger", 1).parquet(str(files))
    return run(w2, buckets=buckets, points=stream(rows, start="start", cti="cti"))


def seconds_of(frame: Any, folder: Path) -> list[float]:
    """Run a streaming query to the end of its files; return the seconds of each micro-batch."""
    writer = frame.writeStream.format("noop").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(folder)).start()
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress]


def streaming_split(spark: Any, work: workloads.Workload, folder: Path, size: int) -> None:
    """Print the time of micro-batches of one size, and its parts."""
    files = micro_batches(work.rows, folder / "rows", size)
    check(spark, work, files, folder)
    promises = work.rows[::size].select("start", cti="start")
    empty = folder / "empty"
    empty.mkdir()
    for number, promise in enumerate(promises.iter_slices(1)):
        row = promise.with_columns(key=pl.lit(0, pl.Int32), value=pl.lit(0.0))
        row.write_parquet(empty / f"{number:04}.parquet")
        time.sleep(0.005)
    whole = seconds_of(stream_files(spark, files), folder / "c1")
    alone = seconds_of(stream_files(spark, empty), folder / "c2")
    own = streaming.BucketWork
    streaming.BucketWork = Passing
    passed = seconds_of(stream_files(spark, files), folder / "c3")
    streaming.BucketWork = own
    # the first micro-batches start processes and compile
    all_in, spark_s, through = (statistics.median(each[2:]) for each in (whole, alone, passed))
    print(f"streaming, {size:,} rows a micro-batch")
    print(f"  {size / all_in / 1e3:,.0f}k events/s, {all_in * 1e3:,.0f} ms a micro-batch:")
    print(
        f"  Spark {spark_s * 1e3:,.0f} ms, transfer {(through - spark_s) * 1e3:,.0f} ms, ", end=""
    )
    print(f"ours {(all_in - through) * 1e3:,.0f} ms")
    few, many = BUCKETS
    took = [
        statistics.median(seconds_of(stream_files(spark, empty, n), folder / f"b{n}")[2:])
        for n in BUCKETS
    ]
    cores = spark.sparkContext.defaultParallelism
    each = (took[1] - took[0]) * cores / (many - few)
    print(f"  a bucket more costs {each * 1e3:,.2f} ms of a core in each micro-batch, empty or not")


def check(spark: Any, work: workloads.Workload, files: Path, folder: Path) -> None:
    """Run the query once, and check its results."""
    tables: list[Any] = []
    writer = stream_files(spark, files).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "c0"))
    writer.foreachBatch(lambda df, _: tables.append(df.toArrow())).start().awaitTermination()
    found = pl.concat([pl.DataFrame(pl.from_arrow(table)) for table in tables])
    found = found.rename({"start_time": "start"})
    work.check(dict(zip(found.columns, found, strict=True)))


def main() -> None:
    """Print the figures."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--events", type=int, default=2_000_000)
    asked.add_argument("--batch", type=int, default=200_000)
    asked.add_argument("--only", choices=["bounded", "streaming"])
    asked.add_argument("--master", default="local[2]")
    options = parse(asked, rounds=3)
    report = Report("spark_run", options)
    paths = {"spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    spark = session(**{"spark.master": options.master, **paths})
    measure.check_compilers(spark)
    work = workloads.w2(options.events)
    with tempfile.TemporaryDirectory() as name:
        if options.only != "streaming":
            for each in (work, workloads.w3(options.events)):
                compare_bounded(spark, each, Path(name), options.rounds, report)
            report.save()
        if options.only != "bounded":
            streaming_split(spark, work, Path(name), options.batch)
    spark.stop()


if __name__ == "__main__":
    main()
