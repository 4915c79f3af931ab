"""Lock and state that the producers and the consumer of one run share."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from rxtemporal.run.run_end import INTERRUPT_PERIOD, RunEnd

Deliver = Callable[[Exception], None]


class StreamLock(Protocol):
    """Lock under which the items of a stream are accepted.

    As a context manager it may deliver waiting rows when it is left.
    """

    def __enter__(self) -> object: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> object: ...


def find_bare(lock: StreamLock) -> Any:
    """Return the bare lock of a stream, for a moment in which no batch is made."""
    return getattr(lock, "bare", lock)


class State(enum.IntEnum):
    """State of a run's hand-offs on the way to its end; it never goes back."""

    OPEN = 0
    # producers are released; new rows are not accepted, accepted ones are delivered
    FINISHING = 1
    # a source has failed: rows accepted before are delivered, then its error
    FAILED = 2
    # nothing more is delivered
    CLOSED = 3


class Gate:
    """State of all queues of a run, and its ``lock``.

    The lock is held while a source is read and while rows are taken out. It is re-entrant. A thread
    that holds it never waits for the lock under which the query runs. It is entered and left in C:
    a method that is written in Python may be interrupted by Ctrl-C before it has left a lock.
    """

    def __init__(self, run_end: RunEnd) -> None:
        self.run_end = run_end
        self.state = State.OPEN
        # the error that ended the query or a source, if any
        self.error: BaseException | None = None
        # the error of a source that is still to be delivered, and the function to deliver it
        self.failure: tuple[Deliver, Exception] | None = None
        # functions that move rows still outside of the queues into them
        self.flushes: list[Callable[[], None]] = []
        # the thread that is running the query, if any
        self.consumer: int | None = None
        self.lock: Any = threading.RLock()
        # True if a source without a hand-off is in the run: its threads take rows out, too
        self.is_served = False
        self._room = threading.Condition(self.lock)
        self._rows = threading.Condition(self.lock)
        self._order = itertools.count(1)

    def serve_sources(self) -> None:
        """Note that a source without a hand-off is in the run."""
        self.is_served = True

    def enter_query(self) -> None:
        """Note that this thread runs the query."""
        self.consumer = threading.get_ident()

    def leave_query(self) -> None:
        """Note that no thread runs the query."""
        self.consumer = None

    def take_failure(self) -> tuple[Deliver, Exception] | None:
        """Return the error of a source that is still to be delivered; the caller delivers it."""
        failure, self.failure = self.failure, None
        return failure

    def is_owned(self) -> bool:
        """Return True if the calling thread has the lock."""
        return bool(self.lock._is_owned())

    @property
    def is_entered_once(self) -> bool:
        """True if the calling thread has the lock, and has entered it once."""
        count = getattr(self.lock, "_recursion_count", None)
        if count is not None:
            return bool(count() == 1)
        # before Python 3.11.7 only its text tells how often
        return self.is_owned() and " count=1 " in repr(self.lock)

    @property
    def accepts(self) -> bool:
        """True while the queues take accepted rows."""
        return self.state < State.FAILED

    @property
    def may_wait(self) -> bool:
        """True if this thread may wait for room: it is not running the query."""
        return self.is_entered_once and self.consumer != threading.get_ident()

    @property
    def inside(self) -> bool:
        """True if this thread is running the query or a door, so it cannot wait for them."""
        return self.consumer == threading.get_ident() or self.is_owned()

    def wait_for_room(self) -> None:
        """Wait until rows have been taken out or the run is ending; it may return before that."""
        # with polars' handler for SIGINT a blocked wait continues; only the main thread is notified
        is_main = threading.current_thread() is threading.main_thread()
        self._room.wait(INTERRUPT_PERIOD if is_main else None)

    def wait_for_rows(self, seconds: float | None = None) -> None:
        """Wait until rows have been put in or the run is ending, at most so many seconds."""
        self._rows.wait(seconds)

    def notify_room(self) -> None:
        """Wake the producers."""
        self._room.notify_all()

    def notify_rows(self) -> int:
        """Wake the consumer; return the number of this call, which orders the queues."""
        self._rows.notify()
        return next(self._order)

    def fail(self, deliver: Deliver, error: Exception) -> None:
        """Accept nothing more from any source; the error is delivered after the accepted rows."""
        if self.accepts:
            for flush in self.flushes:
                flush()
        # a flushed row may have been bad: then its error came first
        if self.accepts:
            self.run_end.close(error)
            self.state, self.failure, self.error = State.FAILED, (deliver, error), error
            self.notify_rows()
            self.notify_room()

    def finish(self) -> None:
        """Accept nothing more."""
        with self.lock:
            self.run_end.close()
            self.state = max(self.state, State.FINISHING)
            self.notify_room()

    def close(self, error: BaseException | None = None) -> None:
        """Release all waiting threads and deliver nothing more; idempotent."""
        with self.lock:
            if self.state is not State.CLOSED:
                self.state, self.error = State.CLOSED, error
                self.notify_room()
                self.notify_rows()
