"""Fast delivery to Spark: rows are passed on in memory, without spool and without checkpoint.

Nothing survives the end of this process or of Spark, and nothing restarts Spark: rows that are
not in the target yet are lost, and a repeated run writes its rows again.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.core.files import report_errors
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import SpoolError
from rxtemporal.spark.jvm.java import report_java_exit
from rxtemporal.spark.jvm.session import is_connect, open_session
from rxtemporal.spark.schema import arrow_schema, spool_schema
from rxtemporal.spark.sink.worker import SinkJob
from rxtemporal.spark.targets.target import DIRECT, EDGE, STATE, Origin, Writer, writer_for
from rxtemporal.spark.tasks import read_task_error
from rxtemporal.storage.segments import rows_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = get_logger(__name__)

# when so many rows wait for Spark, ``write`` blocks
MOST_ROWS = 1_000_000
# fewer rows than this are one task's work
ROWS_PER_TASK = 32_768
REMEMBERED = 1_000
LOST = (
    "direct mode does not restart it, and rows that were not written yet are lost: run the query "
    'again, or use mode="spooled", which is supervised'
)


class DirectDelivery:
    """Delivery in memory: a separate thread writes all waiting rows as one micro-batch.

    Not thread-safe. ``write`` blocks while ``MOST_ROWS`` wait, and raises the error that has ended
    the thread.
    """

    reached, numbered = MIN_TIME, None
    segments = restarts = 0
    last_error: str | None = None

    def __init__(self, job: SinkJob) -> None:
        self._job = job
        self._changed = threading.Condition()
        self._waiting: list[EventBatch] = []
        self._completing = self._stopping = False
        self._promised = self._queued = MIN_TIME
        self._ctis: dict[int, int] = {}
        self._failure: BaseException | None = None
        self._cancelled: BaseException | None = None
        self._calling = False
        self.batches, self.start_seconds, self.batch_seconds = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="rxtemporal-direct", daemon=True)
        self._thread.start()
        log.info("spark_sink.direct", query=job.query, durable=False, supervised=False)

    @property
    def progress(self) -> DirectDelivery:
        """The object with the counters: this one."""
        return self

    def write(self, fresh: EventBatch) -> None:
        """Queue new rows."""
        self._promised = max(self._promised, fresh.cti)
        if len(fresh) or fresh.cti == MAX_TIME > self._queued:
            self._queue(fresh)
        self._check()

    def flush(self) -> Callable[[], None]:
        """Return a function that does nothing: in this mode nothing is on disk."""
        return lambda: None

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target (without ``error``), and end the thread."""
        try:
            if error is None:
                if self._promised > self._queued:
                    self._queue(EventBatch.empty(self._job.schema, self._promised))
                with self._changed:
                    self._completing = True
                    self._changed.notify_all()
                    while self._thread.is_alive() and self._failure is None:
                        self._check()
                        self._changed.wait(0.05)
                self._check()
        finally:
            with self._changed:
                self._stopping = True
                self._changed.notify_all()
            self._thread.join()

    def cancel(self, error: BaseException) -> None:
        """Raise this error in a thread that waits for Spark."""
        with self._changed:
            self._cancelled = error
            self._changed.notify_all()

    def in_callback(self) -> bool:
        """Return True if the target runs in this thread."""
        return self._calling and threading.current_thread() is self._thread

    def cti(self, batch: int) -> int:
        """Return the CTI after a micro-batch; ``SpoolError`` if there was none."""
        if batch not in self._ctis:
            raise SpoolError(f"there was no micro-batch {batch}")
        return self._ctis[batch]

    def _check(self) -> None:
        for error in (self._failure, self._cancelled):
            if error is not None:
                raise error

    def _queue(self, batch: EventBatch) -> None:
        with self._changed:
            while sum(map(len, self._waiting)) >= MOST_ROWS:
                self._check()
                self._changed.wait(1)
            self._waiting.append(batch)
            self._queued = batch.cti
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            with report_java_exit(LOST):
                self._drive()
        except BaseException as error:
            with self._changed:
                self._failure = read_task_error(error) or error
                self._changed.notify_all()

    def _drive(self) -> None:
        began = time.monotonic()
        spark = open_session(self._job.session)
        job = self._job
        writer = writer_for(job.target, Origin(job.query, DIRECT, job.schema, 0, job.path))
        self.start_seconds = time.monotonic() - began
        try:
            while (batch := self._wait_for_batch()) is not None:
                self._deliver(spark, writer, batch)
        finally:
            writer.close()

    def _wait_for_batch(self) -> EventBatch | None:
        """Return all waiting rows as one batch; None at the end."""
        with self._changed:
            while not self._waiting and not self._stopping and not self._completing:
                self._changed.wait(1)
            if self._stopping or not self._waiting:
                return None
            batch = EventBatch.concat(self._waiting)
            self._waiting = []
            self._changed.notify_all()
            return batch

    def _deliver(self, spark: SparkSession, writer: Writer, batch: EventBatch) -> None:
        began, number = time.monotonic(), self.batches
        segment = max(writer.last, self.segments) + 1
        self._ctis[number] = batch.cti
        self._ctis.pop(number - REMEMBERED, None)
        self._calling = True
        try:
            writer.write(_DirectBatch(number, segment, spark, batch))
        except BaseException as error:
            error.add_note(f"in micro-batch {number} of a direct Spark sink, which is lost")
            raise
        finally:
            self._calling = False
        self.batches, self.segments = number + 1, segment
        self.batch_seconds += time.monotonic() - began


@dataclasses.dataclass(frozen=True)
class _DirectBatch:
    """Micro-batch of rows in memory."""

    number: int
    last: int
    spark: SparkSession
    rows: EventBatch

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        return _as_dataframe(self.spark, self.rows, self.last)

    def lay_out(self, after: int, aside: Path) -> tuple[_Slices, dict[int, int]]:
        """Write the rows into files, a part for each task; nothing has to survive a crash."""
        frame = rows_frame(self.rows, self.last)
        size = max(ROWS_PER_TASK, -(-frame.height // self.spark.sparkContext.defaultParallelism))
        parts = [frame.slice(begin, size) for begin in range(0, frame.height, size)]
        slices = _Slices(aside)
        with report_errors(f"cannot write beside the table, into {aside}"):
            for number, part in enumerate(parts):
                data = part.rechunk()
                data.write_ipc(slices.file(number), compat_level=pl.CompatLevel.oldest())
        return slices, {number: part.height for number, part in enumerate(parts)}


@dataclasses.dataclass(frozen=True)
class _Slices:
    """Files with parts of the rows of a micro-batch."""

    path: Path

    def file(self, number: int) -> Path:
        """Return the path of a part."""
        return self.path / f"{number}.arrow"

    def content(self, sequence: int) -> bytes:
        """Return a part as an Arrow IPC file."""
        return self.file(sequence).read_bytes()


def _as_dataframe(spark: SparkSession, batch: EventBatch, segment: int) -> DataFrame:
    """Return the rows in the form of rows from a spool; few rows are one partition.

    ``add_timestamps`` does the same in Java; for few rows, calling Java takes longer.
    """
    from pyspark.sql import types as st

    ends, instant = pl.col(END) < MAX_TIME, pl.Datetime("us", "UTC")
    times = [pl.col(START).cast(instant), pl.when(ends).then(pl.col(END)).cast(instant)]
    fields = {field.name: field for field in spool_schema(batch.schema)}
    fields |= {name: st.StructField(name, st.TimestampType()) for name in (START, END)}
    if EDGE in batch.schema:
        state = pl.when(ends).then(pl.lit("closed")).otherwise(pl.lit("open"))
        times.append(state.alias(STATE))
        fields[STATE] = st.StructField(STATE, st.StringType())
    schema = st.StructType(list(fields.values()))
    wanted = arrow_schema(schema)
    given = rows_frame(batch, segment).with_columns(times)
    rows: Any = given.to_arrow(compat_level=pl.CompatLevel.oldest())
    frame = spark.createDataFrame(rows.cast(wanted), schema)
    if is_connect(spark):
        return frame  # the server makes the partitions
    tasks = min(len(batch) // ROWS_PER_TASK, spark.sparkContext.defaultParallelism)
    return frame.coalesce(max(tasks, 1))
