"""Results and accepted rows for whoever asks: lists of both, and events as they come."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote

import polars as pl

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks
from rxtemporal.errors import EventError
from rxtemporal.serve.event_channels import HEADERS, Channel, SocketChannel, SseChannel
from rxtemporal.serve.responses import (
    Receive,
    RequestError,
    Scope,
    Send,
    dumps,
    find_header,
    send_json,
)
from rxtemporal.serve.results import FeedEvent, RestartedError, ResultFeed
from rxtemporal.serve.routes import WEBSOCKET, Route
from rxtemporal.serve.service import Service, ServiceState
from rxtemporal.serve.unread import Unread

_TICKS = re.compile(r"-?[0-9]{1,18}")
_LONGEST = 200


class EventReader(Protocol):
    """Reader of events, of a query or of a tap."""

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is no news."""

    async def wait(self, seconds: float, left: Any) -> None:
        """Wait for news."""

    def close(self) -> None:
        """Leave nothing behind."""


class EventStreams:
    """Routes of a service's results.

    ``GET /queries`` and ``GET /streams`` list what there is. ``GET /queries/{name}/events`` sends
    the results of a query as server-sent events, and as a WebSocket the same, from the position of
    ``Last-Event-ID`` or of ``?from=``: ticks, an ISO time, ``now``, or ``oldest``, which is the
    default. 410: rows from there on are gone. ``GET /streams/{name}/events`` shows the rows that a
    stream accepts from now on.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings.results
        self._readers = 0
        self._unread = Unread(self._settings.unread_bytes)

    async def list_queries(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the queries."""
        found = [describe_query(name, feed) for name, feed in self._service.feeds.items()]
        await send_json(send, 200, dumps({"queries": found}))

    async def list_streams(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the streams that take rows."""
        found = [
            {
                "name": name,
                "schema": _describe_schema(source.stream.schema),
                "cti": source.cti,
                "events": f"/streams/{quote(name, safe='')}/events",
            }
            for name, source in self._service.sources.items()
        ]
        await send_json(send, 200, dumps({"streams": found}))

    async def send_results(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the results of a query, from a position on."""
        feed = _find(self._service.feeds, scope, "query")
        self._check_room()
        position = find_position(scope, feed)
        if scope["type"] == "http" and position >= MAX_TIME:
            # nothing can follow; a browser comes back after any other answer
            await _send_head(send, 204)
            return
        if scope.get("method") == "HEAD":
            await _send_head(send, 200)
            return
        await self._send_events(feed.read_from(position), scope, receive, send)

    async def send_accepted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the rows that a stream accepts from now on."""
        tap = _find(self._service.taps, scope, "stream")
        self._check_room()
        if scope.get("method") == "HEAD":
            await _send_head(send, 200)
            return
        await self._send_events(tap.open(), scope, receive, send)

    async def _send_events(
        self, reader: EventReader, scope: Scope, receive: Receive, send: Send
    ) -> None:
        kind = SseChannel if scope["type"] == "http" else SocketChannel
        channel = kind(scope, receive, send)
        self._readers += 1
        self._service.add_drain_callback(channel.leave)
        try:
            async with channel:
                with suppress(RestartedError):
                    await self._follow(reader, channel)
        except (TimeoutError, OSError):
            pass  # the client takes nothing, or has gone
        finally:
            self._readers -= 1
            self._service.remove_drain_callback(channel.leave)
            reader.close()

    def _check_room(self) -> None:
        if self._service.state in (ServiceState.DRAINING, ServiceState.STOPPED):
            raise RequestError(503, "the service stops", retry_after=1, close=True)
        if self._readers >= self._settings.readers:
            wait = self._service.settings.limits.retry_after
            raise RequestError(503, f"there are {self._readers} readers", retry_after=wait)

    async def _follow(self, reader: EventReader, channel: Channel) -> None:
        """Write the events of a reader until it has gone or the query has completed."""
        clock, pause = asyncio.get_running_loop().time, self._settings.keep_alive
        due = clock() + pause
        while not channel.left.done():
            event = await self._write_next(reader, channel)
            if event is not None:
                if event.kind == "end":
                    channel.ended = True
                    return
            elif clock() < due:
                await reader.wait(due - clock(), channel.left)
                continue
            else:
                await channel.keep_alive()
            due = clock() + pause

    async def _write_next(self, reader: EventReader, channel: Channel) -> FeedEvent | None:
        """Write the next event, once there is room for it; return None if there is no news."""
        async with self._unread.room() as room:
            event = reader.read()
            room.fit(0 if event is None else len(event.data))
            if event is not None:
                await channel.write(event)
        return event


def list_routes(service: Service) -> list[Route]:
    """Return the routes of a service's results."""
    events = EventStreams(service)
    return [
        Route("/queries", "GET", events.list_queries),
        Route("/streams", "GET", events.list_streams),
        Route("/queries/{name}/events", "GET", events.send_results),
        Route("/queries/{name}/events", WEBSOCKET, events.send_results),
        Route("/streams/{name}/events", "GET", events.send_accepted),
        Route("/streams/{name}/events", WEBSOCKET, events.send_accepted),
    ]


def describe_query(name: str, feed: ResultFeed) -> dict[str, Any]:
    """Return what a reader wants to know of a query before it reads its results."""
    return {
        "name": name,
        "schema": _describe_schema(feed.schema),
        "cti": feed.tell_time(feed.cti),
        "position": feed.cti,
        "oldest": feed.oldest,
        "rows": feed.count,
        "ended": feed.ended,
        "events": f"/queries/{quote(name, safe='')}/events",
    }


def find_position(scope: Scope, feed: ResultFeed) -> int:
    """Return the position from which a request reads. ``RequestError``: 400, 410."""
    text = (find_header(scope, b"last-event-id") or b"").decode("latin-1")
    if not text:
        query = scope.get("query_string", b"").decode("latin-1")
        with suppress(ValueError):  # too many fields
            text = dict(parse_qsl(query, max_num_fields=20)).get("from", "")
    if text in ("", "oldest"):
        return feed.oldest
    position = feed.cti if text == "now" else read_position(text)
    if position < feed.oldest:
        raise RequestError(
            410,
            "rows from there on are not kept any more",
            oldest=feed.oldest,
            oldest_time=feed.tell_time(feed.oldest),
        )
    return position


def read_position(text: str) -> int:
    """Return a position in ticks, given as ticks or as an ISO time. ``RequestError``: 400.

    >>> read_position("1970-01-01T00:00:01Z"), read_position("-5")
    (1000000, -5)
    """
    if _TICKS.fullmatch(text):
        position = int(text)
        if MIN_TIME <= position <= MAX_TIME:
            return position
    elif len(text) <= _LONGEST:
        # a plus sign is a blank in a query string
        with suppress(ValueError, EventError, OverflowError):
            return ticks(datetime.fromisoformat(text.replace(" ", "+")))
    raise RequestError(
        400, "a position is a number of ticks, an ISO time with an offset, 'oldest' or 'now'"
    )


def _find(found: Mapping[str, Any], scope: Scope, kind: str) -> Any:
    try:
        return found[scope["path_params"]["name"]]
    except KeyError:
        raise RequestError(404, f"there is no {kind} with this name", names=list(found)) from None


def _describe_schema(schema: pl.Schema | None) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in (schema or {}).items()}


async def _send_head(send: Send, status: int) -> None:
    headers = HEADERS if status == 200 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
