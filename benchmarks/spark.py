"""Latency and throughput of a Spark sink.

``latency``: time from a segment's appearance to the call of the handler, in turns with a bare
Python data source of Spark (a folder of Arrow files, without verification) in the same session; and
in direct mode, from ``write`` to the handler. ``parquet``: rows per second from the spool into a
``ParquetTable``, between Spark's commits of two micro-batches. ``spool``: rows per second appended
to the spool and synced. ``state``: bytes per key in the engine's state.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import measure
import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from rxtemporal.core.batch import EventBatch
from rxtemporal.spark import ParquetTable, SparkSink, session
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
    parser.add_argument("what", choices=["latency", "parquet", "spool", "state"])
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.what == "state":
            state()
            return
        if given.what == "spool":
            for rows in (1_000, 100_000, 1_000_000):
                spool(folder / str(rows), rows, 10)
            return
        spark = session(**{"spark.driver.memory": "4g"})
        measure.check_compilers(spark)
        if given.what == "latency":
            latency(spark, folder, given.rounds, given.times)
        else:
            parquet(spark, folder, given.rows, given.batches)
        spark.stop()


if __name__ == "__main__":
    main()
