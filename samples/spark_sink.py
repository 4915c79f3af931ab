"""Hourly departures of three airports, written into a Spark table, each row exactly once.

Run it again, or kill it in the middle and run it again: it continues where it stopped. It needs
Java and ``pip install 'rxtemporal[demo]'``. The folder ``departures`` is the table; the folder
``departures-work`` belongs to the sink.

    python samples/spark_sink.py
"""

from __future__ import annotations

from datetime import timedelta

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.cli.demo.feeds import flights
from rxtemporal.spark import ParquetTable, SparkSink


def hourly(departures: rxt.Streamable) -> rxt.Streamable:
    return (
        departures.group_by("origin")
        .tumbling_window(timedelta(hours=1))
        .aggregate(departures=agg.count(), mean_delay=agg.avg("dep_delay"))
    )


def main() -> None:
    left = flights().filter(pl.col("departure").is_not_null()).sort("departure")
    departures = rxt.from_polars(
        left.select("departure", "origin", "dep_delay"),
        start="departure",
        advance_time=rxt.INCREASING_START_TIME,
    )

    sink = SparkSink(ParquetTable("departures", partition_by="start_time"), path="departures-work")
    with hourly(departures).run(sink, name="hourly_departures") as process:
        process.wait()
    stats = sink.stats()
    print(f"{stats.rows:,} rows written, {stats.rows_known:,} were already in the table")

    table = pl.read_parquet("departures")
    print(f"{table.height:,} rows in the table, {table['departures'].sum():,} departures")


if __name__ == "__main__":
    main()
