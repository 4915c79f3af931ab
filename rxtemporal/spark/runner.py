"""Runs the Spark side of a sink in the background: session, streaming query, progress, failure."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rxtemporal.durable import publish, remove, reported
from rxtemporal.errors import JavaError, RxTemporalError, SpoolError
from rxtemporal.log import get_logger
from rxtemporal.segments import Spool
from rxtemporal.spark.checkpoint import committed_segment, is_committed, last_segment
from rxtemporal.spark.session import require_pyspark, session
from rxtemporal.spark.tables import Writer
from rxtemporal.ticks import MIN_TIME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Runner", "Settings"]

log = get_logger(__name__)

# how long the Java process of a run that was killed may take to follow it
PATIENCE = 30.0
# micro-batches whose CTI is kept in memory
REMEMBERED = 1_000
_SAFE = "what was written before is in the spool; once the cause is gone, run the query again"


@dataclasses.dataclass(frozen=True, slots=True)
class Settings:
    """How a sink runs Spark; ``path`` holds the spool, the checkpoint and ``spark.pid``."""

    path: Path
    session: SparkSession | None
    trigger: str
    max_segments: int

    @property
    def checkpoint(self) -> Path:
        """Spark's own folder."""
        return self.path / "checkpoint"


class Runner:
    """One streaming query over one spool. Methods are for the sink's thread; failures wait there.

    A thread of its own starts Spark and then waits for the query's end, so that ``check`` costs
    nothing. Micro-batches arrive in one of pyspark's callback threads.
    """

    def __init__(self, settings: Settings, spool: Spool, writer: Writer, committed: int) -> None:
        self._settings, self._spool, self._writer = settings, spool, writer
        self._changed = threading.Condition()
        self.published, self._number = committed, -1
        self._ctis: dict[int, int] = {}
        self.failure: BaseException | None = None
        self._stopping = self._busy = False
        self._query: Any = None
        self.batches, self.start_seconds, self.batch_seconds = 0, 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="rxtemporal-spark", daemon=True)

    def start(self) -> None:
        """Begin in the background, unless that was done."""
        if not self._thread.ident:
            self._thread.start()

    def check(self) -> None:
        """Raise what has ended the query or kept it from starting."""
        if self.failure is not None:
            raise self.failure

    def cti(self, batch: int) -> int | None:
        """Return the CTI reached with a micro-batch of this run, None if it is none of it."""
        return self._ctis.get(batch)

    def wait(self, last: int) -> None:
        """Return when everything up to this segment is published and Spark has noted it."""
        self._until(lambda: self.published >= last, f"segment {last} is published")
        checkpoint, number = self._settings.checkpoint, self._number
        if number >= 0:
            self._until(lambda: is_committed(checkpoint, number), "Spark has noted it")

    def stop(self) -> None:
        """End the query and the thread; a micro-batch that runs is waited for."""
        with self._changed:
            self._stopping = True
            query = self._query
        if query is not None and self._thread.is_alive():
            try:
                query.stop()
            except Exception as error:  # the Java process may be gone; the thread has noticed
                log.debug("spark.stop_failed", error=repr(error))
        if self._thread.ident:
            self._thread.join()
        with self._changed:
            # Spark has waited for it, unless its process is gone; the next run must not meet it
            while self._busy:
                self._changed.wait(1)
        self._writer.close()
        remove(self._settings.path / "spark.pid")

    def _until(self, done: Callable[[], bool], what: str) -> None:
        told = time.monotonic()
        with self._changed:
            while not done():
                self.check()
                # short, for Spark's commit is a file and notifies nobody
                self._changed.wait(0.02 if self._thread.is_alive() else 0)
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    log.info("spark.waiting", until=what, published=self.published)

    def _run(self) -> None:
        try:
            began = time.monotonic()
            query = self._start_query()
            self.start_seconds = time.monotonic() - began
            if query is not None:
                query.awaitTermination()
                self._fail(SpoolError(f"somebody stopped the Spark query. Hint: {_SAFE}."))
        except BaseException as error:
            self._fail(_explained(error) if isinstance(error, Exception) else error)

    def _fail(self, error: BaseException) -> None:
        """Keep the first failure; what follows from it, or from being stopped, is none."""
        with self._changed:
            if self.failure is None and not self._stopping:
                self.failure = error
            self._changed.notify_all()

    def _start_query(self) -> Any:
        """Start the query, unless the sink was closed meanwhile."""
        require_pyspark()
        settings = self._settings
        spark = settings.session or session()
        from rxtemporal.spark.source import SpoolSource, spark_schema, with_times

        self._claim_checkpoint()
        spark.dataSource.register(SpoolSource)
        rows = (
            spark.readStream.format(SpoolSource.name())
            .option("path", str(self._spool.path))
            .option("max_segments", settings.max_segments)
            .option("tasks", spark.sparkContext.defaultParallelism)
            .schema(spark_schema(self._spool.schema))
            .load()
        )
        writer = (
            with_times(rows)
            .writeStream.foreachBatch(self._on_batch)
            .option("checkpointLocation", f"file://{settings.checkpoint}")
            .trigger(processingTime=settings.trigger)
        )
        with self._changed:
            if not self._stopping:
                self._query = writer.start()
            return self._query

    def _claim_checkpoint(self) -> None:
        """Wait until the Java process of an earlier run is gone, and note down ours."""
        from pyspark import SparkContext

        process = getattr(SparkContext._gateway, "proc", None)
        own = process.pid if process is not None else None
        path = self._settings.path / "spark.pid"
        before = int(path.read_text(encoding="utf-8")) if path.exists() else None
        deadline = time.monotonic() + PATIENCE
        while before is not None and before != own and _runs_spark(before):
            if time.monotonic() > deadline:
                raise SpoolError(
                    f"the Java process {before} of an earlier run still works on "
                    f"{self._settings.checkpoint}. Hint: end it, then run again."
                )
            time.sleep(0.05)
        # until then it may have noted a micro-batch that will not come again
        self.published = max(self.published, committed_segment(self._settings.checkpoint))
        if own is not None:
            with reported(f"cannot write {path}"):
                publish(path, str(own).encode())

    def _on_batch(self, frame: DataFrame, number: int) -> None:
        """Take a micro-batch from Spark."""
        began = time.monotonic()
        with self._changed:
            if self._stopping:
                raise SpoolError("the sink has been closed")
            self._busy = True
        try:
            last = last_segment(self._settings.checkpoint, number)
            # Spark may be there before the first segment, and runs an empty micro-batch then
            self._ctis[number] = self._spool.describe(last).cti if last else MIN_TIME
            self._ctis.pop(number - REMEMBERED, None)
            self._writer.write(frame, number, last)
        except BaseException as error:
            error.add_note(
                f"in micro-batch {number} of the Spark sink. Hint: {_SAFE}; this micro-batch "
                "then comes again."
            )
            self._fail(_java_gone(error) or error)
            raise
        else:
            self.published, self._number = max(self.published, last), number
            self.batches += 1
            self.batch_seconds += time.monotonic() - began
            log.debug("spark.batch", number=number, last_segment=last)
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


def _runs_spark(pid: int) -> bool:
    """Whether this process exists and, as far as can be seen, is one of Spark's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's: the number has been given away
    command = Path("/proc", str(pid), "cmdline")
    try:
        return b"org.apache.spark" in command.read_bytes()
    except OSError:
        return not command.parent.parent.exists()


def _explained(error: Exception) -> Exception:
    """Return the error that a user should see for what pyspark raised."""
    if isinstance(error, RxTemporalError):
        return error
    gone = _java_gone(error)
    if gone is not None:
        return gone
    error.add_note(f"Spark ended the query. Hint: {_SAFE}.")
    return error


def _java_gone(error: BaseException) -> JavaError | None:
    """Return what to say if the Java process is gone, which every call to it then ends with."""
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is not None and type(error).__module__.startswith(("py4j", "builtins")):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)  # the connection breaks a moment before the process is gone
    if process is None or process.poll() is None:
        return None
    gone = JavaError(
        f"Spark's Java process ended with code {process.returncode} while the query ran. "
        f"Hint: {_SAFE}. If it was killed for its memory, give it another limit: "
        'session(**{"spark.driver.memory": "2g"}).'
    )
    gone.__cause__ = error
    return gone
