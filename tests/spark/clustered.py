"""One query on a cluster of two executors on this machine: ``clustered.py RESULT``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import run, session, stream

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def readings(rooms: int = 7, hours: int = 48) -> pl.DataFrame:
    """A temperature for each room and quarter of an hour."""
    return pl.DataFrame(
        {
            "time": [BEGIN + timedelta(minutes=15 * n) for n in range(hours * 4)] * rooms,
            "room": [f"room {n}" for n in range(rooms) for _ in range(hours * 4)],
            "temp": [15.0 + n % 11 for n in range(hours * 4 * rooms)],
        }
    )


def warm_hours(readings: rxt.Streamable) -> rxt.Streamable:
    """Each room's hours beside the hours in which it was warm: a join of a stream with itself."""
    hourly = readings.group_by("room").tumbling_window(timedelta(hours=1))
    warm = readings.where(lambda payload: payload["temp"] > 20).group_by("room")
    both = warm.hopping_window2(timedelta(hours=2), timedelta(hours=1)).aggregate(warm=agg.count())
    return hourly.aggregate(most=agg.max("temp")).join(both, on="room")


def main(result: Path) -> None:
    """Write what the cluster gives, and beside it what the Rx side gives."""
    frame = readings()
    expected = warm_hours(rxt.from_polars(frame, start="time")).to_polars()
    expected.write_parquet(result.with_name("expected.parquet"))
    spark = session(**{"spark.master": "local-cluster[2,1,1024]"})
    given = spark.createDataFrame(frame.to_arrow(compat_level=pl.CompatLevel.oldest()))
    made = run(warm_hours, readings=stream(given.repartition(4), start="time"), buckets=5)
    pl.DataFrame(pl.from_arrow(made.toArrow())).write_parquet(result)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
