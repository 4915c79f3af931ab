"""Processes that write into each sink are killed at any moment: each row is there once."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import polars as pl
import psycopg
import pytest
from postgres import needed_server

KILLS, ROWS = 20, 300_000
SERVICE = f"""
import sys
import time
import polars as pl
import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.run import checkpoint
checkpoint.SECONDS, checkpoint.SHARE = 0.02, 1e9
kind, where, folder = sys.argv[1:]
sinks = {{
    "sqlite": lambda: rxt.SqliteTable(where, "results"),
    "postgres": lambda: rxt.PostgresTable(where, "results", create=True),
    "jsonl": lambda: rxt.AppendFile(where, 5_000),
    "csv": lambda: rxt.AppendFile(where),
    "parquet": lambda: rxt.AppendFile(where, 7_000),
    "partitions": lambda: rxt.AppendFile(where + ".parquet", 2_000, partition_by="room"),
    "folder": lambda: rxt.ParquetFolder(where, rows=1_000, every="50ms"),
    "delta": lambda: rxt.DeltaTable(where, rows=1_000, every="50ms"),
    "iceberg": lambda: rxt.IcebergTable(
        "house.results",
        {{"type": "sql", "uri": f"sqlite:///{{where}}.db", "warehouse": f"file://{{where}}"}},
        rows=1_000,
        every="50ms",
    ),
}}
rooms = ["hall", "lab", "attic"] * {ROWS // 3}
frame = pl.DataFrame({{"t": range({ROWS}), "room": rooms}})
stream = rxt.from_polars(frame, start="t", batch_rows=50, advance_time=2, name="readings")
counted = stream.group_by("room").tumbling_window(30).aggregate(n=agg.count())
sink = sinks[kind]()
write = sink.write


def write_slowly(batch):
    time.sleep(0.005)  # on any machine it lives longer than all kills take
    write(batch)


sink.write = write_slowly
counted.run(sink, resume=folder).wait()
"""
READERS: dict[str, Any] = {
    "csv": pl.read_csv,
    "jsonl": pl.read_ndjson,
    "parquet": pl.read_parquet,
}


def read_iceberg(place: str) -> pl.DataFrame:
    """Return the rows of an Iceberg table."""
    load = pytest.importorskip("pyiceberg.catalog").load_catalog
    uri, warehouse = f"sqlite:///{place}.db", f"file://{place}"
    catalog = load("default", type="sql", uri=uri, warehouse=warehouse)
    return pl.DataFrame(catalog.load_table("house.results").scan().to_arrow())


def read_partitions(place: str) -> pl.DataFrame:
    """Return the rows of all folders, in the columns of the results."""
    files = Path(place).parent / "*/*.parquet"
    rows = pl.read_parquet(files, hive_partitioning=True)
    return rows.select("start_time", "end_time", "room", "n")


LAKES: dict[str, Any] = {
    "delta": pl.read_delta,
    "iceberg": read_iceberg,
    "partitions": read_partitions,
    "folder": pl.read_parquet,
}


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place for the results of each kind of sink: an address or a path."""
    kind = request.getfixturevalue("kind")
    if kind != "postgres":
        (tmp_path / "results").mkdir()
        yield str(tmp_path / "results" / f"rows.{kind}")
        return
    with needed_server() as address:
        yield address


def read(kind: str, place: str) -> list[tuple[Any, ...]]:
    """Return the rows of a place, in order of time and room."""
    if kind in LAKES:
        frame: pl.DataFrame = LAKES[kind](place)
        return frame.sort("start_time", "room").rows()
    if kind in READERS:
        paths = sorted(Path(place).parent.iterdir())
        return pl.concat(map(READERS[kind], paths)).sort("start_time", "room").rows()  # type: ignore[no-any-return]
    connect: Any = sqlite3.connect if kind == "sqlite" else psycopg.connect
    with closing(connect(place)) as connection:
        return sorted(connection.execute("SELECT * FROM results").fetchall())


@pytest.mark.full
@pytest.mark.parametrize(
    "kind",
    ["sqlite", "postgres", "jsonl", "csv", "parquet", "partitions", "delta", "iceberg", "folder"],
)
def test_twenty_kills_lose_no_row_and_double_none(kind: str, place: str, tmp_path: Path) -> None:
    """The process is killed at any moment, and started again."""
    numbers, kills = random.Random(kind), 0
    command = [sys.executable, "-c", SERVICE, kind, place, str(tmp_path / "kept")]
    while kills < KILLS:
        process = subprocess.Popen(command)
        with suppress(subprocess.TimeoutExpired):
            process.wait(numbers.uniform(0.8, 2.0))
        assert process.poll() is None, "the run ended before it was killed as often"
        process.kill()
        process.wait()
        kills += 1
    subprocess.run(command, check=True)
    assert read(kind, place) == [
        (start, start + 30, room, 10)
        for start in range(0, ROWS, 30)
        for room in ("attic", "hall", "lab")
    ]
