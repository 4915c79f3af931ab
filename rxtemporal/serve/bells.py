"""Bells: a thread that has news wakes those who wait in event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading


class Bell:
    """Wakes whoever waits for news, in any event loop, at most once in each turn of a loop.

    To wait: ``add`` a future, look once more for news, await the future, ``discard`` it.

    Threads: ``ring`` any, at little cost if nobody waits; the others in the future's event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: tuple[_LoopBell, ...] = ()

    def add(self, waiter: asyncio.Future[None]) -> None:
        """Set the result of this future at the next ring."""
        self._find(waiter.get_loop()).waiting.add(waiter)

    def discard(self, waiter: asyncio.Future[None]) -> None:
        """Forget this future."""
        self._find(waiter.get_loop()).waiting.discard(waiter)

    def ring(self) -> None:
        """Wake all who wait now."""
        for each in self._loops:
            if each.waiting and not each.is_rung:
                each.ring()

    def _find(self, loop: asyncio.AbstractEventLoop) -> _LoopBell:
        for each in self._loops:
            if each.loop is loop:
                return each
        with self._lock:
            bell = _LoopBell(loop)
            self._loops = (*(each for each in self._loops if not each.loop.is_closed()), bell)
        return bell


class _LoopBell:
    """Those who wait in one event loop."""

    __slots__ = ("is_rung", "loop", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.waiting: set[asyncio.Future[None]] = set()
        # True until the loop has woken those who wait
        self.is_rung = False

    def ring(self) -> None:
        self.is_rung = True
        # a loop that has been closed wakes nobody
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # first of all, so that news from now on rings again
        self.is_rung = False
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.waiting.clear()
