"""Resumable runs over a folder of files that Spark reads in micro-batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from file_streams import FileStream
from hourly_readings import READINGS, SETTINGS
from no_spark import Nothing, closed

import rxtemporal as rxt
from rxtemporal import EventShape, agg
from rxtemporal.spark import SparkSink, from_dataframe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stream_files(folder: Path, parts: list[pl.DataFrame]) -> FileStream:
    """A folder with a file for each micro-batch, its rows in no order."""
    files = FileStream(folder, READINGS.schema)
    for part in parts:
        files.add(part.sample(fraction=1, shuffle=True))
    return files


def readings(spark: SparkSession, files: FileStream, **options: Any) -> rxt.Streamable:
    """The readings that a folder has, as a stream that completes when they have been read."""
    options = {"trigger": "availableNow", "name": "readings", **options}
    return from_dataframe(
        files.frame(spark),
        start="time",
        advance_time=SETTINGS,
        order_by="received",
        batch_rows=7,
        **options,
    )


def counted(stream: rxt.Streamable) -> rxt.Streamable:
    """Return the number of fresh readings: results that begin before they end."""
    return stream.alter_event_duration("1h").snapshot_window().aggregate(n=agg.count())


def without_sparks_sink(put: Callable[[object, str, Any], object]) -> None:
    """Let a sink write its spool, and no Spark take it from there."""
    from rxtemporal.spark.sink import spooled

    put(spooled, "Supervisor", Nothing)
    put(spooled.SpooledDelivery, "close", closed)


def run(spark: SparkSession, files: FileStream, path: Path) -> rxt.Process:
    """Run a query into a sink's spool, kept beside it."""
    sink = SparkSink(print, path=path / "sink", shape=EventShape.EDGE)
    return counted(readings(spark, files)).run(sink, resume=path / "kept")
