"""The Spark job of a fleet: windows of each device over the rows that all processes have accepted.

    python benchmarks/fleet_job.py FOLDER

It reads ``FOLDER/accepted`` and writes ``FOLDER/table`` until there is a file ``FOLDER/sent``; then
it reads what is left, and writes the rows of the table to ``FOLDER/final.parquet``. The seconds of
its micro-batches are in ``FOLDER/micro-batches.jsonl``. Killed and started again, it continues.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import run, session, stream

SCHEMA = "start_time timestamp, end_time timestamp, device string, n bigint, temp double"
CORES, BUCKETS = 2, 8
# files of one process may come a little out of order
DELAY = timedelta(minutes=5)
# minutes of readings that are measured are so far apart that each makes those before final
APART = DELAY + timedelta(minutes=2)
SETTINGS = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, DELAY, advance_to_infinity_on_shutdown=False),
    policy=rxt.AdvanceTimePolicy.DROP,
)


def minutes(rows: rxt.Streamable) -> rxt.Streamable:
    """Compute the minutes of each device; ``n`` counts the readings of a device."""
    windows = rows.group_by("device").tumbling_window("1m")
    return windows.aggregate(
        readings=agg.count(),
        different=agg.count_distinct("n"),
        first=agg.min("n"),
        last=agg.max("n"),
        mean=agg.mean("temp"),
    )


def read(spark: Any, accepted: Path, **options: Any) -> Any:
    """Return the results over a folder of accepted rows, as a streaming DataFrame."""
    files = spark.readStream.schema(SCHEMA).options(**options).parquet(str(accepted))
    rows = stream(
        files, start="start_time", end="end_time", order_by="start_time",
        advance_time=SETTINGS, clock="device",
    )  # fmt: skip
    return run(minutes, rows=rows, buckets=BUCKETS)


def start_session() -> Any:
    """Return a session on this machine, with so many cores."""
    return session(**{"spark.master": f"local[{CORES}]", "spark.ui.enabled": "false"})


def list_batches(progress: Iterable[Any]) -> list[tuple[int, int, float]]:
    """Return number, rows and seconds of the micro-batches that had rows."""
    return [
        (each["batchId"], each["numInputRows"], each["durationMs"]["triggerExecution"] / 1e3)
        for each in progress
        if each["numInputRows"]
    ]


def main(folder: Path) -> None:
    """Run the job to its end."""
    spark = start_session()
    writer = read(spark, folder / "accepted").writeStream.format("parquet")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start(
        str(folder / "table")
    )
    while not (folder / "sent").exists():
        if query.awaitTermination(1):
            raise SystemExit("the query has ended")
    query.processAllAvailable()
    batches = list_batches(query.recentProgress)
    query.stop()
    lines = (json.dumps(each) + "\n" for each in batches)
    (folder / "micro-batches.jsonl").write_text("".join(lines))
    # Spark knows which files of its table count: a job that is killed leaves others
    pl.DataFrame(spark.read.parquet(str(folder / "table")).toArrow()).write_parquet(
        folder / "final.part"
    )
    (folder / "final.part").rename(folder / "final.parquet")
    spark.stop()


def measure(folder: Path, sizes: tuple[int, int], files: int) -> list[list[float]]:
    """Return the seconds of micro-batches of each size, without those that warm up.

    Each has the rows of a minute, and writes the windows of the one before into a table.
    """
    spark, found = start_session(), []
    for size in sizes:
        accepted = folder / f"accepted-{size}"
        accepted.mkdir()
        for number in range(files):
            frame = pl.DataFrame({"n": [number] * size}).with_columns(
                device="device " + pl.int_range(size).cast(pl.String),
                start_time=pl.datetime(2026, 1, 1, time_zone="UTC") + number * APART,
                temp=pl.lit(20.5),
            )
            frame = frame.with_columns(end_time=pl.col("start_time") + timedelta(microseconds=1))
            frame.write_parquet(accepted / f"{number:03}.parquet")
            time.sleep(0.005)  # files are read in the order of their times
        results = read(spark, accepted, maxFilesPerTrigger=1)
        writer = results.writeStream.format("parquet").trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(folder / f"checkpoint-{size}"))
        query = writer.start(str(folder / f"table-{size}"))
        query.awaitTermination()
        found.append([seconds for _, _, seconds in list_batches(query.recentProgress)][2:])
    spark.stop()
    return found


if __name__ == "__main__":
    main(Path(sys.argv[1]))
