"""Result tables of the demonstration: a Spark table, or one file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import polars as pl

from rxtemporal.sinks import File, Sink


class ResultTable(ABC):
    """Table that the demonstration writes and reads back."""

    waiting: str

    @abstractmethod
    def announce(self) -> str:
        """Say where the results will be."""

    @abstractmethod
    def sink(self) -> Sink:
        """Return the sink to run the query into."""

    @abstractmethod
    def read(self) -> pl.DataFrame:
        """Return the rows of the table, sorted."""

    def stop(self) -> None:  # noqa: B027
        """Release resources."""


class SparkTable(ResultTable):
    """Partitioned Parquet table, written and read by Spark."""

    waiting = "Spark"

    def __init__(self, out: Path) -> None:
        self._table = out / "departures"
        self._work = out / "work"

    def announce(self) -> str:
        """Say where the results will be."""
        return f"into the Spark table {self._table}"

    def sink(self) -> Sink:
        """Return a Spark sink."""
        from rxtemporal.spark import ParquetTable, SparkSink
        from rxtemporal.spark.jvm.session import SHORT_RUN

        target = ParquetTable(str(self._table), partition_by="start_time")
        return SparkSink(target, path=str(self._work), trigger="0 seconds", session=SHORT_RUN)

    def read(self) -> pl.DataFrame:
        """Return the table as Spark reads it."""
        from rxtemporal.spark import session
        from rxtemporal.spark.jvm.session import SHORT_RUN

        frame = session(**SHORT_RUN).read.parquet(str(self._table))
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


class FileTable(ResultTable):
    """Single Parquet file, written when the query has completed."""

    waiting = "writing"

    def __init__(self, out: Path) -> None:
        self._file = out / "departures.parquet"

    def announce(self) -> str:
        """Say where the results will be."""
        return f"into the file {self._file}, without Spark"

    def sink(self) -> Sink:
        """Return a sink that writes the file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        return File(self._file, time="datetime")

    def read(self) -> pl.DataFrame:
        """Return the rows of the file, sorted."""
        return pl.read_parquet(self._file).sort("start_time", "origin")
