"""One query, run live, as a replay and inside Spark: the resulting table is the same.

Sensors report late and out of order; events that are more than ten minutes late are dropped. Which
events are late depends on the order of arrival, so the replay reads them in that order, and Spark
gets the name of the column that has it.

    python samples/same_query_three_ways.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
from reactivex.subject import Subject

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import run, session, stream

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TEN_MINUTES_LATE = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(frequency=1, delay=10 * MINUTE),
    policy=rxt.AdvanceTimePolicy.DROP,
)


def warm_hours(readings: rxt.Streamable) -> rxt.Streamable:
    """Count the readings above 20 degrees of each room and hour, and find the highest."""
    warm = readings.where(pl.col("temp") > 20.0)
    windows = warm.group_by("room").tumbling_window(timedelta(hours=1))
    return windows.aggregate(n=agg.count(), most=agg.max("temp"))


def arrived() -> pl.DataFrame:
    """Return readings in order of arrival; every seventh may be up to 18 minutes late."""
    return pl.DataFrame(
        [
            {
                "received": n,
                "time": BEGIN + n * MINUTE - (n % 7 == 0) * (n % 4) * 6 * MINUTE,
                "room": ("hall", "lab", "attic")[n % 3],
                "temp": 15.0 + n * 7 % 11,
            }
            for n in range(150)
        ]
    )


def live() -> pl.DataFrame:
    """Push the events one by one into a running query, and return its results."""
    source = Subject()
    readings = rxt.from_observable(
        source, schema={"room": str, "temp": float}, advance_time=TEN_MINUTES_LATE
    )
    results: list[rxt.IntervalEvent] = []
    warm_hours(readings).to_observable(ctis=False).subscribe(results.append)
    for row in arrived().to_dicts():
        source.on_next(rxt.PointEvent(row["time"], {"room": row["room"], "temp": row["temp"]}))
    source.on_completed()
    return pl.DataFrame(
        [{"start_time": e.start_time, "end_time": e.end_time, **e.payload} for e in results]
    )


def replay() -> pl.DataFrame:
    """Run the query over the recorded events, as fast as possible."""
    recorded = arrived().drop("received")
    readings = rxt.from_polars(recorded, start="time", advance_time=TEN_MINUTES_LATE)
    return warm_hours(readings).to_polars()


def inside_spark() -> pl.DataFrame:
    """Run the query in Spark over the recorded events as a DataFrame, split by room."""
    spark = session()
    recorded = spark.createDataFrame(arrived().to_arrow(compat_level=pl.CompatLevel.oldest()))
    readings = stream(recorded, start="time", advance_time=TEN_MINUTES_LATE, order_by="received")
    found = pl.DataFrame(pl.from_arrow(run(warm_hours, readings=readings).toArrow()))
    spark.stop()
    return found


def show(title: str, table: pl.DataFrame) -> None:
    print(title)
    for start, end, room, n, most in table.iter_rows():
        print(f"  {start:%H:%M} to {end:%H:%M}  {room:5}  {n:2}  {most:.1f}")


def main() -> None:
    ways = {"Live": live, "Replay": replay, "Spark": inside_spark}
    tables = {title: way().sort("start_time", "room") for title, way in ways.items()}
    for title, table in tables.items():
        show(title, table)
        assert table.equals(tables["Live"])


if __name__ == "__main__":
    main()
