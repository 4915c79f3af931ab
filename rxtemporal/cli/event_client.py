"""Client of a server's events: server-sent events that continue where the connection was lost."""

from __future__ import annotations

import http.client
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import quote

from rxtemporal.cli.service_client import OpenReply, ServiceClient, StatusError
from rxtemporal.errors import RxTemporalError

# a server that is silent for so many seconds, without a sign of life, is gone
SILENCE = 60.0
# seconds before a lost connection is made again, growing up to the most
_FIRST_PAUSE, _MOST_PAUSE = 0.5, 10.0
_LOSSES = (OSError, http.client.HTTPException)
# a line has an event's data, which may be many rows
_LONGEST = 256 << 20


class ServerEvent(NamedTuple):
    """One event of a server: its kind, and its data from JSON."""

    kind: str
    data: Any


class EventClient:
    """Client of the events of one query or stream, from the position ``begin``, if given.

    ``warn`` gets a sentence when the connection is lost.
    """

    def __init__(
        self, client: ServiceClient, path: str, begin: str | None, warn: Callable[[str], object]
    ) -> None:
        self._client, self._path, self._begin, self._warn = client, path, begin, warn
        self._position = ""
        self._pause, self._connected = _FIRST_PAUSE, False

    def read(self) -> Iterator[ServerEvent]:
        """Yield events until the server says that there are no more.

        A lost connection is made again at the position reached. ``RxTemporalError``: the first one
        cannot be made, or the server refuses.
        """
        while True:
            try:
                for event in self._read_once():
                    yield event
                    if event.kind == "end":
                        return
                why = "the server has closed the connection"
            except (*_LOSSES, StatusError) as error:
                why = self._explain(error)
            self._warn(f"{why}; trying again")
            time.sleep(self._pause * random.uniform(0.5, 1))
            self._pause = min(2 * self._pause, _MOST_PAUSE)

    def _explain(self, error: Exception) -> str:
        """Return why a connection was lost; raise an error that another one would not mend."""
        if not isinstance(error, StatusError):
            if not self._connected:
                raise self._client.explain_loss(error) from error
            return getattr(error, "strerror", None) or repr(error)
        if not self._connected or error.status not in (410, 503):
            raise error
        if error.status == 503:
            return "the server takes no readers now"
        self._begin, self._position = "oldest", ""
        return "rows are missing, which the server does not keep any more"

    def _read_once(self) -> Iterator[ServerEvent]:
        """Yield the events of one connection."""
        with closing(self._open()) as reply:
            if reply.response.status == 204:
                yield ServerEvent("end", {})
                return
            self._connected, self._pause = True, _FIRST_PAUSE
            yield from self._list_events(reply)

    def _open(self) -> OpenReply:
        headers = {"Accept": "text/event-stream"}
        if self._position:
            headers["Last-Event-ID"] = self._position
        begin = "" if self._begin is None else f"?from={quote(self._begin, safe='')}"
        return self._client.open(self._path + begin, headers, SILENCE)

    def _list_events(self, reply: OpenReply) -> Iterator[ServerEvent]:
        """Yield events; the position is that of the last whole one."""
        # results without a position: some of those with one start, which come again after a break
        waiting: list[Any] = []
        for position, event in _read_events(reply):
            data = event.data
            if event.kind == "rows" and isinstance(data, list):
                waiting.extend(data)
                if not position:
                    continue
                data, waiting = waiting, []
            self._position = position or self._position
            yield ServerEvent(event.kind, data)


def _read_events(reply: OpenReply) -> Iterator[tuple[str, ServerEvent]]:
    """Yield each event of an answer with its id, which is empty if it has none."""
    event: dict[str, str] = {}
    while line := reply.response.readline(_LONGEST):
        name, _, value = line.decode().rstrip("\r\n").partition(": ")
        if name:
            event[name] = value
            continue
        if "data" in event:
            yield event.get("id", ""), ServerEvent(event.get("event", ""), _parse(event["data"]))
        event = {}


def _parse(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise RxTemporalError(
            "the server has sent what is no event. Hint: is this the address of rxtemporal serve?"
        ) from error
