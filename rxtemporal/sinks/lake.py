"""Sinks that write into tables of a data lake: few large commits, each row once."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import Span, span
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, StoppedError
from rxtemporal.sinks.positioned import take_rest
from rxtemporal.sinks.table import TableSink

_log = get_logger(__name__)
# other types of fields are those of columns
_TYPES: dict[type[pl.DataType], pl.DataType] = {pl.Duration: pl.Int64(), pl.Null: pl.String()}


class LakeSink(TableSink):
    """Base class of sinks that hold rows until a commit is worth its files.

    A commit has the rows and the position of the run. The rows that are held are part of each
    checkpoint; those of them that were committed after it are before the position. ``write``,
    ``save`` and the commit that ``every`` makes due may be in three threads.
    """

    def __init__(
        self, table: str, rows: int, every: Span, form: TimeForm | None, patience: float
    ) -> None:
        super().__init__(table, None, form, patience)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ArgumentError(f"rows is a positive number of rows, got {rows!r}")
        self._most = rows
        self._seconds = span(every, "every", least=1) / 1e6
        self._held: list[EventBatch] = []
        self._held_rows = 0
        # those that are being committed
        self._taken: list[EventBatch] = []
        # held for a moment while rows are added, saved or taken away; and during a commit
        self._turn, self._commits = threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None
        # the error of a commit in the timer's thread, and of one before the run was saved last
        self._failure: Exception | None = None
        self._unsettled: Exception | None = None
        # the columns of the table, once it is there
        self._columns: Mapping[str, pl.DataType] | None = None

    def open(self, query: str, schema: pl.Schema) -> None:
        """Connect, and check what is there; rows of a checkpoint are held again."""
        if not self._is_loaded:
            self._held = []
        self._held_rows = sum(map(len, self._held))
        self._failure = self._unsettled = None
        super().open(query, schema)
        if self._held:
            self._start_timer()

    def write(self, batch: EventBatch) -> None:
        """Hold the rows; commit if they are many."""
        if self._failure is not None:
            raise self._failure
        if not len(batch):
            return
        with self._turn:
            self._held.append(batch)
            self._held_rows += len(batch)
            if self.undelivered_since is None:
                self.undelivered_since = time.monotonic()
            count = self._held_rows
        if count >= self._most:
            self._commit()
        elif self._timer is None:
            self._start_timer()

    def close(self, error: BaseException | None) -> None:
        """Commit the rows that are held, unless the run continues from a checkpoint with them."""
        self._stop_timer()
        try:
            if error is None:
                self._commit()
            elif self._unsettled is not None:
                raise self._unsettled
            elif isinstance(error, StoppedError) or not self._is_saved:
                self._commit(is_patient=False)
        finally:
            super().close(error)

    def settle(self) -> bool:
        """Commit the rows that are held; if that fails, they are in the state, and ``close`` tells.

        Nor is a commit waited for that is on its way: it may try for long.
        """
        if not self._commits.acquire(blocking=False):
            return False
        try:
            return self._commit_held(is_patient=False)
        except Exception as error:
            self._unsettled = error
            return False
        finally:
            self._commits.release()

    def save(self) -> Callable[[], bytes]:
        """Return a function that returns the id of the run, its position, and the rows held."""
        with self._turn:
            held = [*self._held]
        numbers = [each.number for each in held]
        return Captured("lake table", [self._save_run(), held, numbers]).dumps

    def load(self, state: bytes) -> None:
        """Continue the run with this id, and these rows."""
        # a release before did not number
        run, held, *numbers = loads("lake table", state)
        super().load(run)
        self._held = [*held]
        for batch, number in zip(held, numbers[0] if numbers else (), strict=False):
            batch.set_number(number)

    # Commits --------------------------------------------------------------------------------------

    def _commit(self, *, is_patient: bool = True) -> None:
        """Write all rows that are held, in one commit; one that is not patient tries once."""
        self._stop_timer()
        with self._commits:
            self._commit_held(is_patient=is_patient)

    def _commit_held(self, *, is_patient: bool) -> bool:
        """Commit what is held; return False if it is nothing. The lock of commits is held."""
        with self._turn:
            held = [*self._held]
        if not held:
            return False
        self._taken, batch = held, EventBatch.concat(held)
        batch.set_number(held[-1].number)
        if is_patient:
            self._write_patiently(batch)
        else:
            self._write_once(batch)
        with self._turn:
            del self._held[: len(held)]
            self._held_rows -= len(batch)
            self.undelivered_since = time.monotonic() if self._held else None
        return True

    def _write_once(self, batch: EventBatch) -> None:
        try:
            self._connect_once()
            self._write_rest(batch)
        except BaseException:
            self._is_connected = False  # the position has to be read again: it may be there
            raise

    def _write_rest(self, batch: EventBatch) -> None:
        """Write the rows from the position on; numbered batches are there as a whole, or not."""
        if batch.number is not None:
            rest = [each for each in self._taken if len(take_rest(each, self._position))]
            number, batch = batch.number, EventBatch.concat(rest or self._taken[-1:])
            batch.set_number(number)
        super()._write_rest(batch)

    def _start_timer(self) -> None:
        self._timer = threading.Timer(self._seconds, self._commit_in_time)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            if timer is not threading.current_thread():
                timer.join()

    def _commit_in_time(self) -> None:
        try:
            self._commit()
        except Exception as error:  # the next call of the run raises it
            if error is self._error:
                return
            self._failure = error
            _log.error("sink.failed", sink=repr(self), query=self._query, error=str(error))

    # Columns --------------------------------------------------------------------------------------

    def _find_columns(self) -> dict[str, str] | None:
        found = self._read_columns()
        if found is None:
            return None
        self._columns = found
        return {name: str(dtype) for name, dtype in self._columns.items()}

    def _create(self, columns: Mapping[str, str]) -> None:
        times = dict.fromkeys(list(columns)[:2], self._find_time_type(self._form()))
        fields = {name: self._find_type(dtype) for name, dtype in self._schema.items()}
        self._columns = times | fields
        self._make(pl.Schema(self._columns))

    def _store(self, frame: pl.DataFrame, position: int) -> None:
        assert self._columns is not None
        columns = [
            (pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)).alias(name)
            for name, dtype in self._columns.items()
        ]
        self._append(frame.select(columns), position)

    def _has_key(self) -> bool:
        return True

    def _name_type(self, dtype: pl.DataType) -> str:
        return str(self._find_type(dtype))

    def _name_time_type(self, form: TimeForm) -> str:
        return str(self._find_time_type(form))

    def _accepts(self, found: str, wanted: str) -> bool:
        return found == wanted

    @staticmethod
    def _find_time_type(form: TimeForm) -> pl.DataType:
        return pl.Int64() if form == "ticks" else pl.Datetime("us", "UTC")

    def _find_type(self, dtype: pl.DataType) -> pl.DataType:
        """Return the type of a column for a field: a span is a number of microseconds."""
        if isinstance(dtype, pl.Datetime):
            return pl.Datetime("us", None if dtype.time_zone is None else "UTC")
        return _TYPES.get(type(dtype), dtype)

    # The table ------------------------------------------------------------------------------------

    @abstractmethod
    def _read_columns(self) -> Mapping[str, pl.DataType] | None:
        """Return the columns of the table; None if there is no table."""

    @abstractmethod
    def _make(self, schema: pl.Schema) -> None:
        """Create the table, or open the one that somebody else has created by now."""

    @abstractmethod
    def _append(self, frame: pl.DataFrame, position: int) -> None:
        """Add rows, which have the columns of the table, and the position, in one commit."""
