"""A query that runs into a sink."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import Counter
from types import TracebackType

import polars as pl

from rxtemporal.admission import LateReason
from rxtemporal.batch import EventBatch
from rxtemporal.errors import BindingError
from rxtemporal.execution import Execution
from rxtemporal.log import get_logger
from rxtemporal.sinks import Sink
from rxtemporal.ticks import MIN_TIME

__all__ = ["Diagnostics", "OperatorDiagnostics", "Process"]

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
class Diagnostics:
    """What a process has done so far; times are ticks."""

    name: str
    running: bool
    events_in: int
    late: dict[LateReason, int]
    largest_lateness: int
    rows_out: int
    batches_out: int
    cti: int
    operators: tuple[OperatorDiagnostics, ...] = ()


class Process:
    """One running query: a context manager, and something to wait for.

    A source that has to be asked (a file, a frame, an iterable) is read in a thread of the
    process; one that pushes is followed on its own threads. An error of the query, its source or
    its sink ends the process and is raised by ``wait``. Leaving the context waits, or stops the
    process if the block raised.

    Threads: every method from any.
    """

    def __init__(
        self, name: str, execution: Execution, sink: Sink, schema: pl.Schema | None
    ) -> None:
        self.name = name
        self._execution = execution
        self._sink = sink
        self._opened = False
        self._schema = schema
        self._done = threading.Event()
        self._closing = threading.Lock()
        # held while the sink works, so that it is not closed in the midst of a write
        self._sinking = threading.RLock()
        self._writer: int | None = None
        self._closed = False
        self._error: BaseException | None = None
        self._rows = self._batches = 0
        self._cti = MIN_TIME
        self._thread: threading.Thread | None = None

    def start(self) -> Process:
        """Open the sink and start; used by ``Streamable.run``."""
        if self._schema is not None:
            self._open(self._schema)
        try:
            self._execution.start(self._write, self._end, lambda: self._end(None))
        except BaseException as error:
            self._end(error)
            raise
        if self._execution.pulls:
            self._thread = threading.Thread(
                target=self._pull, name=f"rxtemporal {self.name}", daemon=True
            )
            self._thread.start()
        return self

    def _open(self, schema: pl.Schema) -> None:
        self._sink.open(self.name, schema)
        self._opened = True

    def _pull(self) -> None:
        try:
            while self._execution.advance():
                pass
        except BaseException as error:
            self._end(error)

    def _write(self, batch: EventBatch) -> None:
        try:
            with self._sinking:
                if self._closed:
                    return
                self._writer = threading.get_ident()
                try:
                    self._into_sink(batch)
                finally:
                    self._writer = None
        except BaseException as error:
            self._execution.dispose()
            self._end(error)
            if not isinstance(error, Exception):
                raise  # an interrupt belongs to the thread that pushes, too

    def _into_sink(self, batch: EventBatch) -> None:
        if not self._opened:
            self._open(batch.schema)
        self._sink.write(batch)
        self._rows += len(batch)
        self._batches += 1
        self._cti = batch.cti

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
        try:
            with self._sinking:
                if self._opened:
                    self._sink.close(error)
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
        doors = self._execution.doors
        late: Counter[LateReason] = Counter()
        for door in doors:
            late.update(door.late)
        return Diagnostics(
            name=self.name,
            running=not self._done.is_set(),
            events_in=sum(door.events for door in doors),
            late={reason: n for reason, n in late.items() if n},
            largest_lateness=max(door.largest_lateness for door in doors),
            rows_out=self._rows,
            batches_out=self._batches,
            cti=self._cti,
            operators=tuple(OperatorDiagnostics(*each) for each in self._execution.held),
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


class _StoppedError(BindingError):
    """A process was stopped by ``dispose``."""
