"""Supervision of Spark: one worker after another, with growing pauses while nothing is written."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from rxtemporal.core.files import publish, remove, report_errors
from rxtemporal.core.log import get_logger
from rxtemporal.errors import JavaError, SpoolError
from rxtemporal.spark.sink.checkpoint import is_committed
from rxtemporal.spark.sink.worker import (
    PATIENCE,
    Listener,
    Planned,
    Published,
    Recovered,
    Report,
    Started,
    Worker,
    WorkerExit,
)

_FILE = "spark.pid"


def claim(path: Path, checkpoint: Path) -> int:
    """Wait until an earlier run's Java process has ended; return the id of ours.

    ``SpoolError`` if it does not end in time; it may end later.
    """
    from pyspark import SparkContext

    # the process itself knows it, whoever has started it
    own: int = SparkContext._jvm.java.lang.ProcessHandle.current().pid()
    file = path / _FILE
    before = int(file.read_text(encoding="utf-8")) if file.exists() else None
    deadline = time.monotonic() + PATIENCE
    while before is not None and before != own and _runs_spark(before):
        if time.monotonic() > deadline:
            raise SpoolError(
                f"the Java process {before} of an earlier run still works on {checkpoint}. "
                "Hint: end it, then run again."
            ) from TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        time.sleep(0.05)
    return own


def note(path: Path, own: int) -> None:
    """Write the id of our Java process."""
    file = path / _FILE
    with report_errors(f"cannot write {file}"):
        publish(file, str(own).encode())


def leave(path: Path) -> None:
    """Remove the file when our Java process no longer works here."""
    remove(path / _FILE)


def _runs_spark(pid: int) -> bool:
    """Return True if this process exists and, as far as can be seen, is one of Spark's."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # another user's: the system has reused the number
    command = Path("/proc", str(pid), "cmdline")
    try:
        return b"org.apache.spark" in command.read_bytes()
    except OSError:
        return not command.parent.parent.exists()


log = get_logger(__name__)

# seconds before the next worker: the first pause, and the longest one
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# give up after so many workers in a row without a micro-batch
ATTEMPTS = 5
# micro-batches whose CTI is kept in memory
REMEMBERED = 1_000


class Supervisor:
    """Supervisor that runs workers one after another in a thread, and counts what they write.

    A worker that ends is replaced, unless its error is permanent or none has ever started. While
    Spark is down ``check`` raises nothing, and rows wait in the spool. ``wait`` gives up after some
    workers in a row that wrote nothing. Thread-safe.
    """

    def __init__(
        self, make: Callable[[Listener], Worker], checkpoint: Path, published: int
    ) -> None:
        self._make, self._checkpoint = make, checkpoint
        self._changed = threading.Condition()
        self._published, self._number = published, -1
        self._ctis: dict[int, int] = {}
        self._worker: Worker | None = None
        self._stopping = self._started = False
        # workers in a row that wrote nothing
        self._fruitless = 0
        self._last_exit: WorkerExit | None = None
        self._cancelled: BaseException | None = None
        self.failure: BaseException | None = None
        self.batches, self.restarts = 0, 0
        self.start_seconds, self.batch_seconds = 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="rxtemporal-spark", daemon=True)

    @property
    def last_error(self) -> str | None:
        """The error that ended the last worker; None if none did."""
        return None if self._last_exit is None else str(self._last_exit.error)

    def start(self) -> None:
        """Start the thread, unless it has been started."""
        if not self._thread.ident:
            self._thread.start()

    def check(self) -> None:
        """Raise the permanent error of a worker, or that of ``cancel``."""
        for error in (self.failure, self._cancelled):
            if error is not None:
                raise error

    def cancel(self, error: BaseException) -> None:
        """Raise this error in a thread that waits here."""
        with self._changed:
            self._cancelled = error
            self._changed.notify_all()

    def in_callback(self) -> bool:
        """Return True if this thread is inside a user's function."""
        worker = self._worker
        return worker is not None and worker.in_callback()

    def cti(self, batch: int) -> int | None:
        """Return the CTI after a micro-batch of this run, None for any other."""
        return self._ctis.get(batch)

    def wait(self, last: int) -> None:
        """Wait until all segments up to ``last`` are published and Spark has committed them."""
        self._wait_until(lambda: self._published >= last, f"segment {last} is published")
        number = self._number
        if number >= 0:
            self._wait_until(
                lambda: is_committed(self._checkpoint, number), "Spark has committed it"
            )

    def stop(self) -> None:
        """Stop the worker and the thread; for a running micro-batch see ``Worker.stop``."""
        with self._changed:
            self._stopping = True
            worker = self._worker
            self._changed.notify_all()
        if worker is not None:
            worker.stop()
        if self._thread.ident:
            self._thread.join()

    def report(self, report: Report) -> None:
        """Record a worker's report."""
        with self._changed:
            match report:
                case Started(seconds):
                    self._started, self.start_seconds = True, seconds
                case Recovered(last):
                    self._published = max(self._published, last)
                case Planned(number, cti):
                    self._ctis[number] = cti
                    self._ctis.pop(number - REMEMBERED, None)
                case Published(number, last, seconds):
                    self._published, self._number = max(self._published, last), number
                    self.batches += 1
                    self.batch_seconds += seconds
                    self._fruitless = 0
                    log.debug("spark.batch", number=number, last_segment=last)
            self._changed.notify_all()

    def _wait_until(self, done: Callable[[], bool], what: str) -> None:
        logged = time.monotonic()
        with self._changed:
            while not done():
                self.check()
                if self._fruitless >= ATTEMPTS and self._last_exit is not None:
                    raise self._last_exit.error
                # short, since Spark's commit is a file and sends no notification
                self._changed.wait(0.02)
                if time.monotonic() - logged > 5:
                    logged = time.monotonic()
                    log.info("spark.waiting", until=what, published=self._published)

    def _run(self) -> None:
        try:
            while (worker := self._make_worker()) is not None:
                ended = worker.run()
                if ended is None or not self._restarts_after(ended):
                    return
        except BaseException as error:
            # without this, others would wait for the thread in vain
            with self._changed:
                self._last_exit = WorkerExit(error, "never")
                self.failure = None if self._stopping else error
                self._changed.notify_all()

    def _make_worker(self) -> Worker | None:
        worker = self._make(self.report)
        with self._changed:
            self._worker = None if self._stopping else worker
            return self._worker

    def _restarts_after(self, ended: WorkerExit) -> bool:
        """Record how a worker has ended, and pause; return True to start another one."""
        with self._changed:
            self._last_exit = ended
            self._fruitless += 1
            if not self._stopping and (ended.retry == "never" or self._gives_up(ended)):
                self.failure = ended.error
            self._changed.notify_all()
            if self._stopping or self.failure is not None:
                return False
            pause = _pause(self._fruitless)
            log.warning("spark.restarting", pause=pause, error=repr(ended.error))
            self._changed.wait_for(lambda: self._stopping, pause)
            self.restarts += 1
            return not self._stopping

    def _gives_up(self, ended: WorkerExit) -> bool:
        """Return True after too many workers without a micro-batch."""
        if ended.retry == "some":
            # an error before the first start is lasting, a later one may be temporary
            return self._fruitless >= (ATTEMPTS if self._started else 1)
        # disk space and databases become available again, however long it takes; a process that
        # always dies before it has started will not recover
        died = isinstance(ended.error, JavaError)
        return died and not self._started and self._fruitless >= ATTEMPTS


def _pause(fruitless: int) -> float:
    """Return the seconds before the next worker, after so many in a row that wrote nothing."""
    # bounded, since the float would overflow after a night with a full disk
    doublings = min(fruitless - 1, 10)
    return min(FIRST_PAUSE * 2.0**doublings, LONGEST_PAUSE)
