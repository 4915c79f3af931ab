"""A worker in this process: session, streaming query, micro-batches, failure."""

from __future__ import annotations

import dataclasses
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import RxTemporalError, SpoolError
from rxtemporal.spark.jvm.callbacks import write_batches
from rxtemporal.spark.jvm.java import explain_java_exit
from rxtemporal.spark.jvm.session import open_session
from rxtemporal.spark.schema import spool_schema
from rxtemporal.spark.sink.checkpoint import committed_segment, last_segment
from rxtemporal.spark.sink.supervisor import claim, leave, note
from rxtemporal.spark.sink.worker import (
    SAFE,
    Listener,
    Planned,
    Published,
    Recovered,
    SinkJob,
    Started,
    WorkerExit,
    driver_lock,
    retry_after,
)
from rxtemporal.spark.targets.target import Writer, writer_for
from rxtemporal.spark.tasks import read_task_error
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _SpooledBatch:
    """Micro-batch of segments of the spool."""

    number: int
    last: int
    frame: DataFrame
    spool: SegmentFolder

    @property
    def spark(self) -> SparkSession:
        """The session of the micro-batch."""
        return self.frame.sparkSession

    def lay_out(self, after: int, aside: Path) -> tuple[SegmentFolder, dict[int, int]]:
        """Return the spool, and the rows of each of its segments above ``after``."""
        numbers = range(after + 1, self.last + 1)
        return self.spool, {number: self.spool.describe(number).rows for number in numbers}


class Runner:
    """One streaming query over one spool, in this process; a ``Worker``.

    Micro-batches arrive in one of pyspark's callback threads.
    """

    def __init__(self, job: SinkJob, listener: Listener) -> None:
        self._job, self._listener = job, listener
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._stopping = False
        self._caller: int | None = None
        self._query: Any = None
        self._writer: Writer | None = None

    def run(self) -> WorkerExit | None:
        """Start the query and wait for its end."""
        try:
            with driver_lock(self._job.path):
                self._drive()
        except BaseException as error:
            return self._exit(self._failure or error)
        if self._failure is not None:
            return self._exit(self._failure)
        if self._stopping:
            return None
        return WorkerExit(SpoolError(f"somebody stopped the Spark query. Hint: {SAFE}."), "never")

    def stop(self) -> None:
        """End the query; a running micro-batch is waited for."""
        with self._changed:
            self._stopping = True
            query = self._query
        if query is not None:
            try:
                query.stop()
            except Exception as error:  # the Java process may have died; ``run`` has noticed
                log.debug("spark.stop_failed", error=repr(error))

    def in_callback(self) -> bool:
        """Return True if the target's writer runs in this thread."""
        return self._caller == threading.get_ident()

    def _exit(self, error: BaseException) -> WorkerExit | None:
        if self._stopping:
            return None  # an effect of being stopped is not a failure
        died = explain_java_exit(error, SAFE)
        if died is not None:
            # a session that the user gave cannot be restarted here
            return WorkerExit(died, "always" if self._job.owns_session else "never")
        retry = retry_after(error)
        if error is not self._failure and not isinstance(error, RxTemporalError):
            error.add_note(f"Spark ended the query. Hint: {SAFE}.")
        return WorkerExit(read_task_error(error) or error, retry)

    def _drive(self) -> None:
        began = time.monotonic()
        spark = open_session(self._job.session)
        self._claim_checkpoint()
        self._writer = writer_for(self._job.target, self._job.origin())
        try:
            query = self._start_query(spark)
            self._listener(Started(time.monotonic() - began))
            if query is not None:
                query.awaitTermination()
        finally:
            with self._changed:
                # Spark has waited for the micro-batch, unless its process has died; the next
                # worker must not start before its end
                self._changed.wait_for(lambda: self._caller is None)
            self._writer.close()
            leave(self._job.path)

    def _start_query(self, spark: SparkSession) -> Any:
        """Start the query, unless the sink was closed meanwhile."""
        from rxtemporal.spark.sink.spool_source import SpoolSource, add_timestamps

        job = self._job
        spark.dataSource.register(SpoolSource)
        rows = (
            spark.readStream.format(SpoolSource.name())
            .option("path", str(job.spool.path))
            .option("max_segments", job.max_segments)
            .option("tasks", spark.sparkContext.defaultParallelism)
            .schema(spool_schema(job.schema))
            .load()
        )
        writer = (
            write_batches(add_timestamps(rows), self._on_batch)
            .option("checkpointLocation", f"file://{job.checkpoint}")
            .trigger(processingTime=job.trigger)
        )
        with self._changed:
            if not self._stopping:
                self._query = writer.start()
            return self._query

    def _claim_checkpoint(self) -> None:
        """Wait for the end of an earlier run's Java process, and note our own."""
        path = self._job.path
        own = claim(path, self._job.checkpoint)
        # while ending, it may have committed a micro-batch, which Spark will not repeat
        self._listener(Recovered(committed_segment(self._job.checkpoint)))
        note(path, own)

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        """Write a micro-batch; Spark calls this."""
        began = time.monotonic()
        with self._changed:
            if self._stopping:
                raise SpoolError("the sink has been closed")
            self._caller = threading.get_ident()
        try:
            last = last_segment(self._job.checkpoint, number)
            # Spark may start before the first segment, and then runs an empty micro-batch
            cti = self._job.spool.describe(last).cti if last else MIN_TIME
            self._listener(Planned(number, cti))
            assert self._writer is not None
            self._writer.write(_SpooledBatch(number, last, frame, self._job.spool))
        except BaseException as error:
            error.add_note(
                f"in micro-batch {number} of the Spark sink. Hint: {SAFE}; this micro-batch is "
                "then repeated."
            )
            self._failure = self._failure or error
            raise
        else:
            self._listener(Published(number, last, time.monotonic() - began))
        finally:
            with self._changed:
                self._caller = None
                self._changed.notify_all()
