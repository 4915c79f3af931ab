"""NEXMark queries 5, 7 and 8 on one core: an auction house with persons, auctions and bids.

The generator follows Tucker et al., *NEXMark – A Benchmark for Queries over Data Streams*, in the
form of Apache Beam's suite: of 50 events one is a person, 3 are auctions and 46 are bids; half of
the bids are for a hot auction, three in four come from a hot bidder, three in four auctions are
of a hot seller; the others are drawn from the latest hundred auctions and thousand persons. There
are 10,000 events a second; windows have 10 seconds, and those of query 5 begin every 5.

======== =====================================================================================
Q5       the auctions with most bids in each hopping window
Q7       the highest bids of each tumbling window
Q8       persons who came, and opened auctions, within the same window
======== =====================================================================================

Items are the events that a query reads: bids for Q5 and Q7, persons and auctions for Q8. The checks
are written in polars over all the data at once.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import figures
import measure
import numpy as np
import polars as pl
from algebra import IN_ORDER, LARGE, columns
from workloads import SECOND, SEED

import rxtemporal as rxt
from rxtemporal import agg

PERSONS, AUCTIONS, BIDS = 1, 3, 46
ROUND = PERSONS + AUCTIONS + BIDS
FIRST, HOT = 1_000, 100
ALIVE_AUCTIONS, ALIVE_PERSONS, LEAD = 100, 1_000, 10
PACE = SECOND // 10_000
WINDOW, PERIOD = 10 * SECOND, 5 * SECOND
# events per second and core, in millions; published: Hazelcast Jet 1.4
ASKED = 1.4


# Data -------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class House:
    """Events of an auction house, in order of time, a frame of each kind."""

    persons: pl.DataFrame
    auctions: pl.DataFrame
    bids: pl.DataFrame


def make_house(rounds: int, seed: int = SEED) -> House:
    """Return the events of so many rounds of 50."""
    rng = np.random.default_rng(seed)
    # the last person and the last auction that there are at each event
    person = np.arange(rounds, dtype=np.int64)
    auction = np.arange(rounds * AUCTIONS, dtype=np.int64)
    persons = pl.DataFrame(
        {
            "time": person * ROUND * PACE,
            "id": FIRST + person,
            "name": _names(rng, rounds),
            "city": rng.integers(0, 10, rounds, np.int16),
        }
    )
    place = np.arange(AUCTIONS) + PERSONS
    auctions = pl.DataFrame(
        {
            "time": (person[:, None] * ROUND + place).ravel() * PACE,
            "auction": FIRST + auction,
            "seller": FIRST + _draw_person(rng, np.repeat(person, AUCTIONS), 0),
            "category": rng.integers(10, 15, len(auction), np.int16),
            "reserve": _prices(rng, len(auction)),
        }
    )
    at = np.arange(BIDS) + PERSONS + AUCTIONS
    last = np.repeat(person, BIDS)
    bids = pl.DataFrame(
        {
            "time": (person[:, None] * ROUND + at).ravel() * PACE,
            "auction": FIRST + _draw_auction(rng, last * AUCTIONS + AUCTIONS - 1),
            "bidder": FIRST + _draw_person(rng, last, 1),
            "price": _prices(rng, len(last)),
        }
    )
    return House(persons, auctions, bids)


def _names(rng: np.random.Generator, count: int) -> pl.Series:
    first = pl.Series(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah"])
    last = pl.Series(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith"])
    names = [each.gather(rng.integers(0, len(each), count)) for each in (first, last)]
    return names[0] + " " + names[1]


def _draw_person(rng: np.random.Generator, last: Any, step: int) -> Any:
    """Return three times in four a hot person, otherwise one of the latest thousand."""
    active = np.minimum(last + 1, ALIVE_PERSONS)
    drawn = last + 1 - active + (rng.random(len(last)) * (active + LEAD)).astype(np.int64)
    return np.where(rng.integers(0, 4, len(last)) > 0, last // HOT * HOT + step, drawn)


def _draw_auction(rng: np.random.Generator, last: Any) -> Any:
    """Return every second time a hot auction, otherwise one of the latest hundred."""
    first = np.maximum(last - ALIVE_AUCTIONS, 0)
    drawn = first + (rng.random(len(last)) * (last - first + 1 + LEAD)).astype(np.int64)
    return np.where(rng.integers(0, 2, len(last)) > 0, last // HOT * HOT, drawn)


def _prices(rng: np.random.Generator, count: int) -> Any:
    return np.round(np.power(10.0, rng.random(count) * 6) * 100).astype(np.int64)


# Queries ----------------------------------------------------------------------------------------


def read(frame: pl.DataFrame, batch_rows: int) -> rxt.Streamable:
    """Return the stream of some events."""
    return rxt.from_polars(frame, start="time", advance_time=IN_ORDER, batch_rows=batch_rows)


def q5(house: House, batch_rows: int) -> rxt.Streamable:
    """Return hot items: the count of each auction at the end of a window, and of those the most."""
    counts = (
        read(house.bids, batch_rows)
        .group_by("auction")
        .hopping_window(WINDOW, PERIOD, output=rxt.WindowOutput.POINT_AT_END)
        .aggregate(bids=agg.count())
    )
    return counts.snapshot_window().top_k(1, "bids")


def q7(house: House, batch_rows: int) -> rxt.Streamable:
    """Return the highest bids."""
    return read(house.bids, batch_rows).tumbling_window(WINDOW).top_k(1, "price")


def q8(house: House, batch_rows: int) -> rxt.Streamable:
    """Return new sellers: a person lives for the window in which it comes."""
    persons = read(house.persons, batch_rows).select("id", "name")
    # a window's assigned interval is one period long and begins at its end
    lasting = persons.snap_to_window_intervals(WINDOW, WINDOW).shift_event_time(-WINDOW)
    auctions = read(house.auctions, batch_rows).select("seller", "reserve")
    return lasting.join(auctions, on={"id": "seller"})


# Checks -----------------------------------------------------------------------------------------


def expect_q5(house: House) -> pl.DataFrame:
    """Return the end of each window, the auctions with most bids, and how many those are."""
    pane = house.bids.group_by(pl.col("time") // PERIOD, "auction").len("bids")
    moved = pane.with_columns(pl.col("time") + WINDOW // PERIOD - 1)
    counts = pl.concat([pane, moved]).group_by("time", "auction").agg(pl.col("bids").sum())
    most = counts.filter(pl.col("bids") == pl.col("bids").max().over("time"))
    return most.select(start=(pl.col("time") + 1) * PERIOD, auction="auction", bids="bids")


def expect_q7(house: House) -> pl.DataFrame:
    """Return the start of each window and its highest bids."""
    bids = house.bids.with_columns(start=pl.col("time") // WINDOW * WINDOW)
    best = bids.filter(pl.col("price") == pl.col("price").max().over("start"))
    return best.select("start", "auction", "bidder", "price")


def expect_q8(house: House) -> pl.DataFrame:
    """Return each auction of a person who came in the same window."""
    window = pl.col("time") // WINDOW
    persons = house.persons.select("id", "name", window=window)
    auctions = house.auctions.select("seller", "reserve", start="time", window=window)
    both = auctions.join(persons, left_on=["seller", "window"], right_on=["id", "window"])
    return both.select("start", pl.col("seller").alias("id"), "name", "reserve")


def check(wanted: pl.DataFrame, result: Any) -> None:
    """Raise unless a result has exactly the rows that are wanted."""
    found = pl.DataFrame(columns(result)).select(wanted.columns).cast(wanted.schema)
    assert wanted.height > 0
    assert found.sort(wanted.columns).equals(wanted.sort(wanted.columns)), (found, wanted)


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """A query of the benchmark, what it has to give, and what it reads."""

    what: str
    run: Callable[[House, int], rxt.Streamable]
    expect: Callable[[House], pl.DataFrame]
    reads: Callable[[House], int]


QUERIES = {
    "q5": Query("Q5, hot items", q5, expect_q5, lambda house: house.bids.height),
    "q7": Query("Q7, highest bid", q7, expect_q7, lambda house: house.bids.height),
    "q8": Query(
        "Q8, new users", q8, expect_q8, lambda house: house.persons.height + house.auctions.height
    ),
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--query", choices=[*QUERIES, "all"], default="all")
    parser.add_argument("--events", type=int, default=10_000_000, help="events of all kinds")
    parser.add_argument("--batch-rows", type=int, default=LARGE)
    options = figures.parse(parser, rounds=7)
    measure.use_one_core()
    size = min(options.events, 1_000_000) if options.quick else options.events
    house = make_house(size // ROUND)
    report = figures.Report("nexmark", options)
    for name in QUERIES if options.query == "all" else [options.query]:
        report.add(run(QUERIES[name], house, options))
    report.save()


def run(query: Query, house: House, options: argparse.Namespace) -> figures.Figure:
    """Return the rate of a query, once its results are those expected."""
    wanted = query.expect(house)

    def checked(result: Any) -> None:
        check(wanted, result)

    running = {query.what: lambda: list(query.run(house, options.batch_rows).to_batches())}
    measure.warm(running, checked)
    (seconds,) = measure.rounds(running, options.rounds, checked).values()
    rates = [query.reads(house) / each / 1e6 for each in seconds]
    return figures.summarize("NEXMark", query.what, rates, "M/s", ASKED)


if __name__ == "__main__":
    main()
