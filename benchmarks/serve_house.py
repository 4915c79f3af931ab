"""The house that ``serve.py`` serves, and a sink that writes the sums of its results."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path

import rxtemporal as rxt
from rxtemporal import agg, serve


class Sums(rxt.Sink):
    """Sink that adds up numbers and totals of all windows, and writes both when it is closed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events, self._total = 0, 0.0

    def write(self, batch: rxt.EventBatch) -> None:
        """Add up."""
        if len(batch):
            self._events += int(batch.payload["events"].sum())
            self._total += float(batch.payload["total"].sum())

    def close(self, error: BaseException | None) -> None:
        """Write the sums."""
        self._path.write_text(json.dumps({"events": self._events, "total": self._total}))


def house() -> rxt.Application:
    """Return the application: number and total of the readings of each device and minute."""
    minute = timedelta(minutes=1)
    fields = {"device": str, "temp": float}
    readings = rxt.PushSource("readings", schema=fields, delay=minute)
    windows = readings.stream.group_by("device").tumbling_window(minute)
    application = rxt.Application("house")
    application.query("sums", windows.aggregate(events=agg.count(), total=agg.sum("temp")))
    return application


def app() -> serve.ServiceApp:
    """Return the ASGI application; the environment says where the sums go."""
    return serve.app(house(), sinks={"sums": Sums(Path(os.environ["RXTEMPORAL_SUMS"]))})
