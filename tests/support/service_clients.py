"""Services over one stream of readings, and clients that call them without a server."""

from __future__ import annotations

import contextlib

import httpx

import rxtemporal as rxt
from rxtemporal.serve.asgi import app


def make_house(**options):
    """Return an application with a stream of readings, in ticks unless they come otherwise."""
    schema = options.pop("schema", {"device": str, "temp": float})
    readings = rxt.PushSource("readings", schema=schema, **{"seq": "n", "delay": 100, **options})
    house = rxt.Application("house")
    house.query("all", readings.stream)
    house.query("refused", readings.rejects.stream)
    return house, readings


def reading(time, device="a", temp=1.0, **more):
    """Return a row."""
    return {"time": time, "device": device, "temp": temp, **more}


@contextlib.asynccontextmanager
async def open_client(house, settings=None, sinks=None, **headers):
    """Run a service; yield an HTTP client of it, which raises what the service does not answer."""
    served = app(house, settings, sinks=sinks)
    async with served.lifespan():
        transport = httpx.ASGITransport(served, raise_app_exceptions=True)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://house", headers=headers
        ) as client:
            client.served = served
            yield client
