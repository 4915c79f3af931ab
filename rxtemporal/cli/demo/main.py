"""Command ``rxtemporal demo``: flight feeds, merged, counted and written into Spark."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.cli.demo.event_flow import write_day
from rxtemporal.cli.demo.feeds import AIRPORTS, count_fates, departures, flights
from rxtemporal.cli.demo.query import Merge, airborne, departures_by_airport
from rxtemporal.cli.demo.report import Report, Stopwatch, make_report
from rxtemporal.cli.demo.results import FileTable, ResultTable, SparkTable
from rxtemporal.engine.kernels.compiled import on_first_compile

if TYPE_CHECKING:
    from rxtemporal.cli.demo.display import Display

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
    from rxtemporal.plots import step_chart

    begin, end = DAY
    counts = airborne(recorded).to_polars()
    day = counts.filter(pl.col("start_time") < end, pl.col("end_time") > begin)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "airborne.png"
    step_chart(
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
