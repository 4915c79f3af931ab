"""Command ``rxtemporal demo``: flight feeds, merged, counted and written into Spark."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import rxtemporal as rxt
from rxtemporal.cli.demo.feeds import AIRPORTS, DEPARTURE_SCHEMA, count_fates, departures, flights
from rxtemporal.cli.demo.query import DOOR, Merge, airborne, departures_by_airport
from rxtemporal.cli.demo.report import Report, Stopwatch, make_report
from rxtemporal.engine.kernels.compiled import on_first_compile
from rxtemporal.query.event_flow import write_event_flow

if TYPE_CHECKING:
    from rxtemporal.cli.demo.display import Display


class ResultTable(ABC):
    """Table that the demonstration writes and reads back."""

    waiting: str

    @abstractmethod
    def announce(self) -> str:
        """Say where the results will be."""

    @abstractmethod
    def sink(self) -> rxt.Sink:
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

    def sink(self) -> rxt.Sink:
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

    def sink(self) -> rxt.Sink:
        """Return a sink that writes the file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        return rxt.File(self._file, time="datetime")

    def read(self) -> pl.DataFrame:
        """Return the rows of the file, sorted."""
        return pl.read_parquet(self._file).sort("start_time", "origin")


# a Friday on which some departures came late, from midnight to midnight in New York
FLOW_DAY = (datetime(2013, 1, 18, 5, tzinfo=UTC), datetime(2013, 1, 19, 5, tzinfo=UTC))


def write_day(recorded: pl.DataFrame, path: Path) -> Path:
    """Write the page of the flights that departed on one day, and return its path.

    Each airport's feed is a stream, in order of scheduled departure.
    """
    begin, end = FLOW_DAY
    gone = recorded.filter(pl.col("departure").is_between(begin, end, closed="left"))
    feeds = [_read_feed(gone, airport) for airport in AIRPORTS]
    query = departures_by_airport(reduce(rxt.Streamable.union, feeds))
    return write_event_flow(query._node, path, title="Departures on 18 January 2013").path


def _read_feed(flights: pl.DataFrame, airport: str) -> rxt.Streamable:
    own = flights.filter(pl.col("origin") == airport)
    frame = own.select("departure", *DEPARTURE_SCHEMA)
    return rxt.from_polars(frame, start="departure", advance_time=DOOR, name=airport)


# a Friday, from midnight to midnight in New York
DAY = (datetime(2013, 1, 11, 5, tzinfo=UTC), datetime(2013, 1, 12, 5, tzinfo=UTC))
QUERY = "departures_by_airport"


def demo(out: Path, *, spark: bool, rate: float | None, display: Display) -> Report:
    """Run the demonstration into the folder ``out`` and return its report.

    ``rate`` is the number of events per second; None sends them as fast as the query takes them.
    """
    watch = Stopwatch()
    with watch.part("reading the feeds"):
        recorded = flights()
        feeds = {airport: departures(recorded, airport) for airport in AIRPORTS}
    results: ResultTable = SparkTable(out) if spark else FileTable(out)
    merge = Merge()
    query = departures_by_airport(merge.stream)
    display.say(results.announce())
    compiling = partial(display.say, "compiling the kernels; later runs find them compiled")
    with on_first_compile(compiling), query.run(results.sink(), name=QUERY) as process:
        with (
            watch.part("events"),
            display.progress("departures", sum(map(len, feeds.values()))) as advance,
        ):
            merge.run(feeds, pace(advance, rate))
        with watch.part(results.waiting), display.waiting(results.waiting):
            process.wait()
    ran = process.diagnostics()
    with watch.part("reading back"), display.waiting("reading the table back"):
        table = results.read()
    with watch.part("picture"), display.waiting("drawing one day's airborne flights"):
        picture = draw(recorded, out)
    with watch.part("event-flow page"), display.waiting("writing the event-flow page of one day"):
        page = write_day(recorded, out / "event-flow.html")
    results.stop()
    return make_report(merge, ran, count_fates(recorded), table, picture, page, watch)


def draw(recorded: pl.DataFrame, out: Path) -> Path:
    """Draw the flights in the air on one day, by airport, and return the path of the picture."""

    begin, end = DAY
    counts = airborne(recorded).to_polars()
    day = counts.filter(pl.col("start_time") < end, pl.col("end_time") > begin)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "airborne.png"
    rxt.plots.step_chart(
        day,
        path,
        value="airborne",
        by="origin",
        title="Flights in the air by airport of departure, 11 January 2013",
        time_zone="America/New_York",
        between=DAY,
        missing=0,
    )
    return path


def pace(advance: Callable[[], None], rate: float | None) -> Callable[[], None]:
    """Return a function to call for each event, which shows progress and limits the rate."""
    if rate is None:
        return advance
    began, count = time.monotonic(), 0

    def wait() -> None:
        nonlocal count
        count += 1
        ahead = began + count / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        advance()

    return wait
