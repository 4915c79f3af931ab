"""Sink that writes into a table of an SQLite database."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.sinks.table import (
    LOCKED_SECONDS,
    POSITIONS,
    TableSink,
    check_table,
    format_times,
)

_TYPES: dict[type[pl.DataType], str] = {
    pl.Boolean: "BOOLEAN",
    pl.Int8: "INTEGER",
    pl.Int16: "INTEGER",
    pl.Int32: "INTEGER",
    pl.Int64: "INTEGER",
    pl.Float32: "REAL",
    pl.Float64: "REAL",
    pl.Duration: "INTEGER",
    pl.Binary: "BLOB",
}
# parts of a declared type and the affinity that it gives a column: https://sqlite.org/datatype3.html
_AFFINITIES = {
    "INT": "INTEGER", "CHAR": "TEXT", "CLOB": "TEXT", "TEXT": "TEXT", "BLOB": "BLOB",
    "REAL": "REAL", "FLOA": "REAL", "DOUB": "REAL",
}  # fmt: skip
# affinities that change values of a type: "007" to 7, 2**60 + 1 to a float, 0.1 to a text
_CHANGING = {
    "TEXT": {"INTEGER", "REAL", "NUMERIC"},
    "INTEGER": {"REAL", "TEXT"},
    "REAL": {"TEXT"},
    "BOOLEAN": {"TEXT"},
}


class SqliteTable(TableSink):
    """Sink that writes rows into a table of an SQLite file; in a run with ``resume=`` each once.

    Columns: ``start_time``, ``end_time`` (null: never ends) and the fields. Both file and table are
    created if missing; a table that exists needs these columns, of types that convert no value, and
    keeps the rows it has. Numbers and texts are stored as such, datetimes and dates as text in ISO
    8601 (with ``+00:00`` if they have a time zone), decimals as text, spans as microseconds, NaN as
    null. ``time`` is as in ``Print``.

    ``key`` names one column or several, ``"device"`` for example: of the rows with the same key the
    table has the last one. Without it rows are only added.

    Each batch is one transaction, with the position of the run, which stands in the table
    ``rxtemporal_positions``. So results that a resumed run delivers again are recognized. A
    connection that writes meanwhile is waited for, ``patience`` seconds at most. Use a file on a
    local disk.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = rxt.SqliteTable(f"{folder.name}/house.db", "readings")
    >>> with rxt.from_events([rxt.PointEvent(4, {"temp": 21})]).run(table):
    ...     pass
    >>> sqlite3.connect(table.path).execute("SELECT * FROM readings").fetchall()
    [(4, 5, 21)]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        table: str,
        *,
        key: str | Sequence[str] | None = None,
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)):
            raise ArgumentError(f"path is the path of a database file, got {path!r}")
        check_table(table)
        super().__init__(table, key, time, patience)
        if "." in table:
            raise ArgumentError(f"table is a name without a dot, got {table!r}")
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None

    def __repr__(self) -> str:
        return f"SqliteTable({str(self.path)!r}, {self.table!r})"

    def _connect(self) -> None:
        if not self.path.parent.is_dir():
            raise FileNotFoundError(
                2, "the folder of the database does not exist", str(self.path.parent)
            )
        # any thread may write, one at a time
        connection = sqlite3.connect(
            self.path, timeout=LOCKED_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection = connection
        with self._transaction():
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {POSITIONS} "
                "(run TEXT PRIMARY KEY, query TEXT, table_name TEXT, position INTEGER)"
            )

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        assert self._connection is not None
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield self._connection
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        assert self._connection is not None
        with closing(self._connection.execute(statement, values)) as cursor:
            return cursor.fetchall()

    def _is_away(self, error: Exception) -> bool:
        code = getattr(error, "sqlite_errorcode", None)
        return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY

    def _find_position(self) -> int | None:
        found = self._rows(f"SELECT position FROM {POSITIONS} WHERE run = ?", self._id)
        return int(str(found[0][0])) if found else None

    def _forget(self) -> None:
        with self._transaction() as connection:
            connection.execute(f"DELETE FROM {POSITIONS} WHERE run = ?", (self._id,))

    def _find_columns(self) -> dict[str, str] | None:
        found = self._rows("SELECT name, type FROM pragma_table_info(?)", self.table)
        return {str(name): str(kind) for name, kind in found} or None

    def _has_key(self) -> bool:
        primary = self._rows("SELECT name FROM pragma_table_info(?) WHERE pk", self.table)
        unique = self._rows(
            'SELECT name FROM pragma_index_list(?) WHERE "unique" AND NOT partial', self.table
        )
        indexes = [self._rows("SELECT name FROM pragma_index_info(?)", *each) for each in unique]
        return any({name for (name,) in each} == {*self.key} for each in [primary, *indexes])

    def _create(self, columns: Mapping[str, str]) -> None:
        parts = [f"{_quote(name)} {kind}" for name, kind in columns.items()]
        if self.key:
            parts.append(f"PRIMARY KEY ({_join(self.key)})")
        with self._transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {_quote(self.table)} ({', '.join(parts)})"
            )

    def _store(self, frame: pl.DataFrame, position: int) -> None:
        names = frame.columns
        statement = f"INSERT INTO {_quote(self.table)} ({_join(names)}) VALUES ("
        statement += ", ".join("?" * len(names)) + ")"
        if self.key:
            statement += f" ON CONFLICT ({_join(self.key)}) "
            others = [name for name in names if name not in self.key]
            changes = ", ".join(f"{_quote(name)} = excluded.{_quote(name)}" for name in others)
            statement += f"DO UPDATE SET {changes}" if others else "DO NOTHING"
        rows = frame.select(map(_as_stored, frame.iter_columns())).rows()
        with self._transaction() as connection:
            connection.executemany(statement, rows)
            connection.execute(
                f"INSERT OR REPLACE INTO {POSITIONS} VALUES (?, ?, ?, ?)",
                (self._id, self._query, self.table, position),
            )

    def _name_type(self, dtype: pl.DataType) -> str:
        return _TYPES.get(type(dtype), "TEXT")

    def _name_time_type(self, form: TimeForm) -> str:
        return "INTEGER" if form == "ticks" else "TEXT"

    def _accepts(self, found: str, wanted: str) -> bool:
        # a column of SQLite takes any value; texts of times look like no numbers
        if wanted == "TEXT" and any(part in found.upper() for part in ("DATE", "TIME")):
            return True
        return _find_affinity(found) not in _CHANGING.get(wanted, ())


def _find_affinity(kind: str) -> str:
    """Return the affinity of a column of a declared type, by which SQLite converts its values."""
    if not kind:
        return "BLOB"
    found = (to for part, to in _AFFINITIES.items() if part in kind.upper())
    return next(found, "NUMERIC")


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _join(names: Sequence[str]) -> str:
    return ", ".join(map(_quote, names))


def _as_stored(column: pl.Series) -> pl.Series:
    """Return a column with values that SQLite stores."""
    dtype = column.dtype
    if isinstance(dtype, pl.Datetime):
        return format_times(column, "%Y-%m-%dT%H:%M:%S%.6f")
    if isinstance(dtype, pl.Duration):
        return column.dt.total_microseconds()
    if isinstance(dtype, (pl.Date, pl.Decimal)):
        return column.cast(pl.String)
    return column
