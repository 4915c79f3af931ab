"""Routes of the way in of a service."""

from __future__ import annotations

from functools import partial

from rxtemporal.serve.ingest import Ingest
from rxtemporal.serve.ingest_socket import open_socket
from rxtemporal.serve.routes import WEBSOCKET, Need, Route
from rxtemporal.serve.service import Service


def list_routes(service: Service) -> list[Route]:
    """Return the routes by which rows and CTIs come in."""
    ingest = Ingest(service)
    path = "/streams/{name}"
    return [
        Route(path, "POST", ingest.post_rows, Need.WRITE),
        Route(f"{path}/cti", "POST", ingest.post_cti, Need.WRITE),
        Route(path, WEBSOCKET, partial(open_socket, ingest), Need.WRITE),
    ]
