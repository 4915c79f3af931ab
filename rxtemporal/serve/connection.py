"""Connections of the server, with limits that uvicorn has not: number, size and time of headers."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from rxtemporal.serve.event_channels import CONNECTION
from rxtemporal.serve.settings import ServerSettings


class ConnectionConfig(uvicorn.Config):
    """Configuration of uvicorn, with the limits of a connection."""

    limits: ServerSettings


class Connection(HttpToolsProtocol):
    """Connection whose requests have a limited head, which has to arrive in a limited time.

    A connection beyond the number that may be open is answered 503, and closed.
    """

    def __init__(self, config: ConnectionConfig, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._limits = config.limits
        # the bytes of a head that is not complete; None while a body arrives
        self._head: int | None = 0
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, unless there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.max_connections:
            self._refuse(b"503 Service Unavailable", b"retry-after: 1\r\n")
        else:
            self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the timer of the head."""
        self._stop_watch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read the data; limit a head that is not complete."""
        if self._head is not None:
            self._head += len(data)
        super().data_received(data)
        if not self._head:
            return
        if self._head > self._limits.head_bytes:
            self._refuse(b"431 Request Header Fields Too Large")
        elif self._head_timer is None:
            self._watch_head()

    def on_headers_complete(self) -> None:
        """Begin with the body."""
        self._head = None
        self._stop_watch()
        super().on_headers_complete()
        # it is no dict, since it is this package's own
        self.scope["extensions"] = cast(Any, {CONNECTION: self})

    def on_message_complete(self) -> None:
        """Begin with the next head."""
        self._head = 0
        super().on_message_complete()

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""
        await self.flow.drain()

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""
        self.transport.abort()

    def _watch_head(self) -> None:
        self._head_timer = self.loop.call_later(self._limits.head_seconds, self._expire)

    def _stop_watch(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _expire(self) -> None:
        self._head_timer = None
        if self._head == 0:  # nothing has come: there is nobody to answer
            self.transport.close()
        elif self._head is not None:
            self._refuse(b"408 Request Timeout")

    def _refuse(self, status: bytes, headers: bytes = b"") -> None:
        if not self.transport.is_closing():
            end = b"content-length: 0\r\nconnection: close\r\n\r\n"
            self.transport.write(b"HTTP/1.1 " + status + b"\r\n" + headers + end)
            self.transport.close()


class SocketConnection(WebSocketsSansIOProtocol):
    """WebSocket that tells its application when what it has sent has left the process."""

    def handle_connect(self, event: Request) -> None:
        """Begin; the application is called later."""
        super().handle_connect(event)
        if not self.handshake_complete:  # which it is if the request was refused
            self.scope["extensions"][CONNECTION] = cast(Any, self)

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""
        await self.writable.wait()

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""
        self.transport.abort()
