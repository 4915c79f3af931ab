"""Queries over DataFrames for any kind of session, and a program that runs them in Spark Connect.

The program starts a server on this machine and prints its findings as one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import ParquetTable, SparkSink, from_dataframe, run, session, stream
from rxtemporal.spark.jvm.java import find_java
from rxtemporal.spark.jvm.session import STATE_STORE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "start_time long, end_time long, room string, x long, cti long"
EVENTS = [(n, n + 7, "abc"[n % 3], n % 5, None) for n in range(60)]
FIRST, SECOND = EVENTS[:30], EVENTS[30:]


def counted(rows: rxt.Streamable) -> rxt.Streamable:
    """Count the rows of each room in windows that follow each other."""
    kept = rows.where(pl.col("x") > 0).group_by("room")
    return kept.hopping_window2(10, 10).aggregate(n=agg.count(), most=agg.max("x"))


def divided(rows: rxt.Streamable) -> rxt.Streamable:
    """Fail at a row."""
    return rows.select(lambda row: {"y": 1 // row["x"]}, schema={"y": int})


def compute(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Return the rows of bounded and streaming queries, and those that a direct sink got."""
    frame = spark.createDataFrame(EVENTS, COLUMNS)
    bounded = run(counted, rows=frame.drop("cti"), buckets=3)
    judged = stream(
        frame.select("start_time", "room", "x"),
        advance_time=rxt.INCREASING_START_TIME,
        order_by="x",
    )
    return {
        "bounded": sort_rows(bounded),
        "with a door": sort_rows(run(lambda rows: rows, rows=judged, buckets=2)),
        "as a stream": sorted(map(list, from_dataframe(bounded).to_polars().rows())),
        "streaming": read_stream(spark, folder),
        "a sink": fill_sink(spark, folder),
    }


def sort_rows(frame: DataFrame) -> list[list[Any]]:
    """Return the rows of a DataFrame in order."""
    return sorted(list(row) for row in frame.collect())


def read_stream(spark: SparkSession, folder: Path) -> list[list[Any]]:
    """Return the rows of a streaming query that is stopped between two micro-batches."""
    (folder / "in").mkdir()
    arriving = spark.readStream.schema(COLUMNS).parquet(str(folder / "in"))
    for events, cti in ((FIRST, 29), (SECOND, 70)):
        rows = [*events, (None, None, None, None, cti)]
        spark.createDataFrame(rows, COLUMNS).coalesce(1).write.mode("append").parquet(
            str(folder / "in")
        )
        result = run(counted, rows=stream(arriving, cti="cti"), buckets=2)
        writer = result.writeStream.format("parquet").option("path", str(folder / "out"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()
    return sort_rows(spark.read.parquet(str(folder / "out")))


def fill_sink(spark: SparkSession, folder: Path) -> list[list[Any]]:
    """Return the payload that the function of a direct sink got."""
    got: list[list[Any]] = []

    def take(frame: DataFrame, number: int) -> None:
        got.extend([row.x, row._segment > 0] for row in frame.collect())

    sink = SparkSink(take, path=folder / "sink", mode="direct", session=spark)
    points = rxt.from_events([rxt.PointEvent(n, {"x": n}) for n in range(5)])
    with points.run(sink, name="points") as process:
        process.wait()
    return sorted(got)


def say(call: Any) -> str:
    """Return the error of a call as text."""
    try:
        call()
    except Exception as error:
        return str(error)
    return "no error"


def main(folder: Path) -> dict[str, Any]:
    """Return what is found in a session of Spark Connect."""
    from pyspark.sql import SparkSession

    # pyspark starts the server, and looks for no packaged Java
    os.environ["JAVA_HOME"] = str(find_java().home)
    builder = SparkSession.builder.remote("local[2]").config(*STATE_STORE)
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    found = compute(spark, folder)
    failing = run(divided, rows=spark.createDataFrame([(1, 0)], "start_time long, x long"))
    found["collected"] = say(failing.collect)
    try:
        from_dataframe(failing).to_polars()
    except ZeroDivisionError as error:
        found["failing stream"] = repr(error)
    arriving = spark.readStream.schema(COLUMNS).parquet(str(folder / "in"))
    table = ParquetTable(folder / "table")
    refused = {
        "spooled": lambda: SparkSink(print, path=folder / "s", session=spark),
        "direct table": lambda: SparkSink(table, path=folder / "s", mode="direct", session=spark),
        "streaming source": lambda: from_dataframe(arriving, cti="cti"),
        "session": session,
        "own session": lambda: SparkSink(table, path=folder / "s").open("query", pl.Schema()),
    }
    found["refused"] = {name: say(call) for name, call in refused.items()}
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
