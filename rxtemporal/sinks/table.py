"""Sinks that write into a table of a database, each row once."""

from __future__ import annotations

import threading
import uuid
from abc import abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import END, START, EventBatch, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, RxTemporalError, SchemaError, SpoolError
from rxtemporal.sinks.backoff import Backoff
from rxtemporal.sinks.sink import ReadySink

_log = get_logger(__name__)
# the table with the position of each run
POSITIONS = "rxtemporal_positions"


class TableSink(ReadySink):
    """Base class of sinks that write into a table, with the position of the run beside it.

    Rows are in interval shape: they are final, and come in order of their starts. The position is
    the CTI before which the table has all rows. Rows and position are written in one transaction,
    so a run that delivers rows again, after a crash or a lost connection, adds none of them twice.

    A run is known by an id, which is saved in its checkpoints.
    """

    def __init__(
        self, table: str, key: str | Sequence[str] | None, time: TimeForm | None, patience: float
    ) -> None:
        super().__init__(time)
        if not isinstance(table, str) or not all(table.split(".")):
            raise ArgumentError(f"table is a name, got {table!r}")
        if not patience >= 0:
            raise ArgumentError(f"patience is a number of seconds, got {patience!r}")
        self.table = table
        self.key = [key] if isinstance(key, str) else [*(key or ())]
        self._patience = patience
        self._query, self._schema = "", pl.Schema()
        # the run's id, and two states: loaded from a checkpoint, part of one
        self._id = ""
        self._is_loaded = self._is_saved = False
        self._position = MIN_TIME
        self._is_connected = self._is_checked = False
        self._cancelled = threading.Event()
        self._error: BaseException | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.table!r})"

    def open(self, query: str, schema: pl.Schema) -> None:
        """Connect, and check the columns of a table that exists.

        ``SchemaError``: columns are missing or have other types. ``SpoolError``: the table or its
        position lacks rows that an earlier run has written.
        """
        self._query, self._schema = query, schema
        if missing := [name for name in self.key if name not in (START, END, *schema)]:
            raise ArgumentError(
                f"key= names {missing[0]!r}, which no column of the results has; they are "
                f"{[START, END, *schema]}"
            )
        if not self._is_loaded:
            self._id, self._position = uuid.uuid4().hex, MIN_TIME
        self._is_saved, self._is_loaded = self._is_loaded, False
        self._cancelled.clear()
        self._error = None
        self._connect_once()

    def write(self, batch: EventBatch) -> None:
        """Add the rows that the table does not have, in one transaction.

        Costs one transaction for each batch with rows.
        """
        if len(batch):
            self._write_patiently(batch)

    def close(self, error: BaseException | None) -> None:
        """Create the table of a query without results, and disconnect."""
        super().close(error)
        try:
            if error is None and self._is_connected:
                self._prepare()
                if not self._is_saved:
                    self._forget()
        finally:
            self._is_connected = self._is_checked = False
            self._disconnect()

    def cancel(self, error: BaseException) -> None:
        """Make a ``write`` that waits for the database raise this error."""
        self._error = error
        self._cancelled.set()

    def save(self) -> bytes:
        """Return the id of the run, and the position that the table has at least."""
        self._is_saved = True
        return f"{self._id} {self._position}".encode()

    def load(self, state: bytes) -> None:
        """Continue the run with this id."""
        self._id, position = state.decode().split()
        self._position, self._is_loaded = int(position), True

    # Attempts -------------------------------------------------------------------------------------

    def _write_patiently(self, batch: EventBatch) -> None:
        """Write a batch; connect and try again while the database is away."""
        backoff = Backoff(self._patience)
        while True:
            if self._error is not None:
                raise self._error
            try:
                self._connect_once()
                self._write_rest(batch)
                return
            except Exception as error:
                self._is_connected = False
                if not self._is_away(error):
                    raise
                self._wait(backoff, error)

    def _wait(self, backoff: Backoff, error: Exception) -> None:
        wait = backoff.next()
        if wait is None:
            raise RxTemporalError(
                f"the database of table {self.table!r} has not answered for {self._patience:g} "
                f"seconds: {error}. Hint: raise patience=; a run with resume= continues from its "
                "checkpoint."
            ) from error
        self.restarts += 1
        _log.warning("table.again", table=self.table, query=self._query, error=str(error))
        self._cancelled.wait(wait)

    def _connect_once(self) -> None:
        if self._is_connected:
            return
        self._disconnect()
        self._connect()
        found = self._find_position()
        found = MIN_TIME if found is None else found
        if found < self._position:
            raise SpoolError(
                f"{POSITIONS} has lost the position of this run in table {self.table!r}: rows may "
                "be missing. Hint: restore the database, or begin with a new folder and table."
            )
        self._position = found
        if not self._is_checked and (columns := self._find_columns()) is not None:
            self._check(columns, self._list_payload())
        self._is_connected = True

    def _write_rest(self, batch: EventBatch) -> None:
        """Write the rows from the position on."""
        if batch.cti <= self._position:
            return
        begin = int(np.searchsorted(batch.start, self._position))
        if begin < len(batch):
            self._prepare()
            rows = batch.slice(begin, len(batch)) if begin else batch
            frame = rows.to_polars(self._form())
            if self.key:
                frame = frame.unique(self.key, keep="last", maintain_order=True)
            self._store(frame, batch.cti)
            self._position = batch.cti

    # Columns --------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Create the table, or check the columns of the times, whose form is known by now."""
        if self._is_checked:
            return
        times = dict.fromkeys((START, END), self._name_time_type(self._form()))
        columns = self._find_columns()
        if columns is None:
            self._create(times | self._list_payload())
        else:
            self._check(columns, times)
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
    def _connect(self) -> None:
        """Connect, and create the table of positions."""

    @abstractmethod
    def _disconnect(self) -> None:
        """Close the connection, if there is one."""

    @abstractmethod
    def _is_away(self, error: Exception) -> bool:
        """Return True if a later attempt may succeed."""

    @abstractmethod
    def _find_position(self) -> int | None:
        """Return the position of the run; None if it has none."""

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
        """Create the table."""

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
