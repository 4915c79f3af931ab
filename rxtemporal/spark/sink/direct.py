"""The quick way into Spark: rows are handed over in memory, without spool and without checkpoint.

Nothing here survives this process, and nothing restarts Spark: what is under way when either ends
is lost, and a run that is repeated writes its rows again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import SpoolError
from rxtemporal.spark.jvm.liveness import report_java_exit
from rxtemporal.spark.jvm.session import require_pyspark, session
from rxtemporal.spark.sink.settled_rows import EDGE, STATE
from rxtemporal.spark.sink.worker import Job
from rxtemporal.spark.targets.target import DIRECT, Origin, Writer, writer_for
from rxtemporal.storage.segments.spool import rows_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = get_logger(__name__)

# rows that wait for Spark; a producer that is further ahead waits, too
MOST_ROWS = 1_000_000
# fewer rows than this are one task's work
ROWS_PER_TASK = 32_768
REMEMBERED = 1_000
LOST = (
    "direct mode starts it no second time, and what was under way is lost: run the query again, or "
    'with mode="spooled", which is supervised'
)


class Direct:
    """Hands settled rows to the target in a thread of its own; what waits is one micro-batch.

    Methods are for one thread at a time. ``write`` waits while ``MOST_ROWS`` wait, and raises what
    has ended the thread.
    """

    reached, begun = MIN_TIME, None
    segments = restarts = 0
    last_error: str | None = None

    def __init__(self, job: Job) -> None:
        self._job = job
        self._changed = threading.Condition()
        self._waiting: list[EventBatch] = []
        self._completing = self._stopping = False
        self._promised = self._handed = MIN_TIME
        self._ctis: dict[int, int] = {}
        self._failure: BaseException | None = None
        self._hurried: BaseException | None = None
        self._calling = False
        self.batches, self.start_seconds, self.batch_seconds = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="rxtemporal-direct", daemon=True)
        self._thread.start()
        log.info("spark_sink.direct", query=job.query, durable=False, supervised=False)

    @property
    def runs(self) -> Direct:
        """What has the counts: this object."""
        return self

    def write(self, fresh: EventBatch) -> None:
        """Have new rows handed over soon."""
        self._promised = max(self._promised, fresh.cti)
        if len(fresh) or fresh.cti == MAX_TIME > self._handed:
            self._hand(fresh)
        self._check()

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target (without ``error``), and end the thread."""
        try:
            if error is None:
                if self._promised > self._handed:
                    self._hand(EventBatch.empty(self._job.schema, self._promised))
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
        """Raise this error in whoever waits here."""
        with self._changed:
            self._hurried = error
            self._changed.notify_all()

    def in_callback(self) -> bool:
        """Whether the target is at work in this thread."""
        return self._calling and threading.current_thread() is self._thread

    def cti(self, batch: int) -> int:
        """Return the CTI reached with a micro-batch; ``SpoolError`` if there was none."""
        if batch not in self._ctis:
            raise SpoolError(f"there was no micro-batch {batch}")
        return self._ctis[batch]

    def _check(self) -> None:
        for error in (self._failure, self._hurried):
            if error is not None:
                raise error

    def _hand(self, batch: EventBatch) -> None:
        with self._changed:
            while sum(map(len, self._waiting)) >= MOST_ROWS:
                self._check()
                self._changed.wait(1)
            self._waiting.append(batch)
            self._handed = batch.cti
            self._changed.notify_all()

    def _run(self) -> None:
        try:
            with report_java_exit(LOST):
                self._drive()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _drive(self) -> None:
        began = time.monotonic()
        spark = self._session()
        job = self._job
        writer = writer_for(job.target, Origin(job.query, DIRECT, job.schema, 0, job.path))
        self.start_seconds = time.monotonic() - began
        try:
            while (batch := self._next()) is not None:
                self._deliver(spark, writer, batch)
        finally:
            writer.close()

    def _session(self) -> SparkSession:
        require_pyspark()
        given = self._job.session
        return session(**(given or {})) if given is None or isinstance(given, Mapping) else given

    def _next(self) -> EventBatch | None:
        """Return everything that waits, as one batch; None when it is over."""
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
            writer.write(_as_dataframe(spark, batch, segment), number, segment)
        except BaseException as error:
            error.add_note(f"in micro-batch {number} of a direct Spark sink, which is lost")
            raise
        finally:
            self._calling = False
        self.batches, self.segments = number + 1, segment
        self.batch_seconds += time.monotonic() - began


def _as_dataframe(spark: SparkSession, batch: EventBatch, segment: int) -> DataFrame:
    """Return the rows as Spark sees those of a spool; few rows are one partition.

    What ``with_times`` does in Java is done here: for few rows, telling Java takes longer.
    """
    import polars as pl
    from pyspark.sql import types as st
    from pyspark.sql.pandas.types import to_arrow_schema

    from rxtemporal.spark.sink.spool_source import spark_schema

    ends, instant = pl.col(END) < MAX_TIME, pl.Datetime("us", "UTC")
    times = [pl.col(START).cast(instant), pl.when(ends).then(pl.col(END)).cast(instant)]
    fields = {field.name: field for field in spark_schema(batch.schema)}
    fields |= {name: st.StructField(name, st.TimestampType()) for name in (START, END)}
    if EDGE in batch.schema:
        state = pl.when(ends).then(pl.lit("closed")).otherwise(pl.lit("open"))
        times.append(state.alias(STATE))
        fields[STATE] = st.StructField(STATE, st.StringType())
    schema = st.StructType(list(fields.values()))
    wanted = to_arrow_schema(schema, timezone="UTC")
    given = rows_frame(batch, segment).with_columns(times)
    rows: Any = given.to_arrow(compat_level=pl.CompatLevel.oldest())
    return _created(spark, rows.cast(wanted).combine_chunks(), schema)


def _created(spark: SparkSession, rows: Any, schema: Any) -> DataFrame:
    """Return an Arrow table as a DataFrame, with a task for so many rows.

    Behind ``createDataFrame`` stands this function. It asks Java for nine settings first, and these
    questions take as long as the rest; and it makes tasks of a size that can only be set for all.
    """
    size = len(rows)
    if size >= 2 * ROWS_PER_TASK:
        size = max(ROWS_PER_TASK, -(-size // spark.sparkContext.defaultParallelism))
    return spark._create_from_arrow_table(rows, schema, "UTC", False, False, max(size, 1))
