"""Queries over a year of flights and weather, and the two as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import reduce
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from file_streams import FileStream
from flights import DATA, FLIGHTS, WEATHER
from needs import skip_or_fail
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIFETIMES = {"flights": ("departure", "landing"), "weather": ("valid_from", "valid_to")}


def is_there() -> bool:
    """Return True if the year is at hand."""
    return FLIGHTS.exists() and WEATHER.exists()


def need_year() -> None:
    """Skip, or fail, where it is not."""
    if not is_there():
        skip_or_fail("data", f"there is no year of flights and weather in {DATA}")


def frames() -> dict[str, pl.DataFrame]:
    """The flights that flew, and the weather at the airports, in order of time."""
    flights = pl.read_parquet(FLIGHTS).drop_nulls(["departure", "landing"])
    weather = pl.read_parquet(WEATHER)
    fields = ["origin", "temp", "wind_speed", "visib"]
    return {
        "flights": flights.select(
            *LIFETIMES["flights"], "origin", "dest", "carrier", "flight", "distance"
        ).sort("departure"),
        "weather": weather.select(*LIFETIMES["weather"], *fields).sort("valid_from"),
    }


def on_rx(query: Any, given: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the query's results on the Rx side, sorted."""
    streams = {
        name: rxt.from_polars(frame, start=LIFETIMES[name][0], end=LIFETIMES[name][1])
        for name, frame in given.items()
    }
    found: pl.DataFrame = query(**streams).to_polars()
    return found.sort(found.columns)


def in_spark(spark: SparkSession, given: dict[str, pl.DataFrame]) -> dict[str, Any]:
    """The frames as bounded DataFrames of Spark, with their lifetimes named."""
    tables = {n: f.to_arrow(compat_level=pl.CompatLevel.oldest()) for n, f in given.items()}
    return {
        name: stream(spark.createDataFrame(table), start=LIFETIMES[name][0], end=LIFETIMES[name][1])
        for name, table in tables.items()
    }


def stream_files(
    spark: SparkSession, given: dict[str, pl.DataFrame], folder: Path, parts: int
) -> tuple[dict[str, Any], Callable[[int], None]]:
    """The frames as streaming DataFrames, and what brings the next micro-batches of all of them."""
    made, waiting = {}, []
    for name, frame in given.items():
        start, end = LIFETIMES[name]
        files = FileStream(folder / name, pl.Schema({**frame.schema, "cti": frame.schema[start]}))
        waiting.append((files, in_parts(frame, start, parts)))
        made[name] = stream(files.frame(spark), start=start, end=end, cti="cti")

    def bring(batches: int) -> None:
        for files, rest in waiting:
            for part in islice(rest, batches):
                files.add(part)

    return made, bring


def in_parts(frame: pl.DataFrame, start: str, parts: int) -> Iterator[pl.DataFrame]:
    """Yield a frame in parts, each with a row that is the CTI which the next one allows."""
    size = -(-frame.height // parts)
    for first in range(0, frame.height, size):
        part = frame[first : first + size].with_columns(cti=pl.lit(None, frame.schema[start]))
        rest = frame[first + size :]
        reached = rest[start][0] if rest.height else rxt.to_datetime(rxt.MAX_TIME)
        cti = pl.DataFrame({"cti": [reached]}, schema={"cti": frame.schema[start]})
        yield pl.concat([cti, part], how="diagonal").select(part.columns)


def hours(flights: rxt.Streamable) -> rxt.Streamable:
    """Flights of each airport and carrier that are under way in an hour, and how far they go."""
    far = flights.where(pl.col("distance") > 500).group_by("origin", "carrier")
    return far.tumbling_window(timedelta(hours=1)).aggregate(
        n=agg.count(), miles=agg.sum("distance")
    )


def airborne(flights: rxt.Streamable) -> rxt.Streamable:
    """Aircraft in the air from each airport, from change to change."""
    return flights.group_by("origin").snapshot_window().aggregate(airborne=agg.count())


def weather_in_the_air(flights: rxt.Streamable, weather: rxt.Streamable) -> rxt.Streamable:
    """The weather where each flight came from, while it flew."""
    return flights.join(weather, on="origin").select("origin", "flight", "temp", "wind_speed")


def calm_flights(flights: rxt.Streamable, weather: rxt.Streamable) -> rxt.Streamable:
    """The parts of flights during which there was no strong wind where they came from."""
    windy = weather.where(pl.col("wind_speed") > 15)
    return flights.left_anti_join(windy, on="origin").drop("distance")


QUERIES = {
    "hours": (hours, ["flights"]),
    "airborne": (airborne, ["flights"]),
    "weather in the air": (weather_in_the_air, ["flights", "weather"]),
    "calm flights": (calm_flights, ["flights", "weather"]),
}


def all_in_one(flights: rxt.Streamable, weather: rxt.Streamable) -> rxt.Streamable:
    """All of these queries as one: each row says of which it is, fields of others are null."""
    given = {"flights": flights, "weather": weather}
    results = {n: query(*(given[each] for each in takes)) for n, (query, takes) in QUERIES.items()}
    every = {name: t for each in results.values() for name, t in (each.schema or {}).items()}
    alike = [
        each.select(
            query=pl.lit(name),
            **{
                field: pl.col(field) if field in (each.schema or {}) else pl.lit(None, dtype)
                for field, dtype in every.items()
            },
        )
        for name, each in results.items()
    ]
    return reduce(lambda one, other: one.union(other), alike)


def same(made: pl.DataFrame, expected: pl.DataFrame) -> None:
    """Say that a query gave these rows, which are sorted."""
    assert expected.height > 1_000
    assert_frame_equal(made.sort(made.columns), expected)


def all_same(made: pl.DataFrame) -> None:
    """Say that each query of ``all_in_one`` gave what it gives by itself on the Rx side."""
    given = frames()
    for name, (query, takes) in QUERIES.items():
        expected = on_rx(query, {each: given[each] for each in takes})
        same(made.filter(pl.col("query") == name).select(expected.columns), expected)
