"""Queries that run into sinks, as one process."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import TracebackType

import polars as pl

from rxtemporal.admission import LateReason
from rxtemporal.advance_time import Door
from rxtemporal.batch import EventBatch
from rxtemporal.errors import BindingError
from rxtemporal.execution import Execution
from rxtemporal.log import get_logger
from rxtemporal.recording import Recorder
from rxtemporal.sinks import Sink
from rxtemporal.ticks import MIN_TIME

__all__ = [
    "Diagnostics",
    "OperatorDiagnostics",
    "Outlet",
    "Process",
    "QueryDiagnostics",
    "StreamDiagnostics",
]

_log = get_logger(__name__)

# seconds between two chances to be interrupted
INTERRUPTIBLE = 0.2


@dataclasses.dataclass(frozen=True, slots=True)
class OperatorDiagnostics:
    """One operator of a running query: where it was composed, and how many rows it holds."""

    name: str
    line: str
    rows: int


@dataclasses.dataclass(frozen=True, slots=True)
class StreamDiagnostics:
    """One input stream of a process: what came, what was late, and its CTI (ticks).

    ``late_by_import`` is how many of the late events only an imported CTI has made late.
    """

    name: str
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    cti: int
    late_by_import: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class QueryDiagnostics:
    """One query of a process: what its sink has been given, and its CTI (ticks)."""

    name: str
    rows_out: int
    batches_out: int
    cti: int


@dataclasses.dataclass(frozen=True, slots=True)
class Diagnostics:
    """What a process has done so far; times are ticks.

    The figures of all its streams and queries together, the CTI being the lowest of its queries';
    ``streams`` and ``queries`` have those of each.
    """

    name: str
    running: bool
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    rows_out: int
    batches_out: int
    cti: int
    operators: tuple[OperatorDiagnostics, ...] = ()
    streams: tuple[StreamDiagnostics, ...] = ()
    queries: tuple[QueryDiagnostics, ...] = ()


class Outlet:
    """Where one query of a process goes: its sink, and what that has been given."""

    def __init__(self, name: str, sink: Sink, schema: pl.Schema | None) -> None:
        self.name = name
        self.sink = sink
        self.schema = schema
        self.opened = False
        self.rows = self.batches = 0
        self.cti = MIN_TIME

    def open(self, schema: pl.Schema) -> None:
        """Open the sink."""
        self.sink.open(self.name, schema)
        self.opened = True

    def write(self, batch: EventBatch) -> None:
        """Give the sink one batch; it is opened first where the fields were not known before."""
        if not self.opened:
            self.open(batch.schema)
        self.sink.write(batch)
        self.rows += len(batch)
        self.batches += 1
        self.cti = batch.cti


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
        recorder: Recorder | None = None,
    ) -> None:
        self.name = name
        self._execution = execution
        self._recorder = recorder
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
            for outlet in self._outlets:
                if outlet.schema is not None:
                    outlet.open(outlet.schema)
            if self._recorder is not None:
                self._execution.record(self._recorder)
                self._recorder.begin()
            writes = [partial(self._write, outlet) for outlet in self._outlets]
            self._execution.start_each(writes, self._fail, lambda: self._end(None))
        except BaseException as error:
            self._fail(error)
            self._ended_within(None)
            raise
        if self._execution.pulls:
            self._thread = threading.Thread(
                target=self._pull, name=f"rxtemporal {self.name}", daemon=True
            )
            self._thread.start()
        return self

    def _pull(self) -> None:
        try:
            while self._execution.advance():
                pass
        except BaseException as error:
            self._end(error)

    def _write(self, outlet: Outlet, batch: EventBatch) -> None:
        try:
            with self._sinking:
                if self._closed:
                    return
                self._writer = threading.get_ident()
                try:
                    outlet.write(batch)
                finally:
                    self._writer = None
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise  # an interrupt belongs to the thread that pushes, too

    def _fail(self, error: BaseException) -> None:
        # of several queries the others have to be stopped, too
        self._execution.dispose()
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
        if self._execution.pulls or self._writer == threading.get_ident():
            self._finish(error)
            return
        # a producer that pushes does not wait until a sink has carried everything on
        thread = threading.Thread(
            target=self._finish, args=(error,), name=f"rxtemporal {self.name} closing", daemon=True
        )
        thread.start()

    def _finish(self, error: BaseException | None) -> None:
        self._execution.dispose()
        if self._recorder is not None:
            try:
                self._recorder.close()
            except BaseException as failed:
                error = error or failed
        with self._sinking:
            for outlet in self._outlets:
                try:
                    if outlet.opened:
                        outlet.sink.close(error)
                except BaseException as failed:
                    error = error or failed
        self._error = error
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
        """Stop: nothing more is written, and the sink is closed.

        An iterable that is just being asked for its next event is left alone: it may never answer.
        """
        self._execution.dispose()
        self._end(error or _StoppedError("the process was stopped"))
        self._ended_within(None)
        own = self._thread is threading.current_thread()
        if self._thread is not None and not own and not self._execution.may_block:
            self._thread.join()
        if isinstance(self._error, _StoppedError):
            self._error = None

    def diagnostics(self) -> Diagnostics:
        """Return what has been counted so far."""
        doors, outlets = self._execution.doors, self._outlets
        late: Counter[LateReason] = Counter()
        for door in doors:
            late.update(door.late)
        return Diagnostics(
            name=self.name,
            running=not self._done.is_set(),
            events_in=sum(door.events for door in doors),
            late=_some(late),
            largest_lateness=max(door.largest_lateness for door in doors),
            rows_out=sum(outlet.rows for outlet in outlets),
            batches_out=sum(outlet.batches for outlet in outlets),
            cti=min(outlet.cti for outlet in outlets),
            operators=tuple(OperatorDiagnostics(*each) for each in self._execution.held),
            streams=tuple(map(_of_stream, doors)),
            queries=tuple(
                QueryDiagnostics(each.name, each.rows, each.batches, each.cti) for each in outlets
            ),
        )

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


def _some(late: Counter[LateReason]) -> dict[LateReason, int]:
    return {reason: n for reason, n in late.items() if n}


def _of_stream(door: Door) -> StreamDiagnostics:
    cti = max(door.cti, MIN_TIME)
    late = _some(door.late)
    return StreamDiagnostics(
        door.source, door.events, late, door.largest_lateness, cti, door.late_by_import
    )


class _StoppedError(BindingError):
    """A process was stopped by ``dispose``."""
