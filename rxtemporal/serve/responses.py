"""Answers of a service: JSON, and one form for all errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from rxtemporal.errors import ProcessEndedError, RxTemporalError

# WebSocket: the receiver does not take what was sent; it could not be dealt with
_POLICY, _INTERNAL = 1008, 1011

dumps: Callable[[Any], bytes] = msgspec.json.Encoder(enc_hook=str).encode


class GoneError(OSError):
    """The client has gone while it was answered, and the server says so."""


class RequestError(RxTemporalError):
    """A request that is answered with an error: its status, and the reason as JSON.

    ``retry_after`` is in seconds. ``close`` ends the connection, for a body that was not read.
    ``more`` are further keys of the answer.

    >>> RequestError(429, "too many rows", retry_after=0.2).headers
    {'retry-after': '1'}
    """

    def __init__(
        self,
        status: int,
        reason: str,
        *,
        retry_after: float | None = None,
        close: bool = False,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.retry_after, self.close, self.more = retry_after, close, more
        # what the answer has beyond other headers
        self.headers = {**(headers or {})}
        if retry_after is not None:
            # whole seconds, and never at once
            self.headers["retry-after"] = str(max(1, math.ceil(retry_after)))
        if status == 401:
            self.headers["www-authenticate"] = "Bearer"
        if close:
            self.headers["connection"] = "close"

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


async def send_page(scope: Scope, send: Send, page: bytes, policy: str) -> None:
    """Send a page of HTML with its content security policy."""
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", b"%d" % len(page)),
        (b"content-security-policy", policy.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    body = b"" if scope["method"] == "HEAD" else page
    await send({"type": "http.response.body", "body": body})


async def send_json(
    scope: Scope,
    send: Send,
    status: int,
    body: bytes,
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send an answer whose body is JSON already."""
    await Response(body, status, headers, "application/json")(scope, _receive_nothing, send)


async def _receive_nothing() -> Message:
    raise NotImplementedError  # an answer reads nothing


async def send_error(scope: Scope, send: Send, error: RequestError) -> None:
    """Answer a request with an error; a WebSocket is refused, or closed without an answer."""
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await send_json(scope, send, error.status, error.encode(), error.headers)
    else:
        code = _INTERNAL if error.status >= 500 else _POLICY
        await send({"type": "websocket.close", "code": code, "reason": error.reason[:100]})


def find_header(scope: Scope, name: str) -> str | None:
    """Return the first header with a name in lower case, as Latin-1."""
    # starlette's Headers take three to five times as long, and each request asks five times
    key = name.encode()
    for given, value in scope["headers"]:
        if given == key:
            return str(value, "latin-1")
    return None
