"""Answers of a service: JSON, and one form for all errors."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import msgspec

from rxtemporal.errors import ProcessEndedError, RxTemporalError

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Handler: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

_JSON: Header = (b"content-type", b"application/json")
# WebSocket: the receiver does not take what was sent; it could not be dealt with
_POLICY, _INTERNAL = 1008, 1011

dumps: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=str).encode


class GoneError(OSError):
    """The client has gone while it was answered, and the server says so."""


class RequestError(RxTemporalError):
    """A request that is answered with an error: its status, and the reason as JSON.

    ``retry_after`` is in seconds. ``close`` ends the connection, for a body that was not read.
    ``more`` are further keys of the answer.

    >>> RequestError(429, "too many rows", retry_after=0.2).list_headers()
    [(b'retry-after', b'1')]
    """

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        retry_after: float | None = None,
        close: bool = False,
        headers: Iterable[Header] = (),
        **more: Any,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.retry_after, self.close, self.more = retry_after, close, more
        self.headers = tuple(headers)

    def list_headers(self) -> list[Header]:
        """Return the headers that the answer has beyond others."""
        headers = [*self.headers]
        if self.retry_after is not None:
            # whole seconds, and never at once
            headers.append((b"retry-after", b"%d" % max(1, math.ceil(self.retry_after))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if self.close:
            headers.append((b"connection", b"close"))
        return headers

    def encode(self) -> bytes:
        """Return the body of the answer."""
        return dumps({"error": self.reason, **self.more})


def to_request_error(error: Exception, retry_after: float) -> RequestError | None:
    """Return the answer to an error; None if it is the service's own."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ProcessEndedError):
        return RequestError(503, "the query does not take events", retry_after=retry_after)
    return None


async def send_json(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """Send an answer whose body is JSON already."""
    length = (b"content-length", b"%d" % len(body))
    await send(
        {"type": "http.response.start", "status": status, "headers": [_JSON, length, *headers]}
    )
    await send({"type": "http.response.body", "body": body})


async def send_error(scope: Scope, send: Send, error: RequestError) -> None:
    """Answer a request with an error; a WebSocket is refused, or closed without an answer."""
    if scope["type"] == "http":
        await send_json(send, error.status, error.encode(), error.list_headers())
    elif "websocket.http.response" in scope.get("extensions", {}):
        await _deny(send, error)
    else:
        code = _INTERNAL if error.status >= 500 else _POLICY
        await send({"type": "websocket.close", "code": code, "reason": error.reason[:100]})


async def _deny(send: Send, error: RequestError) -> None:
    body = error.encode()
    headers = [_JSON, (b"content-length", b"%d" % len(body)), *error.list_headers()]
    start = {"type": "websocket.http.response.start", "status": error.status, "headers": headers}
    await send(start)
    await send({"type": "websocket.http.response.body", "body": body})


def find_header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header with a name, which is in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None
