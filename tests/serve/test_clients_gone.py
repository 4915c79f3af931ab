"""Clients that go away at any moment of their answer: nobody is told, for there is nobody."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.serve import app, settings
from rxtemporal.serve.settings import Settings
from rxtemporal.serve.tokens import hash_token

REQUESTS = {
    "receipt": ("http", "POST", "/streams/readings", {}),
    "refused body": ("http", "POST", "/streams/readings", {"content-type": "image/png"}),
    "nothing there": ("http", "GET", "/nowhere", {}),
    "health": ("http", "GET", "/healthz", {}),
    "diagnostics": ("http", "GET", "/diagnostics", {}),
    "page": ("http", "GET", "/debug", {}),
    "live page": ("http", "GET", "/debug/events", {}),
    "results": ("http", "GET", "/queries/all/events", {}),
    "tap": ("http", "GET", "/streams/readings/events", {}),
    "results by socket": ("websocket", "", "/queries/all/events", {}),
    "rows by socket": ("websocket", "", "/streams/readings", {}),
    "refused socket": ("websocket", "", "/nowhere", {}),
    "without token": ("http", "GET", "/queries", {"authorization": "Bearer wrong"}),
}
# as ASGI says, and as uvicorn says of a WebSocket that it has closed itself
ERRORS = {
    "http": [OSError("gone")],
    "websocket": [OSError("gone"), RuntimeError("Unexpected ASGI message 'websocket.send'")],
}


def list_cases() -> list[Any]:
    """Return each request with each way of going, at each of its first messages."""
    return [
        pytest.param(name, error, after, id=f"{name}, {type(error).__name__}, after {after}")
        for name, (kind, *_) in REQUESTS.items()
        for error in ERRORS[kind]
        for after in range(4)
    ]


@pytest.mark.parametrize(("name", "error", "after"), list_cases())
def test_a_client_that_goes_leaves_no_traceback(
    name: str, error: Exception, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The application ends without an error, whatever message cannot be sent."""
    kind, method, path, headers = REQUESTS[name]
    source = rxt.PushSource("readings", schema={"x": int})
    house = rxt.Application("house")
    house.query("all", source.stream)
    token = settings.TokenSettings(hash_token("t"), write=("*",), sources=("*",), read=True)
    sent = received = 0
    row = json.dumps({"time": 9, "x": 1}).encode()

    async def receive() -> dict[str, Any]:
        nonlocal received
        received += 1
        if received > 1:
            await asyncio.sleep(0)
        if kind == "http":
            request = {"type": "http.request", "body": row, "more_body": False}
            return request if received == 1 else {"type": "http.disconnect"}
        if received == 1:
            return {"type": "websocket.connect"}
        if received > 50:
            return {"type": "websocket.disconnect", "code": 1006}
        return {"type": "websocket.receive", "bytes": row}

    async def send(message: Any) -> None:
        nonlocal sent
        sent += 1
        if sent > after:
            raise error

    async def main() -> None:
        served = app(house, Settings(tokens={"t": token}))
        async with served.lifespan():
            source.push([{"time": t, "x": t} for t in range(5)])
            named = {"authorization": "Bearer t", **headers}
            scope = {
                "type": kind, "method": method, "path": path, "query_string": b"",
                "root_path": "",
                "headers": [(key.encode(), value.encode()) for key, value in named.items()],
                "extensions": {"websocket.http.response": {}} if kind == "websocket" else {},
            }  # fmt: skip
            await asyncio.wait_for(served(scope, receive, send), 30)

    caplog.set_level(logging.WARNING)
    asyncio.run(main())
    assert [each for each in caplog.records if each.exc_info or each.levelno >= 40] == []
