"""Client of a server's answers over HTTP, with nothing but the standard library."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from email.message import Message
from typing import NamedTuple
from urllib.parse import urlsplit

from rxtemporal.core.safe_text import brief
from rxtemporal.errors import ArgumentError, RxTemporalError

# seconds that a server may take for an answer, and the size of one that is read
PATIENCE = 10.0
MOST_BYTES = 64 << 20
# bytes of an error that are read, and characters that are shown
MOST_REASON, MOST_SHOWN = 65_536, 300


class StatusError(RxTemporalError):
    """An answer that is an error, with its status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ServiceClient:
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
        self._path = parts.path.rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._path}"
        self._headers = {"Accept": "application/json"}
        if token:
            if not token.isascii() or not token.isprintable():
                raise ArgumentError("a token is printable ASCII text")
            self._headers["Authorization"] = f"Bearer {token}"

    def get(self, path: str) -> Reply:
        """Return the answer to a GET. ``RxTemporalError`` says why there is none."""
        with closing(self._connect(PATIENCE)) as connection:
            try:
                response = self._ask(connection, path, {})
                return Reply(response.read(MOST_BYTES), response.headers)
            except (OSError, http.client.HTTPException) as error:
                raise self.explain_loss(error) from error

    def open(self, path: str, headers: Mapping[str, str], patience: float) -> OpenReply:
        """Return a streamed answer, to be read as it comes; each part may take so long.

        ``StatusError``: the answer is an error. ``OSError``, ``HTTPException``: there is none.
        """
        connection = self._connect(patience)
        try:
            return OpenReply(connection, self._ask(connection, path, headers))
        except BaseException:
            connection.close()
            raise

    def _connect(self, patience: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        return kind(self._host, self._port, timeout=patience)

    def _ask(
        self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        connection.request("GET", self._path + path, headers={**self._headers, **headers})
        response = connection.getresponse()
        if response.status not in (200, 204):
            raise self._explain(response.status, _find_reason(response))
        return response

    def explain_loss(self, error: Exception) -> RxTemporalError:
        """Return the error for a server that does not answer."""
        why = getattr(error, "strerror", None) or repr(error)
        return RxTemporalError(
            f"cannot reach {self.url}: {why}. Hint: is rxtemporal serve running there?"
        )

    def _explain(self, status: int, reason: str) -> StatusError:
        hint = {
            401: "--token TOKEN, or the environment variable RXTEMPORAL_TOKEN",
            403: "the token needs read = true in the server's configuration",
            404: "is this the address of rxtemporal serve? A mounted one has a path",
        }.get(status, "the log of the server says more")
        return StatusError(status, f"{self.url} answered {status}{reason}. Hint: {hint}.")


def _find_reason(response: http.client.HTTPResponse) -> str:
    """Return what a server says of an error, for a message."""
    try:
        reason = str(json.loads(response.read(MOST_REASON))["error"])[:MOST_SHOWN]
        return f": {reason if reason.isprintable() else brief(reason)}"
    except (ValueError, TypeError, KeyError):
        return ""


class Reply(NamedTuple):
    """An answer as a whole."""

    body: bytes
    headers: Message


class OpenReply(NamedTuple):
    """A streamed answer, and its connection."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()
