"""Where the demonstration's results go: into a Spark table, or without Spark into one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.sinks import Sink

if TYPE_CHECKING:
    from rxtemporal.spark.sink.sink import SparkSink


class Results(Protocol):
    """A place for results, and how to read them back."""

    waiting: str

    def promise(self) -> str:
        """Say where the results will be."""

    def sink(self) -> Sink:
        """Return the sink to run the query into."""

    def read(self) -> pl.DataFrame:
        """Return the table as it stands, in order."""

    def stop(self) -> None:
        """Let go of what was started."""


class SparkResults:
    """A partitioned Parquet table, written and read by Spark."""

    waiting = "Spark"

    def __init__(self, out: Path) -> None:
        self._table = out / "departures"
        self._work = out / "work"
        self._sink: SparkSink | None = None

    def promise(self) -> str:
        """Say where the results will be."""
        return f"into the Spark table {self._table}"

    def sink(self) -> Sink:
        """Return a Spark sink."""
        from rxtemporal.spark import ParquetTable, SparkSink

        target = ParquetTable(str(self._table), partition_by="start_time")
        self._sink = SparkSink(target, path=str(self._work), trigger="0 seconds")
        return self._sink

    def read(self) -> pl.DataFrame:
        """Return the table as Spark reads it."""
        from rxtemporal.spark import session

        frame = session().read.parquet(str(self._table))
        arrow = frame.select(
            "start_time", "end_time", "origin", "departures", "mean_delay"
        ).toArrow()
        table = pl.from_arrow(arrow)
        assert isinstance(table, pl.DataFrame)
        return table.sort("start_time", "origin")

    def stop(self) -> None:
        """Stop Spark."""
        from rxtemporal.spark import session

        session().stop()


class TableResults:
    """One Parquet file, written whole when the query has ended; a sink itself."""

    waiting = "writing"
    shape = EventShape.INTERVAL

    def __init__(self, out: Path) -> None:
        self._file = out / "departures.parquet"
        self._batches: list[EventBatch] = []

    def promise(self) -> str:
        """Say where the results will be."""
        return f"into the file {self._file}, without Spark"

    def sink(self) -> Sink:
        """Return this object."""
        return self

    def open(self, name: str, schema: pl.Schema) -> None:
        """Make the folder."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._batches = [EventBatch.empty(schema, 0)]

    def write(self, batch: EventBatch) -> None:
        """Keep the batch."""
        self._batches.append(batch)

    def close(self, error: BaseException | None) -> None:
        """Write the file aside and rename it; not at all if the query did not end well."""
        if error is not None:
            return
        aside = self._file.with_suffix(".tmp")
        EventBatch.concat(self._batches).to_polars().write_parquet(aside)
        os.replace(aside, self._file)

    def read(self) -> pl.DataFrame:
        """Return the file's rows."""
        return pl.read_parquet(self._file).sort("start_time", "origin")

    def stop(self) -> None:
        """Nothing was started."""
