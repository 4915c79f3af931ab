"""Recorded feeds of the departures from three airports."""

from __future__ import annotations

from importlib import resources

import polars as pl

from rxtemporal.core.columns import time_column
from rxtemporal.core.events import PointEvent

AIRPORTS = ("EWR", "JFK", "LGA")

DEPARTURE_SCHEMA = {
    "origin": pl.String,
    "dest": pl.String,
    "carrier": pl.String,
    "dep_delay": pl.Int32,
}


def flights() -> pl.DataFrame:
    """Return the flights of January 2013, in order of scheduled departure."""
    return _read_packaged("flights-2013-01.parquet")


def weather() -> pl.DataFrame:
    """Return the weather of January 2013, one row for each airport and hour."""
    return _read_packaged("weather-2013-01.parquet")


def _read_packaged(name: str) -> pl.DataFrame:
    file = resources.files("rxtemporal.cli.demo") / "data" / name
    with file.open("rb") as opened:
        return pl.read_parquet(opened)


def count_fates(frame: pl.DataFrame) -> dict[str, int]:
    """Count the flights that landed, were diverted or were cancelled."""
    gone, landed = pl.col("departure").is_not_null(), pl.col("landing").is_not_null()
    counted = frame.select(
        landed=(gone & landed).sum(),
        diverted=(gone & ~landed).sum(),
        cancelled=(~gone).sum(),
    )
    return {fate: int(count) for fate, count in counted.row(0, named=True).items()}


def departures(frame: pl.DataFrame, airport: str) -> list[PointEvent]:
    """Return an airport's departures as points at the actual departure, in feed order.

    A feed is in order of scheduled departure, so its events are out of order by as much as flights
    were delayed. Cancelled flights never departed and give no event; ``count_fates`` counts them.
    """
    rows = frame.filter(pl.col("origin") == airport, pl.col("departure").is_not_null())
    times = time_column(rows["departure"]).tolist()
    payloads = rows.select(list(DEPARTURE_SCHEMA)).to_dicts()
    return [PointEvent(time, payload) for time, payload in zip(times, payloads, strict=True)]
