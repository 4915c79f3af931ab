"""Queries that run into sinks, as one process."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Sequence
from functools import partial
from types import TracebackType

from reactivex import Observable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import Span
from rxtemporal.errors import BindingError
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.runtime.checkpoint import Checkpointer
from rxtemporal.runtime.diagnostics import Diagnostics, diagnose
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.recovery import refuse_unlogged
from rxtemporal.runtime.stall_watch import StallWatch
from rxtemporal.storage.event_log.event_log import EventLog
from rxtemporal.storage.event_log.recorder import RunRecorder

_log = get_logger(__name__)

# the longest wait, in seconds, during which Ctrl-C goes unnoticed
INTERRUPT_PERIOD = 0.2
# seconds to wait for the end of the current batch before a run with a checkpoint is stopped
STOP_PATIENCE = 10.0
# the same if the source may never answer
BLOCKED_PATIENCE = 1.0


class _ProcessState(enum.Enum):
    """The four states of a process, in order."""

    NEW = enum.auto()
    RUNNING = enum.auto()
    CLOSING = enum.auto()
    ENDED = enum.auto()


class Process:
    """One or several running queries, as a context manager.

    Several queries start, stop and fail as one: the error of one ends all, and all sinks are closed
    when the last query has completed.

    The process reads files, frames and iterables in a thread of its own; a source that pushes does
    so on its own threads. An error of a query, a source or a sink ends the process, and ``wait``
    raises it. Leaving the context waits for the end, or stops the process if the block raised.

    Threads: every method may be called from any thread.
    """

    def __init__(
        self,
        name: str,
        execution: Execution,
        outlets: Sequence[Outlet],
        warn_after: Span | None,
        recorder: RunRecorder | None = None,
        checkpointer: Checkpointer | None = None,
        log: EventLog | None = None,
    ) -> None:
        self.name = name
        self._stalls = StallWatch(name, execution, outlets, warn_after)
        self._execution = execution
        self._recorder = recorder
        self._checkpointer = checkpointer
        self._log = log
        self._outlets = outlets
        self._state = _ProcessState.NEW
        self._state_lock = threading.Lock()
        self._ended = threading.Event()
        # held during a write, so that no sink is closed in the middle of one
        self._write_lock = threading.RLock()
        # the thread that is inside a write
        self._writer: int | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Process:
        """Open the sinks and start; used by ``Streamable.run`` and ``Application.run``."""
        if self._state is not _ProcessState.NEW:
            raise BindingError(
                f"process {self.name!r} has been started before. Hint: each run() makes a new one."
            )
        self._state = _ProcessState.RUNNING
        try:
            if self._checkpointer is not None:
                self._log = self._checkpointer.begin(self._execution, self._outlets)
            elif self._log is not None:
                refuse_unlogged(self._execution.readers)
                self._log.open()
                self._execution.attach_log(self._log, self._execution.readers)
            for outlet in self._outlets:
                outlet.sink.set_time_form(lambda: self._execution.time)
                if outlet.schema is not None:
                    outlet.open(outlet.schema)
            if self._recorder is not None:
                self._execution.record(self._recorder)
                self._recorder.begin()
            for outlet in self._outlets:
                outlet.wrote = self._execution.clock.elapsed()
            writes = [partial(self._write, outlet) for outlet in self._outlets]
            self._execution.start_each(writes, self._fail, lambda: self._end(None))
        except BaseException as error:
            self._fail(error)
            self._wait_until_ended(None)
            raise
        self._stalls.start()
        if self._execution.pulls:
            self._thread = threading.Thread(
                target=self._pull, name=f"rxtemporal {self.name}", daemon=True
            )
            self._thread.start()
        return self

    def _pull(self) -> None:
        try:
            advance = (self._checkpointer or self._execution).advance
            while advance():
                pass
        except BaseException as error:
            self._end(error)

    def _write(self, outlet: Outlet, batch: EventBatch) -> None:
        try:
            with self._write_lock:
                if self._state is not _ProcessState.RUNNING:
                    return
                if self._log is not None:
                    self._log.flush()  # no result leaves before its events are durable
                self._writer = threading.get_ident()
                try:
                    outlet.write(batch)
                    outlet.wrote = self._execution.clock.elapsed()
                finally:
                    self._writer = None
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise  # Ctrl-C is for the thread that pushes, too

    def _fail(self, error: BaseException) -> None:
        # the error of one query stops the others
        self._execution.dispose(error)
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._state_lock:
            if self._state in (_ProcessState.CLOSING, _ProcessState.ENDED):
                return
            self._state = _ProcessState.CLOSING
        pulled = self._execution.pulls and not self._in_callback()
        if pulled or self._in_write():
            self._finish(error)
            return
        # a producer does not wait until the sinks are closed; a sink's callback cannot, since the
        # sink waits for it
        thread = threading.Thread(
            target=self._finish, args=(error,), name=f"rxtemporal {self.name} closing", daemon=True
        )
        thread.start()

    def _finish(self, error: BaseException | None) -> None:
        self._stalls.dispose()
        self._execution.dispose()
        for kept in (self._recorder, self._log):
            try:
                if kept is not None:
                    kept.close()
            except BaseException as failed:
                error = error or failed
        with self._write_lock:
            for outlet in self._outlets:
                try:
                    outlet.close(error)
                except BaseException as failed:
                    error = error or failed
        try:
            if self._checkpointer is not None:
                self._checkpointer.end(error)
            elif self._log is not None:
                self._log.store.close(complete=True)
        except BaseException as failed:
            error = error or failed
        self._execution.late.end()
        self._error = None if isinstance(error, _StoppedError) else error
        if error is not None and not isinstance(error, (_StoppedError, KeyboardInterrupt)):
            _log.warning("process ended by an error", process=self.name, error=repr(error))
        self._state = _ProcessState.ENDED
        self._ended.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process has ended; return False if it still runs after ``timeout``.

        Raises the error that ended the process. ``timeout`` is in seconds; None waits for ever.
        """
        if not self._wait_until_ended(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _wait_until_ended(self, timeout: float | None) -> bool:
        # polars installs a handler for SIGINT under which a blocked wait goes on, so that Python
        # sees Ctrl-C only between short waits
        last = None if timeout is None else time.monotonic() + timeout
        while not self._ended.is_set():
            left = INTERRUPT_PERIOD if last is None else last - time.monotonic()
            if left <= 0:
                return False
            self._ended.wait(min(left, INTERRUPT_PERIOD))
        return True

    def dispose(self, error: BaseException | None = None) -> None:
        """Stop the process: it accepts and writes nothing more, and closes its sinks.

        Rows that wait in a hand-off have been accepted and still go through the query, unless the
        process stops because of an error, or this thread is inside the query. An iterable that is
        being asked for its next event is not waited for: it may never answer.
        """
        failed = self._stop_between_batches()
        error = error or failed
        if error is None:
            self._execution.settle()
        error = error or _StoppedError("the process was stopped")
        inside = self._in_write()
        self._execution.dispose()
        for outlet in self._outlets:
            outlet.sink.cancel(error)
        self._end(error)
        if self._in_callback():
            return  # the sink waits for this thread
        self._wait_until_ended(None)
        own = self._thread is threading.current_thread()
        if self._thread is not None and not own and not self._execution.may_block:
            self._thread.join()
        if not inside:
            self._execution.join()

    def _stop_between_batches(self) -> BaseException | None:
        """Finish and save the current batch of a run with a checkpoint; return an error in saving.

        The wait is limited: a batch that takes longer is cancelled, and comes again when the run is
        resumed.
        """
        checkpointer, thread = self._checkpointer, self._thread
        if checkpointer is None:
            return None
        checkpointer.stop()
        if self._in_callback() or self._execution.inside or self._state is _ProcessState.NEW:
            return None
        patience = BLOCKED_PATIENCE if self._execution.may_block else STOP_PATIENCE
        if thread is not None and thread is not threading.current_thread():
            thread.join(patience)
        if not checkpointer.gate.acquire(timeout=patience):
            return None
        try:
            checkpointer.save_pushed()
            self._execution.dispose()
        except Exception as error:
            return error
        finally:
            checkpointer.gate.release()
        return None

    def declare_idle(self, name: str) -> None:
        """Declare a stream idle: its source is silent or gone, and no longer holds the others back.

        From now on its CTI follows the lowest CTI of the others, until its source sends something.
        What it sends then is judged by the CTI reached, so the stream needs a policy. The names are
        those of ``diagnostics().streams``. A sink may call this, too.
        """
        # inside a write, a batch that results from this would overtake the rest of that write
        self._execution.declare_idle(name, at_once=not self._in_write())

    @property
    def late(self) -> Observable[LateEvent]:
        """Late events as they happen: each that a stream drops or adjusts, with the CTI it broke.

        A subscriber misses those from before its subscription; ``Streamable.late_events`` has all.
        The observable completes when the process has ended. It calls on the thread that reads the
        source.
        """
        return self._execution.late.observable

    def _in_write(self) -> bool:
        return self._writer == threading.get_ident()

    def _in_callback(self) -> bool:
        return any(outlet.sink.in_callback() for outlet in self._outlets)

    def diagnostics(self) -> Diagnostics:
        """Return the counts so far, and what the process waits for.

        Print the result, or call its ``holding_back()`` for the sentences alone. Times are ticks;
        ages are seconds of the wall clock. This call never waits.
        """
        running = not self._ended.is_set()
        return diagnose(self.name, running, self._execution, self._outlets)

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self.wait()
            except BaseException as interrupt:
                if not self._ended.is_set():
                    self.dispose(interrupt)
                raise
        else:
            self.dispose(error)


class _StoppedError(BindingError):
    """A process was stopped by ``dispose``."""
