"""Sinks: receivers of the results of a running query."""

from __future__ import annotations

import io
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.errors import ArgumentError, CheckpointError, StoppedError
from rxtemporal.ingress.unpacker import Unpacker

__all__ = ["Collect", "File", "Print", "Sink"]


class Sink(ABC):
    """Base class of sinks. A sink gets the batches of one query, one call at a time.

    1. ``open`` is called once, first; an exception in it keeps the query from starting.
    2. ``write`` gets the batches in order, in the sink's ``shape``. In interval shape every row is
       complete (or endless, with ``end = MAX_TIME``), and after a batch with CTI ``t`` exactly the
       rows with ``start < t`` have been written. An exception in it ends the query.
    3. ``close`` is called once, last, if ``open`` succeeded; it returns when all rows are safe.

    Only ``write`` has to be defined; the other methods do nothing unless a class overrides them.
    A sink whose ``write`` or ``close`` may wait for long overrides ``cancel``; one that calls user
    code in its own threads overrides ``in_callback``; one that takes part in a run with
    ``resume=`` overrides ``save`` and ``load``.
    """

    shape: EventShape = EventShape.INTERVAL
    """The shape in which the sink gets its rows; a class or an instance may set another one."""

    restarts: int = 0
    """How often the sink has restarted what it writes to, a worker or a connection."""

    def __repr__(self) -> str:
        path = f"{str(self.path)!r}, " if hasattr(self, "path") else ""
        return f"{type(self).__name__}({path}{self.shape.value} shape)"

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:  # noqa: B027
        """Set the function that returns the form of the sources' times; called before ``open``."""

    def open(self, query: str, schema: pl.Schema) -> None:  # noqa: B027
        """Prepare for the query with this name, whose payload has this schema."""

    @abstractmethod
    def write(self, batch: EventBatch) -> None:
        """Write one batch."""

    def close(self, error: BaseException | None) -> None:  # noqa: B027
        """Finish; ``error`` is None if the query completed, else the error that ended it.

        It is a ``StoppedError`` if the process was stopped: then nothing has failed, and what has
        been written is to be kept.
        """

    def cancel(self, error: BaseException) -> None:  # noqa: B027
        """Make a ``write`` or ``close`` that waits raise this error; called from any thread."""

    def in_callback(self) -> bool:
        """Return True if this thread is running user code that the sink called."""
        return False

    def save(self) -> bytes | Callable[[], bytes]:
        """Return the sink's part of a checkpoint: the state that ``load`` needs to resume.

        A run with ``resume=`` calls it before the first row, too, after the first ``open``: a
        crash before its first checkpoint leads back to there.

        The query waits meanwhile. What takes long, such as a sync to disk, is left to a function:
        another thread calls it once, while ``write`` may go on, and it returns the state.
        """
        return b""

    def load(self, state: bytes) -> None:
        """Resume from a state that ``save`` returned; called before ``open``.

        The batches since that checkpoint follow; the sink may have written some of them before.
        """
        raise CheckpointError(
            "the checkpoint has a state of the run's sink, and this sink cannot load one. "
            "Hint: resume with the kind of sink that the run was started with."
        )


class _ReadySink(Sink):
    """Sink with one form of times, by default that of the query's sources."""

    def __init__(self, time: TimeForm | None, shape: EventShape = EventShape.INTERVAL) -> None:
        self.shape = shape
        self._time = time
        self._source_time: Callable[[], TimeForm] = lambda: "datetime"

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self._source_time = form

    def close(self, error: BaseException | None) -> None:
        """Keep the form of times, but no reference to the run."""
        form = self._source_time()
        self._source_time = lambda: form

    def _form(self, time: TimeForm | None = None) -> TimeForm:
        return time or self._time or self._source_time()


class Collect(_ReadySink):
    """Sink that keeps all results in memory, as batches.

    ``time=`` of its methods is the form of times, by default that of the query's sources.

    >>> import rxtemporal as rxt
    >>> results = rxt.Collect()
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1})]).run(results):
    ...     pass
    >>> results.to_events()
    [IntervalEvent(4, 5, {'x': 1})]
    """

    def __init__(self, shape: EventShape = EventShape.INTERVAL) -> None:
        super().__init__(None, shape)
        self.batches: list[EventBatch] = []
        self._schema = pl.Schema()

    def __repr__(self) -> str:
        return f"Collect({self.shape.value} shape, {sum(map(len, self.batches)):,} rows)"

    def open(self, query: str, schema: pl.Schema) -> None:
        """Keep the schema, for a query without results."""
        self._schema = schema

    def write(self, batch: EventBatch) -> None:
        """Keep the batch."""
        self.batches.append(batch)

    @property
    def batch(self) -> EventBatch:
        """All results so far as one batch; in edge shape it has start edges and end edges."""
        return EventBatch.concat(self.batches or [EventBatch.empty(self._schema, 0)])

    def to_polars(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Return the results so far as a frame, in order of arrival."""
        return self.batch.to_polars(self._form(time))

    def to_dicts(self, *, time: TimeForm | None = None) -> list[dict[str, Any]]:
        """Return the results so far as dicts with start_time, end_time and the fields."""
        return self.batch.to_dicts(self._form(time))

    def to_events(self, *, time: TimeForm | None = None) -> list[Event]:
        """Return the results so far as events."""
        return Unpacker(self.shape, False, lambda: self._form(time)).list_events(self.batch)


class Print(_ReadySink):
    """Sink that prints rows as they come, in columns: their lifetimes, then their fields.

    ``time`` is the form of times, by default that of the query's sources. The output goes to
    ``file``, by default standard output.

    >>> import rxtemporal as rxt
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1})]).run(rxt.Print()):
    ...     pass
    start_time  end_time  x
    4           5         1
    """

    def __init__(
        self,
        *,
        shape: EventShape = EventShape.INTERVAL,
        time: TimeForm | None = None,
        file: TextIO | None = None,
    ) -> None:
        super().__init__(time, shape)
        self._file = file
        self._widths: list[int] = []
        self._error: BaseException | None = None

    def write(self, batch: EventBatch) -> None:
        """Print the rows, before the first ones a heading; columns grow wider as needed."""
        for frame in batch.to_polars(self._form()).iter_slices(1_000):
            if self._error is not None:
                raise self._error
            self._print(frame)

    def cancel(self, error: BaseException) -> None:
        """Let a ``write`` stop after the rows that it is printing."""
        self._error = error

    def _print(self, frame: pl.DataFrame) -> None:
        from rxtemporal.text.plain_text import align, format_value, make_visible, measure_columns

        lines = [self._cells(row, format_value) for row in frame.iter_rows()]
        if not self._widths:
            lines.insert(0, [*map(make_visible, frame.columns)])
        self._widths = measure_columns(lines, self._widths)
        print("\n".join(align(lines, widths=self._widths)), file=self._file)

    def close(self, error: BaseException | None) -> None:
        """Flush the output."""
        super().close(error)
        (self._file or sys.stdout).flush()

    def _cells(self, row: tuple[Any, ...], format_value: Callable[[Any], str]) -> list[str]:
        start, end, *fields = map(format_value, row)
        if row[1] is None:
            end = "open" if self.shape is EventShape.EDGE else "never ends"
        return [start, end, *fields]


class File(_ReadySink):
    """Sink that writes one file: Parquet, CSV or JSON lines, as the suffix of its name says.

    The suffix is ``.parquet``, ``.csv``, or ``.json``, ``.jsonl`` or ``.ndjson`` for JSON lines.

    Rows are written into a hidden file beside it (``.NAME.part``) as they come. When the query has
    completed or the process is stopped, the rows so far replace the file atomically. A run that
    fails leaves the file as it was. In a run with ``resume=`` the hidden file stays until the query
    has completed, and the next run continues it: each row is in the result once.

    ``time`` is as in ``Print``. A Parquet result has to fit into memory at the end.
    """

    def __init__(self, path: str | os.PathLike[str], *, time: TimeForm | None = None) -> None:
        super().__init__(time)
        self.path = Path(path)
        if self.path.suffix.lower() not in _APPENDS:
            raise ArgumentError(
                f"the name of a result file ends in {', '.join(_APPENDS)}, got {str(path)!r}"
            )
        self._append = _APPENDS[self.path.suffix.lower()]
        self._part = self.path.with_name(f".{self.path.name}.part")
        self._file: BinaryIO | None = None
        self._schema = pl.Schema()
        # the hidden file's length in the checkpoint, and two states: complete, part of a checkpoint
        self._end: int | None = None
        self._complete = self._in_checkpoint = False

    def open(self, query: str, schema: pl.Schema) -> None:
        """Create the hidden file, or cut off the rows written after the checkpoint."""
        self._schema = schema
        if self._complete:
            return
        if self._end is None:
            self._file = self._create()
            if self._append is _append_csv:
                self._empty().write_csv(self._file)
            return
        if not self._part.exists() or self._part.stat().st_size < self._end:
            raise CheckpointError(
                f"{self._part} lacks rows that the run wrote before its checkpoint. "
                "Hint: restore the file, or begin with a new folder."
            )
        self._file = self._part.open("r+b")
        self._file.truncate(self._end)
        self._file.seek(self._end)

    def _create(self) -> BinaryIO:
        try:
            return self._part.open("wb")
        except FileNotFoundError as error:
            folder = str(self.path.parent)
            raise FileNotFoundError(
                error.errno, "the folder of the result file does not exist", folder
            ) from None

    def write(self, batch: EventBatch) -> None:
        """Append the rows of one batch."""
        if len(batch) and self._file is not None:
            self._append(batch.to_polars(self._form()), self._file)

    def close(self, error: BaseException | None) -> None:
        """Replace the file if the query has completed or the process was stopped."""
        super().close(error)
        if self._file is None:
            return
        try:
            self._flush(self._file)
            self._file.close()
            if error is None:
                self._replace()
                self._complete = True
            elif isinstance(error, StoppedError):
                self._replace(goes_on=self._in_checkpoint)
        finally:
            if self._complete or not self._in_checkpoint:
                self._part.unlink(missing_ok=True)

    def save(self) -> bytes | Callable[[], bytes]:
        """Return a function that writes the rows to disk and returns the hidden file's length."""
        self._in_checkpoint = True
        if self._complete:
            return b"complete"
        if self._file is not None and not self._file.closed:
            self._file.flush()
            self._end = self._file.tell()
            return partial(_sync_up_to, self._file, self._end)
        return b"" if self._end is None else str(self._end).encode()

    def load(self, state: bytes) -> None:
        """Resume at the length that ``save`` returned."""
        self._in_checkpoint = True
        self._complete = state == b"complete"
        self._end = None if self._complete else int(state)

    def _empty(self) -> pl.DataFrame:
        return EventBatch.empty(self._schema, 0).to_polars(self._form())

    @staticmethod
    def _flush(file: BinaryIO) -> int:
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def _replace(self, *, goes_on: bool = False) -> None:
        """Replace the file by the rows so far; ``goes_on``: the hidden file is continued."""
        if self._append is not _append_arrow and not goes_on:
            os.replace(self._part, self.path)
            return
        whole = self._part.with_suffix(".whole")
        try:
            if self._append is _append_arrow:
                with self._part.open("rb") as file:
                    pl.concat([*_arrow_frames(file)] or [self._empty()]).write_parquet(whole)
            else:
                shutil.copyfile(self._part, whole)
            os.replace(whole, self.path)
        finally:
            whole.unlink(missing_ok=True)


def _sync_up_to(file: BinaryIO, end: int) -> bytes:
    with suppress(ValueError):  # closed since then: it was synced before
        os.fsync(file.fileno())
    return str(end).encode()


def _append_csv(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_csv(file, include_header=False)


def _append_json(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_ndjson(file)


def _append_arrow(frame: pl.DataFrame, file: BinaryIO) -> None:
    """Append a frame as an Arrow stream, after its length; a Parquet file cannot be appended to."""
    stream = io.BytesIO()
    frame.write_ipc_stream(stream)
    file.write(len(stream.getvalue()).to_bytes(8, "big") + stream.getvalue())


def _arrow_frames(file: BinaryIO) -> Iterator[pl.DataFrame]:
    while length := file.read(8):
        yield pl.read_ipc_stream(io.BytesIO(file.read(int.from_bytes(length, "big"))))


_APPENDS: dict[str, Callable[[pl.DataFrame, BinaryIO], None]] = {
    ".csv": _append_csv,
    ".parquet": _append_arrow,
    ".json": _append_json,
    ".jsonl": _append_json,
    ".ndjson": _append_json,
}


class _FunctionSink(Sink):
    """Sink that calls a function with each batch."""

    def __init__(self, function: Callable[[EventBatch], Any]) -> None:
        self.function = function

    def write(self, batch: EventBatch) -> None:
        """Call the function."""
        self.function(batch)


class _Delegate(Sink):
    """Sink that delegates to an object with the methods of one, not derived from ``Sink``."""

    def __init__(self, sink: Any) -> None:
        self.sink = sink
        for name in ("shape", "open", "close", "cancel", "in_callback", "save", "load"):
            if hasattr(sink, name):
                setattr(self, name, getattr(sink, name))

    def write(self, batch: EventBatch) -> None:
        """Pass the batch to the object."""
        self.sink.write(batch)


def is_sink(value: Any) -> bool:
    """Return True if results can be written to the value: a sink or a function of batches."""
    methods = all(hasattr(value, name) for name in ("shape", "open", "write", "close"))
    return not isinstance(value, type) and (methods or callable(value))


def describe_sink(sink: Sink) -> str:
    """Return the class of a sink as its user knows it, or the name of a function."""
    if isinstance(sink, _FunctionSink):
        return f"function {getattr(sink.function, '__qualname__', type(sink.function).__name__)}"
    return type(sink.sink if isinstance(sink, _Delegate) else sink).__name__


def as_sink(value: Any) -> Sink:
    """Return a sink or a function of batches as a sink; refuse any other value."""
    if not is_sink(value):
        from rxtemporal.core.safe_text import hint_sink

        raise ArgumentError(
            f"results go into a sink or a function of batches, got {value!r}. Hint: "
            f"{hint_sink(value)}."
        )
    if isinstance(value, Sink):
        return value
    return _Delegate(value) if hasattr(value, "write") else _FunctionSink(value)
