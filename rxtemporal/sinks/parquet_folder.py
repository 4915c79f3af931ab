"""Sink that adds Parquet files to a folder, for readers that take each file once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import polars as pl

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError
from rxtemporal.sinks.formats import publish_parquet
from rxtemporal.sinks.lake import LakeSink

# the position after the rows, from MIN_TIME, so that names are in the order of positions; the run
_NAME = re.compile(r"(\d{20})-([0-9a-f]{32})\.parquet")


class ParquetFolder(LakeSink):
    """Sink that adds Parquet files to a folder, which never change; with ``resume=`` each row once.

    A file appears at once, with all its rows, and is neither written again nor deleted, also after
    a crash. So another program may read the files as they come, each once: Spark's
    ``readStream.parquet(folder)`` for example. (An ``AppendFile`` takes files back after a crash.)

    Rows are held, and written together: as soon as there are ``rows`` of them, ``every`` after the
    first one (by the wall clock), and when the run ends or is stopped. Until then they are part of
    each checkpoint. The name of a file has the id of the run and its position after the file, by
    which results that a resumed run delivers again are recognized. So a reader may delete files,
    but the newest of each id has to stay: without it the run is refused with a ``SpoolError``.

    Columns: ``start_time``, ``end_time`` (null: never ends) and the fields; spans are microseconds,
    and times have the zone UTC. Several runs may write into one folder. ``time`` is as in
    ``Print``, ``patience`` as in ``DeltaTable``. Costs a sync to disk for each file.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> with rxt.from_events([rxt.PointEvent(1, {"x": 5})]).run(rxt.ParquetFolder(folder.name)):
    ...     pass
    >>> pl.read_parquet(folder.name).rows()
    [(1, 2, 5)]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        rows: int = 100_000,
        every: Span = "10s",
        time: TimeForm | None = None,
        patience: float = 60.0,
    ) -> None:
        if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            raise ArgumentError(f"path is a folder, got {path!r}")
        self.path = Path(path)
        super().__init__(str(self.path), rows, every, time, patience)

    @property
    def _place(self) -> str:
        return f"the folder {self.table!r}"

    def _connect(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        # of a file that was being written when the process died
        for aside in self.path.glob(f".*-{self._id}.parquet.part"):
            aside.unlink(missing_ok=True)

    def _disconnect(self) -> None:
        """Leave the folder: nothing is open between two files."""

    def _is_away(self, error: Exception) -> bool:
        # a folder that cannot be written is no outage
        is_local = isinstance(error, PermissionError | FileNotFoundError | NotADirectoryError)
        return (
            isinstance(error, OSError) and not is_local and not isinstance(error, FileExistsError)
        )

    def _list_files(self) -> Iterator[tuple[int, str, Path]]:
        """Yield the position, the id of the run and the path of each file."""
        for path in self.path.iterdir() if self.path.is_dir() else ():
            if found := _NAME.fullmatch(path.name):
                yield int(found[1]) + MIN_TIME, found[2], path

    def _find_position(self) -> int | None:
        own = (position for position, run, _ in self._list_files() if run == self._id)
        return max(own, default=None)

    def _forget(self) -> None:
        """Leave the position: it is the name of a file, and its id is unique."""

    def _read_columns(self) -> Mapping[str, pl.DataType] | None:
        if not self.path.is_dir():
            return None
        path = next(iter(sorted(self.path.glob("*.parquet"), reverse=True)), None)
        if path is None:
            return None
        # read_parquet_schema takes some characters of a path for patterns
        return pl.scan_parquet(path, glob=False).collect_schema()

    def _make(self, schema: pl.Schema) -> None:
        self._append(pl.DataFrame(schema=schema), MIN_TIME)

    def _append(self, frame: pl.DataFrame, position: int) -> None:
        publish_parquet(frame, self.path / f"{position - MIN_TIME:020}-{self._id}.parquet")
