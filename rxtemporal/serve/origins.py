"""Origins of requests: pages of other sites may not use a service that needs no token.

A browser lets any page send to an address of its own machine, and open WebSockets to it. A token
keeps such pages out, for they do not know it; without tokens the headers say who asks.
"""

from __future__ import annotations

import functools
from urllib.parse import urlsplit

from rxtemporal.serve.responses import RequestError, Scope, find_header


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
