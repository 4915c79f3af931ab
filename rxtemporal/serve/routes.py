"""Routes of a service: which handler answers a path, and who may ask."""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

from starlette.routing import compile_path
from starlette.types import ASGIApp, Scope

from rxtemporal.serve.responses import RequestError, find_header


def check_origin(scope: Scope) -> None:
    """Refuse a request that a page of another site has made."""
    # a browser tells it of requests without an origin, too, such as those of an image
    origin, host = find_header(scope, "origin"), find_header(scope, "host") or ""
    is_other = origin is not None and origin.partition("://")[2].lower() != host.lower()
    if is_other or find_header(scope, "sec-fetch-site") == "cross-site":
        raise RequestError(403, "a page of another site needs a token here")


def check_host(scope: Scope) -> None:
    """Refuse a request to a name that leads to this machine and is not its own."""
    host = find_header(scope, "host")
    if host is not None and not is_own_name(host):
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
# so many paths are remembered
MOST_PATHS = 256


class Need(enum.Enum):
    """The right that a route needs: none, to read, or to write."""

    NOBODY = enum.auto()
    READ = enum.auto()
    WRITE = enum.auto()


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A path such as ``/streams/{name}``, the method, its handler and the right that it needs.

    ``summary`` is a sentence for the description of the service.
    """

    path: str
    method: str
    handler: ASGIApp
    need: Need = Need.READ
    summary: str = ""


class Routes:
    """Routes by path; a part of a path in braces stands for any one part.

    >>> routes = Routes([Route("/streams/{name}", "GET", handler=print)])
    >>> routes.find("/streams/readings", "GET")[1]
    {'name': 'readings'}
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        # the routes of each path by method, and the pattern of the path
        self._routes: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        # senders ask for the same paths again and again
        self._match = functools.lru_cache(maxsize=MOST_PATHS)(self._match_anew)
        self.add(routes)

    def add(self, routes: Iterable[Route]) -> None:
        """Add routes; one of the same path and method takes the place of the other."""
        for route in routes:
            pattern, _, _ = compile_path(route.path)
            self._routes.setdefault(route.path, (pattern, {}))[1][route.method] = route
        self._match.cache_clear()

    def list_routes(self) -> Iterator[Route]:
        """Yield all routes, in the order in which their paths were added."""
        for _, methods in self._routes.values():
            yield from methods.values()

    def find(self, path: str, method: str) -> tuple[Route, dict[str, Any]]:
        """Return the route of a request with its parameters. ``RequestError``: 404, 405."""
        if (matched := self._match(path)) is None:
            raise self._make_missing(path)
        methods, parameters = matched
        route = methods.get("GET" if method == "HEAD" else method)
        if route is None:
            raise _make_wrong_method(methods, method)
        return route, parameters.copy()

    def _match_anew(self, path: str) -> tuple[dict[str, Route], dict[str, Any]] | None:
        """Return the routes of a path by method, and its parameters; None if there is none."""
        for pattern, methods in self._routes.values():
            if (found := pattern.match(path)) is not None:
                return methods, found.groupdict()
        return None

    def _make_missing(self, path: str) -> RequestError:
        """Return the answer to a path that there is not, with those that there are."""
        hint = "Hint: one of these paths."
        if path != "/" and path.endswith("/"):
            hint = "Hint: the same path without the slash at its end, or one of these."
        paths = sorted(self._routes)
        return RequestError(404, f"there is nothing at this path. {hint}", paths=paths)


def _make_wrong_method(methods: Iterable[str], method: str) -> RequestError:
    """Return the answer to a method that a path does not take."""
    allowed = ", ".join(methods)
    hint = " Hint: curl -d sends rows with POST." if "POST" in methods else ""
    reason = f"this path takes {allowed}, got {method}.{hint}"
    return RequestError(405, reason, headers={"allow": allowed})
