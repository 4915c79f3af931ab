"""Latency and throughput of a Spark sink.

``latency``: time from a segment's appearance to the call of the handler, in turns with a bare
Python data source of Spark (a folder of Arrow files, without verification) in the same session; and
in direct mode, from ``write`` to the handler. ``parquet``: rows per second from the spool into a
``ParquetTable``, between Spark's commits of two micro-batches. ``table``: rows per second from
``write`` into a ``ParquetTable``, in both modes, in turns with Spark that reads and writes the same
rows as Parquet. ``delay``: time from ``write`` until a reader of the table sees the rows, with a
trigger of a second. ``spool``: rows per second appended to the spool and synced; ``pushes``: the
same in batches of few rows, through a sink. ``state``: bytes per key in the engine's state.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measure
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import SpoolError
from rxtemporal.spark import ParquetTable, SparkSink, list_files, session
from rxtemporal.spark.sink.checkpoint import last_segment
from rxtemporal.storage import segments
from rxtemporal.storage.segments import Spool

SCHEMA = pl.Schema({"key": pl.Int64(), "value": pl.Float64()})
ROWS = 1_000


def make_batches(count: int, rows: int) -> Iterator[EventBatch]:
    """Yield batches of points with a key and a value, one a microsecond."""
    rng = np.random.default_rng(7)
    for number in range(count):
        start = np.arange(number * rows, (number + 1) * rows)
        payload = pl.DataFrame(
            {"key": rng.integers(0, 1_000, rows), "value": rng.random(rows)}, schema=SCHEMA
        )
        yield EventBatch.of_rows(start, start + 1, payload, (number + 1) * rows)


class Bare(DataSource):
    """Data source over a folder of Arrow files, as simple as Spark's interface allows."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return "start_time bigint, end_time bigint, key bigint, value double"

    def streamReader(self, schema: Any) -> BareReader:  # noqa: N802
        return BareReader(self.options["path"])


class BareReader(DataSourceStreamReader):
    def __init__(self, path: str) -> None:
        self.path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"file": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        names = [name for name in os.listdir(self.path) if name.endswith(".arrow")]
        return {"file": len(names)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["file"] + 1, end["file"] + 1)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        with pa.ipc.open_file(f"{self.path}/{partition.value}.arrow") as file:
            for index in range(file.num_record_batches):
                yield file.get_batch(index)


def send_in_turn(times: int, send: Callable[[int], None], entered: list[float]) -> None:
    """Send items one by one, each some time after the handler got the one before."""
    rng = random.Random(7)
    for number in range(times):
        before = len(entered)
        send(number)
        while len(entered) == before:
            time.sleep(0.002)
        time.sleep(0.3 + rng.random() / 10)  # Spark commits the micro-batch and becomes idle


def through_the_spool(spark: Any, folder: Path, times: int) -> list[float]:
    """Return the seconds from a segment's appearance to the handler."""
    visible, entered = list[float](), list[float]()
    sync = segments.sync_folder

    def note(path: Path) -> None:
        visible.append(time.perf_counter())
        sync(path)

    def handler(frame: Any, _: int) -> None:
        entered.append(time.perf_counter())
        frame.count()

    batches = list(make_batches(times, ROWS))
    sink = SparkSink(handler, path=folder, session=spark, trigger="0 seconds")
    sink.open("q", SCHEMA)
    segments.sync_folder = note  # type: ignore[attr-defined]
    try:
        time.sleep(3)
        entered.clear()
        send_in_turn(times, lambda number: sink.write(batches[number]), entered)
    finally:
        segments.sync_folder = sync  # type: ignore[attr-defined]
        sink.close(RuntimeError("measured"))
    return [there - at for at, there in zip(visible, entered, strict=True)]


def through_the_bare_source(spark: Any, folder: Path, times: int) -> list[float]:
    """Return the seconds from a file's appearance to the handler."""
    visible, entered = list[float](), list[float]()
    files = folder / "files"
    files.mkdir(parents=True)
    batches = list(make_batches(times, ROWS))

    def send(number: int) -> None:
        batch = batches[number]
        times_ = {"start_time": batch.start, "end_time": batch.end}
        aside = folder / "aside"
        pl.DataFrame(times_).hstack(batch.payload).write_ipc(
            aside, compat_level=pl.CompatLevel.oldest()
        )
        os.replace(aside, files / f"{number + 1}.arrow")
        visible.append(time.perf_counter())

    def handler(frame: Any, _: int) -> None:
        entered.append(time.perf_counter())
        frame.count()

    spark.dataSource.register(Bare)
    query = (
        spark.readStream.format("bare").option("path", str(files)).load()
        .writeStream.foreachBatch(handler).option("checkpointLocation", f"file://{folder}/c")
        .trigger(processingTime="0 seconds").start()
    )  # fmt: skip
    time.sleep(3)
    entered.clear()
    send_in_turn(times, send, entered)
    query.stop()
    return [there - at for at, there in zip(visible, entered, strict=True)]


def direct(spark: Any, folder: Path, times: int) -> list[float]:
    """Return the seconds from ``write`` to the handler."""
    sent, entered = list[float](), list[float]()

    def handler(frame: Any, _: int) -> None:
        entered.append(time.perf_counter())
        frame.count()

    batches = list(make_batches(times, ROWS))
    sink = SparkSink(handler, path=folder, session=spark, mode="direct")
    sink.open("q", SCHEMA)

    def send(number: int) -> None:
        sent.append(time.perf_counter())
        sink.write(batches[number])

    send_in_turn(times, send, entered)
    sink.close(None)
    return [there - at for at, there in zip(sent, entered, strict=True)]


def latency(spark: Any, folder: Path, rounds: int, times: int) -> None:
    """Print the medians of all three, without the first of each round, which warms up."""
    ways = {
        "spool to handler": through_the_spool,
        "bare source to handler": through_the_bare_source,
        "direct": direct,
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number, (name, way) in itertools.product(range(rounds), ways.items()):
        taken[name] += way(spark, folder / f"{name.split()[0]}{number}", times)[2:]
    for name, seconds in taken.items():
        low, median, high = statistics.quantiles(seconds, n=10)[::4]
        print(
            f"{name:<28} {median * 1e3:6.0f} ms (p10 {low * 1e3:.0f}, p90 {high * 1e3:.0f}), "
            f"{ROWS:,} rows, n={len(seconds)}"
        )
    spooled, bare = (statistics.median(taken[name]) for name in list(ways)[:2])
    print(f"{'spool over bare':<28} {spooled / bare:6.2f} x")


def parquet(spark: Any, folder: Path, rows: int, batches: int) -> None:
    """Print rows per second in micro-batches of ten segments; the first ones warm up."""
    table = folder / "table"
    sink = SparkSink(
        ParquetTable(table), path=folder, session=spark,
        trigger="0 seconds", max_segments_per_batch=10,
    )  # fmt: skip
    sink.open("q", SCHEMA)
    for batch in make_batches(10 * batches, rows // 10):
        sink.write(batch)
        sink.save()()  # type: ignore[operator]  # a segment of its own
    sink.close(None)
    assert sum(pl.scan_parquet(table).select(pl.len()).collect()["len"]) == rows * batches
    checkpoint = folder / "checkpoint"
    numbers = sorted(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    noted = [(checkpoint / "commits" / str(number)).stat().st_mtime for number in numbers]
    last = [last_segment(checkpoint, number) for number in numbers]
    seconds = [
        after - before
        for before, after, low, high in zip(noted, noted[1:], last, last[1:], strict=False)
        if high - low == 10
    ][1:]
    median = statistics.median(seconds)
    spent = sink.stats().batch_seconds / len(numbers)
    print(
        f"spool to Parquet, {rows:>9,} rows a micro-batch: {rows / median:9,.0f} rows/s "
        f"({median:.2f} s each, from {min(seconds):.2f} to {max(seconds):.2f}, n={len(seconds)}; "
        f"in the target {spent:.2f} s)"
    )
    files = [path for path in checkpoint.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    print(f"Spark's checkpoint: {size / len(numbers):,.0f} bytes a micro-batch, {len(files)} files")


def into_table(spark: Any, folder: Path, mode: Any, batches: list[EventBatch]) -> float:
    """Return the seconds from the first ``write`` until all rows are in the table."""
    table = folder / "table"
    sink = SparkSink(
        ParquetTable(table), path=folder / "work", session=spark, mode=mode, trigger="0 seconds"
    )
    sink.open("q", SCHEMA)
    sink.write(batches[0])
    wait_for_rows(table, len(batches[0]))
    begun = time.perf_counter()
    for batch in batches[1:]:
        sink.write(batch)
    if mode == "spooled":
        wait_for_rows(table, sum(map(len, batches)))
        taken = time.perf_counter() - begun
        sink.close(None)
        return taken
    sink.close(None)
    return time.perf_counter() - begun


def wait_for_rows(table: Path, rows: int) -> None:
    """Wait until a table has so many rows."""
    while count_rows(table) < rows:
        time.sleep(0.01)


def count_rows(table: Path) -> int:
    """Return how many rows a reader of the table sees, from the ends of its files."""
    try:
        return sum(pq.read_metadata(path).num_rows for path in list_files(table))
    except SpoolError:  # the sink has not made it yet
        return 0


def by_spark(spark: Any, folder: Path, batches: list[EventBatch]) -> float:
    """Return the seconds in which Spark reads the same rows from Parquet and writes them."""
    folder.mkdir(parents=True)
    for number, batch in enumerate(batches[1:]):
        times = pl.DataFrame({"start_time": batch.start, "end_time": batch.end})
        times = times.cast(pl.Datetime("us", "UTC"))
        times.hstack(batch.payload).write_parquet(folder / f"{number}.parquet")
    begun = time.perf_counter()
    spark.read.parquet(str(folder)).write.parquet(f"{folder}.out")
    return time.perf_counter() - begun


def into_tables(spark: Any, folder: Path, rows: int, rounds: int) -> None:
    """Print rows per second into a table, and the ratios to Spark's; the first round warms up."""
    batches = list(make_batches(1 + rows // 100_000, 100_000))
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    ways = {
        "Spark, Parquet to Parquet": by_spark,
        "spooled": lambda spark, at, batches: into_table(spark, at, "spooled", batches),
        "direct": lambda spark, at, batches: into_table(spark, at, "direct", batches),
    }
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number, (name, way) in itertools.product(range(rounds + 1), ways.items()):
        seconds = way(spark, folder / f"{name.partition(',')[0]}{number}", batches)
        taken[name] += [seconds] if number else []
    measure.report(taken, rows, next(iter(ways)))


def delay(folder: Path, seconds: float) -> None:
    """Print the time from ``write`` until a reader sees the rows, 100 rows 20 times a second."""
    table = folder / "table"
    sink = SparkSink(ParquetTable(table), path=folder / "work")
    sink.open("q", SCHEMA)
    batches = make_batches(int(seconds * 20) + 1, 100)
    sink.write(next(batches))
    wait_for_rows(table, 1)
    sent, seen = list[float](), list[float]()

    def look() -> None:
        while len(seen) < int(seconds * 20):
            visible = count_rows(table) // 100 - 1
            seen.extend([time.perf_counter()] * (visible - len(seen)))
            time.sleep(0.02)

    looking = threading.Thread(target=look)
    looking.start()
    for batch in batches:
        sent.append(time.perf_counter())
        sink.write(batch)
        time.sleep(0.05)
    looking.join()
    sink.close(RuntimeError("measured"))
    waited = sorted(there - at for at, there in zip(sent, seen, strict=True))[40:]
    cuts = statistics.quantiles(waited, n=20)
    print(
        f"write to table, a trigger of a second: {cuts[9]:.2f} s (p95 {cuts[18]:.2f} s, longest "
        f"{waited[-1]:.2f} s), n={len(waited)}"
    )


def pushes(folder: Path, rows: int, seconds: float) -> None:
    """Print the rows per second of batches of few rows, until all of them are in the spool."""
    sink = SparkSink(ParquetTable(folder / "table"), path=folder / "work")
    sink.open("q", SCHEMA)
    batches = list(make_batches(10_000, rows))
    sink.write(batches[0])
    wait_for_rows(folder / "table", rows)
    begun, count = time.perf_counter(), 0
    while time.perf_counter() < begun + seconds and count + 1 < len(batches):
        count += 1
        sink.write(batches[count])
    saved = sink.save()
    assert not isinstance(saved, bytes)
    saved()  # waits for the disk
    taken = time.perf_counter() - begun
    print(
        f"spool writing, {rows:>3} rows a batch: {rows * count / taken:12,.0f} rows/s, "
        f"{count / sink.stats().segments:.1f} batches a segment, n={count}"
    )
    sink.close(RuntimeError("measured"))


def spool(folder: Path, rows: int, count: int) -> None:
    """Print the rows and bytes per second of synced appends."""
    batches = list(make_batches(count, rows))
    seconds = []
    with Spool.open(folder, "q", SCHEMA) as to:
        for batch in batches:
            begun = time.perf_counter()
            to.append(batch)
            seconds.append(time.perf_counter() - begun)
        size = to.waiting_bytes() / (rows * count)
    print(
        f"spool writing, {rows:>9,} rows a segment: {rows / statistics.median(seconds):12,.0f} "
        f"rows/s, {size:.1f} bytes a row, n={count}"
    )


def measure_state(keys: int) -> int:
    """Return the state's bytes of a windowed mean with this many keys in the open window."""
    import rxtemporal as rxt
    from rxtemporal import agg
    from rxtemporal.testing import Stepper

    points = rxt.from_events([], schema=SCHEMA, name="points")
    steps = Stepper(
        points.group_by("key").tumbling_window(1_000_000).aggregate(mean=agg.avg("value"))
    )
    payload = pl.DataFrame({"key": np.arange(keys), "value": np.ones(keys)}, schema=SCHEMA)
    start = np.arange(keys)
    steps.push("points", EventBatch.of_rows(start, start + 1, payload, keys))
    return sum(map(len, steps.save()))


def state() -> None:
    """Print the bytes of state per key, and those without keys."""
    sizes = {keys: measure_state(keys) for keys in (100, 1_000, 10_000, 100_000)}
    slope = (sizes[100_000] - sizes[1_000]) / 99_000
    listed = ", ".join(f"{keys:,} keys {size:,}" for keys, size in sizes.items())
    print(f"state of a windowed mean: {slope:.1f} bytes a key (bytes: {listed})")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=sorted(COMMANDS))
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        COMMANDS[given.what](Path(name), given)


def run_in_spark(work: Callable[[Any, Path, Any], None]) -> Callable[[Path, Any], None]:
    """Return a command that does some work with a session of its own."""

    def run(folder: Path, given: Any) -> None:
        spark = session(**{"spark.driver.memory": "4g"})
        measure.check_compilers(spark)
        work(spark, folder, given)
        spark.stop()

    return run


def run_spool(folder: Path, given: Any) -> None:
    """Measure the spool alone."""
    for rows in (1_000, 100_000, 1_000_000):
        spool(folder / str(rows), rows, 10)


def run_pushes(folder: Path, given: Any) -> None:
    """Measure batches of few rows."""
    for rows in (1, 10):
        pushes(folder / str(rows), rows, 5)


COMMANDS: dict[str, Callable[[Path, Any], None]] = {
    "delay": lambda folder, given: delay(folder, 20),
    "latency": run_in_spark(
        lambda spark, folder, given: latency(spark, folder, given.rounds, given.times)
    ),
    "parquet": run_in_spark(
        lambda spark, folder, given: parquet(spark, folder, given.rows, given.batches)
    ),
    "pushes": run_pushes,
    "spool": run_spool,
    "state": lambda folder, given: state(),
    "table": run_in_spark(
        lambda spark, folder, given: into_tables(spark, folder, 3 * given.rows, given.rounds)
    ),
}


if __name__ == "__main__":
    main()
