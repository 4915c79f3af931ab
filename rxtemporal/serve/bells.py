"""Bells: a thread that has news wakes those who wait in event loops."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable


class Bell:
    """Wakes all who wait for news, in any event loop, at most once in each turn of a loop.

    Threads: ``ring`` any, at little cost if nobody waits; ``wait`` in an event loop.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loops: tuple[_LoopBell, ...] = ()

    async def wait(
        self, has_news: Callable[[], bool], seconds: float, left: asyncio.Future[None]
    ) -> None:
        """Wait for a ring, unless there is news; at most so long, and until ``left`` is done."""
        loop = asyncio.get_running_loop()
        waiter, waiting = loop.create_future(), self._find(loop).waiting
        waiting.add(waiter)
        try:
            # looked for once more, since whoever rang before this saw no waiter
            if not has_news():
                both = waiter, left
                await asyncio.wait(both, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.discard(waiter)

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
        # in a loop that has been closed there is no one to wake
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        # first of all, so that news from now on rings again
        self.is_rung = False
        for waiter in self.waiting:
            if not waiter.done():
                waiter.set_result(None)
        self.waiting.clear()
