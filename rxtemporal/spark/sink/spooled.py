"""Durable delivery to Spark: rows go into a spool on disk, and Spark reads them from there.

A segment of the spool costs three syncs, however few rows it has. So a thread writes the segments:
while it waits for the disk, batches gather, and the next segment has all of them.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.files import publish, report_errors, sync_folder
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.spark.jvm.session import adopt_session
from rxtemporal.spark.sink.checkpoint import committed_segment, last_segment
from rxtemporal.spark.sink.child import Child, serialize_job
from rxtemporal.spark.sink.runner import Runner
from rxtemporal.spark.sink.supervisor import Supervisor
from rxtemporal.spark.sink.worker import Listener, SinkJob, Worker, driver_lock
from rxtemporal.spark.targets.target import EDGE, Target, writer_for
from rxtemporal.storage.segments import Spool

# batches with fewer rows together are one segment; a producer waits when so many rows wait
ROWS = 65_536
# seconds between two looks for the run's end, while a caller waits
_LOOK = 0.1


class SpoolQueue:
    """Queue of batches, which a thread appends to the spool in their order.

    ``append`` writes a batch, and may wait for room; ``check`` raises an error that ends the run.
    ``put`` and ``wait`` raise the error that has ended the thread.
    """

    def __init__(
        self, append: Callable[[EventBatch], None], check: Callable[[], None], name: str
    ) -> None:
        self._append, self._check_run, self._name = append, check, name
        self._changed = threading.Condition()
        self._waiting = deque[EventBatch]()
        self._rows = 0
        # batches put, and those of them on disk
        self.put_count = self._written = 0
        self._blocked = self._closing = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rxtemporal-spool", daemon=True)
        self._thread.start()

    @property
    def is_closing(self) -> bool:
        """True if the thread is to end, and to wait for nothing."""
        return self._closing

    def put(self, batch: EventBatch) -> None:
        """Add a batch; wait while the spool has no room, or many rows wait."""
        with self._changed:
            self._waiting.append(batch)
            self._rows += len(batch)
            self.put_count += 1
            self._changed.notify_all()
            self._wait_until(lambda: not self._blocked and self._rows < ROWS)

    def wait(self, count: int | None = None) -> None:
        """Wait until so many batches, or all of them, are on disk."""
        with self._changed:
            wanted = self.put_count if count is None else count
            self._wait_until(lambda: self._written >= wanted)

    def set_blocked(self, blocked: bool) -> None:
        """Let producers wait as long as the thread waits for room."""
        with self._changed:
            self._blocked = blocked
            self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, unless there is no room for it, and end the thread; idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._failure is not None:
                raise self._failure
            if not self._thread.is_alive():
                raise SpoolError(
                    f"the spool {self._name} is not open for writing here: it was closed, or its "
                    "writer is the process that this one was forked from. Hint: open it in this "
                    "process."
                )
            self._check_run()
            self._changed.wait(_LOOK)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while batches := self._take():
                self._append(EventBatch.concat(batches))
                with self._changed:
                    self._written += len(batches)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take(self) -> list[EventBatch]:
        """Return the batches of the next segment; none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            taken = list[EventBatch]()
            rows = 0
            while self._waiting and (not taken or rows + len(self._waiting[0]) <= ROWS):
                taken.append(self._waiting.popleft())
                rows += len(taken[-1])
            self._rows -= rows
            self._changed.notify_all()
            return taken


log = get_logger(__name__)

# seconds between two attempts while there is no room, and at most between two on a full disk
PAUSE, LONGEST_PAUSE = 0.1, 5.0
# errors that end when space is freed or a permission is granted
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS}


class SpooledDelivery:
    """Delivery through a spool on disk, from which Spark reads; not thread-safe.

    ``limit`` is how many bytes may wait for Spark; None: as many as the disk holds. Without room,
    ``write`` waits, or the next call raises a ``SpoolError``, as ``when_full`` says.
    """

    def __init__(
        self,
        job: SinkJob,
        shape: EventShape,
        limit: int | None,
        when_full: Literal["block", "refuse"],
    ) -> None:
        self._job = job = dataclasses.replace(job, session=adopt_session(job.session))
        self._limit, self._when_full = limit, when_full
        numbered = EDGE if EDGE in job.schema else None
        self._spool = Spool.open(job.path / "spool", job.query, job.schema, numbered=numbered)
        try:
            _check_shape(job.path / "sink.json", shape)
            self._supervisor = self._prepare()
        except BaseException:
            self._spool.close()
            raise
        self._first, self.numbered = self._spool.last, self._spool.highest
        self.reached = self._promised = MIN_TIME if self._spool.cti is None else self._spool.cti
        if self.reached == MAX_TIME:
            log.info("spark_sink.finished_before", query=job.query, path=str(job.path))
        if self.reached < MAX_TIME or self._read_committed() < self._spool.last:
            self._supervisor.start()
        self._queue = SpoolQueue(self._append, self._supervisor.check, str(self._spool.path))

    @property
    def segments(self) -> int:
        """Number of segments that this run has written."""
        return self._spool.last - self._first

    @property
    def progress(self) -> Supervisor:
        """The supervisor, which has the counters of Spark's work."""
        return self._supervisor

    def write(self, fresh: EventBatch) -> None:
        """Queue new rows for the spool; they are on disk a moment later, or after ``flush``."""
        self._promised = max(self._promised, fresh.cti)
        if len(fresh) or fresh.cti == MAX_TIME > self.reached:
            self._put(fresh)
        self._supervisor.check()

    def flush(self) -> Callable[[], None]:
        """Return a function that waits until the rows so far are on disk; from any thread."""
        return partial(self._queue.wait, self._queue.put_count)

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target (without ``error``), and stop Spark."""
        complete = False
        try:
            if error is None:
                if self._promised > self.reached:
                    self._put(EventBatch.empty(self._spool.schema, self._promised))
                self._queue.wait()
                self._supervisor.wait(self._spool.last)
                complete = True
        finally:
            try:
                self._queue.close()
                self._supervisor.stop()
                if complete:
                    self._spool.discard(self._spool.last)
            finally:
                self._spool.close()

    def cancel(self, error: BaseException) -> None:
        """Raise this error in a thread that waits for Spark."""
        self._supervisor.cancel(error)

    def in_callback(self) -> bool:
        """Return True if this thread is inside a user's function."""
        return self._supervisor.in_callback()

    def cti(self, batch: int) -> int:
        """Return the CTI after a micro-batch; ``SpoolError`` if it is not known."""
        known = self._supervisor.cti(batch)
        if known is not None:
            return known
        return self._spool.describe(last_segment(self._job.checkpoint, batch)).cti

    def _put(self, batch: EventBatch) -> None:
        self.reached = batch.cti
        self._queue.put(batch)

    def _append(self, batch: EventBatch) -> None:
        """Append a batch to the spool; the queue's thread calls this."""
        logged, pause = time.monotonic(), PAUSE
        while (refused := self._append_or_refuse(batch)) is not None:
            self._queue.set_blocked(True)
            self._wait(pause)
            if self._queue.is_closing:
                raise refused
            # waiting bytes are quickly counted, but each attempt writes all rows to a full disk
            pause = PAUSE if isinstance(refused, _FullError) else min(2 * pause, LONGEST_PAUSE)
            if time.monotonic() - logged > 5:
                logged = time.monotonic()
                log.warning(
                    "spark_sink.blocked",
                    spool=str(self._spool.path),
                    limit=self._limit,
                    error=str(refused),
                )
        self._queue.set_blocked(False)
        self._supervisor.start()

    def _wait(self, seconds: float) -> None:
        """Wait for some seconds, unless the run ends or is cancelled."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._queue.is_closing:
            self._supervisor.check()
            time.sleep(min(PAUSE, left))
        self._supervisor.check()

    def _append_or_refuse(self, batch: EventBatch) -> SpoolError | None:
        """Append a batch; without room, return the error if ``write`` is to wait, else raise it."""
        try:
            self._check_room()
            self._spool.append(batch)
        except SpoolError as error:
            cause = error.__cause__
            full = isinstance(error, _FullError) or getattr(cause, "errno", None) in _NO_ROOM
            if self._when_full == "block" and full:
                return error
            raise
        return None

    def _check_room(self) -> None:
        """Raise ``SpoolError`` if the limit is reached by segments that Spark has not committed."""
        limit, folder = self._limit, self._spool
        if limit is None:
            return
        if folder.waiting_bytes() >= limit:
            # Spark releases a micro-batch only with a later one, which may never come
            folder.discard(self._read_committed())
        waiting = folder.waiting_bytes()
        if waiting >= limit:
            raise _FullError(
                f"{waiting} bytes wait for Spark in {folder.path}, but its limit is {limit}. Hint: "
                'raise spool_limit, wait with when_full="block", or check why Spark is behind.'
            )

    def _read_committed(self) -> int:
        return max(self._spool.bounds()[0], committed_segment(self._job.checkpoint))

    def _prepare(self) -> Supervisor:
        """Check that spool, checkpoint and target belong together; return the supervisor."""
        job, spool = self._job, self._spool
        with driver_lock(job.path):  # the processes of a killed run end first
            discarded, committed = spool.bounds()[0], committed_segment(job.checkpoint)
            _check_positions(job, discarded, committed, spool.last)
            writer = writer_for(job.target, job.origin())
            writer.close()
            _check_ledger(job, writer.last, spool.last)
        in_child = isinstance(job.target, Target) and job.target.runs_in_child and job.owns_session
        if in_child:
            serialize_job(job)  # raises now if the job cannot be sent to the child

        def make(listener: Listener) -> Worker:
            return Child(job, listener) if in_child else Runner(job, listener)

        return Supervisor(make, job.checkpoint, max(discarded, committed))


class _FullError(SpoolError):
    """The spool has reached its limit."""


def _check_positions(job: SinkJob, discarded: int, committed: int, last: int) -> None:
    """Refuse a checkpoint that is older than the spool, or of another one."""
    spool, checkpoint = job.path / "spool", job.checkpoint
    if 0 < committed < discarded:
        raise SpoolError(
            f"Spark's checkpoint ends at segment {committed} of {spool}, where all up to "
            f"{discarded} are published and deleted: it is an older one. Hint: delete "
            f"{checkpoint}; unpublished rows are read from the spool."
        )
    if max(discarded, committed) > last:
        raise SpoolError(
            f"Spark's checkpoint has read up to segment {committed} of {spool}, which ends at "
            f"{last}: they do not belong together. Hint: delete {checkpoint}."
        )


def _check_ledger(job: SinkJob, published: int, last: int) -> None:
    """Refuse a spool whose next segments would have numbers that count as published."""
    if published > last:
        raise SpoolError(
            f"the ledger of the {type(job.target).__name__} has the query {job.query!r} up to "
            f"segment {published}, but the spool in {job.path} ends at {last}: that folder is an "
            "older copy, and new rows would be taken for published ones. Hint: restore "
            "its newest state, or a copy of the target and its ledger that is no newer than it; or "
            "delete the query's rows, its ledger and that folder, and run the query again from its "
            "source."
        )


def _check_shape(path: Path, shape: EventShape) -> None:
    """Refuse a shape other than that of earlier runs: the table would mix both."""
    if path.exists():
        try:
            found = json.loads(path.read_bytes())["shape"]
        except (ValueError, KeyError, TypeError) as error:
            raise SpoolError(
                f"{path} is damaged. Hint: delete it if the shape has always been {shape.value!r}."
            ) from error
        if found != shape.value:
            raise ArgumentError(
                f"earlier runs on {path.parent} were in {found} shape, got {shape}. Hint: keep the "
                "earlier shape, or give the sink another path."
            )
        return
    with report_errors(f"cannot write {path}"):
        publish(path, json.dumps({"shape": shape.value}).encode())
        sync_folder(path.parent)
