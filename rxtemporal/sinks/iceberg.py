"""Sink that writes into an Iceberg table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.spans import Span
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.sinks.lake import LakeSink


class IcebergTable(LakeSink):
    """Sink that appends rows to an Iceberg table, without Spark; with ``resume=`` each row once.

    ``table`` is ``namespace.name``. ``catalog`` is the name of a catalog that the configuration of
    ``pyiceberg`` describes, or a mapping with its properties, for example
    ``{"type": "rest", "uri": "http://catalog:8181"}``. Columns: ``start_time``, ``end_time`` (null:
    never ends) and the fields; spans are microseconds, times have the zone UTC, and small integers
    are ``int``. Table and namespace are created if they are missing. A table that exists needs
    these columns, and its other ones get nulls. ``time`` is as in ``Print``.

    Rows are held and committed together, by ``rows`` and ``every``, as in ``DeltaTable``. A commit
    has the position of the run as a property of the table, ``rxtemporal.position.`` and the run's
    id, so results that a resumed run delivers again are recognized. A run without ``resume=``
    removes it at its end.

    When the catalog or the storage does not answer, the sink tries again for ``patience`` seconds;
    the query waits once ``rows`` rows are held, and with a hand-off producers do not. ``restarts``
    counts these attempts. Needs ``pip install 'rxtemporal[iceberg]'``.

    >>> IcebergTable("house.late_flights", {"type": "rest", "uri": "http://catalog:8181"})
    IcebergTable('house.late_flights')
    """

    def __init__(
        self,
        table: str,
        catalog: str | Mapping[str, str] = "default",
        *,
        rows: int = 100_000,
        every: Span = "10s",
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(table, str) or "." not in table or not all(table.split(".")):
            raise ArgumentError(f"table is namespace.name, got {table!r}")
        if not isinstance(catalog, (str, Mapping)):
            raise ArgumentError(
                f"catalog is the name of a catalog, or a mapping of its properties, got {catalog!r}"
            )
        super().__init__(table, rows, every, time, patience)
        self._name = catalog if isinstance(catalog, str) else "default"
        self._properties = {} if isinstance(catalog, str) else dict(catalog)
        self._catalog: Any = None
        self._table: Any = None

    @property
    def _place(self) -> str:
        return f"the Iceberg table {self.table!r}"

    @property
    def _key(self) -> str:
        return f"rxtemporal.position.{self._id}"

    def _connect(self) -> None:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchTableError
        except ImportError as error:
            raise BindingError(
                "IcebergTable needs pyiceberg. Hint: pip install 'rxtemporal[iceberg]'."
            ) from error

        if self._catalog is None:
            self._catalog = load_catalog(self._name, **self._properties)
        try:
            self._table = self._catalog.load_table(self.table)
        except NoSuchTableError:
            self._table = None

    def _disconnect(self) -> None:
        self._table = None
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None

    def _is_away(self, error: Exception) -> bool:
        from pyiceberg import exceptions

        away: list[type[Exception]] = [
            exceptions.CommitFailedException, exceptions.CommitStateUnknownException,
            exceptions.ServerError, exceptions.ServiceUnavailableError,
        ]  # fmt: skip
        try:  # the database of a catalog of type sql
            from sqlalchemy.exc import IntegrityError, OperationalError
        except ImportError:
            pass
        else:
            # it lets only one of two sinks create a namespace at the same moment
            away += [OperationalError, IntegrityError]
        # a folder of this machine that cannot be written is no outage
        is_local = isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError)
        return isinstance(error, (OSError, *away)) and not is_local

    def _find_position(self) -> int | None:
        found = None if self._table is None else self._table.properties.get(self._key)
        return None if found is None else int(found)

    def _forget(self) -> None:
        if self._table is not None and self._key in self._table.properties:
            with self._table.transaction() as transaction:
                transaction.remove_properties(self._key)

    def _read_columns(self) -> Mapping[str, pl.DataType] | None:
        if self._table is None:
            return None
        columns = pl.Schema(self._table.schema().as_arrow())
        return {name: _as_stored(dtype) for name, dtype in columns.items()}

    def _find_type(self, dtype: pl.DataType) -> pl.DataType:
        return _as_stored(super()._find_type(dtype))

    def _make(self, schema: pl.Schema) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        self._catalog.create_namespace_if_not_exists(self.table.rpartition(".")[0])
        columns = pl.DataFrame(schema=schema).to_arrow().schema
        try:
            self._table = self._catalog.create_table(self.table, schema=columns)
        except TableAlreadyExistsError:  # there was none when this sink connected
            self._table = self._catalog.load_table(self.table)

    def _append(self, frame: pl.DataFrame, position: int) -> None:
        with self._table.transaction() as transaction:
            transaction.append(frame.to_arrow())
            transaction.set_properties({self._key: str(position)})


def _as_stored(dtype: pl.DataType) -> pl.DataType:
    """Return the type that Iceberg has: it knows no small integers."""
    return pl.Int32() if isinstance(dtype, pl.Int8 | pl.Int16) else dtype
