"""Sink that writes into a table of a PostgreSQL database, and how fields are stored there."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.sinks.positioned import FIRST
from rxtemporal.sinks.table import (
    LOCKED_SECONDS,
    POSITIONS,
    TableSink,
    check_table,
    format_times,
)

_TYPES: dict[type[pl.DataType], str] = {
    pl.Boolean: "boolean",
    pl.Int8: "smallint",
    pl.Int16: "smallint",
    pl.Int32: "integer",
    pl.Int64: "bigint",
    pl.Float32: "real",
    pl.Float64: "double precision",
    pl.String: "text",
    pl.Binary: "bytea",
    pl.Date: "date",
    pl.Duration: "interval",
    pl.Null: "text",
}
# other types whose columns take all values of a type
_WIDER = {
    "smallint": {"integer", "bigint", "numeric"},
    "integer": {"bigint", "numeric"},
    "bigint": {"numeric"},
    "real": {"double precision"},
    "text": {"character varying"},
}
# kinds that keep no decimals
_WHOLE = {"smallint", "integer", "bigint"}
# what limits a type, in its name: numeric(10,2), timestamp(3) with time zone
_LIMIT = re.compile(r"\(([-\d, ]+)\)")
# the decimals of times and spans
_MICROSECONDS = 6
# the columns of a table, with those limits of types by which values are rounded
FIND_COLUMNS = """
SELECT attname, format_type(atttypid, CASE WHEN atttypid IN ('numeric'::regtype,
  'timestamptz'::regtype, 'timestamp'::regtype, 'interval'::regtype) THEN atttypmod END)
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_ZERO = "\0"
# the names that PostgreSQL gives in a catalogue
_FULL = {"timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone"}


def as_text(column: pl.Series) -> pl.Series:
    """Return a column as text that PostgreSQL reads from CSV."""
    if isinstance(column.dtype, pl.Datetime):
        return _write_years(format_times(column, "%Y-%m-%d %H:%M:%S%.6f"))
    if column.dtype == pl.Date:
        return _write_years(format_times(column, "%Y-%m-%d"))
    if column.dtype == pl.Binary:
        return ("\\x" + column.bin.encode("hex")).alias(column.name)
    if isinstance(column.dtype, pl.Duration):
        microseconds = column.dt.total_microseconds().cast(pl.String)
        return (microseconds + " microseconds").alias(column.name)
    return column


def _write_years(texts: pl.Series) -> pl.Series:
    """Return texts of times with the years before 1 and after 9999 as PostgreSQL reads them.

    It would take a sign for that of an offset.
    """
    if not texts.str.contains(r"^([+-]|0000)").any():
        return texts
    years = texts.str.extract(r"^([+-]?\d+)").cast(pl.Int32)
    rest = texts.str.replace(r"^[+-]?\d+", "")
    number = pl.when(years > 0).then(years).otherwise(1 - years).cast(pl.String).str.zfill(4)
    era = pl.when(years > 0).then(pl.lit("")).otherwise(pl.lit(" BC"))
    return pl.select(number + rest + era).to_series().alias(texts.name)


def find_postgres_type(dtype: pl.DataType) -> str:
    """Return the type of a payload field's column."""
    if isinstance(dtype, pl.Datetime):
        return "timestamptz" if dtype.time_zone is not None else "timestamp"
    if isinstance(dtype, pl.Decimal):
        return f"numeric({dtype.precision or 38}, {dtype.scale})"
    return _TYPES[type(dtype)]


def copy_rows(cursor: Any, into: Any, rows: pl.DataFrame) -> None:
    """Add rows to a table by ``COPY``; ``into`` is its identifier.

    ``SchemaError``: a text has a character that PostgreSQL stores in no text.
    """
    from psycopg import sql
    from psycopg.errors import CharacterNotInRepertoire

    text = io.BytesIO()
    # polars quotes empty texts and leaves nulls empty, which is how PostgreSQL reads them
    rows.select(map(as_text, rows.iter_columns())).write_csv(text, include_header=False)
    names = sql.SQL(", ").join(map(sql.Identifier, rows.columns))
    copy = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(into, names)
    try:
        with cursor.copy(copy) as target:
            target.write(text.getvalue())
    except CharacterNotInRepertoire as error:
        _explain_zero(rows, error)
        raise


def _explain_zero(rows: pl.DataFrame, error: Exception) -> None:
    """Raise an error that names the field with a character of the code 0, if there is one."""
    # searched only now: it is rare, and in each row that is written a search takes time
    texts = rows.select(pl.col(pl.String).str.contains(_ZERO, literal=True).any())
    name = next((each.name for each in texts.iter_columns() if each.item()), None)
    if name is None:
        return
    raise SchemaError(
        f"a text in field {name!r} has the character '\\0', which PostgreSQL stores in no text. "
        f"Hint: replace it in the query: with_columns(pl.col({name!r}).str.replace_all("
        "'\\0', '', literal=True)). A field of bytes may have it."
    ) from error


class PostgresTable(TableSink):
    """Sink that writes rows into a PostgreSQL table; in a run with ``resume=`` each row once.

    ``dsn`` is what ``psycopg.connect`` takes, ``"host=db dbname=house"`` for example, and ``table``
    a name or ``schema.name``. The table has the columns ``start_time`` and ``end_time`` (null:
    never ends), as ``timestamptz``, or ``bigint`` if the times are numbers, and a column for each
    field; others keep their defaults. With ``create=True`` it is created if it is missing. ``time``
    is as in ``Print``.

    ``key`` names one column or several over which the table has a unique index: of the rows with
    the same key the table has the last one. Without it rows are only added.

    Each batch is one transaction, by ``COPY``, with the position of the run, which stands in the
    table ``rxtemporal_positions``. So results that a resumed run delivers again are recognized.
    When the connection is lost, or somebody else holds a lock, the sink connects again, for
    ``patience`` seconds, and continues at that position; the query waits meanwhile, and with a
    hand-off producers do not. ``restarts`` counts these attempts. One attempt waits for a lock for
    a quarter of the patience, five seconds at most, unless the ``dsn`` or the role has a
    ``lock_timeout``. Needs ``pip install 'rxtemporal[database]'``.

    >>> PostgresTable("host=db dbname=house", "late_flights")
    PostgresTable('late_flights')
    """

    def __init__(
        self,
        dsn: str,
        table: str,
        key: str | Sequence[str] | None = None,
        *,
        create: bool = False,
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(dsn, str):
            raise ArgumentError(
                f"dsn is a text as psycopg.connect takes it, got {dsn!r}. Hint: for example "
                '"host=db dbname=house".'
            )
        check_table(table)
        super().__init__(table, key, time, patience)
        self._dsn, self._creates = dsn, create
        self._connection: Any = None

    def cancel(self, error: BaseException) -> None:
        """Make a ``write`` that waits for the database raise this error."""
        super().cancel(error)
        connection = self._connection
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.cancel()

    def _connect(self) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise BindingError(
                "PostgresTable needs psycopg. Hint: pip install 'rxtemporal[database]'."
            ) from error

        self._connection = psycopg.connect(self._dsn, autocommit=True)
        self._limit_waits()
        with self._creation():
            self._run_sql(
                "CREATE TABLE IF NOT EXISTS {positions} "
                "(run text PRIMARY KEY, query text, table_name text, position bigint)"
            )
        if not self._creates and self._find_columns() is None:
            raise SchemaError(
                f"there is no table {self.table!r}. Hint: create=True creates it, or run "
                f"{self._make_statement({**self._list_times(), **self._list_payload()})!r}."
            )

    def _limit_waits(self) -> None:
        """Let a statement that waits for a lock fail, as PostgreSQL has it wait for ever."""
        # a part of the patience, so that there are several attempts; and more than a moment, for
        # which other sinks have locks, too
        wait = min(LOCKED_SECONDS, max(self._patience / 4, FIRST)) if self._patience else None
        self._run_sql(
            "SELECT set_config('lock_timeout', %s, false) "
            "WHERE current_setting('lock_timeout') = '0'",
            f"{wait or LOCKED_SECONDS:.3f}s",
        )

    def _list_times(self) -> dict[str, str]:
        return dict.fromkeys(("start_time", "end_time"), self._name_time_type(self._form()))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run_sql(self, text: str, *values: Any, **parts: Any) -> Any:
        from psycopg import sql

        names = {"positions": sql.Identifier(POSITIONS), "table": self._table, **parts}
        return self._connection.execute(sql.SQL(text).format(**names), values)

    @property
    def _table(self) -> Any:
        from psycopg import sql

        return sql.Identifier(*self.table.split("."))

    def _is_away(self, error: Exception) -> bool:
        from psycopg import InterfaceError, OperationalError

        return isinstance(error, (OperationalError, InterfaceError))

    def _find_position(self) -> int | None:
        line = "SELECT position FROM {positions} WHERE run = %s"
        found = self._run_sql(line, self._id).fetchone()
        return None if found is None else int(found[0])

    def _forget(self) -> None:
        self._run_sql("DELETE FROM {positions} WHERE run = %s", self._id)

    def _find_columns(self) -> dict[str, str] | None:
        found = self._run_sql(
            FIND_COLUMNS,
            self._table.as_string(self._connection),
        )
        return dict(found.fetchall()) or None

    def _has_key(self) -> bool:
        found = self._run_sql(
            "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute "
            "ON attrelid = indrelid AND attnum = ANY(indkey) "
            "WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL "
            "GROUP BY indexrelid",
            self._table.as_string(self._connection),
        )
        return any({*names} == {*self.key} for (names,) in found.fetchall())

    def _make_statement(self, columns: Mapping[str, str]) -> str:
        from psycopg import sql

        parts = [sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(k)) for n, k in columns.items()]
        if self.key:
            parts.append(sql.SQL("PRIMARY KEY ({})").format(join_names(self.key)))
        statement = sql.SQL("CREATE TABLE {} ({})").format(self._table, sql.SQL(", ").join(parts))
        return str(statement.as_string(self._connection))

    def _create(self, columns: Mapping[str, str]) -> None:
        with self._creation():
            if self._find_columns() is None:
                self._connection.execute(self._make_statement(columns))

    @contextlib.contextmanager
    def _creation(self) -> Iterator[None]:
        """Run a transaction in which no other sink creates a table."""
        with self._connection.transaction():
            # "if not exists" does not protect against a concurrent creation
            self._run_sql("SELECT pg_advisory_xact_lock(hashtext('rxtemporal'))")
            yield

    def _store(self, frame: pl.DataFrame, position: int) -> None:
        from psycopg import sql

        with self._connection.transaction(), self._connection.cursor() as cursor:
            if self.key:
                staged = sql.Identifier("_rxtemporal_staged")
                self._run_sql(
                    "CREATE TEMPORARY TABLE {staged} ON COMMIT DROP AS "
                    "SELECT {names} FROM {table} LIMIT 0",
                    staged=staged,
                    names=join_names(frame.columns),
                )
                copy_rows(cursor, staged, frame)
                self._upsert(staged, frame.columns)
            else:
                copy_rows(cursor, self._table, frame)
            self._run_sql(
                "INSERT INTO {positions} VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (run) DO UPDATE SET position = excluded.position",
                self._id, self._query, self.table, position,
            )  # fmt: skip

    def _upsert(self, staged: Any, names: Sequence[str]) -> None:
        from psycopg import sql

        changes = [
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name))
            for name in names
            if name not in self.key
        ]
        action = sql.SQL("DO UPDATE SET ") + sql.SQL(", ").join(changes)
        self._run_sql(
            "INSERT INTO {table} ({names}) SELECT {names} FROM {staged} "
            "ON CONFLICT ({key}) {action}",
            staged=staged,
            names=join_names(names),
            key=join_names(self.key),
            action=action if changes else sql.SQL("DO NOTHING"),
        )

    def _name_type(self, dtype: pl.DataType) -> str:
        return find_postgres_type(dtype)

    def _name_time_type(self, form: TimeForm) -> str:
        return "bigint" if form == "ticks" else "timestamptz"

    def _accepts(self, found: str, wanted: str) -> bool:
        plain = wanted.partition("(")[0]
        kind = _LIMIT.sub("", found)
        if kind != _FULL.get(plain, plain) and kind not in _WIDER.get(plain, ()):
            return False
        return not rounds(found, wanted)


def rounds(found: str, wanted: str) -> bool:
    """Return True if a column of one type keeps less of numbers, times and spans of another one."""
    if found == "real" and wanted == "double precision":
        return True
    is_exact = _LIMIT.search(found) is not None
    return is_exact and _find_places(found) < _find_places(wanted)


def _find_places(kind: str) -> float:
    """Return how many decimals a type keeps, of seconds too; it rounds to them in silence."""
    limit = _LIMIT.search(kind)
    if limit is not None:
        return int(limit[1].split(",")[-1]) if "," in limit[1] or "numeric" not in kind else 0
    return 0 if kind in _WHOLE else math.inf if kind == "numeric" else _MICROSECONDS


def join_names(names: Sequence[str]) -> Any:
    """Return names of columns as a part of a statement."""
    from psycopg import sql

    return sql.SQL(", ").join(map(sql.Identifier, names))
