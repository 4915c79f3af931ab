"""Service behind a real server, in a thread of the test."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from queue import Queue
from typing import Any

import httpx

from rxtemporal.serve.asgi import ServiceApp
from rxtemporal.serve.server import Server


@contextlib.contextmanager
def serve(app: ServiceApp) -> Iterator[str]:
    """Yield the URL of a server of this application, whose settings have port 0."""
    reports: Queue[str] = Queue()
    server = Server(app, reports.put)
    thread = threading.Thread(target=server.listen)
    thread.start()
    try:
        yield reports.get(timeout=60).removeprefix("listening on ")
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


def read_events(response: httpx.Response) -> Iterator[tuple[str, str, Any]]:
    """Yield the kind, the id and the data of server-sent events."""
    event: dict[str, str] = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif "data" in event:
            yield event["event"], event.get("id", ""), json.loads(event["data"])
            event = {}
