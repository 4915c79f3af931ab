"""Rows per second that each sink writes: batches of 10,000 rows with a key, a number and a text.

Batches are made outside the timed part, which ends when the sink is closed. PostgreSQL takes part
if ``--dsn`` says where it is.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import rxtemporal as rxt

ROWS, BATCH = 1_000_000, 10_000


def make_batches() -> list[rxt.EventBatch]:
    """Return the rows, one at each microsecond."""
    batches = []
    for begin in range(0, ROWS, BATCH):
        starts = np.arange(begin, begin + BATCH)
        payload = pl.DataFrame(
            {
                "device": [f"device {n % 1_000}" for n in range(BATCH)],
                "temp": np.arange(BATCH) * 0.25,
                "n": starts,
            }
        )
        frame = payload.insert_column(0, pl.Series("end_time", starts + 1))
        frame = frame.insert_column(0, pl.Series("start_time", starts))
        batches.append(rxt.EventBatch.from_polars(frame, cti=begin + BATCH))
    return batches


def describe_catalog(path: Path) -> dict[str, str]:
    """Return the properties of a catalogue of Iceberg in an SQLite file."""
    return {"type": "sql", "uri": f"sqlite:///{path}/catalog.db", "warehouse": str(path)}


def measure(sink: rxt.Sink, batches: list[rxt.EventBatch]) -> float:
    """Return the rows per second that a sink writes."""
    sink.set_time_form(lambda: "datetime")
    sink.open("rows", batches[0].schema)
    begun = time.perf_counter()
    for batch in batches:
        sink.write(batch)
    sink.close(None)
    return ROWS / (time.perf_counter() - begun)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dsn", help="an empty PostgreSQL database, as psycopg.connect takes it")
    options = parser.parse_args()
    batches = make_batches()
    sinks: dict[str, Callable[[Path, int], rxt.Sink]] = {
        "AppendFile, JSON lines": lambda path, _: rxt.AppendFile(path / "rows.jsonl"),
        "AppendFile, CSV": lambda path, _: rxt.AppendFile(path / "rows.csv"),
        "AppendFile, Parquet": lambda path, _: rxt.AppendFile(path / "rows.parquet"),
        "DeltaTable": lambda path, _: rxt.DeltaTable(path / "rows"),
        "IcebergTable": lambda path, _: rxt.IcebergTable("house.rows", describe_catalog(path)),
        "SqliteTable": lambda path, _: rxt.SqliteTable(path / "rows.db", "rows"),
        "SqliteTable, key=": lambda path, _: rxt.SqliteTable(path / "k.db", "rows", key="device"),
    }
    if options.dsn:
        sinks["PostgresTable"] = lambda _, number: rxt.PostgresTable(
            options.dsn, f"rows_{number}", create=True
        )
        sinks["PostgresTable, key="] = lambda _, number: rxt.PostgresTable(
            options.dsn, f"keyed_{number}", "device", create=True
        )
    for name, make in sinks.items():
        rates = []
        for number in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                rates.append(measure(make(Path(folder), number), batches))
        middle = statistics.median(rates)
        print(f"{name:<24} {middle:>12,.0f}/s   (from {min(rates):,.0f} to {max(rates):,.0f})")


if __name__ == "__main__":
    main()
