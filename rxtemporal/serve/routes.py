"""Routes of a service: which handler answers a path, and who may ask."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from rxtemporal.serve.responses import Handler, RequestError, Scope, find_header


def check_origin(scope: Scope) -> None:
    """Refuse a request that a page of another site has made."""
    # a browser tells it of requests without an origin, too, such as those of an image
    if find_header(scope, b"sec-fetch-site") == b"cross-site":
        raise RequestError(403, "a page of another site needs a token here")
    origin = find_header(scope, b"origin")
    if origin is None:
        return
    host = find_header(scope, b"host") or b""
    if origin.partition(b"://")[2].lower() != host.lower():
        raise RequestError(403, "a page of another site needs a token here")


def check_host(scope: Scope) -> None:
    """Refuse a request to a name that leads to this machine and is not its own."""
    host = find_header(scope, b"host")
    if host is not None and not is_own_name(host.decode("latin-1")):
        raise RequestError(403, "without tokens only localhost and addresses are taken as host")


@functools.lru_cache(maxsize=256)
def is_own_name(host: str) -> bool:
    """Return True if a Host header has an address or localhost: no DNS can lead there.

    >>> is_own_name("127.0.0.1:8000"), is_own_name("[::1]:80"), is_own_name("house.example")
    (True, True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    # an address has no letters but those of IPv6, which has colons
    return name == "localhost" or ":" in name or name.replace(".", "").isdigit()


WEBSOCKET = "WEBSOCKET"


class Need(enum.Enum):
    """The right that a route needs: none, to read, or to write."""

    NOBODY = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A path such as ``/streams/{name}``, the method, its handler and the right that it needs."""

    path: str
    method: str
    handler: Handler
    need: Need = Need.READ


class Routes:
    """Routes by path; a part of a path in braces stands for any one part.

    >>> routes = Routes([Route("/streams/{name}", "GET", handler=print)])
    >>> routes.find("/streams/readings", "GET")[1]
    {'name': 'readings'}
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[tuple[str, ...], dict[str, Route]] = {}
        self.add(routes)

    def add(self, routes: Iterable[Route]) -> None:
        """Add routes; one of the same path and method takes the place of the other."""
        for route in routes:
            parts = route.path.split("/")
            key = tuple("{}" if part[:1] == "{" else part for part in parts)
            self._routes.setdefault(key, {})[route.method] = route

    def find(self, path: str, method: str) -> tuple[Route, dict[str, Any]]:
        """Return the route of a request with its parameters. ``RequestError``: 404, 405."""
        parts = path.split("/")
        methods = None if "{}" in parts else self._routes.get(tuple(parts))
        value = ""
        if methods is None and len(parts) > 2 and parts[2]:
            # a name is always the second part
            value, parts[2] = parts[2], "{}"
            methods = self._routes.get(tuple(parts))
        if methods is None:
            raise self._make_missing(path)
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            allowed = ", ".join(methods)
            headers = [(b"allow", allowed.encode())]
            hint = " Hint: curl -d sends rows with POST." if "POST" in methods else ""
            raise RequestError(
                405, f"this path takes {allowed}, got {method}.{hint}", headers=headers
            )
        return route, {"name": value} if value else {}

    def _make_missing(self, path: str) -> RequestError:
        """Return the answer to a path that there is not, with those that there are."""
        hint = "Hint: one of these paths."
        if path != "/" and path.endswith("/"):
            hint = "Hint: the same path without the slash at its end, or one of these."
        paths = ["/".join(key).replace("{}", "{name}") for key in self._routes]
        return RequestError(404, f"there is nothing at this path. {hint}", paths=sorted(paths))
