"""Bytes on their way to the readers of a service: those of all together have a limit."""

from __future__ import annotations

import asyncio

from rxtemporal.serve.results import EVENT_BYTES


class Unread:
    """Bytes of the events that readers have been sent and have not taken.

    A reader gets its next event when there is room for one. Those that wait for room get it in
    their order; one that takes nothing is left in the end, so nobody waits for ever. All together
    are at most ``most`` bytes, and one row if that is larger than an event should be.

    After so many bytes as one event has, the next reader waits until whoever else is in the event
    loop has had a turn. Not thread-safe: for one event loop.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = 0
        self._in_this_turn = 0
        self._order = asyncio.Lock()
        self._less = asyncio.Event()

    def room(self) -> Room:
        """Return room for one event, to be entered."""
        return Room(self)

    async def take(self, count: int) -> None:
        """Wait for room."""
        async with self._order:
            while self.bytes and self.bytes + count > self._most:
                self._less.clear()
                await self._less.wait()
            self.bytes += count
            if self._in_this_turn >= EVENT_BYTES:
                self._in_this_turn = 0
                await asyncio.sleep(0)

    def change(self, more: int) -> None:
        """Note that an event has more bytes than were taken for it, or less."""
        self.bytes += more
        self._in_this_turn += EVENT_BYTES + more
        self._less.set()

    def give_back(self, count: int) -> None:
        """Note that a reader has taken its event."""
        self.bytes -= count
        self._less.set()


class Room:
    """Room for one event, as an async context manager: at first for the largest one."""

    __slots__ = ("_bytes", "_unread")

    def __init__(self, unread: Unread) -> None:
        self._unread, self._bytes = unread, EVENT_BYTES

    async def __aenter__(self) -> Room:
        await self._unread.take(self._bytes)
        return self

    def fit(self, count: int) -> None:
        """Note how many bytes the event has."""
        self._unread.change(count - self._bytes)
        self._bytes = count

    async def __aexit__(self, *error: object) -> None:
        self._unread.give_back(self._bytes)
