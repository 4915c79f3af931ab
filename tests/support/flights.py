"""The year of flights and weather, found beside the repository."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from needs import skip_or_fail

DATA = Path(__file__).parents[3] / "shared" / "data"


FLIGHTS, WEATHER = DATA / "flights.parquet", DATA / "weather.parquet"


def need_year() -> None:
    """Skip or fail the test if the year is missing."""
    if not (FLIGHTS.exists() and WEATHER.exists()):
        skip_or_fail("data", f"there is no year of flights and weather in {DATA}")


def departures() -> pl.DataFrame:
    """The flights that departed, in the order in which they were scheduled."""
    flights = pl.read_parquet(FLIGHTS).filter(pl.col("departure").is_not_null())
    return flights.select("departure", "landing", "origin", "dest", "carrier", "flight")


READING = ["origin", "temp", "wind_speed", "visib"]


def readings() -> pl.DataFrame:
    """The weather of each airport, hour by hour, with the time of its next reading."""
    weather = pl.read_parquet(WEATHER).sort("valid_from", "origin")
    return weather.select("valid_from", "valid_to", *READING)


def at_departure_by_polars(flights: pl.DataFrame, weather: pl.DataFrame) -> pl.DataFrame:
    """Each departure with the last reading of its airport that is not after it."""
    points = flights.drop("landing").sort("departure")
    matched = points.join_asof(
        weather.drop("valid_to").sort("valid_from"),
        left_on="departure",
        right_on="valid_from",
        by="origin",
        strategy="backward",
        check_sortedness=False,
    ).filter(pl.col("valid_from").is_not_null())
    ends = pl.col("departure") + pl.duration(microseconds=1)
    rows = matched.with_columns(start_time="departure", end_time=ends)
    return rows.select("start_time", "end_time", *flights.columns[2:], *READING[1:])
