"""Listeners for the end of a process: callbacks, threads that wait, and event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from rxtemporal.core.log import get_logger

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
        # polars installs a handler for SIGINT under which a blocked wait goes on, so that Python
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
