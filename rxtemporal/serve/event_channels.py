"""Channels to one reader of events: server-sent events, and a WebSocket."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable
from typing import Protocol

from rxtemporal.serve.responses import Receive, Scope, Send
from rxtemporal.serve.results import FeedEvent

# seconds after which a client that takes nothing is left; it can come back to its position
PATIENCE = 60.0
# milliseconds after which a browser comes back
_RETRY = 1_000
_GONE = ("http.disconnect", "websocket.disconnect")
_NORMAL, _RESTART = 1000, 1012
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # a proxy in front passes each event on at once
    (b"x-accel-buffering", b"no"),
]
# extension of a scope: the connection, if the server is this package's own
CONNECTION = "rxtemporal.connection"


class Wire(Protocol):
    """Connection that says when it has sent what was written, and that can be cut."""

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""


class Channel(ABC):
    """Way to one reader, as an async context manager.

    ``left`` is done when the reader has gone, or is to be left. A reader that takes nothing is cut
    off, with what it has not taken. A foreign server tells later what was taken: when it takes the
    next event.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._connection: Wire | None = scope.get("extensions", {}).get(CONNECTION)
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # True if the query has completed: the reader need not come back
        self.ended = False
        self._gone = False
        self._listener: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Channel:
        await self._open()
        self._listener = asyncio.ensure_future(self._listen())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._listener is not None
        if not self._gone and error[0] is None:
            await self._close()
        elif not self._gone and self._connection is not None:
            self._connection.abort()
            # the server is told first, since this answer ends before it is complete
            await asyncio.wait([self._listener], timeout=1.0)
        self._listener.cancel()

    def leave(self) -> None:
        """Leave the reader, who may come back."""
        if not self.left.done():
            self.left.set_result(None)

    async def write(self, event: FeedEvent) -> None:
        """Send one event, and wait until the reader takes it. ``TimeoutError``: it does not."""
        await self._wait(self._send_event(event))
        # whoever else is in this event loop has a turn between two events
        await asyncio.sleep(0)

    async def _wait(self, sending: Awaitable[None]) -> None:
        async with asyncio.timeout(PATIENCE):
            await sending
            if self._connection is not None:
                await self._connection.drain()

    async def _listen(self) -> None:
        """Wait until the reader has gone; what it sends is ignored."""
        try:
            while (await self._receive())["type"] not in _GONE:
                pass
            self._gone = True
        finally:
            self.leave()

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _send_event(self, event: FeedEvent) -> None: ...

    @abstractmethod
    async def keep_alive(self) -> None:
        """Show that the connection lives."""


class SseChannel(Channel):
    """Channel of server-sent events, as browsers' ``EventSource`` reads them."""

    async def _open(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._wait(self._send_part(b"retry: %d\n\n" % _RETRY))

    async def _close(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_event(self, event: FeedEvent) -> None:
        await self._send_part(event.server_sent)

    async def _send_part(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def keep_alive(self) -> None:
        """Send a comment."""
        await self._wait(self._send_part(b": keep-alive\n\n"))


class SocketChannel(Channel):
    """Channel of a WebSocket: each message is an event with its position and data, as JSON."""

    async def _open(self) -> None:
        await self._receive()  # the message that there is one
        await self._send({"type": "websocket.accept"})

    async def _close(self) -> None:
        code = _NORMAL if self.ended else _RESTART
        with contextlib.suppress(Exception):  # it may be closed already
            await self._send({"type": "websocket.close", "code": code})

    async def _send_event(self, event: FeedEvent) -> None:
        await self._send({"type": "websocket.send", "text": event.message})

    async def keep_alive(self) -> None:
        """Send nothing: the server's pings do that."""
