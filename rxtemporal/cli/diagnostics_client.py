"""Client of a server's diagnostics."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from rxtemporal.cli.service_client import ServiceClient
from rxtemporal.errors import RxTemporalError


class Answer(NamedTuple):
    """Diagnostics of a server: when they came (of a monotonic clock), and its own clock then."""

    content: dict[str, Any]
    time: float
    clock: datetime


class DiagnosticsClient:
    """Client of one server."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._client = ServiceClient(url, token)
        self.url = self._client.url

    def get(self) -> Answer:
        """Return the current diagnostics. ``RxTemporalError`` says why there are none."""
        reply = self._client.get("/diagnostics")
        return Answer(self._parse(reply.body), time.monotonic(), _find_clock(reply.headers))

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


def _find_clock(headers: Message) -> datetime:
    """Return the server's clock, or this machine's if the server does not say."""
    try:
        return parsedate_to_datetime(headers["Date"]).astimezone(UTC)
    except (TypeError, ValueError):
        return datetime.now(UTC)
