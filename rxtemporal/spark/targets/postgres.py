"""PostgreSQL tables for a query's results: rows and ledger in one transaction."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError, BindingError, SchemaError, SpoolError
from rxtemporal.sinks.postgres import (
    FIND_COLUMNS,
    copy_rows,
    find_postgres_type,
    join_names,
    rounds,
)
from rxtemporal.spark.targets.target import DIRECT, EDGE, STATE, MicroBatch, Origin, Writer
from rxtemporal.storage.segments import SEGMENT

# the ledger of all queries of a database, and in edge shape the column with a row's query
LEDGER, QUERY = "rxtemporal_ledger", "_query"


@dataclasses.dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table of a PostgreSQL database, to which each row is written exactly once, in any shape.

    ``connect`` is a function without arguments that opens a connection of psycopg 3. It is called
    in the process that runs Spark, so use a function of a module or
    ``functools.partial(psycopg.connect, "dbname=...")``. It may configure the connection, as by
    ``SET search_path``; an open transaction is committed. ``table`` is a name, or ``schema.name``;
    it is created if missing, with ``start_time``, ``end_time`` and the payload's fields.

    In edge shape a row is inserted when it begins, with a null ``end_time``, and updated when it
    ends; the table also has ``_query`` and ``_edge``, together its primary key. In direct mode the
    numbers of a run's edges follow those in the table.

    The table ``rxtemporal_ledger`` in the connection's own schema has the last published segment of
    each query; rows and ledger are written in one transaction. Keep them together.

    >>> from functools import partial
    >>> DatabaseTable(partial(print, "no connection"), "late_flights").table
    'late_flights'
    """

    connect: Callable[[], Any]
    table: str

    shapes: ClassVar[frozenset[EventShape]] = frozenset(EventShape)
    runs_in_child: ClassVar[bool] = True
    shape_error: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not callable(self.connect):
            raise ArgumentError(
                f"connect is a function that opens a connection, got {self.connect!r}. Hint: "
                'functools.partial(psycopg.connect, "dbname=...").'
            )
        if not isinstance(self.table, str) or not all(self.table.split(".")):
            raise ArgumentError(f"table is a name, or schema.name, got {self.table!r}")

    def open(self, origin: Origin) -> Writer:
        """Connect, create missing tables, and return the writer.

        ``SchemaError``: the table lacks columns. ``SpoolError``: the ledger is of another spool.
        The database's own errors are not wrapped.
        """
        connection = _check_connection(self.connect())
        try:
            _commit_setup(connection)
            return _DatabaseWriter(connection, self.table, origin)
        except BaseException:
            connection.close()
            raise


class _DatabaseWriter:
    def __init__(self, connection: Any, table: str, origin: Origin) -> None:
        from psycopg import sql

        self._connection, self._origin = connection, origin
        self._name, self._table = table, sql.Identifier(*table.split("."))
        self._edges, self._before = EDGE in origin.schema, 0
        self._columns = {START: "timestamptz", END: "timestamptz"}
        self._columns |= {name: find_postgres_type(dtype) for name, dtype in origin.schema.items()}
        with connection.transaction():
            self.last = self._prepare()

    def write(self, batch: MicroBatch) -> None:
        """Publish the segments above the ledger; the frame is executed even if there are none."""
        from pyspark.sql import functions as sf

        rows: Any = pl.from_arrow(batch.frame.where(sf.col(SEGMENT) > self.last).toArrow())
        last = batch.last
        with self._connection.transaction():
            known = self._lock_ledger()
            if self._origin.spool == DIRECT and known > self.last:
                raise SpoolError(
                    f"another run of the query {self._origin.query!r} without a spool writes to "
                    f"the table {self._name} at the same time. Hint: end one of them, or give it "
                    "another name, by which the ledger knows it."
                )
            # a killed process may have committed after this one read the ledger
            fresh = rows.filter(pl.col(SEGMENT) > known)
            if fresh.height:
                self._store(fresh)
            if last > known:
                self._run(
                    "UPDATE {ledger} SET segment = %s WHERE query = %s", last, self._origin.query
                )
        self.last = max(last, known)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _run(self, text: str, *values: Any, **parts: Any) -> Any:
        from psycopg import sql
        from psycopg.rows import tuple_row

        names = {"ledger": sql.Identifier(LEDGER), "table": self._table, **parts}
        # the connection may have another row factory
        cursor = self._connection.cursor(row_factory=tuple_row)
        return cursor.execute(sql.SQL(text).format(**names), values)

    def _prepare(self) -> int:
        """Create missing tables, lock the query's row of the ledger, return the last segment."""
        # one at a time: "if not exists" does not protect against a concurrent creation
        self._run("SELECT pg_advisory_xact_lock(hashtext('rxtemporal'))")
        self._run(
            "CREATE TABLE IF NOT EXISTS {ledger} (query text PRIMARY KEY, spool text NOT NULL, "
            "target text NOT NULL, segment bigint NOT NULL)"
        )
        there = self._run("SELECT to_regclass(%s)", self._table.as_string(self._connection))
        missing = there.fetchone()[0] is None
        line = "INSERT INTO {ledger} VALUES (%s, %s, %s, 0) ON CONFLICT DO NOTHING"
        self._run(line, self._origin.query, self._origin.spool, self._name)
        last = self._lock_ledger()
        if missing and last:
            raise SpoolError(
                f"the table {self._name} is missing, and its ledger ends at segment {last}. Hint: "
                f"restore it, or delete the line of query {self._origin.query!r} from {LEDGER} and "
                "the sink's path, and run the query again from its source."
            )
        if last < self._origin.committed:
            raise SpoolError(
                f"the ledger {LEDGER} ends at segment {last}, and Spark has committed up to "
                f"{self._origin.committed}: the database has lost rows that the spool no longer "
                "has. Hint: restore it, or delete the query's rows, its line of the ledger and the "
                "sink's path, and run the query again from its source."
            )
        self._create() if missing else self._check_columns()
        if self._edges:
            self._check_edges(last)
        return last

    def _check_edges(self, last: int) -> None:
        """Raise if an edge in the table has the number of a new one."""
        from psycopg import sql

        found = self._run(
            "SELECT coalesce(max({edge}), 0) FROM {table} WHERE {query} = %s",
            self._origin.query,
            edge=sql.Identifier(EDGE),
            query=sql.Identifier(QUERY),
        ).fetchone()[0]
        if self._origin.spool == DIRECT:
            self._before = found  # each direct run counts from 1
        elif found and not last:
            raise SpoolError(
                f"the table {self._name} has edges of the query {self._origin.query!r}, whose "
                f"ledger is new. Hint: delete these rows ({QUERY} is the query's name), or "
                "give this query another name."
            )

    def _lock_ledger(self) -> int:
        """Lock the query's row of the ledger and return its segment, if it is this spool's."""
        found = self._run(
            "SELECT spool, target, segment FROM {ledger} WHERE query = %s FOR UPDATE",
            self._origin.query,
        ).fetchone()
        if found is None or found[:2] != (self._origin.spool, self._name):
            raise SpoolError(
                f"the ledger {LEDGER} has the query {self._origin.query!r} from another spool or "
                f"for another table: {found}. Hint: run it with the path and table it had, give "
                "this query another name, or delete that line and the query's rows to begin anew."
            )
        return int(found[2])

    def _create(self) -> None:
        from psycopg import sql

        columns = [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
            for name, kind in self._columns.items()
        ]
        if self._edges:
            key = sql.SQL("{query} text, PRIMARY KEY ({query}, {edge})")
            columns.append(key.format(query=sql.Identifier(QUERY), edge=sql.Identifier(EDGE)))
        self._run("CREATE TABLE {table} ({columns})", columns=sql.SQL(", ").join(columns))

    def _check_columns(self) -> None:
        found = [each.name for each in self._run("SELECT * FROM {table} LIMIT 0").description]
        wanted = [*self._columns, *([QUERY] if self._edges else [])]
        missing = [name for name in wanted if name not in found]
        if missing:
            raise SchemaError(f"the table {self._name} lacks {missing}; it has {found}")
        kinds = dict(self._run(FIND_COLUMNS, self._table.as_string(self._connection)).fetchall())
        for name, kind in self._columns.items():
            if rounds(kinds.get(name, kind), kind):
                raise SchemaError(
                    f"the column {name} of the table {self._name} is {kinds[name]}, to which "
                    f"PostgreSQL would round the values of {kind} in silence. Hint: alter the "
                    "table, or round the field in the query."
                )

    def _store(self, rows: pl.DataFrame) -> None:
        """Insert rows; in edge shape through a temporary table, each edge once."""
        from psycopg import sql

        if not self._edges:
            self._copy(self._table, rows.drop(SEGMENT), list(self._columns))
            return
        names = [*self._columns, QUERY]
        staged = sql.Identifier("_rxtemporal_staged")
        self._run("CREATE TEMPORARY TABLE {staged} (LIKE {table}) ON COMMIT DROP", staged=staged)
        # a row that opens and closes in one micro-batch is written closed
        last = rows.sort(EDGE, END, nulls_last=True).unique(EDGE, keep="first")
        last = last.with_columns(
            pl.col(EDGE) + self._before, pl.lit(self._origin.query).alias(QUERY)
        )
        self._copy(staged, last.drop(SEGMENT, STATE), names)
        self._run(
            "INSERT INTO {table} ({names}) SELECT {names} FROM {staged} "
            "ON CONFLICT ({query}, {edge}) DO UPDATE SET {end} = excluded.{end}",
            staged=staged,
            names=join_names(names),
            query=sql.Identifier(QUERY),
            edge=sql.Identifier(EDGE),
            end=sql.Identifier(END),
        )

    def _copy(self, into: Any, rows: pl.DataFrame, names: list[str]) -> None:
        with self._connection.cursor() as cursor:
            copy_rows(cursor, into, rows.select(names))


def _check_connection(connection: Any) -> Any:
    with contextlib.suppress(ImportError):
        from psycopg import Connection

        if isinstance(connection, Connection):
            return connection
    raise BindingError(
        f"DatabaseTable speaks to PostgreSQL through psycopg 3, and connect() returned a "
        f"{type(connection).__module__}.{type(connection).__name__}. Hint: pip install "
        "'rxtemporal[database]', and functools.partial(psycopg.connect, \"dbname=...\"); for "
        "another database pass a function (df, batch_id)."
    )


def _commit_setup(connection: Any) -> None:
    """Commit the transaction that ``connect`` began; inside it ours would only be savepoints."""
    state = "closed" if connection.closed else connection.info.transaction_status.name
    if state not in ("IDLE", "INTRANS"):
        raise BindingError(
            f"connect() returned a connection that is {state}: nothing can be written, and its "
            "setup may be undone. Hint: open a new connection in each call, and do not catch "
            "errors of its first statements."
        )
    connection.commit()
