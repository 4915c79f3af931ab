"""Client of a server's diagnostics."""

from __future__ import annotations

import http.client
import json
import time
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError, RxTemporalError

# seconds that a server may take for an answer, and the size of one that is read
PATIENCE = 10.0
MOST_BYTES = 64 << 20


class Answer(NamedTuple):
    """Diagnostics of a server: when they came (of a monotonic clock), and its own clock then."""

    content: dict[str, Any]
    time: float
    clock: datetime


class DiagnosticsClient:
    """Client of one server. Each question is a connection of its own."""

    def __init__(self, url: str, token: str | None = None) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            port = parts.port
        except ValueError:
            port = -1
        if parts.scheme not in ("http", "https") or not parts.hostname or port == -1:
            raise ArgumentError(
                f"URL is http://HOST:PORT or https://HOST:PORT, got {brief(url)}. "
                "Hint: rxtemporal serve prints its own."
            )
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._path = f"{parts.path.rstrip('/')}/diagnostics"
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._headers = {"Accept": "application/json"}
        if token:
            if not token.isascii() or not token.isprintable():
                raise ArgumentError("a token is printable ASCII text")
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self) -> Answer:
        """Return the current diagnostics. ``RxTemporalError`` says why there are none."""
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        try:
            with closing(kind(self._host, self._port, timeout=PATIENCE)) as connection:
                connection.request("GET", self._path, headers=self._headers)
                response = connection.getresponse()
                body = response.read(MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or repr(error)
            raise RxTemporalError(
                f"cannot reach {self.url}: {why}. Hint: is rxtemporal serve running there?"
            ) from error
        if response.status != 200:
            raise self._explain(response.status)
        return Answer(self._parse(body), time.monotonic(), _find_clock(response))

    def _explain(self, status: int) -> RxTemporalError:
        hint = {
            401: "--token TOKEN, or the environment variable RXTEMPORAL_TOKEN",
            403: "the token needs read = true in the server's configuration",
            404: "is this the address of rxtemporal serve? A mounted one has a path",
        }.get(status, "the log of the server says more")
        return RxTemporalError(f"{self.url} answered {status}. Hint: {hint}.")

    def _parse(self, body: bytes) -> dict[str, Any]:
        try:
            content = json.loads(body)
            content["service"]["counts"]
        except (ValueError, TypeError, KeyError) as error:
            raise RxTemporalError(
                f"what {self.url} answered are no diagnostics. "
                "Hint: is this the address of rxtemporal serve?"
            ) from error
        return content  # type: ignore[no-any-return]


def _find_clock(response: http.client.HTTPResponse) -> datetime:
    """Return the server's clock, or this machine's if the server does not say."""
    try:
        return parsedate_to_datetime(response.headers["Date"]).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.now(UTC)
