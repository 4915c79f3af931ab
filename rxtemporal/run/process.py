"""Queries that run into sinks, as one process."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import polars as pl
from reactivex import Observable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import describe_failure
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.core.time_forms import TimeForm, check_time_form
from rxtemporal.errors import ArgumentError, BindingError, StoppedError
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.run.checkpoint import Checkpointer
from rxtemporal.run.diagnostics import Diagnostics, describe_process, diagnose
from rxtemporal.run.execution import Execution
from rxtemporal.run.outlet import Outlet
from rxtemporal.run.peek import RunDouble, select_keys
from rxtemporal.run.recovery import refuse_unlogged
from rxtemporal.run.run_end import Listeners
from rxtemporal.run.stalls import StallWatch
from rxtemporal.storage.event_log.event_log import EventLog
from rxtemporal.storage.event_log.recorder import RunRecorder

_log = get_logger(__name__)

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


_NEW, _RUNNING, _CLOSING, _ENDED = _ProcessState
# names that other libraries have, and what to write here
_HINTS = {
    "join": "wait() waits for the end.",
    **dict.fromkeys(("result", "results", "collect"), "the results are in the sink of run(sink)."),
    **dict.fromkeys(("close", "cancel", "shutdown", "terminate"), "stop() ends the run."),
    **dict.fromkeys(("stats", "status", "metrics"), "diagnostics() has the counters."),
    **dict.fromkeys(("push", "on_next"), "push into the source, a PushSource or a subject."),
}


class Process:
    """One or several running queries, as a context manager.

    Several queries start, stop and fail as one: the error of one ends all, and all sinks are closed
    when the last query has completed.

    The process reads files, frames and iterables in a thread of its own; a source that pushes does
    so on its own threads. An error of a query, a source or a sink ends the process; ``wait`` and
    ``await process`` raise it, ``error`` is it. If nobody waits and no callback is added, it is
    logged as critical, which a host without logging sees on standard error.

    Leaving the context waits for the end, or stops the process if the block raised; ``async with``
    does the same without blocking the event loop. ``stop`` ends a process whose source never ends.
    ``dispose`` is Rx's name of ``stop``.

    Threads: every method may be called from any thread.

    >>> import rxtemporal as rxt
    >>> process = rxt.from_events([rxt.PointEvent(4, 2)]).run(rxt.Collect(), name="visits")
    >>> process.wait(), process.running, process.ended, process.error
    (True, False, True, None)
    >>> process
    Process('visits', ended, 1 event in, 0 late, 1 row out)
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
        self._state = _NEW
        self._state_lock = threading.Lock()
        self._listeners = Listeners(self)
        # held during a write, so that no sink is closed in the middle of one
        self._write_lock = threading.RLock()
        # the thread that is inside a write
        self._writer: int | None = None
        self._error: BaseException | None = None
        # with what the process ends, and True once a thread closes it
        self._end_error: BaseException | None = None
        self._is_finishing = False
        self._thread: threading.Thread | None = None
        self._first: Diagnostics | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names what was probably meant."""
            hint = f" Hint: {_HINTS[name]}" if name in _HINTS else ""
            raise AttributeError(f"a process has no {name!r}.{hint}")

    def __repr__(self) -> str:
        return f"Process({describe_process(self.diagnostics(), self.error)})"

    def _repr_html_(self) -> str:
        return self.diagnostics()._repr_html_()

    @property
    def running(self) -> bool:
        """True while the process accepts events; False from the moment it ends, fails or stops.

        It is False before a push returns that ended the process, and before any later one.
        """
        return self._state is _RUNNING and self._execution.run_end.accepts

    @property
    def ended(self) -> bool:
        """True once everything is over: the sinks are closed and the state is saved."""
        return self._listeners.is_done

    @property
    def error(self) -> BaseException | None:
        """The error that ended the process, as soon as it is known; None without one.

        It may be there before ``ended``, while sinks are still closing.
        """
        return self._error or self._execution.error

    def start(self) -> Process:
        """Open the sinks and start; used by ``Streamable.run`` and ``Application.run``."""
        if self._state is not _NEW:
            raise BindingError(
                f"process {self.name!r} has been started before. Hint: each run() makes a new one."
            )
        self._state = _RUNNING
        try:
            if self._checkpointer is not None:
                self._log = self._checkpointer.begin(self._execution, self._outlets, self._fail)
            elif self._log is not None:
                refuse_unlogged(self._execution.readers)
                self._log.open()
                self._execution.attach_log(self._log, self._execution.readers)
            for outlet in self._outlets:
                outlet.set_time_form(lambda: self._execution.time)
                if outlet.schema is not None:
                    outlet.open(outlet.schema)
            if self._recorder is not None:
                self._execution.record(self._recorder)
                self._recorder.begin()
            for outlet in self._outlets:
                outlet.note_result(self._execution.clock.elapsed())
            writes = [partial(self._write, outlet) for outlet in self._outlets]
            self._execution.begin(writes, self._fail, lambda: self._end(None))
            self._first = self.diagnostics()
            self._execution.connect()
        except BaseException as error:
            self._listeners.hear()  # from the caller, to whom it is raised
            self._fail(error)
            self._listeners.wait()
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
            self._fail(error)

    def _write(self, outlet: Outlet, batch: EventBatch) -> None:
        try:
            with self._write_lock:
                if self._state is not _RUNNING:
                    return
                # no result leaves before its events are durable, as rows that were held are
                if self._log and not all(each.holds_rows for each in self._execution.logged):
                    self._log.flush()
                self._writer = threading.get_ident()
                try:
                    outlet.write(batch)
                    outlet.note_result(self._execution.clock.elapsed())
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
            if self._state not in (_CLOSING, _ENDED):
                self._state, self._end_error = _CLOSING, error
        # whoever was here first may have been interrupted: then the next one finishes
        if self._is_finishing:
            return
        pulled = self._execution.pulls and not self._in_callback()
        if pulled or self._in_write():
            self._finish()
            return
        # a producer does not wait until the sinks are closed; a sink's callback cannot, since the
        # sink waits for it
        thread = threading.Thread(
            target=self._finish, name=f"rxtemporal {self.name} closing", daemon=True
        )
        thread.start()

    def _finish(self) -> None:
        with self._state_lock:
            if self._is_finishing:
                return
            self._is_finishing = True
        error = self._end_error
        self._stalls.dispose()
        self._execution.dispose()
        for kept in (self._recorder, self._log):
            if kept is not None:
                error = _try(kept.close, error)
        with self._write_lock:
            for outlet in self._outlets:
                error = _try(partial(outlet.close, error), error)
        if self._checkpointer is not None:
            error = _try(partial(self._checkpointer.end, error), error)
        elif self._log is not None:
            error = _try(partial(self._log.store.close, complete=True), error)
        self._execution.late.end()
        self._error = None if isinstance(error, StoppedError) else error
        self._state = _ENDED
        if not self._listeners.finish() and isinstance(self._error, Exception):
            _log.critical(
                "process ended by an error", process=self.name, error=describe_failure(self._error)
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the process has ended; return False if it still runs after ``timeout``.

        Raises the error that ended the process, after ``timeout`` even if its sinks are still
        closing. ``timeout`` is in seconds; None waits for ever.
        """
        ended = self._listeners.wait(timeout)
        if self.error is not None:
            raise self.error
        return ended

    def add_done_callback(self, callback: Callable[[Process], object]) -> None:
        """Call a function with this process, once, when it has ended; at once if it has already.

        It is called on the thread that ends the process, after the sinks are closed, in the order
        of adding; an exception that it raises is logged. ``process.error`` says how it ended.
        """
        self._listeners.add(callback)

    def __await__(self) -> Generator[Any, None, None]:
        """Wait for the end without blocking the event loop; raise the error of the process.

        Cancelling the wait does not stop the process.
        """
        yield from self._listeners.wait_async().__await__()
        if self._error is not None:
            raise self._error

    def stop(self, error: BaseException | None = None) -> None:
        """End this life of the process: accept nothing more, deliver, save, and close the sinks.

        Rows that wait in a hand-off have been accepted and still go through the query; a run with
        ``resume=`` is saved and can be continued by another run. Rows that wait for a CTI are in
        that state, or in the log of ``log=``; without either they are lost. The stream has not
        ended: for that, its source completes. ``error`` fails the process: nothing more is
        delivered, the sinks are closed with it, and ``wait`` raises it.

        Returns when all is done, also if the process has ended before. From inside the process (a
        sink, a user's function, an observer of late events) it returns at once, since the end
        waits for that caller. An iterable that is being asked for its next event is not waited for:
        it may never answer. In an event loop: ``await asyncio.to_thread(process.stop)``.
        """
        if error is not None:
            self._listeners.hear()
        self._execution.run_end.close(error)
        failed = self._stop_between_batches(error)
        error = error or failed or self._execution.error
        if error is None:
            self._execution.settle(BLOCKED_PATIENCE)
        error = error or self._execution.error
        inside = self._in_write() or self._execution.inside
        self._execution.dispose(error)
        error = error or StoppedError("the process was stopped")
        for outlet in self._outlets:
            outlet.sink.cancel(error)
        self._end(error)
        if inside or self._in_callback():
            return  # the end waits for this thread
        self._listeners.wait(hears=False)
        own = self._thread is threading.current_thread()
        if self._thread is not None and not own and not self._execution.may_block:
            self._thread.join()
        self._execution.join()

    dispose = stop

    def _stop_between_batches(self, error: BaseException | None) -> BaseException | None:
        """Finish and save the current batch of a run with a checkpoint; return an error in saving.

        The wait is limited: a batch that takes longer is cancelled, and comes again when the run is
        resumed.
        """
        if self._checkpointer is None:
            return None
        self._checkpointer.stop()
        if self._in_callback() or self._execution.inside or self._state is _NEW:
            return None
        patience = BLOCKED_PATIENCE if self._execution.may_block else STOP_PATIENCE
        own = self._thread is threading.current_thread()
        return self._checkpointer.save_last(None if own else self._thread, patience, error)

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

    def peek(
        self,
        query: str | None = None,
        keys: Mapping[str, Any] | None = None,
        *,
        time: TimeForm | None = None,
        timeout: float | None = None,
    ) -> pl.DataFrame:
        """Return the results so far: the rows that a query would give if nothing more came.

        They are not final. Of a window that is open it is the value so far. Each row that is open
        is taken to end now, one tick above the highest start that has come; rows that would begin
        later are left out, and so are those that have been given, compared by start and payload.
        A row that never ends has a null end. After the end of the process there are none.

        ``query`` is the name of a query of an application, which has several. ``keys`` chooses
        rows by the values of fields, as ``{"room": "lab"}`` or ``{"room": ["lab", "hall"]}``.
        ``time`` is the form of the times, by default that of the stream.

        Computed on a copy of the state between two batches, for which ``timeout`` is how many
        seconds to wait; None: without limit. Producers wait while the state is copied, and nobody
        afterwards; rows that wait in a hand-off are in the results. The copy calls users' functions
        again, so one that keeps something outside of its arguments sees these rows twice. Any
        thread may call it, but not a sink or a user's function of this process.

        Errors: ``ArgumentError`` for a query or a field that there is not. ``TimeoutError`` if the
        process is busy for longer than ``timeout``. ``CheckpointError`` if the state holds objects
        that cannot be copied. ``BindingError`` if too many rows lie between the last event and the
        end of the windows that are open. Those of users' functions are raised here, and do not end
        the process.

        >>> import rxtemporal as rxt
        >>> from rxtemporal import agg
        >>> source = rxt.PushSource("readings", schema={"v": int}, delay=0)
        >>> sums = source.stream.tumbling_window(10).aggregate(v=agg.sum("v"))
        >>> process = sums.run(rxt.Collect())
        >>> for time, v in ((1, 5), (4, 7), (12, 1)):
        ...     _ = source.push({"time": time, "v": v})
        >>> process.peek().rows()
        [(10, 20, 1)]
        >>> process.stop()
        """
        number = self._find_outlet(query)
        check_time_form(time)
        if self._execution.inside or self._in_write():
            raise BindingError(
                "peek reads the results between two batches, and this call comes from inside one: "
                "from a sink, or a function of the query. Hint: call it on another thread."
            )
        rows = self._look(number, timeout)
        frame = rows.to_polars(time or self._execution.get_time(number))
        return select_keys(frame, keys, is_known=bool(rows.schema))

    def _look(self, number: int, timeout: float | None) -> EventBatch:
        """Return the results so far of a query, by its number."""
        rows = EventBatch.empty(self._outlets[number].schema or pl.Schema(), MIN_TIME)
        if self.running:
            double = RunDouble(self._execution, number)
            with self._execution.hold(-1 if timeout is None else timeout) as held:
                if held:
                    double.copy(self._execution)
                elif self.running:
                    raise TimeoutError(
                        f"process {self.name!r} has been busy with a batch for {timeout} s. Hint: "
                        "diagnostics() says whether a sink is slow; a longer timeout= waits for it."
                    )
            if held:
                rows = self._outlets[number].drop_given(double.finish())
        return rows

    def _find_outlet(self, query: str | None) -> int:
        names = [outlet.name for outlet in self._outlets]
        if query is None and len(names) == 1:
            return 0
        if query not in names:
            asked = "peek needs the name of a query" if query is None else f"no query {query!r}"
            raise ArgumentError(f"{asked}; there are {', '.join(map(repr, names))}.")
        return names.index(query)

    def first_diagnostics(self) -> Diagnostics:
        """Return the diagnostics from before the sources were connected; for metrics.

        They have what this run did not count: the counts of a saved run, of its event log, and of
        inputs that outlive a run.
        """
        return self._first or self.diagnostics()

    def diagnostics(self) -> Diagnostics:
        """Return the counts so far, the error that ended the process, and what it waits for.

        Print the result, call its ``holding_back()`` for the sentences alone, or its ``to_dict()``
        for JSON. Ages are seconds of the wall clock. This call never waits.
        """
        ended = self.ended
        return diagnose(self.name, self.running, ended, self.error, self._execution, self._outlets)

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
                if not self.ended:
                    self.stop(interrupt)
                raise
        else:
            self.stop(error)

    async def __aenter__(self) -> Process:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await self
            except BaseException as interrupt:
                if not self.ended:
                    await asyncio.to_thread(self.stop, interrupt)
                raise
        else:
            await asyncio.to_thread(self.stop, error)


def _try(close: Callable[[], object], error: BaseException | None) -> BaseException | None:
    """Call a function at the end of a process; return the first error that ends it."""
    try:
        close()
    except BaseException as failed:
        return failed if error is None or isinstance(error, StoppedError) else error
    return error
