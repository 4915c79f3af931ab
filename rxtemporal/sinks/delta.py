"""Sink that writes into a Delta table."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.spans import Span
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.sinks.formats import restore_os_errors
from rxtemporal.sinks.lake import LakeSink

# deltalake makes a URL of a path: it takes some characters for escapes, and panics at others
_NOT_IN_FOLDERS = re.compile(r"%[0-9A-Fa-f]{2}|[][\\^|\t\n\r]")


class DeltaTable(LakeSink):
    """Sink that appends rows to a Delta table, without Spark; with ``resume=`` each row once.

    ``path`` is a folder, or a URL such as ``s3://bucket/table``, for which ``storage_options`` are
    what the package ``deltalake`` takes. Columns: ``start_time``, ``end_time`` (null: never ends)
    and the fields; spans are microseconds, and times have the zone UTC. The table is created if it
    is missing. One that exists needs these columns, and its other ones get nulls. ``time`` is as in
    ``Print``.

    Each commit makes files, so rows are held, and committed together: as soon as there are ``rows``
    of them, ``every`` after the first one (by the wall clock), and when the run ends or is stopped.
    Until then readers of the table do not see them. Until then they are also part of each
    checkpoint. A commit has the position of the run as an application transaction of Delta, so
    results that a resumed run delivers again are recognized.

    When the storage does not answer, the sink tries again for ``patience`` seconds; the query waits
    once ``rows`` rows are held, and with a hand-off producers do not. ``restarts`` counts these
    attempts. Old files are yours to compact and delete, by ``optimize`` and ``vacuum`` of
    ``deltalake``. Needs ``pip install 'rxtemporal[delta]'``.

    >>> DeltaTable("tables/late_flights", every="1m")
    DeltaTable('tables/late_flights')
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int = 100_000,
        every: Span = "10s",
        storage_options: Mapping[str, str] | None = None,
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ArgumentError(f"path is the folder or the URL of a Delta table, got {path!r}")
        self.path = os.fspath(path)
        _check_characters(self.path)
        super().__init__(self.path, rows, every, time, patience)
        self._options = None if storage_options is None else dict(storage_options)
        self._table: Any = None

    def __repr__(self) -> str:
        return f"DeltaTable({self.path!r})"

    @property
    def _place(self) -> str:
        return f"the Delta table {self.path!r}"

    def _connect(self) -> None:
        try:
            import deltalake
        except ImportError as error:
            raise BindingError(
                "DeltaTable needs deltalake. Hint: pip install 'rxtemporal[delta]'."
            ) from error

        if deltalake.DeltaTable.is_deltatable(self.path, self._options):
            self._table = deltalake.DeltaTable(self.path, storage_options=self._options)

    def _disconnect(self) -> None:
        self._table = None

    def _is_away(self, error: Exception) -> bool:
        from deltalake.exceptions import CommitFailedError

        # a folder of this machine that cannot be written is no outage
        is_local = isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError)
        return isinstance(error, OSError | CommitFailedError) and not is_local

    def _find_position(self) -> int | None:
        found = None if self._table is None else self._table.transaction_version(self._id)
        return None if found is None else int(found)

    def _forget(self) -> None:
        """Leave the position: a transaction of Delta cannot be deleted, and its id is unique."""

    def _read_columns(self) -> Mapping[str, pl.DataType] | None:
        return None if self._table is None else pl.Schema(self._table.schema().to_arrow())

    def _make(self, schema: pl.Schema) -> None:
        self._connect()  # there was none when this sink connected
        if self._table is None:
            self._write(pl.DataFrame(schema=schema), None)
            self._connect()

    def _append(self, frame: pl.DataFrame, position: int) -> None:
        from deltalake import CommitProperties, Transaction

        self._write(frame, CommitProperties(app_transactions=[Transaction(self._id, position)]))

    def _write(self, frame: pl.DataFrame, commit: Any) -> None:
        from deltalake import write_deltalake

        with restore_os_errors(self.path):
            write_deltalake(
                self.path if self._table is None else self._table,
                frame,
                mode="append",
                storage_options=self._options,
                commit_properties=commit,
            )


def _check_characters(path: str) -> None:
    """Raise ``ArgumentError`` for a folder that deltalake takes for another one, or panics at."""
    folder = os.path.abspath(path)
    if "://" not in path and (bad := _NOT_IN_FOLDERS.search(folder)):
        raise ArgumentError(
            f"deltalake cannot write to a folder with {bad[0]!r} in its path, got {folder!r}. "
            "Hint: give the table a folder without it."
        )
