"""Yahoo streaming benchmark on one core: views of advertisements, by campaign and 10 seconds.

The workload is that of Chintapalli et al., *Benchmarking Streaming Computation Engines* (2016):
events of seven fields, of which three kinds in equal parts; the views are kept, joined with the
table that has the campaign of each advertisement, and counted by campaign and window of 10 seconds.
There are 100 campaigns of 10 advertisements. As in the later in-memory versions (LightSaber,
Grizzly, StreamBox), events are generated into memory before the clock starts, and ids and kinds are
integers.

The query is run in two ways: as a temporal join with a stream of advertisements that never end, and
with the table as an expression. The check counts by numpy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import figures
import measure
import numpy as np
import polars as pl
from algebra import IN_ORDER, LARGE, columns
from workloads import SECOND, SEED

import rxtemporal as rxt
from rxtemporal import agg

CAMPAIGNS, ADS_EACH = 100, 10
WINDOW = 10 * SECOND
# a view, a click or a purchase; on a banner, in a mail …
KINDS, PLACES, VIEW = 3, 5, 0
# ticks between two events: 500,000 of them a second
PACE = 2
# events per second and core, in millions; published: LightSaber 9.3, Grizzly 3.7, Trill 1.1
ASKED = 9.3


def make_ads(seed: int = SEED) -> pl.DataFrame:
    """Return the campaign of each advertisement."""
    rng = np.random.default_rng(seed)
    ids = np.unique(rng.integers(1, 2**62, 2 * CAMPAIGNS * ADS_EACH))
    ads = rng.permutation(ids)[: CAMPAIGNS * ADS_EACH]
    return pl.DataFrame({"ad": ads, "campaign": np.repeat(np.arange(CAMPAIGNS), ADS_EACH)})


def make_events(count: int, ads: pl.DataFrame, seed: int = SEED + 1) -> pl.DataFrame:
    """Return events in order of time, an advertisement and a kind drawn for each."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "time": np.arange(count, dtype=np.int64) * PACE,
            "user": rng.integers(0, 2**62, count),
            "page": rng.integers(0, 2**62, count),
            "ad": rng.choice(ads["ad"].to_numpy(), count),
            "place": rng.integers(0, PLACES, count, np.int8),
            "kind": rng.integers(0, KINDS, count, np.int8),
            "address": rng.integers(0, 2**32, count, np.uint32),
        }
    )


def expected(events: pl.DataFrame, ads: pl.DataFrame) -> np.ndarray[Any, Any]:
    """Return the number of views by window and campaign."""
    ordered = ads.sort("ad")
    views = events["kind"].to_numpy() == VIEW
    at = np.searchsorted(ordered["ad"].to_numpy(), events["ad"].to_numpy()[views])
    window = events["time"].to_numpy()[views] // WINDOW
    cell = window * CAMPAIGNS + ordered["campaign"].to_numpy()[at]
    windows = events["time"][-1] // WINDOW + 1
    return np.bincount(cell, minlength=windows * CAMPAIGNS).reshape(windows, CAMPAIGNS)


def check(wanted: np.ndarray[Any, Any], result: Any) -> None:
    """Raise unless a result is what is expected."""
    found = columns(result)
    got = np.zeros_like(wanted)
    np.add.at(got, (found["start"] // WINDOW, found["campaign"]), found["views"])
    assert len(found["views"]) == (wanted > 0).sum(), f"{len(found['views']):,} results"
    assert (got == wanted).all(), "the counts differ"


def read(events: pl.DataFrame, batch_rows: int) -> rxt.Streamable:
    """Return the stream of the events."""
    return rxt.from_polars(events, start="time", advance_time=IN_ORDER, batch_rows=batch_rows)


def count(views: rxt.Streamable) -> rxt.Streamable:
    """Return the number of views by campaign and window."""
    return views.group_by("campaign").tumbling_window(WINDOW).aggregate(views=agg.count())


def by_join(events: pl.DataFrame, ads: pl.DataFrame, batch_rows: int) -> rxt.Streamable:
    """Return the query with a temporal join: advertisements are rows that never end."""
    table = ads.with_columns(time=pl.lit(0), end=pl.lit(None, pl.Int64))
    campaigns = rxt.from_polars(table, start="time", end="end")
    views = read(events, batch_rows).where(pl.col("kind") == VIEW).select("ad")
    return count(views.join(campaigns, on="ad"))


def by_expression(events: pl.DataFrame, ads: pl.DataFrame, batch_rows: int) -> rxt.Streamable:
    """Return the query with the table of campaigns as an expression."""
    campaign = pl.col("ad").replace_strict(ads["ad"], ads["campaign"], return_dtype=pl.Int64)
    views = read(events, batch_rows).where(pl.col("kind") == VIEW)
    return count(views.select(campaign=campaign))


WAYS: dict[str, Callable[[pl.DataFrame, pl.DataFrame, int], rxt.Streamable]] = {
    "campaigns by a temporal join": by_join,
    "campaigns by an expression": by_expression,
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000_000)
    parser.add_argument("--batch-rows", type=int, default=LARGE)
    options = figures.parse(parser, rounds=7)
    measure.use_one_core()
    size = min(options.events, 500_000) if options.quick else options.events
    ads = make_ads()
    events = make_events(size, ads)
    running = {
        name: (lambda way=way: list(way(events, ads, options.batch_rows).to_batches()))
        for name, way in WAYS.items()
    }
    checks = partial(check, expected(events, ads))
    measure.warm(running, checks)
    seconds = measure.rounds(running, options.rounds, checks)
    report = figures.Report("yahoo", options)
    for name, taken in seconds.items():
        rates = [size / each / 1e6 for each in taken]
        report.add(figures.summarize("Yahoo streaming benchmark", name, rates, "M/s", ASKED))
    report.save()


if __name__ == "__main__":
    main()
