"""The Rx seam: where threads are serialised and subscribers kept apart.

reactivex has no ``synchronize``, its ``Subject`` delivers outside of its lock, and an exception in
one subscriber travels into the producer's call and past every other subscriber. What is here mends
the three, once.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from reactivex import Observable, abc
from reactivex.internal import DisposedException
from reactivex.subject import Subject

from rxtemporal.core.log import get_logger

T = TypeVar("T")
OnNext: TypeAlias = Callable[[Any], None]
OnError: TypeAlias = Callable[[Exception], None]
OnCompleted: TypeAlias = Callable[[], None]

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_log = get_logger(__name__)


def composed_at() -> str:
    """Return ``file:line`` of the nearest caller outside of this package: who composed a query."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class Subscriber:
    """One subscriber's three callbacks, none of which can hurt anybody else.

    What ``on_next`` raises is logged and counted by ``failed``, and the subscriber stays
    subscribed: one bad event does not cost it the rest. An error nobody handles is logged.
    """

    __slots__ = ("_failed", "_on_completed", "_on_error", "receive")

    def __init__(
        self,
        failed: Callable[[], None],
        on_next: abc.ObserverBase[Any] | OnNext | None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
    ) -> None:
        if on_next is not None and hasattr(on_next, "on_next"):
            observer: Any = on_next
            on_next, on_error = observer.on_next, observer.on_error
            on_completed = observer.on_completed
        self._failed = failed
        self.receive = cast("OnNext | None", on_next)
        self._on_error = on_error
        self._on_completed = on_completed

    def on_next(self, value: Any) -> None:
        """Hand over one value."""
        if self.receive is None:
            return
        try:
            self.receive(value)
        except Exception:
            self._count_failure("on_next")

    def on_error(self, error: Exception) -> None:
        """Hand over the error that ended the stream."""
        if self._on_error is None:
            log_unhandled(error)
            return
        try:
            self._on_error(error)
        except Exception:
            self._count_failure("on_error")

    def on_completed(self) -> None:
        """Say that the stream has ended."""
        if self._on_completed is None:
            return
        try:
            self._on_completed()
        except Exception:
            self._count_failure("on_completed")

    def _count_failure(self, channel: str) -> None:
        self._failed()
        log_failure(channel)


class RaiseOrLog:
    """Stands in for an ``on_error`` that nobody gave: raises where it can, and logs otherwise."""

    __slots__ = ("_error", "_returned")

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._returned = False

    def __call__(self, error: Exception) -> None:
        """Keep the error that ended the stream, or log it if it is too late to raise it."""
        if self._returned:
            log_unhandled(error)
        else:
            self._error = error

    def raise_error(self) -> None:
        """Raise what has been kept; from now on errors are logged."""
        self._returned = True
        if self._error is not None:
            raise self._error


def log_unhandled(error: Exception) -> None:
    """Log an error that ended a stream and that nobody handles."""
    _log.error("stream failed and nobody handles it", error=repr(error))


def log_failure(channel: str) -> None:
    """Log the exception of a subscriber that is being handled."""
    _log.exception("a subscriber raised; the others are not affected", channel=channel)


class DirectSubject(Subject[T]):
    """A reactivex ``Subject`` whose ``on_next`` is one call and takes no lock.

    reactivex's takes its lock twice for each value to copy the list of observers, and delivers
    outside of it; copying a list is atomic, so the order of deliveries is no less certain here.
    """

    def on_next(self, value: T) -> None:
        """Deliver a value to whoever is subscribed."""
        if self.is_disposed:
            raise DisposedException
        if not self.is_stopped:
            for observer in self.observers.copy():
                observer.on_next(value)


def synchronize() -> Callable[[Observable[T]], Observable[T]]:
    """Serialise ``on_next``, ``on_error`` and ``on_completed`` behind one re-entrant lock.

    The port of Rx.NET's ``Synchronize``, which reactivex lacks, with a queue for re-entrance.

    >>> from reactivex.subject import Subject
    >>> numbers = Subject()
    >>> subscription = numbers.pipe(synchronize()).subscribe(print)
    >>> numbers.on_next(1)
    1
    """

    def operator(source: Observable[T]) -> Observable[T]:
        def subscribe(
            observer: abc.ObserverBase[T], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            synchronized = _Synchronized(observer)
            return source.subscribe(
                synchronized.on_next,
                synchronized.on_error,
                synchronized.on_completed,
                scheduler=scheduler,
            )

        return Observable(subscribe)

    return operator


class _Synchronized:
    """One notification at a time in front of an observer.

    Threads wait for each other at a re-entrant lock. What is pushed from inside a delivery (by a
    subscriber, on the same thread) is queued and delivered when the current notification has
    reached everyone: delivered at once, it would reach a second subscriber before its cause.
    """

    __slots__ = ("_busy", "_lock", "_next", "_observer", "_waiting")

    def __init__(self, observer: abc.ObserverBase[Any]) -> None:
        self._lock = threading.RLock()
        self._observer = observer
        self._next = observer.on_next
        self._busy = False
        self._waiting: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def on_next(self, value: Any) -> None:
        # unrolled, for it runs once for each event
        with self._lock:
            if self._busy:
                self._waiting.append((self._next, (value,)))
                return
            self._busy = True
            try:
                self._next(value)
                if self._waiting:
                    self._drain()
            finally:
                self._busy = False

    def on_error(self, error: Exception) -> None:
        self._in_turn(self._observer.on_error, error)

    def on_completed(self) -> None:
        self._in_turn(self._observer.on_completed)

    def _in_turn(self, deliver: Callable[..., None], *arguments: Any) -> None:
        with self._lock:
            self._waiting.append((deliver, arguments))
            if self._busy:
                return
            self._busy = True
            try:
                self._drain()
            finally:
                self._busy = False

    def _drain(self) -> None:
        while self._waiting:
            deliver, arguments = self._waiting.popleft()
            deliver(*arguments)
