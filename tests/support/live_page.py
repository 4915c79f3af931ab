"""A small server of the live event-flow page: its events are put in by a test."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from rxtemporal.view.debug.page import build_page

TOKEN = "open sesame"
SHELL = {
    "version": 1, "title": "house", "time": "datetime", "live": True, "events": "debug/events",
    "nodes": [], "arrivals": [], "output": 0, "sentence": "", "steps": 0, "every": 1,
    "sampled": None, "delay": {},
}  # fmt: skip


class LivePage:
    """What the server sends; `refuse` has the statuses of its next refusals."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.refuse: list[int] = []
        self.events: queue.Queue[str | None] = queue.Queue()

    def send(self, kind: str, data: dict[str, Any]) -> None:
        """Send an event to who looks."""
        self.events.put(f"event: {kind}\ndata: {json.dumps(data)}\n\n")

    def end(self) -> None:
        """End the connection of who looks."""
        self.events.put(None)


@contextmanager
def serve_page() -> Iterator[LivePage]:
    """Serve a live page on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/debug":
                self._send(
                    200, "text/html", build_page(json.dumps(SHELL), title="house", live=True)
                )
            elif live.refuse:
                self._send(live.refuse.pop(0), "text/plain", "")
            elif self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._send(401, "text/plain", "")
            else:
                self._stream()

        def _send(self, status: int, kind: str, body: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(body.encode())

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            while (event := live.events.get()) is not None:
                self.wfile.write(event.encode())
                self.wfile.flush()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    live = LivePage(f"http://127.0.0.1:{server.server_port}/debug")
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield live
    finally:
        live.end()
        server.shutdown()
        thread.join()
        server.server_close()
