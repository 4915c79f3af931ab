"""Page of the demonstration: one HTML file that shows the house live."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from typing import Any

from rxtemporal.serve.routes import Need, Route


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
    headers = [
        (b"content-type", b"text/html; charset=utf-8"),
        (b"content-length", str(len(page)).encode()),
        (b"content-security-policy", make_policy(page).encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"no-cache"),
    ]

    async def show_page(scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = b"" if scope["method"] == "HEAD" else page
        await send({"type": "http.response.body", "body": body})

    return [Route("/", "GET", show_page, Need.NOBODY)]
