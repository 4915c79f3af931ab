"""House of sensors: one stream of readings, and one query over it."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from datetime import timedelta
from typing import Any

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.serve.responses import send_page
from rxtemporal.serve.routes import Need, Route

# long enough for a slow network, and short enough to watch
DELAY = timedelta(seconds=5)
# a clock that is further ahead is wrong
AHEAD = timedelta(minutes=1)


def application() -> rxt.Application:
    """Return an application with the stream ``readings`` and the query ``by_device``.

    A reading has a device, a time and a temperature, and may have a sequence number. The query
    counts the readings of each device in each minute, and computes their mean.

    >>> house = application()
    >>> print(house)
    Application('house': streams readings; queries by_device)
    """
    readings = rxt.PushSource(
        "readings",
        schema={"device": str, "temp": float},
        start="time",
        seq="seq",
        delay=DELAY,
        ahead=AHEAD,
    )
    house = rxt.Application("house")
    house.define_stream("readings", readings.stream)
    minutes = readings.stream.group_by("device").tumbling_window(timedelta(minutes=1))
    house.query("by_device", minutes.aggregate(count=agg.count(), mean=agg.avg("temp")))
    return house


def read_page() -> bytes:
    """Return the page."""
    return importlib.resources.files(__package__).joinpath("page.html").read_bytes()


def make_policy(page: bytes) -> str:
    """Return the page's content security policy: its own script alone, and its own service.

    >>> make_policy(b"<script>1</script>").split("; ")[2][:24]
    "script-src 'sha256-a4ayc"
    """
    hashes = [
        f"'sha256-{base64.b64encode(hashlib.sha256(script).digest()).decode()}'"
        for script in re.findall(rb"<script>(.*?)</script>", page, re.S)
    ]
    return "; ".join(
        [
            "default-src 'none'",
            "connect-src 'self'",
            f"script-src {' '.join(hashes)}",
            "style-src 'unsafe-inline'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


def list_routes(_service: Any) -> list[Route]:
    """Return the route of the page, which holds no data and needs no token."""
    page = read_page()
    policy = make_policy(page)

    async def show_page(scope: Any, _receive: Any, send: Any) -> None:
        await send_page(scope, send, page, policy)

    return [Route("/", "GET", show_page, Need.NOBODY, summary="The page of the demonstration.")]
