"""Rows into a real PostgreSQL: once each, updated in edge shape, whatever comes twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import psycopg
import pytest
from plain_batches import FrameBatch
from sink_input import HOUR, batches, expected_rows, feed, moment, write

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, SchemaError, SpoolError
from rxtemporal.spark import DatabaseTable, SparkSink
from rxtemporal.spark.targets.target import EDGE, STATE, Origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = pl.Schema({"x": pl.Int64()})
Query = Callable[[str], list[tuple[Any, ...]]]


def origin(name: str = "q", spool: str = "id", committed: int = 0, **fields: Any) -> Origin:
    """Return an origin of rows."""
    return Origin(name, spool, pl.Schema({**SCHEMA, **fields}), committed)


def micro_batch(spark: SparkSession, first: int, last: int) -> Any:
    """Two rows for each of the segments."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    rows = [(begin, None, 10 * n + j, n) for n in range(first, last + 1) for j in range(2)]
    schema = "start_time timestamp, end_time timestamp, x bigint, _segment bigint"
    return FrameBatch(spark.createDataFrame(rows, schema), last)


def of_segments(*numbers: int) -> list[tuple[int]]:
    """The field x of these segments' rows."""
    return [(10 * number + j,) for number in numbers for j in range(2)]


@pytest.mark.java
def test_a_batch_that_comes_again_is_not_written_again(
    spark: SparkSession, connect: Any, query: Query
) -> None:
    """Only segments above the ledger are written, in this life and the next, however grouped."""
    table = DatabaseTable(connect, "t")
    writer = table.open(origin())
    for first, last in [(1, 2), (1, 2), (2, 3)]:
        writer.write(micro_batch(spark, first, last))
    writer.close()
    again = table.open(origin(committed=3))
    again.write(micro_batch(spark, 1, 4))
    again.close()
    assert query("SELECT x FROM t ORDER BY x") == of_segments(1, 2, 3, 4)
    assert query("SELECT query, spool, target, segment FROM rxtemporal_ledger") == [
        ("q", "id", "t", 4)
    ]


@pytest.mark.java
def test_what_a_killed_process_commits_late_is_not_doubled(
    spark: SparkSession, connect: Any, query: Query
) -> None:
    """A commit that arrives after the next life has looked is found inside its transaction."""
    table = DatabaseTable(connect, "t")
    killed, after = table.open(origin()), table.open(origin())
    killed.write(micro_batch(spark, 1, 2))
    after.write(micro_batch(spark, 1, 3))
    killed.close()
    after.close()
    assert query("SELECT x FROM t ORDER BY x") == of_segments(1, 2, 3)


@pytest.mark.java
def test_rows_and_ledger_are_one_transaction(
    spark: SparkSession, connect: Any, query: Query, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure after the rows leaves neither rows nor a ledger that has moved on."""
    writer: Any = DatabaseTable(connect, "t").open(origin())
    store = writer._store

    def breaks(rows: pl.DataFrame) -> None:
        store(rows)
        raise psycopg.OperationalError("the server has gone")

    monkeypatch.setattr(writer, "_store", breaks)
    with pytest.raises(psycopg.OperationalError):
        writer.write(micro_batch(spark, 1, 2))
    assert query("SELECT x FROM t") == []
    assert query("SELECT segment FROM rxtemporal_ledger") == [(0,)]
    monkeypatch.undo()
    writer.write(micro_batch(spark, 1, 2))
    writer.close()
    assert query("SELECT x FROM t ORDER BY x") == of_segments(1, 2)


def sink(connect: Any, path: Path, spark: SparkSession, shape: EventShape) -> SparkSink:
    """A sink into the table t."""
    target = DatabaseTable(connect, "t")
    return SparkSink(target, path=path / "sink", session=spark, shape=shape, trigger="0 seconds")


@pytest.mark.java
def test_rows_of_a_query_arrive_complete(
    spark: SparkSession, tmp_path: Path, connect: Any, query: Query
) -> None:
    """In interval shape the table holds what the query gave, once, when it is run twice, too."""
    for _ in range(2):
        feed(sink(connect, tmp_path, spark, EventShape.INTERVAL), batches(5))
    assert sorted(query("SELECT start_time, end_time, k, v FROM t")) == expected_rows(5)


def edges(given: list[tuple[int, int, int, int]], cti: int) -> EventBatch:
    """A batch of (start, end, edge, x)."""
    rows = [{"start_time": s, "end_time": e, "x": x} for s, e, _, x in given]
    made = EventBatch.from_dicts(rows, schema=SCHEMA, cti=cti)
    return made.replace(edge=np.array([edge for *_, edge, _ in given], np.int64))


@pytest.mark.java
def test_open_rows_are_shown_and_closed(
    spark: SparkSession, tmp_path: Path, connect: Any, query: Query
) -> None:
    """In edge shape a row is there when it has begun, has its end when that has come, and stays
    one row through a run that breaks off.
    """
    opening = edges([(1, MAX_TIME, 7, 1), (2, MAX_TIME, 8, 2), (3, 4, 0, 3)], HOUR)
    closing = edges([(1, HOUR, 7, 1)], 2 * HOUR)
    first = sink(connect, tmp_path, spark, EventShape.EDGE)
    feed(first, [opening])
    ask = "SELECT _query, _edge, end_time, x FROM t ORDER BY _edge"
    assert query(ask) == [("q", 1, None, 1), ("q", 2, None, 2), ("q", 3, moment(4), 3)]
    broken = sink(connect, tmp_path, spark, EventShape.EDGE)
    broken.open("q", SCHEMA)
    write(broken, [opening, closing])
    broken.close(RuntimeError("the machine goes down"))
    last = edges([(9 * HOUR, MAX_TIME, 9, 4)], MAX_TIME)
    feed(sink(connect, tmp_path, spark, EventShape.EDGE), [opening, closing, last])
    assert query(ask) == [
        ("q", 1, moment(HOUR), 1),
        ("q", 2, None, 2),
        ("q", 3, moment(4), 3),
        ("q", 4, None, 4),
    ]


@pytest.mark.java
def test_every_type_gets_through(
    spark: SparkSession, tmp_path: Path, connect: Any, query: Query
) -> None:
    """Each type a payload has, nulls, empty and odd texts, and the ends of time are kept."""
    payload = pl.DataFrame(
        {
            "flag": [True, None],
            'a"b': pl.Series([-1, None], dtype=pl.Int8),
            "UPPER": pl.Series([-1, None], dtype=pl.Int32),
            "real": pl.Series([0.1, None], dtype=pl.Float32),
            "number": [math.inf, 0.1],
            "text": ['ä,"\n\\N', None],
            "empty": ["", None],
            "raw": [b"\x00\xff", None],
            "money": pl.Series(["1.50", None]).cast(pl.Decimal(38, 2)),
            "at": pl.Series([MIN_TIME, 5]).cast(pl.Datetime("us", "Europe/Berlin")),
            "local": pl.Series([MAX_TIME, None]).cast(pl.Datetime("us")),
            "took": pl.Series([-7, None]).cast(pl.Duration("us")),
            "day": pl.Series([-1, None]).cast(pl.Date),
            "nothing": pl.Series([None, None], dtype=pl.Null),
        }
    )
    given = EventBatch.of_rows(np.array([MIN_TIME, 2]), np.array([3, MAX_TIME]), payload, MAX_TIME)
    feed(sink(connect, tmp_path, spark, EventShape.INTERVAL), [given])
    with connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        got = connection.execute("SELECT * FROM t ORDER BY start_time").fetchall()
    wanted = given.to_polars().with_columns(pl.col("at").dt.convert_time_zone("UTC"))
    text = wanted.with_columns(pl.col("real").cast(pl.Float64).round(7))
    assert [(*row[:5], row[5] and round(row[5], 7), *row[6:]) for row in got] == text.rows()


@pytest.mark.parametrize(
    "kind", ["x numeric(10, 1)", "x real", "start_time timestamptz(0)", "end_time timestamp(3)"]
)
def test_a_column_that_would_round_is_refused(connect: Any, kind: str) -> None:
    """PostgreSQL says nothing when it stores 1.25 as 1.3."""
    columns = {"start_time": "timestamptz", "end_time": "timestamptz", "x": "double precision"}
    columns |= dict([kind.split(" ", 1)])
    parts = ", ".join(" ".join(each) for each in columns.items())
    with connect() as connection:
        connection.execute(f"CREATE TABLE t ({parts})")
    origin = Origin("q", "id", pl.Schema({"x": pl.Float64}), 0)
    with pytest.raises(SchemaError, match=rf"{kind.split()[0]} of the table t .* would round"):
        DatabaseTable(connect, "t").open(origin)


def test_a_ledger_that_does_not_fit_is_refused(connect: Any, query: Query) -> None:
    """Another spool, another table, lost rows, a table that is gone: each says what to do."""
    table = DatabaseTable(connect, "t")
    table.open(origin()).close()
    with pytest.raises(SpoolError, match="another spool"):
        table.open(origin(spool="other"))
    with pytest.raises(SpoolError, match="another spool or for another table"):
        DatabaseTable(connect, "u").open(origin())
    with pytest.raises(SpoolError, match="has lost rows"):
        table.open(origin(committed=2))
    with connect() as connection:
        connection.execute("UPDATE rxtemporal_ledger SET segment = 3")
        connection.execute("DROP TABLE t")
    with pytest.raises(SpoolError, match="the table t is missing"):
        table.open(origin())


def test_a_table_that_is_there_has_to_fit(connect: Any, query: Query) -> None:
    """Columns that are missing are named; others may be there; a schema's name is followed."""
    with connect() as connection:
        connection.execute("CREATE SCHEMA other")
        connection.execute(
            "CREATE TABLE other.t (start_time timestamptz, end_time timestamptz, x bigint, "
            "noticed timestamptz DEFAULT now())"
        )
    try:
        DatabaseTable(connect, "other.t").open(origin()).close()
        with pytest.raises(SchemaError, match=r"lacks \['y'\]"):
            DatabaseTable(connect, "other.t").open(origin(name="p", y=pl.Int64()))
        with pytest.raises(SchemaError, match="'_edge', '_query'"):
            DatabaseTable(connect, "other.t").open(origin(name="e", **{EDGE: pl.Int64()}))
    finally:
        with connect() as connection:
            connection.execute("DROP SCHEMA other CASCADE")
    assert STATE not in origin().schema


@pytest.mark.parametrize(
    ("arguments", "says"), [(("dbname=x", "t"), "a function"), ((print, "a."), "schema.name")]
)
def test_what_cannot_be_is_refused_when_it_is_made(arguments: Any, says: str) -> None:
    """A connection string in the function's place and a broken name are told at once."""
    with pytest.raises(ArgumentError, match=says):
        DatabaseTable(*arguments)
