"""NEXMark on one core: 23 queries over an auction house with persons, auctions and bids.

``nexmark_house.py`` makes the events, ``nexmark_queries.py`` has the queries, and
``nexmark_sql.py`` the same queries in SQL. DuckDB runs these over the same frames on one thread, as
a child process in an environment of its own, which is made with pip the first time.

First all results are compared with DuckDB's: of some seconds in batches of 64, 1,024 and 65,536
rows, and of a fraction of a second row by row; a fifth of the events come up to two seconds late.
Then the queries are measured in turn with DuckDB, and each result is compared again before its time
counts. DuckDB has all events at once, needs no order and no CTIs, and makes a table in memory.

Items are the events that a query reads: the bids of most queries. The tables that change with each
bid (``changing_q15`` and ``changing_q19``) are measured over fewer events.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

import figures
import measure
import nexmark_queries
import polars as pl
from algebra import LARGE, SMALL
from live import TINY
from measure import Timed
from nexmark_house import FIRST_TIME, ROUND, House, make_house
from nexmark_sql import SQL
from peer import NoPeerError, Peer

import rxtemporal as rxt

DUCKDB = "duckdb==2.0.1"
OURS = "rxtemporal"
# what is compared: events, the time of the first one, and rows in a batch
CHECKED = (
    (50_000, FIRST_TIME, (TINY, SMALL, LARGE)),
    (5_000, datetime.fromisoformat("2015-07-16T07:59:59.9Z"), (1,)),
)
CHANGING_EVENTS = 50_000
CHANGING = "changing_"
# queries whose last state is in the results that never end
LASTING = ("q18", "changing_q15", "changing_q19")
# how many times as fast as DuckDB, by default and where there is more to do, or less
ASKED = 0.5
BESIDE = {
    **dict.fromkeys(("q2", "q3"), 0.3),
    **dict.fromkeys(("q5", "q9", "q11", "q16", "q18", "q19", "q20"), 1.0),
}
# millions of events per second; of q5, q7 and q8 published: Hazelcast Jet 1.4
RATES = {"q5": 1.4, "q7": 1.4, "q8": 1.4, "q16": 2.0, "changing_q15": 0.1, "changing_q19": 0.5}
NAMES = [name for name in vars(nexmark_queries) if name.removeprefix(CHANGING) in SQL]


# Streams ----------------------------------------------------------------------------------------


def run(name: str, house: House, batch_rows: int) -> list[rxt.EventBatch]:
    """Return the results of a query."""
    query = getattr(nexmark_queries, name)
    streams = [read(house, each, batch_rows) for each in list_inputs(name)]
    return list(query(*streams).to_batches())


def list_inputs(name: str) -> list[str]:
    """Return the names of the streams that a query reads."""
    return list(inspect.signature(getattr(nexmark_queries, name)).parameters)


def read(house: House, name: str, batch_rows: int) -> rxt.Streamable:
    """Return a stream of the house."""
    if name == "side":
        begun = house.bids["time"].min()
        table = house.side.with_columns(
            start=pl.lit(begun), end=pl.lit(None, pl.Datetime("us", "UTC"))
        )
        return rxt.from_polars(table, start="start", end="end", name=name)
    settings: dict[str, Any] = {"batch_rows": batch_rows, "name": name}
    if name == "arrivals":
        bids = house.bids.drop("time")
        return rxt.from_polars(bids, start="arrival", advance_time="0s", **settings)
    events = house.tables[name].drop("arrival")
    return rxt.from_polars(events, start="time", advance_time="2s", **settings)


def count_events(name: str, house: House) -> int:
    """Return how many events a query reads."""
    tables = {**house.tables, "arrivals": house.bids}
    return sum(tables[each].height for each in list_inputs(name) if each != "side")


# Checks -----------------------------------------------------------------------------------------


def finish(batches: Iterable[rxt.EventBatch], *, lasting: bool) -> pl.DataFrame:
    """Return the whole results, or those that never end."""
    frame = pl.concat(
        batch.payload.with_columns(
            start_time=pl.Series(batch.start, dtype=pl.Int64),
            end_time=pl.Series(batch.end, dtype=pl.Int64),
            edge=pl.Series(batch.edge, dtype=pl.Int64),
        )
        for batch in batches
    )
    is_edge, is_endless = pl.col("edge") != 0, pl.col("end_time") == rxt.MAX_TIME
    ended = frame.filter(is_edge & ~is_endless)["edge"]
    # a start edge whose end edge is there is one result with it
    frame = frame.filter(~(is_edge & is_endless & pl.col("edge").is_in(ended.implode())))
    frame = frame.filter(is_endless) if lasting else frame
    # a whole day is what its window is, or its key
    return frame.with_columns(start_time="day") if "day" in frame.columns else frame


def check(wanted: pl.DataFrame, lasting: bool, batches: Any) -> None:
    """Raise unless results have exactly the rows that are wanted."""
    found, wanted = (_normalize(each, wanted.columns)
                     for each in (finish(batches, lasting=lasting), wanted))  # fmt: skip
    found = found.cast(dict(wanted.schema))
    assert wanted.height > 0, "there is nothing to compare"
    assert found.equals(wanted), (found, wanted)


def _normalize(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Return some columns with times as ticks, in order."""
    times = pl.col(pl.Datetime).dt.cast_time_unit("us").dt.replace_time_zone(None).cast(pl.Int64)
    return frame.select(columns).with_columns(times).sort(columns)


class Database:
    """DuckDB with the tables of a house."""

    def __init__(self, peer: Peer, house: House) -> None:
        self._peer, self._house = peer, house
        for name, frame in house.tables.items():
            path = peer.find_path(f"{name}.parquet")
            naive = pl.col(pl.Datetime).dt.replace_time_zone(None)
            frame.with_columns(naive).write_parquet(path)
            peer.run("load", name=name, path=str(path))

    def measure(self, name: str) -> Timed:
        """Run a query, and return its seconds."""
        return Timed(self._peer.run("query", sql=SQL[name.removeprefix(CHANGING)]), None)

    def make_check(self, name: str) -> Callable[[Any], None]:
        """Return a function that raises unless our results of a query are those of DuckDB."""
        path = self._peer.find_path("result.parquet")
        self._peer.run("query", sql=SQL[name.removeprefix(CHANGING)], path=str(path))
        # read into memory, since the next result takes the same path
        wanted = pl.read_parquet(path, memory_map=False)
        return partial(check, wanted, name in LASTING)


def compare(names: Iterable[str], peer: Peer) -> None:
    """Raise unless all results are those of DuckDB, however events are cut into batches."""
    for events, first_time, sizes in CHECKED:
        house = make_house(events // ROUND, first_time=first_time)
        database = Database(peer, house)
        for name in names:
            equal = database.make_check(name)
            for size in sizes:
                try:
                    equal(run(name, house, size))
                except AssertionError as error:
                    raise AssertionError(f"{name}, batches of {size:,}: {error}") from error


# Rates ------------------------------------------------------------------------------------------


def measure_query(
    name: str, house: House, database: Database, options: argparse.Namespace
) -> list[figures.Figure]:
    """Return the rates of a query here and in DuckDB, and their ratio."""
    equal = database.make_check(name)

    def checked(result: Any) -> None:
        if result is not None:  # DuckDB's own
            equal(result)

    running: dict[str, Callable[[], Any]] = {
        OURS: lambda: run(name, house, options.batch_rows),
        DUCKDB: lambda: database.measure(name),
    }
    measure.warm(running, checked)
    seconds = measure.rounds(running, options.rounds, checked)
    events = count_events(name, house)
    ours, theirs = (
        [events / each / 1e6 for each in seconds[contender]] for contender in (OURS, DUCKDB)
    )
    ratios = measure.ratios(seconds, OURS, DUCKDB)
    asked = None if name.startswith(CHANGING) else BESIDE.get(name, ASKED)
    return [
        figures.summarize("NEXMark", name, ours, "M/s", RATES.get(name)),
        figures.summarize("NEXMark, DuckDB", f"{name}, DuckDB", theirs, "M/s"),
        figures.summarize("NEXMark, ratio", f"{name} / DuckDB", ratios, "×", asked),
    ]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=[*NAMES, "all"], default="all")
    parser.add_argument("--events", type=int, default=2_000_000, help="events of all kinds")
    parser.add_argument("--batch-rows", type=int, default=LARGE)
    parser.add_argument("--check", action="store_true", help="compare results, and measure nothing")
    options = figures.parse(parser, rounds=5)
    measure.use_one_core()
    names = NAMES if options.query == "all" else [options.query]
    try:
        with Peer(DUCKDB, "peer_duckdb.py") as peer:
            compare(names, peer)
            print(f"{len(names)} of {len(NAMES)} queries give what DuckDB gives", flush=True)
            if not options.check:
                report(names, peer, options)
    except NoPeerError as error:
        raise SystemExit(f"{error}\nHint: results are compared with {DUCKDB}.") from error


def report(names: Iterable[str], peer: Peer, options: argparse.Namespace) -> None:
    """Measure queries, and print and save their figures."""
    report = figures.Report("nexmark", options)
    size = min(options.events, 200_000) if options.quick else options.events
    for is_changing, events in ((False, size), (True, min(size, CHANGING_EVENTS))):
        chosen = [name for name in names if name.startswith(CHANGING) == is_changing]
        if not chosen:
            continue
        house = make_house(events // ROUND)
        database = Database(peer, house)
        for name in chosen:
            for figure in measure_query(name, house, database, options):
                report.add(figure)
    report.save()


if __name__ == "__main__":
    main()
