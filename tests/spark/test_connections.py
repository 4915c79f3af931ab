"""A user's ``connect``, and a database's table after one run and in the next."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import psycopg
import psycopg.rows
import pytest
from plain_batches import micro_batch, plain

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import BindingError, SpoolError
from rxtemporal.spark import DatabaseTable
from rxtemporal.spark.sink.settled_rows import make_settled_rows
from rxtemporal.spark.targets.target import DIRECT, Origin

pytestmark = pytest.mark.usefixtures(plain.__name__)

SCHEMA = pl.Schema({"x": pl.Int64()})
Query = Callable[[str], list[tuple[Any, ...]]]


def origin(spool: str = "id", schema: pl.Schema = SCHEMA) -> Origin:
    """Return an origin of rows."""
    return Origin("q", spool, schema, 0)


def rows(*numbers: int) -> EventBatch:
    """A batch with a row for each number."""
    given = [{"start_time": number, "x": number} for number in numbers]
    return EventBatch.from_dicts(given, schema=SCHEMA, cti=100)


def opened(number: int, edge: int) -> EventBatch:
    """A batch with a row that begins, as a stream has it."""
    batch = EventBatch.from_dicts([{"start_time": number, "x": number}], schema=SCHEMA, cti=100)
    return batch.replace(end=np.array([MAX_TIME]), edge=np.array([edge]))


class Own(psycopg.Connection[Any]):
    """A connection of another module than psycopg's."""


def set_up(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """Do what users do with a connection first: a transaction begins by it."""
    connection.execute("CREATE SCHEMA IF NOT EXISTS mine")
    connection.execute("SET search_path TO mine")
    return connection


WAYS: dict[str, Callable[[str], psycopg.Connection[Any]]] = {
    "as it is": psycopg.connect,
    "set up": lambda address: set_up(psycopg.connect(address)),
    "autocommit": partial(psycopg.connect, autocommit=True),
    "autocommit, set up": lambda address: set_up(psycopg.connect(address, autocommit=True)),
    "begun by hand": lambda address: set_up(
        psycopg.connect(address, autocommit=True).execute("BEGIN").connection
    ),
    "another class": Own.connect,
    "rows as dicts": partial(psycopg.connect, row_factory=psycopg.rows.dict_row),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_published_is_committed(database: str, query: Query, way: str) -> None:
    """Whatever state ``connect`` leaves a connection in, another one sees rows and ledger."""
    writer = DatabaseTable(partial(WAYS[way], database), "t").open(origin())
    place = "mine" if "set up" in way or "hand" in way else "public"
    with closing(writer):
        for segment in (1, 2):
            writer.write(micro_batch(rows(segment), segment))
            assert query(f"SELECT max(x) FROM {place}.t") == [(segment,)]
            assert query(f"SELECT segment FROM {place}.rxtemporal_ledger") == [(segment,)]


def failed(address: str) -> psycopg.Connection[Any]:
    """A connection on which something has failed, unnoticed."""
    connection = psycopg.connect(address)
    with pytest.raises(psycopg.Error):
        connection.execute("SET search_path TO nothing; SELECT * FROM not_there")
    return connection


def closed(address: str) -> psycopg.Connection[Any]:
    """A connection that is of no use any more."""
    connection = psycopg.connect(address)
    connection.close()
    return connection


@pytest.mark.parametrize(("way", "says"), [(failed, "INERROR"), (closed, "closed")])
def test_a_connection_that_cannot_be_used_is_refused(database: str, way: Any, says: str) -> None:
    """After a failure the setup is undone, a closed connection stays closed: both are refused."""
    with pytest.raises(BindingError, match=rf"{says}.*Hint"):
        DatabaseTable(partial(way, database), "t").open(origin())


def test_another_database_is_refused() -> None:
    """A connection that is not psycopg's is named, with what to do."""
    with pytest.raises(BindingError, match=r"returned a sqlite3\.Connection"):
        DatabaseTable(partial(sqlite3.connect, ":memory:"), "t").open(origin())


@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_asynchronous_connection_is_refused(database: str) -> None:
    """A coroutine is not a connection, though psycopg makes it."""
    with pytest.raises(BindingError, match=r"returned a builtins\.coroutine"):
        DatabaseTable(partial(psycopg.AsyncConnection.connect, database), "t").open(origin())


def test_runs_without_a_spool_have_edges_of_their_own(connect: Any, query: Query) -> None:
    """In direct mode a run's rows are numbered after those that are there, and closed as its own.

    What was open when the run before ended stays as it is.
    """
    for x in (1, 2):
        settled = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
        writer = DatabaseTable(connect, "t").open(origin(DIRECT, settled.schema))
        begun = settled.on_batch(opened(x, 7))
        writer.write(micro_batch(begun, writer.last + 1))
        if x == 2:
            end = opened(x, 7).replace(end=np.array([200]), cti=300)
            writer.write(micro_batch(settled.on_batch(end), writer.last + 1))
        writer.close()
    assert query("SELECT _edge, x, end_time IS NULL FROM t ORDER BY _edge") == [
        (1, 1, True),
        (2, 2, False),
    ]


def test_two_runs_without_a_spool_at_a_time_are_refused(connect: Any, query: Query) -> None:
    """Rows of the second one would be taken for published ones, or its edges for the first's."""
    table = DatabaseTable(connect, "t")
    first, second = table.open(origin(DIRECT)), table.open(origin(DIRECT))
    with closing(first), closing(second):
        first.write(micro_batch(rows(1), 1))
        with pytest.raises(SpoolError, match=r"another run of the query 'q' .* Hint: end"):
            second.write(micro_batch(rows(2), 1))
        first.write(micro_batch(rows(3), 2))
    assert query("SELECT x FROM t ORDER BY x") == [(1,), (3,)]


def test_edges_that_are_left_are_not_overwritten(connect: Any, query: Query) -> None:
    """If only the ledger's row was deleted to start again, the old rows are in the way."""
    settled = make_settled_rows(EventShape.EDGE, SCHEMA, MIN_TIME)
    source = origin("id", settled.schema)
    writer = DatabaseTable(connect, "t").open(source)
    writer.write(micro_batch(settled.on_batch(opened(1, 7)), 1))
    writer.close()
    with connect() as connection:
        connection.execute("DELETE FROM rxtemporal_ledger")
    again = origin("new", settled.schema)
    with pytest.raises(SpoolError, match=r"t has edges of the query 'q', .* Hint: delete"):
        DatabaseTable(connect, "t").open(again)
    with connect() as connection:
        connection.execute("DELETE FROM t WHERE _query = 'q'")
    DatabaseTable(connect, "t").open(again).close()
