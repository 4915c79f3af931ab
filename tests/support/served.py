"""A small application to be served, and requests to an ASGI application without a server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch


class Faulty(rxt.Sink):
    """Sink that keeps the rows, and fails while ``error`` is set."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.opened = 0

    def open(self, query: str, schema: Any) -> None:
        """Count how often a run begins."""
        self.opened += 1

    def write(self, batch: EventBatch) -> None:
        """Keep the rows, or fail."""
        if self.error is not None and len(batch):
            raise self.error
        self.rows += batch.to_dicts("ticks")

    def save(self) -> bytes:
        """Return a state, so that a run with this sink can be resumed."""
        return b"rows"

    def load(self, state: bytes) -> None:
        """Go on behind what was written."""


def make_house(**options: Any) -> tuple[rxt.Application, rxt.PushSource]:
    """Return an application with the stream ``readings`` and the query ``totals``, and its source.

    Times are ticks; a window is ten ticks.
    """
    source = rxt.PushSource(
        "readings", schema={"device": str, "temp": int}, start="ts", seq="n", **options
    )
    app = rxt.Application("house")
    windows = source.stream.tumbling_window(10)
    app.query("totals", windows.aggregate(count=agg.count(), total=agg.sum("temp")))
    return app, source


def rows(times: range) -> list[dict[str, Any]]:
    """Return a reading for each time, numbered by it."""
    return [{"ts": time, "device": "a", "temp": 1, "n": time} for time in times]


def make_client(app: Callable[..., Any], **options: Any) -> httpx.AsyncClient:
    """Return a client that calls an ASGI application directly."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://house", **options)
