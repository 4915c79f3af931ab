"""End of a run: it is reported to producers and waiters, and later pushes are refused."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import describe_failure
from rxtemporal.errors import ProcessEndedError
from rxtemporal.reactive.subscriber import RunObserver

COMPLETED = (
    "on_completed() and close() end a stream for good, also for later runs: at shutdown call "
    "process.stop() in their place; to begin anew, use a new folder"
)


class RunEnd:
    """End of a run: whether it accepts what is pushed, whether it has ended, and by which error.

    ``accepts`` is False as soon as nothing more is accepted; ``ended`` once nothing more is
    delivered. ``error`` is set before both, and stays the first one.

    Threads: a run that fails sets these while it holds the lock under which pushes are accepted, so
    a later push finds them. Any thread may read them.
    """

    def __init__(self) -> None:
        self.accepts = True
        self.ended = False
        self.error: BaseException | None = None
        self._lock = threading.Lock()

    def close(self, error: BaseException | None = None) -> None:
        """Accept nothing more; the error ends the run once the accepted rows are delivered."""
        with self._lock:
            if not self.ended:
                self._set(error)

    def end(self, error: BaseException | None = None) -> None:
        """End the run; nothing more is delivered. Idempotent."""
        with self._lock:
            if not self.ended:
                self._set(error)
                self.ended = True

    def _set(self, error: BaseException | None) -> None:
        if self.error is None:
            self.error = error
        self.accepts = False

    def refuse(self, stream: str, *, completed: bool = False) -> ProcessEndedError:
        """Return the error for the producer of an item that was not accepted.

        ``completed`` is True if the stream has completed, in this run or an earlier one.
        """
        error = self.error
        if error is not None:
            why = f"its run has failed with {describe_failure(error)}".removesuffix(".")
            hint = "fix the cause, then run the query again"
        elif completed or self.accepts:
            why = "the stream has completed"
            hint = COMPLETED
        else:
            why = "its run has been stopped or has completed"
            hint = "run the query again; with resume= it continues where it stopped"
        refused = ProcessEndedError(
            f"stream {stream!r} has not accepted this event or batch: {why}. Hint: {hint}."
        )
        refused.__cause__ = error
        return refused


_log = get_logger(__name__)
T = TypeVar("T")
# the longest wait, in seconds, during which Ctrl-C goes unnoticed
INTERRUPT_PERIOD = 0.2


class Listeners(Generic[T]):
    """Callbacks to call with ``value`` once something is done, and the threads that wait for it.

    Threads: any may add, wait and finish.
    """

    def __init__(self, value: T) -> None:
        self._value = value
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._hearing = 0
        self._callbacks: list[Callable[[T], object]] = []

    def add(self, callback: Callable[[T], object]) -> None:
        """Call a function when it is done; at once if it is."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        self._notify(callback)

    def remove(self, callback: Callable[[T], object]) -> None:
        """Remove a callback, if it is still to be called."""
        with self._lock, contextlib.suppress(ValueError):
            self._callbacks.remove(callback)

    @property
    def is_done(self) -> bool:
        """True once it is done."""
        return self._done.is_set()

    def hear(self) -> None:
        """Note that somebody reports the outcome."""
        with self._lock:
            self._hearing += 1

    def wait(self, timeout: float | None = None, *, hears: bool = True) -> bool:
        """Wait until it is done; return False after ``timeout`` seconds.

        ``hears`` is False for a caller who does not report the outcome.
        """
        with self._lock:
            self._hearing += hears
        try:
            return self._wait(timeout)
        finally:
            with self._lock:
                self._hearing -= hears

    def _wait(self, timeout: float | None) -> bool:
        # polars installs a handler for SIGINT under which a blocked wait continues, so that Python
        # sees Ctrl-C only between short waits
        last = None if timeout is None else time.monotonic() + timeout
        while not self._done.is_set():
            left = INTERRUPT_PERIOD if last is None else last - time.monotonic()
            if left <= 0:
                return False
            self._done.wait(min(left, INTERRUPT_PERIOD))
        return True

    async def wait_async(self) -> None:
        """Wait without blocking the event loop."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()

        def wake(value: T) -> None:
            with contextlib.suppress(RuntimeError):  # the loop may have been closed meanwhile
                loop.call_soon_threadsafe(_resolve, done)

        self.add(wake)
        try:
            await done
        finally:
            self.remove(wake)

    def finish(self) -> bool:
        """Wake and call all, once; return True if there was a callback, or somebody hears."""
        with self._lock:
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
            heard = bool(callbacks or self._hearing)
        for callback in callbacks:
            self._notify(callback)
        return heard

    def _notify(self, callback: Callable[[T], object]) -> None:
        try:
            callback(self._value)
        except Exception:
            _log.exception("a callback of the end raised", of=repr(self._value))


def _resolve(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


class Refusal(RunObserver):
    """Observer that raises ``ProcessEndedError`` at each push, in place of a run that has ended.

    A subject cannot say that nobody accepts what is pushed into it, so its producers would go on as
    if all were well. It has one refusal at most, until another run with an event log subscribes.
    ``completed``: the stream had completed in an earlier run.
    """

    def __init__(
        self, subject: Observable[Any], stream: str, run_end: RunEnd, *, completed: bool = False
    ) -> None:
        self._subject = subject
        self._stream = stream
        self._run_end = run_end
        self._completed = completed
        self._subscription: abc.DisposableBase = Disposable()
        self._is_subscribing = False

    def begin(self) -> None:
        """Subscribe in place of the run, unless this was done before."""
        with _lock:
            before = _find(self._subject)
            _refusals[self._subject] = weakref.ref(self)
        if before is not self:
            if before is not None:
                before.end()
            self._subscribe()

    def _subscribe(self) -> None:
        self._is_subscribing = True
        try:
            subscription = self._subject.subscribe(self)
        finally:
            self._is_subscribing = False
        # several threads may be here: each disposes the subscription that it replaces
        with _lock:
            before, self._subscription = self._subscription, subscription
        before.dispose()

    def end(self) -> None:
        """Accept that another run takes what is pushed."""
        self._subscription.dispose()

    def on_next(self, item: Any) -> None:
        """Raise the error of the run that has ended."""
        if self._is_subscribing:  # a subject that repeats its last items
            return
        # reactivex detaches an observer that raises
        self._subscribe()
        raise self._run_end.refuse(self._stream, completed=self._completed)

    def on_error(self, error: Exception) -> None:
        """Ignore the error: there is no listener any more."""

    def on_completed(self) -> None:
        """Ignore the end: there is no listener any more."""


_lock = threading.Lock()
# a refusal knows its subject, which has it among its observers: only the subject keeps it alive
_refusals: WeakKeyDictionary[Observable[Any], weakref.ref[Refusal]] = WeakKeyDictionary()


def _find(subject: Observable[Any]) -> Refusal | None:
    found = _refusals.get(subject)
    return None if found is None else found()


def release(subject: Observable[Any]) -> None:
    """Remove the refusal from a subject to which a run subscribes."""
    with _lock:
        refusal = _find(subject)
        _refusals.pop(subject, None)
    if refusal is not None:
        refusal.end()
