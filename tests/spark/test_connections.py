"""What a user's ``connect`` may give, and what one run leaves to the next in a database's table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import polars as pl
import psycopg
import psycopg.rows
import pytest
from plain import micro_batch, plain

from rxtemporal.batch import EventBatch
from rxtemporal.errors import BindingError
from rxtemporal.spark import DatabaseTable
from rxtemporal.spark.targets import Origin

pytestmark = pytest.mark.usefixtures(plain.__name__)

SCHEMA = pl.Schema({"x": pl.Int64()})
Query = Callable[[str], list[tuple[Any, ...]]]


def origin(spool: str = "id", schema: pl.Schema = SCHEMA) -> Origin:
    """Where rows come from."""
    return Origin("q", spool, schema, 0)


def rows(*numbers: int) -> EventBatch:
    """A batch with a row for each number."""
    given = [{"start_time": number, "x": number} for number in numbers]
    return EventBatch.from_dicts(given, schema=SCHEMA, cti=100)


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
            writer.write(micro_batch(rows(segment), segment), 0, segment)
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
    """What was set up is undone after a failure, and a closed one stays closed: said at once."""
    with pytest.raises(BindingError, match=rf"{says}.*Hint"):
        DatabaseTable(partial(way, database), "t").open(origin())


def test_another_database_is_refused() -> None:
    """A connection that is not psycopg's is named, with what to do."""
    with pytest.raises(BindingError, match=r"gave a sqlite3\.Connection"):
        DatabaseTable(partial(sqlite3.connect, ":memory:"), "t").open(origin())


@pytest.mark.filterwarnings("ignore:coroutine")
def test_an_asynchronous_connection_is_refused(database: str) -> None:
    """A coroutine is no connection, though psycopg makes it."""
    with pytest.raises(BindingError, match=r"gave a builtins\.coroutine"):
        DatabaseTable(partial(psycopg.AsyncConnection.connect, database), "t").open(origin())
