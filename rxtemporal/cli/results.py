"""Where the command line's results go: onto the screen as a table, or into a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import EventShape
from rxtemporal.errors import ArgumentError
from rxtemporal.runtime.process import Process

_WRITES: dict[str, Callable[[pl.DataFrame, Path], None]] = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".parquet": lambda frame, path: frame.write_parquet(path),
    ".json": lambda frame, path: frame.write_ndjson(path),
    ".jsonl": lambda frame, path: frame.write_ndjson(path),
    ".ndjson": lambda frame, path: frame.write_ndjson(path),
}


class TableSink:
    """Prints rows as they come: their lifetimes, then their fields, in columns."""

    shape = EventShape.INTERVAL

    def __init__(self, time: TimeForm, out: TextIO) -> None:
        self._time = time
        self._out = out
        self._widths: list[int] = []

    def open(self, name: str, schema: pl.Schema) -> None:
        """Begin; the heading comes with the first rows, which show how wide columns are."""

    def write(self, batch: EventBatch) -> None:
        """Print the rows of one batch."""
        if not len(batch):
            return
        frame = batch.to_polars(self._time)
        lines = [_cells(row) for row in frame.iter_rows()]
        if not self._widths:
            lines.insert(0, frame.columns)
            self._widths = [0] * frame.width
        columns = zip(self._widths, zip(*lines, strict=True), strict=True)
        self._widths = [max(width, *map(len, cells)) for width, cells in columns]
        for row in lines:
            cells = (cell.ljust(width) for cell, width in zip(row, self._widths, strict=True))
            print("  ".join(cells).rstrip(), file=self._out)

    def close(self, error: BaseException | None) -> None:
        """Have what was printed shown."""
        self._out.flush()


def _cells(row: tuple[Any, ...]) -> list[str]:
    start, end, *fields = map(_text, row)
    return [start, "never ends" if row[1] is None else end, *fields]


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return f"{value:g}" if isinstance(value, float) else str(value)


class FileSink:
    """Keeps the rows, and writes them as one file when the query has completed.

    CSV, Parquet or JSON lines, by how the file's name ends. A file of that name is replaced, and
    not before the new one is whole; a query that fails leaves it as it was.
    """

    shape = EventShape.INTERVAL

    def __init__(self, path: Path, time: TimeForm) -> None:
        if path.suffix.lower() not in _WRITES:
            raise ArgumentError(
                f"--out is a file that ends in {', '.join(_WRITES)}, got {str(path)!r}"
            )
        self._path, self._time = path, time
        self._schema = pl.Schema()
        self._batches: list[EventBatch] = []

    def open(self, name: str, schema: pl.Schema) -> None:
        """Note the fields."""
        self._schema = schema

    def write(self, batch: EventBatch) -> None:
        """Keep the rows of one batch."""
        if len(batch):
            self._batches.append(batch)

    def close(self, error: BaseException | None) -> None:
        """Write the file, if nothing went wrong."""
        if error is not None:
            return
        batches = self._batches or [EventBatch.empty(self._schema, 0)]
        frame = EventBatch.concat(batches).to_polars(self._time)
        aside = self._path.with_name(f".{self._path.name}.part")
        try:
            _WRITES[self._path.suffix.lower()](frame, aside)
            os.replace(aside, self._path)
        finally:
            aside.unlink(missing_ok=True)


def followed(process: Process, show: bool) -> None:
    """Wait for a process; on a terminal, show on standard error how far it has come."""
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    except ImportError:
        show = False
    if not show:
        process.wait()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replaying", total=None)
        while not process.wait(0.2):
            progress.update(task, description=summary(process))


def summary(process: Process) -> str:
    """Return in a line what came in, what was late and what went out."""
    told = process.diagnostics()
    late = ", ".join(f"{n:,} {reason.value}" for reason, n in told.late.items())
    return f"{told.events_in:,} events in, {late or 'none'} late, {told.rows_out:,} rows out"


def on_screen() -> bool:
    """Whether somebody is watching standard error."""
    return sys.stderr.isatty()
