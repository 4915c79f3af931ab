"""Queries that run into sinks, as one process."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType

from reactivex import Observable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import Span
from rxtemporal.errors import BindingError
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.runtime.checkpoint import Keeper
from rxtemporal.runtime.diagnostics import Diagnostics, diagnosed
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.input_log import refuse_unlogged
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.stalls import StallWatch
from rxtemporal.storage.event_log import InputLog, Recorder

_log = get_logger(__name__)

# seconds between two chances to be interrupted
INTERRUPTIBLE = 0.2
# seconds that a run which is kept may take to come to the end of a batch
STOPPING = 10.0
# the same where a source is asked that may not answer
BLOCKED = 1.0
# how long nothing may come out before the log says why
WARN_AFTER = timedelta(seconds=30)


class Process:
    """One or several running queries: a context manager, and something to wait for.

    Several start, stop and fail as one: the error of one query ends all, and all sinks are closed
    when the last query has completed.

    A source that has to be asked (a file, a frame, an iterable) is read in a thread of the
    process; one that pushes is followed on its own threads. An error of the query, its source or
    its sink ends the process and is raised by ``wait``. Leaving the context waits, or stops the
    process if the block raised.

    Threads: every method from any.
    """

    def __init__(
        self,
        name: str,
        execution: Execution,
        outlets: Sequence[Outlet],
        warn_after: Span | None = WARN_AFTER,
        recorder: Recorder | None = None,
        keeper: Keeper | None = None,
        log: InputLog | None = None,
    ) -> None:
        self.name = name
        self._stalls = StallWatch(name, execution, outlets, warn_after)
        self._execution = execution
        self._recorder = recorder
        self._keeper = keeper
        self._log = log
        self._outlets = outlets
        self._started = False
        self._done = threading.Event()
        self._closing = threading.Lock()
        # held while a sink works, so that it is not closed in the midst of a write
        self._sinking = threading.RLock()
        self._writer: int | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> Process:
        """Open the sinks and start; used by ``Streamable.run`` and ``Application.run``."""
        if self._started:
            raise BindingError(
                f"process {self.name!r} runs already, or has run. Hint: each run() gives a new one."
            )
        self._started = True
        try:
            if self._keeper is not None:
                self._log = self._keeper.begin(self._execution, self._outlets)
            elif self._log is not None:
                refuse_unlogged(self._execution.readings)
                self._execution.keep(self._log, self._execution.readings)
            for outlet in self._outlets:
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
            self._ended_within(None)
            raise
        self._stalls.begin()
        if self._execution.pulls:
            self._thread = threading.Thread(
                target=self._pull, name=f"rxtemporal {self.name}", daemon=True
            )
            self._thread.start()
        return self

    def _pull(self) -> None:
        try:
            advance = (self._keeper or self._execution).advance
            while advance():
                pass
        except BaseException as error:
            self._end(error)

    def _write(self, outlet: Outlet, batch: EventBatch) -> None:
        try:
            with self._sinking:
                if self._closed:
                    return
                if self._log is not None:
                    self._log.flush()  # nothing leaves that rests on what might be lost
                self._writer = threading.get_ident()
                try:
                    outlet.write(batch)
                    outlet.wrote = self._execution.clock.elapsed()
                finally:
                    self._writer = None
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise  # an interrupt belongs to the thread that pushes, too

    def _fail(self, error: BaseException) -> None:
        # of several queries the others have to be stopped, too
        self._execution.dispose(error)
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        pulled = self._execution.pulls and not self._in_callback()
        if pulled or self._writer == threading.get_ident():
            self._finish(error)
            return
        # a producer that pushes does not wait until a sink has carried everything on, and a sink's
        # own function cannot
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
        with self._sinking:
            for outlet in self._outlets:
                try:
                    if outlet.opened:
                        outlet.sink.close(error)
                except BaseException as failed:
                    error = error or failed
        if self._keeper is not None:
            try:
                self._keeper.end(error)
            except BaseException as failed:
                error = error or failed
        self._execution.late.end()
        self._error = None if isinstance(error, _StoppedError) else error
        if error is not None and not isinstance(error, (_StoppedError, KeyboardInterrupt)):
            _log.warning("process ended by an error", process=self.name, error=repr(error))
        self._done.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process has ended and raise what ended it; False if it still runs.

        ``timeout`` is in seconds; None waits for ever.
        """
        if not self._ended_within(timeout):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _ended_within(self, timeout: float | None) -> bool:
        # polars handles SIGINT so that a blocked wait goes on: only between short ones is there
        # a chance for Ctrl-C
        last = None if timeout is None else time.monotonic() + timeout
        while not self._done.is_set():
            left = INTERRUPTIBLE if last is None else last - time.monotonic()
            if left <= 0:
                return False
            self._done.wait(min(left, INTERRUPTIBLE))
        return True

    def dispose(self, error: BaseException | None = None) -> None:
        """Stop: nothing more is accepted or written, and the sink is closed.

        What waits in a hand-off was accepted: it still goes through the query, unless an error is
        why the process stops, or who stops it is in the midst of the query. An iterable that is
        just being asked for its next event is left alone: it may never answer.
        """
        failed = self._stop_between_batches()
        error = error or failed
        if error is None:
            self._execution.settle()
        error = error or _StoppedError("the process was stopped")
        inside = self._writer == threading.get_ident()
        self._execution.dispose()
        for outlet in self._outlets:
            outlet.sink.cancel(error)
        self._end(error)
        if self._in_callback():
            return  # the sink waits for it, and not it for the sink
        self._ended_within(None)
        own = self._thread is threading.current_thread()
        if self._thread is not None and not own and not self._execution.may_block:
            self._thread.join()
        if not inside:
            self._execution.join()

    def _stop_between_batches(self) -> BaseException | None:
        """Let what is just coming go through and be saved, if the run is kept, and nothing more.

        Not for ever: what is slow there is hurried on afterwards, and comes again. Returns what
        keeps it from being saved.
        """
        keeper, thread = self._keeper, self._thread
        if keeper is None:
            return None
        keeper.stop()
        if self._in_callback() or self._execution.inside or not self._started:
            return None
        patience = BLOCKED if self._execution.may_block else STOPPING
        if thread is not None and thread is not threading.current_thread():
            thread.join(patience)
        if not keeper.gate.acquire(timeout=patience):
            return None
        try:
            keeper.leave()
            self._execution.dispose()
        except Exception as error:
            return error
        finally:
            keeper.gate.release()
        return None

    def declare_idle(self, name: str) -> None:
        """Let a stream whose source is silent, or has gone, hold the others back no longer.

        Its CTI follows the lowest of the others', at once and from now on, until its source sends
        something; that is judged by the CTI reached by then, so the stream needs a policy. The
        streams are those of ``diagnostics().streams``. From inside a sink it may be called too.
        """
        # a batch that follows from inside a write would come before the rest of that one
        inside = self._writer == threading.get_ident()
        self._execution.declare_idle(name, at_once=not inside)

    @property
    def late(self) -> Observable[LateEvent]:
        """Every event that a stream has dropped or adjusted, as it happens, with the CTI it broke.

        Those from before the subscription are counted only; ``Streamable.late_events`` misses none.
        It completes when the process has ended. Delivered on the thread that reads the source.
        """
        return self._execution.late.observable

    def _in_callback(self) -> bool:
        return any(outlet.sink.in_callback() for outlet in self._outlets)

    def diagnostics(self) -> Diagnostics:
        """Return what has been counted so far, and what the process waits for.

        ``print`` it, or ask ``holding_back()`` for the sentences alone. Times are ticks; ages are
        seconds of the wall clock, which no result hangs on. It waits for nobody.
        """
        running = not self._done.is_set()
        return diagnosed(self.name, running, self._execution, self._outlets)

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
                if not self._done.is_set():
                    self.dispose(interrupt)
                raise
        else:
            self.dispose(error)


class _StoppedError(BindingError):
    """A process was stopped by ``dispose``."""
