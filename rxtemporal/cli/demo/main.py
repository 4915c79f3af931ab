"""``rxtemporal demo``: real feeds, merged, summarised, and carried into Spark."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.cli.demo.feeds import AIRPORTS, departures, fates, flights
from rxtemporal.cli.demo.query import Merge, airborne, departures_by_airport
from rxtemporal.cli.demo.results import Results, SparkResults, TableResults
from rxtemporal.engine.kernels.compiled import on_first_compile
from rxtemporal.reactive.subjects.inputs import SubjectStats
from rxtemporal.runtime.diagnostics import Diagnostics

if TYPE_CHECKING:
    from rxtemporal.cli.demo.display import Display

# a Friday, from midnight to midnight in New York
DAY = (datetime(2013, 1, 11, 5, tzinfo=UTC), datetime(2013, 1, 12, 5, tzinfo=UTC))
QUERY = "departures_by_airport"


@dataclasses.dataclass(frozen=True)
class Report:
    """What a run of the demonstration did."""

    events: dict[str, int]
    late_at_door: dict[str, int]
    late_at_subject: dict[str, int]
    largest_lag: dict[str, timedelta]
    fates: dict[str, int]
    cti: int
    batches: int
    rows_out: int
    rows_in_table: int
    table: pl.DataFrame
    picture: Path
    seconds: dict[str, float]


def demo(out: Path, *, spark: bool, rate: float | None, display: Display) -> Report:
    """Run the demonstration into the folder ``out`` and return what it did.

    ``rate`` is how many events come a second; None: as fast as they are taken.
    """
    clock = Clock()
    with clock.part("reading the feeds"):
        recorded = flights()
        feeds = {airport: departures(recorded, airport) for airport in AIRPORTS}
    results: Results = SparkResults(out) if spark else TableResults(out)
    merge = Merge()
    query = departures_by_airport(merge.stream)
    display.say(results.promise())
    compiling = partial(display.say, "compiling the kernels; later runs find them compiled")
    with on_first_compile(compiling), query.run(results.sink(), name=QUERY) as process:
        with (
            clock.part("events"),
            display.progress("departures", sum(map(len, feeds.values()))) as advance,
        ):
            merge.run(feeds, paced(advance, rate))
        with clock.part(results.waiting), display.waiting(results.waiting):
            process.wait()
    ran = process.diagnostics()
    with clock.part("reading back"), display.waiting("reading the table back"):
        table = results.read()
    with clock.part("picture"), display.waiting("drawing one day's airborne flights"):
        picture = draw(recorded, out)
    results.stop()
    return report(merge, ran, fates(recorded), table, picture, clock)


def report(
    merge: Merge,
    ran: Diagnostics,
    ended: dict[str, int],
    table: pl.DataFrame,
    picture: Path,
    clock: Clock,
) -> Report:
    """Gather what has been counted."""
    stats: SubjectStats = merge.subject.stats()
    lags = {
        name: max(door.largest_lateness, stats.sources[name].largest_lateness)
        for name, door in merge.doors.items()
    }
    return Report(
        events={name: door.events for name, door in merge.doors.items()},
        late_at_door={name: door.late.total() for name, door in merge.doors.items()},
        late_at_subject={name: stats.sources[name].late for name in merge.doors},
        largest_lag={name: timedelta(microseconds=lag) for name, lag in lags.items()},
        fates=ended,
        cti=ran.cti,
        batches=ran.batches_out,
        rows_out=ran.rows_out,
        rows_in_table=table.height,
        table=table,
        picture=picture,
        seconds=clock.seconds,
    )


def draw(recorded: pl.DataFrame, out: Path) -> Path:
    """Draw one day's airborne flights by airport and return the picture's path."""
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
    )
    return path


def paced(advance: Callable[[], None], rate: float | None) -> Callable[[], None]:
    """Return what to call for each event: it shows progress, and waits if a rate is asked for."""
    if rate is None:
        return advance
    begun, count = time.monotonic(), 0

    def wait() -> None:
        nonlocal count
        count += 1
        ahead = begun + count / rate - time.monotonic()
        if ahead > 0:
            time.sleep(ahead)
        advance()

    return wait


class Clock:
    """Where the time went."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Count the block's time under a name."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
