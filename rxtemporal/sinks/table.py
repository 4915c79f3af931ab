"""Sinks that write into a table of a database, each row once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, TimeForm
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, SchemaError, SpoolError
from rxtemporal.sinks.positioned import PositionedSink, as_names, check_names

# seconds that one attempt waits for the lock of another connection
LOCKED_SECONDS = 5.0
# the table with the position of each run
POSITIONS = "rxtemporal_positions"


def check_table(table: object) -> None:
    """Raise ``ArgumentError`` for what cannot be the name of a table."""
    if not isinstance(table, str) or not all(table.split(".")):
        raise ArgumentError(f"table is a name, got {table!r}")


def format_times(column: pl.Series, form: str) -> pl.Series:
    """Return datetimes as texts of a form; those with a zone in UTC, with their offset behind.

    Offsets of before standard time have seconds, which a text of another zone would lack.
    """
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        column, form = column.dt.convert_time_zone("UTC"), f"{form}%:z"
    return column.dt.strftime(form)


class TableSink(PositionedSink):
    """Base class of sinks that write into a table, with the position of the run beside it.

    Rows and position are written in one transaction, so a run that delivers rows again, after a
    crash or a lost connection, adds none of them twice.
    """

    def __init__(
        self, table: str, key: str | Sequence[str] | None, time: TimeForm | None, patience: float
    ) -> None:
        super().__init__(time, patience)
        self.table = table
        self.key = as_names(key)
        self._is_checked = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r})"

    def close(self, error: BaseException | None) -> None:
        """Create the table of a query without results, and disconnect."""
        try:
            if error is None and self._is_connected:
                self._prepare()
                if not self._is_saved:
                    self._forget()
        finally:
            self._is_checked = False
            super().close(error)

    # Rows -----------------------------------------------------------------------------------------

    @property
    def _place(self) -> str:
        return f"the database of table {self.table!r}"

    def _begin(self) -> None:
        check_names("key=", self.key, self._schema)

    def _check_place(self) -> None:
        if not self._is_checked and (columns := self._find_columns()) is not None:
            self._check(columns, self._list_payload())

    def _deliver(self, rows: EventBatch, position: int) -> None:
        self._prepare()
        frame = rows.to_polars(self._form())
        if self.key:
            frame = frame.unique(self.key, keep="last", maintain_order=True)
        self._store(frame, position)

    # Columns --------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the table if it is missing, and check its columns.

        Those of the times, whose form is known by now; and all others, too, since somebody else may
        have created the table after this run has connected.
        """
        if self._is_checked:
            return
        times = dict.fromkeys((START, END), self._name_time_type(self._form()))
        wanted = times | self._list_payload()
        columns = self._find_columns()
        if columns is None:
            if self._position > MIN_TIME:
                raise SpoolError(
                    f"there is no table {self.table!r}, and this run has written rows, which are "
                    "lost or in a table of another name. Hint: restore it, or give its name; or "
                    "begin with a new folder and a new table."
                )
            self._create(wanted)
            columns = self._find_columns()
        if columns is not None:
            self._check(columns, wanted)
        self._is_checked = True

    def _list_payload(self) -> dict[str, str]:
        return {name: self._name_type(dtype) for name, dtype in self._schema.items()}

    def _check(self, found: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Raise an error that says what differs."""
        wrong = [f"it has no {name} ({kind})" for name, kind in wanted.items() if name not in found]
        wrong += [
            f"{name} is {found[name]}, not {kind}"
            for name, kind in wanted.items()
            if name in found and not self._accepts(found[name], kind)
        ]
        if wrong:
            raise SchemaError(
                f"table {self.table!r} does not fit query {self._query!r}: {'; '.join(wrong)}. "
                "Hint: alter the table, or select() the fields as it has them."
            )
        if self.key and not self._has_key():
            raise SchemaError(
                f"table {self.table!r} has no primary key or unique index over {self.key}. Hint: "
                "create one, or leave key= out."
            )

    # The database ---------------------------------------------------------------------------------

    @abstractmethod
    def _forget(self) -> None:
        """Delete the position of a run that cannot be resumed."""

    @abstractmethod
    def _find_columns(self) -> dict[str, str] | None:
        """Return the types of the columns by name; None if the table does not exist."""

    @abstractmethod
    def _has_key(self) -> bool:
        """Return True if the table has a unique index over the key."""

    @abstractmethod
    def _create(self, columns: Mapping[str, str]) -> None:
        """Create the table, unless somebody else has done it by now."""

    @abstractmethod
    def _store(self, frame: pl.DataFrame, position: int) -> None:
        """Write rows and position in one transaction."""

    @abstractmethod
    def _name_type(self, dtype: pl.DataType) -> str:
        """Return the type of a column for a field."""

    @abstractmethod
    def _name_time_type(self, form: TimeForm) -> str:
        """Return the type of a column of times."""

    @abstractmethod
    def _accepts(self, found: str, wanted: str) -> bool:
        """Return True if a column of one type takes all values of another one."""
