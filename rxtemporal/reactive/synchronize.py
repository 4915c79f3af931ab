"""Serialized notifications from any number of threads: Rx.NET's ``Synchronize``.

reactivex has none: its ``Subject`` delivers outside of its lock, so that several threads may be
inside one observer at once.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from reactivex import Observable, abc

T = TypeVar("T")


def synchronize() -> Callable[[Observable[T]], Observable[T]]:
    """Return an operator that passes on one notification at a time, from any thread.

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
            serial = _SerialObserver(observer)
            return source.subscribe(
                serial.on_next, serial.on_error, serial.on_completed, scheduler=scheduler
            )

        return Observable(subscribe)

    return operator


class _SerialObserver:
    """Observer that takes one notification at a time.

    Threads wait for each other at a re-entrant lock. What a subscriber pushes from inside a
    delivery, on the same thread, is queued until the current notification has reached everyone:
    delivered at once, it would reach a second subscriber before its cause.
    """

    __slots__ = ("_busy", "_lock", "_next", "_observer", "_queue")

    def __init__(self, observer: abc.ObserverBase[Any]) -> None:
        self._lock = threading.RLock()
        self._observer = observer
        self._next = observer.on_next
        self._busy = False
        self._queue: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()

    def on_next(self, value: Any) -> None:
        # unrolled, for it runs once for each event
        with self._lock:
            if self._busy:
                self._queue.append((self._next, (value,)))
                return
            self._busy = True
            try:
                self._next(value)
                if self._queue:
                    self._deliver_queued()
            finally:
                self._busy = False

    def on_error(self, error: Exception) -> None:
        self._enqueue(self._observer.on_error, error)

    def on_completed(self) -> None:
        self._enqueue(self._observer.on_completed)

    def _enqueue(self, deliver: Callable[..., None], *arguments: Any) -> None:
        with self._lock:
            self._queue.append((deliver, arguments))
            if self._busy:
                return
            self._busy = True
            try:
                self._deliver_queued()
            finally:
                self._busy = False

    def _deliver_queued(self) -> None:
        while self._queue:
            deliver, arguments = self._queue.popleft()
            deliver(*arguments)
