"""A streaming DataFrame as a stream on the Rx side: micro-batch by micro-batch, in order."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from reactivex import abc

from rxtemporal.core.batch import START, EventBatch
from rxtemporal.core.columns import time_column
from rxtemporal.core.files import make_folder, report_errors
from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.core.time_forms import Unit
from rxtemporal.engine.codec import load_frame
from rxtemporal.errors import (
    AdvanceTimeError,
    ArgumentError,
    BindingError,
    CheckpointError,
    SourceError,
)
from rxtemporal.ingress.built_in_sources import FrameSource
from rxtemporal.ingress.clock_settings import ClockFields, add_clock
from rxtemporal.ingress.settings import (
    AdvanceTime,
    AdvanceTimeSettings,
    check_batch_rows,
    read_advance_time,
)
from rxtemporal.ingress.source import Cursor, Position, PositionedSource, Subscription
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable
from rxtemporal.run.run_state import ANEW
from rxtemporal.spark.jvm.callbacks import write_batches
from rxtemporal.spark.jvm.java import explain_java_exit, report_java_exit
from rxtemporal.spark.jvm.session import is_connect
from rxtemporal.spark.query.inputs import DataFrameInput, stream
from rxtemporal.spark.query.packing import dump_batches
from rxtemporal.spark.schema import quote_name
from rxtemporal.spark.sink.supervisor import claim, leave, note
from rxtemporal.spark.tasks import read_task_error

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_log = get_logger(__name__)

# the trigger with which a query ends when all available rows have been read
AVAILABLE = "availableNow"
# seconds that Spark may take to end a stopped query
ENDING = 30.0
AGAIN = "the DataFrame is lost with it: create it in a new session, and run the query again"


class MicroBatches(PositionedSource):
    """The rows of a streaming DataFrame; its pieces are Spark's micro-batches, by their ids.

    Each run has its own Spark query. ``schema`` is that of the columns read, times first; the rows
    of a micro-batch are in the order of the columns ``order_by``, or of start.
    """

    def __init__(
        self,
        given: DataFrameInput,
        schema: pl.Schema,
        settings: AdvanceTimeSettings | None,
        name: str,
        *,
        batch_rows: int,
        trigger: str,
    ) -> None:
        empty = pl.DataFrame(schema=dict(schema))
        payload = EventBatch.from_polars(empty, start=given.start, end=given.end).schema
        self.schema, self.settings, self.name = payload, settings, name
        generation = None if settings is None else settings.generation
        ends = generation is None or generation.advance_to_infinity_on_shutdown
        self.goes_on = given.cti is not None or not ends
        # the available rows of a stream with its own CTIs end, but its time does not
        self.omits_ctis = given.cti is not None
        self.time = given.time
        self.given, self.trigger = given, trigger
        self.endless = trigger != AVAILABLE
        self._columns, self._batch_rows = schema, batch_rows

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor that starts the Spark query after a position."""
        return _MicroBatchCursor(self, Position() if position is None else position)

    def batches(self, frame: DataFrame) -> Iterator[EventBatch]:
        """Yield the rows of one micro-batch in order; Spark sorts them, and all are held here."""
        given = self.given
        names = [*self._columns, *([] if given.cti is None else [given.cti])]
        rows = frame.orderBy(*map(quote_name, given.in_order))
        whole = pl.from_arrow(rows.select(*map(quote_name, names)).toArrow())
        assert isinstance(whole, pl.DataFrame)
        whole, cti = (whole, MIN_TIME) if given.cti is None else _split_ctis(whole, given.cti)
        for some in whole.cast(dict(self._columns)).iter_slices(self._batch_rows):  # type: ignore[arg-type]
            if some.height:
                yield EventBatch.from_polars(some, start=given.start, end=given.end)
        if cti > MIN_TIME:
            assert self.schema is not None
            yield EventBatch.empty(self.schema, cti)


class _MicroBatchCursor(Cursor):
    """Cursor that pushes micro-batches."""

    def __init__(self, source: MicroBatches, position: Position) -> None:
        super().__init__()
        self._source, self._position = source, position
        self.completes = not source.omits_ctis

    def connect(self, observer: abc.ObserverBase[Any]) -> Subscription:
        """Start the Spark query."""
        return _Query(self._source, observer, self._position).start()


class _Query(Subscription):
    """A Spark query that feeds one run. Micro-batches arrive in one of pyspark's threads.

    When a micro-batch returns, its results have been delivered and saved; only then does Spark
    commit it. So after a crash one micro-batch may be repeated, and is recognized by its id.
    """

    def __init__(
        self, source: MicroBatches, observer: abc.ObserverBase[Any], position: Position
    ) -> None:
        self._source, self._observer, self._position = source, observer, position
        self._stopping = False
        self._failure: BaseException | None = None
        self._ended = threading.Event()
        self._kept = position.folder is not None
        self._folder = position.folder or Path(tempfile.mkdtemp(prefix="rxtemporal-"))

    def start(self) -> _Query:
        """Start the query; Spark's checkpoint has to match the position."""
        try:
            if self._kept:
                self._claim()
            self._query = self._start_query()
        except BaseException:
            self._clear()
            raise
        threading.Thread(
            target=self._await, name=f"rxtemporal stream {self._source.name}", daemon=True
        ).start()
        return self

    def dispose(self) -> None:
        """Stop Spark without waiting, since the caller may be inside a micro-batch."""
        if self._stopping:
            return
        self._stopping = True
        if not self._ended.is_set():
            threading.Thread(target=self._stop, name="rxtemporal stops Spark", daemon=True).start()

    def join(self) -> None:
        """Wait until Spark has ended the query."""
        self._ended.wait(ENDING)

    @property
    def _reached(self) -> int:
        """The last micro-batch that was taken; -1 before the first."""
        return -1 if self._position.reached is None else self._position.reached

    def _claim(self) -> None:
        folder = self._folder
        with report_errors(f"cannot keep stream {self._source.name!r} in {folder}"):
            make_folder(folder)
        own = claim(folder, folder / "checkpoint")
        _check_places(folder / "checkpoint", self._reached)
        note(folder, own)

    def _start_query(self) -> Any:
        source = self._source
        pause: dict[str, Any] = {"processingTime": source.trigger}
        if source.trigger == AVAILABLE:
            pause = {"availableNow": True}
        writer = write_batches(source.given.frame, self._on_batch)
        place = f"file://{self._folder / 'checkpoint'}"
        return writer.option("checkpointLocation", place).trigger(**pause).start()

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        """Take a micro-batch from Spark."""
        try:
            self._check_running()
            if number <= self._reached:
                # its rows are in the state, but Spark's own state needs the frame to be executed
                frame.write.format("noop").mode("overwrite").save()
                return
            if number > self._reached + 1:
                raise _gap_error(self._folder / "checkpoint", self._reached, number)
            batches = list(self._source.batches(frame))
            with self._position.accept(number):
                for batch in batches:
                    self._observer.on_next(batch)
                self._check_running()
        except BaseException as error:
            self._failure = self._failure or error
            raise

    def _check_running(self) -> None:
        if self._stopping:
            raise SourceError(f"stream {self._source.name!r} was stopped")

    def _await(self) -> None:
        failed: BaseException | None = None
        try:
            self._query.awaitTermination()
        except Exception as error:
            failed = error
        self._clear()
        self._ended.set()
        if self._stopping:
            return
        with self._position.gate:
            if failed is not None or self._source.trigger != AVAILABLE:
                self._observer.on_error(self._find_cause(failed))
            else:
                self._observer.on_completed()

    def _find_cause(self, failed: BaseException | None) -> Exception:
        """Return the error that ended the query: one of this process, of Spark, or a stop."""
        wrong, name = self._failure, self._source.name
        ended = wrong or failed
        gone = None if ended is None else explain_java_exit(ended, AGAIN)
        if gone is not None:
            return gone
        if isinstance(wrong, Exception) and not _is_spark_error(wrong):
            return wrong
        if (found := read_task_error(wrong) or read_task_error(failed)) is not None:
            return found
        if failed is None:
            return SourceError(f"somebody stopped the Spark query of stream {name!r}")
        error = SourceError(f"Spark ended the query of stream {name!r}: {failed}")
        error.__cause__ = failed
        return error

    def _stop(self) -> None:
        try:
            self._query.stop()
        except Exception as error:  # the Java process may be gone
            _log.debug("spark.stop_failed", error=repr(error))

    def _clear(self) -> None:
        if self._kept:
            leave(self._folder)
        else:
            shutil.rmtree(self._folder, ignore_errors=True)


def _split_ctis(rows: pl.DataFrame, cti: str) -> tuple[pl.DataFrame, int]:
    """Return the rows that are events, and the highest of the CTIs among them."""
    ctis = time_column(rows[cti].drop_nulls())
    events = rows.filter(pl.col(cti).is_null()).drop(cti)
    return events, int(ctis.max()) if len(ctis) else MIN_TIME


def _is_spark_error(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("pyspark", "py4j")


def _check_places(checkpoint: Path, reached: int) -> None:
    """Raise if Spark's checkpoint does not belong to the state of the run."""
    committed, planned = (_find_newest(checkpoint / log) for log in ("commits", "offsets"))
    if committed > reached:
        raise _gap_error(checkpoint, reached, committed + 1)
    if planned < reached or committed < reached - 1:
        raise CheckpointError(
            f"the state of this run has the micro-batches up to {reached}, but Spark's checkpoint "
            f"{checkpoint} only those up to {max(planned, committed)}: it was lost, or is an older "
            f"one. Hint: restore both from one copy, {ANEW}."
        )


def _gap_error(checkpoint: Path, reached: int, number: int) -> CheckpointError:
    has = "has none" if reached < 0 else f"ends with micro-batch {reached}"
    return CheckpointError(
        f"Spark continues with micro-batch {number} of {checkpoint}, but this run's state {has}:"
        f" it was lost, or is an older one. Hint: restore both from one copy, {ANEW}."
    )


def _find_newest(log: Path) -> int:
    names = [path.name for path in log.iterdir()] if log.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


BATCH_ROWS = 65_536
_DATA = "data"


def from_dataframe(
    frame: DataFrame,
    *,
    start: str = START,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    order_by: str | Sequence[str] = (),
    cti: str | None = None,
    batch_rows: int = BATCH_ROWS,
    name: str = "dataframe",
    trigger: str | None = None,
    unit: Unit | None = None,
    clock: ClockFields | None = None,
    behind: Span | None = None,
    silent_after: Span | None = None,
    forget_after: Span | None = None,
    spread: Span | None = None,
) -> Streamable:
    """Make a stream of a DataFrame's rows, in order of start, or of other columns.

    Columns are read as ``stream`` reads them, numbers of a ``unit`` too; those in ``order_by`` are
    no part of the payload. Otherwise as ``from_polars``: ``advance_time`` judges rows in the order
    in which they come, and without it everything is final at the end. Each run has Spark sort the
    rows, and fetches them as Arrow, ``batch_rows`` at a time: this process holds a sorted partition
    or two of them, and never all.

    A streaming DataFrame is read micro-batch by micro-batch, each as a whole and in order. Since
    it has no end, it needs ``advance_time``, or a column ``cti``, which ``stream`` describes and
    ``run(…, cti=…)`` adds. Results that its last CTI does not make final are not delivered, and a
    row that breaks a CTI ends the run. ``trigger`` is the pause between micro-batches
    (``"1 second"``), or ``"availableNow"``: then the stream completes when all available rows have
    been read. Each run has its own Spark query, which ends with it; it starts at the beginning, or
    with ``run(…, resume=folder)`` where the previous run stopped. Batches are pushed on one of
    Spark's threads. ``clock``, ``behind``, ``silent_after``, ``forget_after`` and ``spread`` are as
    in ``from_events``.
    """
    clocks = clock, behind, silent_after, forget_after, spread
    settings = read_advance_time(advance_time)
    judged: dict[str, Any] = {"advance_time": settings, "order_by": order_by}
    options = {} if cti is None else judged
    given = stream(frame, start=start, end=end, cti=cti, unit=unit, **options)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    if order:  # the same checks, of the columns as well
        given = DataFrameInput(given.frame, given.start, given.end, settings, order)
        frame.select(*map(quote_name, order))
    check_batch_rows(batch_rows)
    times = [given.start] if given.end is None else [given.start, given.end]
    kind = pl.Int64() if given.time == "ticks" else pl.Datetime("us", "UTC")
    schema = pl.Schema({**dict.fromkeys(times, kind), **given.schema})
    if cti is not None and not frame.isStreaming:
        raise AdvanceTimeError(
            f"a bounded DataFrame is final as a whole here, so it accepts no CTIs ({cti!r}). "
            "Hint: run(query, …=stream(df, cti=…)) reads them; or leave out the rows that are CTIs."
        )
    if frame.isStreaming:
        source = _make_micro_batches(given, schema, settings, name, batch_rows, trigger)
        return Streamable(Node(source.schema, (), source=add_clock(source, *clocks)))
    if trigger is not None:
        raise ArgumentError(
            f"trigger= is for a streaming DataFrame, but this one is bounded; got {trigger!r}"
        )

    def frames() -> Iterator[pl.DataFrame]:
        yield from _fetch(given, [*times, *given.schema], schema, batch_rows)

    read = FrameSource(
        frames, schema, start=given.start, end=given.end, settings=settings, name=name
    )
    return Streamable(Node(read.schema, (), source=add_clock(read, *clocks)))


def _make_micro_batches(
    given: DataFrameInput,
    schema: pl.Schema,
    settings: AdvanceTimeSettings | None,
    name: str,
    batch_rows: int,
    trigger: str | None,
) -> MicroBatches:
    trigger = "1 second" if trigger is None else trigger
    if not isinstance(trigger, str) or not trigger.strip():
        raise ArgumentError(
            f"trigger is an interval such as '1 second', or '{AVAILABLE}', got {trigger!r}"
        )
    if settings is None and given.cti is None:
        raise AdvanceTimeError(
            f"time does not advance on {name!r}, so no result would ever be final. "
            "Hint: advance_time=… generates CTIs from the rows, in the order of order_by=; or "
            "cti=… names a column of CTIs."
        )
    if is_connect(given.frame):
        raise BindingError(
            "a streaming DataFrame of Spark Connect gives its micro-batches to functions on the "
            "server, which cannot reach this process. Hint: use a classic session; or write the "
            "DataFrame to a table, and read that here."
        )
    return MicroBatches(given, schema, settings, name, batch_rows=batch_rows, trigger=trigger)


def _fetch(
    given: DataFrameInput, columns: list[str], schema: pl.Schema, batch_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the rows in order, as frames; a partition is fetched when the one before is used up."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _in_frames(batches, batch_rows)

    with report_java_exit(AGAIN), _raise_task_errors():
        rows = given.frame.orderBy(*map(quote_name, given.in_order))
        rows = rows.select(*map(quote_name, columns))
        # Spark's local iterator yields single rows, so each row here is a whole frame
        packed = rows.mapInArrow(pack, f"{_DATA} binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            frame = load_frame(bytes(row[_DATA]))
            yield frame.rename(dict(zip(frame.columns, columns, strict=True))).cast(dict(schema))  # type: ignore[arg-type]


@contextmanager
def _raise_task_errors() -> Iterator[None]:
    """Raise the error of a query inside Spark as this process would raise it."""
    try:
        yield
    except Exception as error:
        found = read_task_error(error)
        if found is None:
            raise
        raise found from error


def _in_frames(batches: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of one binary column, each an Arrow stream of up to ``batch_rows`` rows."""

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= batch_rows:
            yield _as_row(waiting)
            waiting = []
    if waiting:
        yield _as_row(waiting)


def _as_row(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    data = pa.array([dump_batches(batches, batches[0].schema)], pa.binary())
    return pa.RecordBatch.from_arrays([data], [_DATA])
