"""WebSocket into a stream: a receipt for each message, in order."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import socket

import httpx
import polars as pl
import pytest
from live_service import serve
from service_clients import make_house, reading
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from rxtemporal.serve.asgi import app
from rxtemporal.serve.ingest_routes import MOST_MESSAGES
from rxtemporal.serve.settings import Limits, ServerSettings, Settings, TokenSettings
from rxtemporal.serve.tokens import make_token

PORT = ServerSettings(port=0)


def talk(act, settings=None, house=None):
    """Return what ``act`` returns for a live service with its settings, and its URL."""
    served = app(house or make_house()[0], settings or Settings(server=PORT))
    with serve(served) as url:
        return asyncio.run(asyncio.wait_for(act(served, url), 60))


def open_socket(url, name="readings", **headers):
    """Return a WebSocket into a stream."""
    address = f"{url.replace('http', 'ws', 1)}/streams/{name}"
    return connect(address, additional_headers=headers)


def test_each_message_has_its_receipt_in_order():
    """Messages may be sent before the receipts come; a bad one has its error in its place."""
    messages = [json.dumps(reading(n, n=n)) for n in range(3 * MOST_MESSAGES)]
    messages[5] = "{"
    messages[7] = json.dumps([reading(7, n=7), reading(3, n=3), {}])
    file = io.BytesIO()
    frame = {"time": [300], "device": ["a"], "temp": [1.0], "n": [9_000]}
    pl.DataFrame(frame).write_ipc_stream(file)

    async def act(_, url):
        async with open_socket(url, Source="device 7") as client:
            for message in messages:
                await client.send(message)
            await client.send(file.getvalue())
            await client.send("\n".join(messages[8:10]))
            return [json.loads(await client.recv()) for _ in range(len(messages) + 2)]

    receipts = talk(act)
    assert (receipts[5]["status"], receipts[5]["line"], receipts[5]["byte"]) == (400, 1, 1)
    accepted = [each.get("accepted") for each in receipts]
    assert accepted == [None if n == 5 else 1 for n in range(len(messages))] + [1, 0]
    assert (receipts[7]["duplicates"], receipts[7]["refused"][0]["index"]) == (1, 2)
    assert receipts[-1]["duplicates"] == 2


def test_a_message_that_is_too_large_closes():
    """The code 1009 says why."""

    async def act(_, url):
        async with open_socket(url) as client:
            await client.send(json.dumps(reading(1)))
            first = json.loads(await client.recv())
            await client.send("[" + " " * 200 + "]")
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            return first["accepted"], closed.value.rcvd.code

    settings = Settings(server=PORT, limits=Limits(message_bytes=200))
    assert talk(act, settings) == (1, 1009)


def test_who_may_not_write_is_refused_before_the_handshake():
    """The status is that of a request: no token 401, another's stream 403, no stream 404."""
    text, digest = make_token()
    rights = TokenSettings(digest, write=("readings",))
    bearer = {"Authorization": f"Bearer {text}"}

    async def act(_, url):
        statuses = []
        for name, headers in (
            ("readings", {}),
            ("commands", bearer),
            ("readings", {**bearer, "Source": "other"}),
            ("readings", {**bearer, "Sequence": "1"}),
        ):
            with pytest.raises(InvalidStatus) as refused:
                await open_socket(url, name, **headers)
            statuses.append(refused.value.response.status_code)
        async with open_socket(url, **bearer) as client:
            await client.send(json.dumps(reading(1)))
            statuses.append(json.loads(await client.recv())["accepted"])
        return statuses

    settings = Settings(server=PORT, tokens={"gateway": rights})
    assert talk(act, settings) == [401, 403, 403, 400, 1]


def test_pages_of_other_sites_may_not_write():
    """A browser tells the origin of a page; without tokens only the service's own may write."""

    async def act(_, url):
        async with httpx.AsyncClient(timeout=60) as client:
            codes = [
                (await client.post(f"{url}/streams/readings", json=reading(1), headers=headers))
                for headers in ({"origin": "https://evil.example"}, {"origin": url}, {})
            ]
        with pytest.raises(InvalidStatus) as refused:
            await open_socket(url, Origin="https://evil.example")
        return [each.status_code for each in codes], refused.value.response.status_code

    assert talk(act) == ([403, 200, 200], 403)


def exchange(url, *parts, half_close=False):
    """Return what a socket answers to bytes, until it is closed or silent for two seconds."""
    host, _, port = url.removeprefix("http://").partition(":")
    answer = b""
    with socket.create_connection((host, int(port)), timeout=5) as client:
        for part in parts:
            client.sendall(part)
        if half_close:
            client.shutdown(socket.SHUT_WR)
        client.settimeout(2)
        try:
            while part := client.recv(65_536):
                answer += part
        except (TimeoutError, ConnectionResetError):
            pass
    return answer


def head(length, *more):
    """Return the head of a request."""
    lines = [
        "POST /streams/readings HTTP/1.1",
        "Host: localhost",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def test_slow_and_half_closed_connections_end():
    """A body that stalls gets 408, one that is cut off no answer; the service goes on."""
    settings = Settings(server=PORT, limits=Limits(body_seconds=0.2))
    with serve(app(make_house()[0], settings)) as url:
        assert exchange(url, head(99), b"[").startswith(b"HTTP/1.1 408")
        assert exchange(url, head(99)).startswith(b"HTTP/1.1 408")
        assert exchange(url, head(99), b"[", half_close=True)[9:12] in (b"", b"400", b"408")
        assert exchange(url, head(10**12)).startswith(b"HTTP/1.1 413")
        packed = gzip.compress(b"[]")
        answer = exchange(
            url, head(len(packed), "Content-Encoding: gzip", "Connection: close"), packed
        )
        assert answer.startswith(b"HTTP/1.1 200")
        assert httpx.post(f"{url}/streams/readings", json=reading(1), timeout=60).json()["accepted"]


def run_socket(messages, limits=None):
    """Return what a service sends into a WebSocket whose server has no limits of its own.

    Behind the messages the service stops.
    """
    sent, asked = [], iter([{"type": "websocket.connect"}, *messages])

    async def run():
        served = app(make_house()[0], Settings(limits=limits or Limits()))

        async def receive():
            if message := next(asked, None):
                return message
            served.service.drain()
            return await asyncio.Event().wait()

        async def send(message):
            sent.append(message)

        scope = {"type": "websocket", "path": "/streams/readings", "headers": []}
        async with served.lifespan():
            await served(scope, receive, send)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert sent.pop(0)["type"] == "websocket.accept"
    *receipts, last = sent
    assert last["type"] == "websocket.close"
    return [json.loads(each["text"]) for each in receipts], last["code"]


def make_messages(*texts):
    """Return messages as a server gives them."""
    return [{"type": "websocket.receive", "text": text} for text in texts]


ROW = json.dumps(reading(1))


def test_a_message_has_a_limit_behind_any_server():
    """The receipts before it come first."""
    messages = make_messages(ROW, "\ud800", " " * 101, ROW)
    (first, second), code = run_socket(messages, Limits(message_bytes=100))
    assert (first["accepted"], second["status"], code) == (1, 400, 1009)


def test_messages_that_wait_have_a_bound():
    """A message beyond it is refused with the time after which to send it again."""
    (receipt,), _ = run_socket(make_messages(ROW), Limits(waiting_bytes=10))
    assert (receipt["status"], receipt["retry_after"]) == (503, 1.0)


def test_a_service_that_stops_closes_after_its_receipts():
    """The code 1012 says that the sender may come again."""
    receipts, code = run_socket(make_messages(*[ROW] * 200))
    fates = [each.get("accepted") or each["status"] for each in receipts]
    assert (len(fates), code) == (200, 1012)
    # what comes when it has begun to stop, if anything, is refused, and told so
    assert fates == sorted(fates)
    assert {1} <= set(fates) <= {1, 503}


def test_a_sender_that_takes_no_receipts_is_left():
    """A server that cannot send any more ends the WebSocket; what was read is accepted."""
    house, source = make_house()
    messages = iter([{"type": "websocket.connect"}, *make_messages(*[ROW] * 5)])

    async def run():
        served = app(house)

        async def receive():
            return next(messages, None) or await asyncio.Event().wait()

        async def send(message):
            if message["type"] != "websocket.accept":
                raise OSError("the connection is gone")

        scope = {"type": "websocket", "path": "/streams/readings", "headers": []}
        async with served.lifespan():
            await served(scope, receive, send)
            assert not served.service._drain_callbacks

    asyncio.run(asyncio.wait_for(run(), 30))
    assert source.stats().accepted == 5
