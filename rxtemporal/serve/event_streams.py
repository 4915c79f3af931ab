"""Results and accepted rows for readers: lists of both, and events as they come."""

from __future__ import annotations

import asyncio
import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol
from urllib.parse import parse_qsl, quote

import polars as pl
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, ticks
from rxtemporal.errors import EventError
from rxtemporal.serve.now import NowLooks, NowReader, join_rows, read_pause
from rxtemporal.serve.responses import RequestError, dumps, find_header, send_json
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent, RestartedError, ResultFeed
from rxtemporal.serve.routes import WEBSOCKET, Route
from rxtemporal.serve.service import Service


class Unread:
    """Bytes of the events that readers have been sent and have not taken.

    A reader gets its next event when there is room for one. Those that wait for room get it in
    their order; one that takes nothing is left in the end, so nobody waits for ever. All together
    are at most ``most`` bytes, and one row if that is larger than an event should be.

    After so many bytes as one event has, the next reader waits until whoever else is in the event
    loop has had a turn. Not thread-safe: for one event loop.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.bytes = 0
        self._in_this_turn = 0
        self._order = asyncio.Lock()
        self._less = asyncio.Event()

    def room(self) -> Room:
        """Return room for one event, to be entered."""
        return Room(self)

    async def take(self, count: int) -> None:
        """Wait for room."""
        async with self._order:
            while self.bytes and self.bytes + count > self._most:
                self._less.clear()
                await self._less.wait()
            self.bytes += count
            if self._in_this_turn >= EVENT_BYTES:
                self._in_this_turn = 0
                await asyncio.sleep(0)

    def change(self, more: int) -> None:
        """Note that an event has more bytes than were taken for it, or less."""
        self.bytes += more
        self._in_this_turn += EVENT_BYTES + more
        self._less.set()

    def give_back(self, count: int) -> None:
        """Note that a reader has taken its event."""
        self.bytes -= count
        self._less.set()


class Room:
    """Room for one event, as an async context manager: at first for the largest one."""

    __slots__ = ("_bytes", "_unread")

    def __init__(self, unread: Unread) -> None:
        self._unread, self._bytes = unread, EVENT_BYTES

    async def __aenter__(self) -> Room:
        await self._unread.take(self._bytes)
        return self

    def fit(self, count: int) -> None:
        """Note how many bytes the event has."""
        self._unread.change(count - self._bytes)
        self._bytes = count

    async def __aexit__(self, *error: object) -> None:
        self._unread.give_back(self._bytes)


# seconds after which a client that takes nothing is left; it can come back to its position
PATIENCE = 60.0
# the same when the service stops
_LAST_SECONDS = 0.5
# milliseconds after which a browser comes back
_RETRY = 1_000
_GONE = ("http.disconnect", "websocket.disconnect")
_NORMAL, _RESTART = 1000, 1012
HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # a proxy in front passes each event on at once
    (b"x-accel-buffering", b"no"),
]
# extension of a scope: the connection, if the server is this package's own
CONNECTION = "rxtemporal.connection"


class Wire(Protocol):
    """Connection that says when it has sent what was written, and that can be cut."""

    async def drain(self) -> None:
        """Wait until nearly all that was written has left the process."""

    def abort(self) -> None:
        """Close at once; what has not been sent is dropped."""


class Channel(ABC):
    """Way to one reader, as an async context manager.

    ``left`` is done when the reader has gone, or is to be left. A reader that takes nothing is cut
    off, with what it has not taken. A foreign server tells later what was taken: when it takes the
    next event.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._connection: Wire | None = scope.get("extensions", {}).get(CONNECTION)
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # True if the query has completed: the reader need not come back
        self.ended = False
        self._gone = False
        self._listener: asyncio.Task[None] | None = None
        # the end of the patience with the reader, while it takes an event
        self._limit: asyncio.Timeout | None = None

    async def __aenter__(self) -> Channel:
        await self._open()
        self._listener = asyncio.ensure_future(self._listen())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._listener is not None
        if not self._gone and error[0] is None:
            await self._close()
        elif not self._gone and self._connection is not None:
            self._connection.abort()
            # the server is told first, since this answer ends before it is complete
            await asyncio.wait([self._listener], timeout=1.0)
        self._listener.cancel()

    def leave(self) -> None:
        """Leave the reader, who may come back; one that takes nothing is cut off soon."""
        if not self.left.done():
            self.left.set_result(None)
        if self._limit is not None and not self._limit.expired():
            self._limit.reschedule(asyncio.get_running_loop().time() + _LAST_SECONDS)

    async def write(self, event: FeedEvent) -> None:
        """Send one event, and wait until the reader takes it. ``TimeoutError``: it does not."""
        await self._wait(self._send_event(event))
        # whoever else is in this event loop has a turn between two events
        await asyncio.sleep(0)

    async def _wait(self, sending: Awaitable[None]) -> None:
        async with asyncio.timeout(_LAST_SECONDS if self.left.done() else PATIENCE) as limit:
            self._limit = limit
            try:
                await sending
                if self._connection is not None:
                    await self._connection.drain()
            finally:
                self._limit = None

    async def _listen(self) -> None:
        """Wait until the reader has gone; what it sends is ignored."""
        try:
            while (await self._receive())["type"] not in _GONE:
                pass
            self._gone = True
        finally:
            self.leave()

    @abstractmethod
    async def _open(self) -> None: ...

    @abstractmethod
    async def _close(self) -> None: ...

    @abstractmethod
    async def _send_event(self, event: FeedEvent) -> None: ...

    @abstractmethod
    async def keep_alive(self) -> None:
        """Show that the connection lives."""


class SseChannel(Channel):
    """Channel of server-sent events, as browsers' ``EventSource`` reads them.

    Written here and not by sse-starlette, which encodes each event for each reader, and does not
    cut off a reader that takes nothing.
    """

    async def _open(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await self._wait(self._send_part(b"retry: %d\n\n" % _RETRY))

    async def _close(self) -> None:
        await self._send({"type": "http.response.body", "body": b""})

    async def _send_event(self, event: FeedEvent) -> None:
        await self._send_part(event.server_sent)

    async def _send_part(self, data: bytes) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def keep_alive(self) -> None:
        """Send a comment."""
        await self._wait(self._send_part(b": keep-alive\n\n"))


class SocketChannel(Channel):
    """Channel of a WebSocket: each message is an event with its position and data, as JSON."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(scope, receive, send)
        self._socket = WebSocket(scope, receive, send)

    async def _open(self) -> None:
        await self._socket.accept()

    async def _close(self) -> None:
        code = _NORMAL if self.ended else _RESTART
        with contextlib.suppress(Exception):  # it may be closed already
            await self._socket.close(code)

    async def _send_event(self, event: FeedEvent) -> None:
        await self._socket.send_text(event.message)

    async def keep_alive(self) -> None:
        """Send nothing: the server's pings do that."""


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
    default. 410: rows from there on are gone. ``GET /queries/{name}/now`` has its results so far.
    ``GET /streams/{name}/events`` shows the rows that a stream accepts from now on.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._settings = service.settings.results
        self._readers = 0
        self._unread = Unread(self._settings.unread_bytes)
        self._looks = NowLooks(lambda: service.process)

    async def list_queries(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the queries."""
        found = [describe_query(name, feed) for name, feed in self._service.feeds.items()]
        await send_json(scope, send, 200, dumps({"queries": found}))

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
        await send_json(scope, send, 200, dumps({"streams": found}))

    async def send_results(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the results of a query, from a position on."""
        feed = _find(self._service.feeds, scope, "query")
        self._check_room()
        position = find_position(scope, feed)
        if scope["type"] == "http" and position >= MAX_TIME:
            # nothing can follow; a browser comes back after any other answer
            await send_head(send, 204)
            return
        if scope.get("method") == "HEAD":
            await send_head(send, 200)
            return
        await self._send_events(feed.read_from(position), scope, receive, send)

    async def send_now(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the results so far of a query, or with ``?every=`` send how they change."""
        _find(self._service.feeds, scope, "query")
        name, every = scope["path_params"]["name"], _find_parameter(scope, "every")
        if not every and scope["type"] != "http":
            raise RequestError(
                400, "a WebSocket sends changes. Hint: add ?every=1s to the address."
            )
        seconds = read_pause(every) if every else 0.0
        self._check_room()
        if every and scope.get("method") == "HEAD":
            await send_head(send, 200)
            return
        self._readers += 1  # who waits for a look is a reader, too
        try:
            texts = await self._looks.read(name)
        finally:
            self._readers -= 1
        if not every:
            await send_json(scope, send, 200, join_rows(texts))
            return
        reader = NowReader(self._looks, name, seconds, texts)
        await self._send_events(reader, scope, receive, send)

    async def send_accepted(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the rows that a stream accepts from now on."""
        tap = _find(self._service.taps, scope, "stream")
        self._check_room()
        if scope.get("method") == "HEAD":
            await send_head(send, 200)
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
        except (TimeoutError, OSError, WebSocketDisconnect):
            pass  # the client takes nothing, or has gone
        finally:
            self._readers -= 1
            self._service.remove_drain_callback(channel.leave)
            reader.close()

    def _check_room(self) -> None:
        self._service.refuse_if_leaving()
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
        Route(
            "/queries",
            "GET",
            events.list_queries,
            summary="The queries, with their fields and positions.",
        ),
        Route(
            "/streams",
            "GET",
            events.list_streams,
            summary="The streams, with their fields and times.",
        ),
        Route(
            "/queries/{name}/events",
            "GET",
            events.send_results,
            summary="The results of the query from a position on, as server-sent events.",
        ),
        Route(
            "/queries/{name}/events",
            WEBSOCKET,
            events.send_results,
            summary="The same results, a message for each event.",
        ),
        Route(
            "/queries/{name}/now",
            "GET",
            events.send_now,
            summary="The results so far of the query; ?every=1s sends how they change.",
        ),
        Route(
            "/queries/{name}/now",
            WEBSOCKET,
            events.send_now,
            summary="The same changes, a message for each event.",
        ),
        Route(
            "/streams/{name}/events",
            "GET",
            events.send_accepted,
            summary="The rows that the stream accepts from now on, as server-sent events.",
        ),
        Route(
            "/streams/{name}/events",
            WEBSOCKET,
            events.send_accepted,
            summary="The same rows, a message for each event.",
        ),
    ]


def describe_query(name: str, feed: ResultFeed) -> dict[str, Any]:
    """Return what a reader wants to know of a query before it reads its results."""
    return {
        "name": name,
        "schema": _describe_schema(feed.schema),
        "cti": None if feed.numbered else feed.tell_time(feed.cti),
        "position": feed.cti,
        "oldest": feed.oldest,
        "rows": feed.count,
        "ended": feed.ended,
        "events": f"/queries/{quote(name, safe='')}/events",
        "now": f"/queries/{quote(name, safe='')}/now",
    }


def find_position(scope: Scope, feed: ResultFeed) -> int:
    """Return the position from which a request reads. ``RequestError``: 400, 410."""
    text = find_header(scope, "last-event-id") or _find_parameter(scope, "from")
    if text in ("", "oldest"):
        return feed.oldest
    position = feed.cti if text == "now" else read_position(text)
    is_number = _TICKS.fullmatch(text) is not None
    if feed.numbered and text != "now" and not is_number:
        raise RequestError(
            400,
            "a time is no position here: each device has its own time, so that positions are "
            "numbers of batches, 'oldest' or 'now'",
            position=feed.cti,
        )
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


def _find_parameter(scope: Scope, name: str) -> str:
    """Return a parameter of the query string; an empty text if it is not there."""
    query = scope.get("query_string", b"").decode("latin-1")
    with suppress(ValueError):  # too many fields
        return str(dict(parse_qsl(query, max_num_fields=20)).get(name, ""))
    return ""


def _find(found: Mapping[str, Any], scope: Scope, kind: str) -> Any:
    try:
        return found[scope["path_params"]["name"]]
    except KeyError:
        raise RequestError(404, f"there is no {kind} with this name", names=list(found)) from None


def _describe_schema(schema: pl.Schema | None) -> dict[str, str]:
    return {name: str(dtype) for name, dtype in (schema or {}).items()}


async def send_head(send: Send, status: int) -> None:
    """Send an answer without a body; with 200 it has the headers of an event stream."""
    headers = HEADERS if status == 200 else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
