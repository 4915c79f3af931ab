"""Readers that take nothing: what they leave unread has a limit, and holds nobody else up."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Coroutine
from typing import Any

import httpx
import pytest
import websockets.sync.client
from live_service import read_events, serve

import rxtemporal as rxt
from rxtemporal.serve import Settings, app, settings
from rxtemporal.serve.event_streams import CONNECTION, SseChannel, Unread
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test that must not hang."""
    asyncio.run(asyncio.wait_for(test, 60))


async def turn(times: int = 20) -> None:
    """Let the loop turn."""
    for _ in range(times):
        await asyncio.sleep(0)


def test_what_is_unread_has_a_limit() -> None:
    """Readers beyond it wait in their order, and go on as others take their events."""

    async def main() -> None:
        unread = Unread(2 * EVENT_BYTES)
        taken: list[int] = []
        release = [asyncio.Event() for _ in range(4)]

        async def hold(number: int) -> None:
            async with unread.room() as room:
                room.fit(EVENT_BYTES)
                taken.append(number)
                await release[number].wait()

        tasks = [asyncio.ensure_future(hold(number)) for number in range(4)]
        await turn()
        assert (taken, unread.bytes) == ([0, 1], 2 * EVENT_BYTES)
        release[1].set()
        await turn()
        assert (taken, unread.bytes) == ([0, 1, 2], 2 * EVENT_BYTES)
        for each in release:
            each.set()
        await asyncio.gather(*tasks)
        assert (taken, unread.bytes) == ([0, 1, 2, 3], 0)

    run(main())


def test_a_small_event_leaves_room_for_others() -> None:
    """An event counts with its own bytes, and one without rows with none."""

    async def main() -> None:
        unread = Unread(EVENT_BYTES)
        async with unread.room() as first:
            first.fit(0)
            async with unread.room() as second:
                second.fit(10)
                assert unread.bytes == 10
        assert unread.bytes == 0

    run(main())


def test_a_row_that_is_too_large_comes_alone() -> None:
    """It has room if there is nothing else, and nothing else has room beside it."""

    async def main() -> None:
        unread = Unread(1)
        async with unread.room() as room:
            room.fit(10 * EVENT_BYTES)
            other = asyncio.ensure_future(unread.take(1))
            await turn()
            assert not other.done()
        await other

    run(main())


def test_one_who_waits_in_vain_holds_nobody_up() -> None:
    """A reader that goes while it waits for room leaves its place to the next one."""

    async def main() -> None:
        unread = Unread(EVENT_BYTES)
        await unread.take(EVENT_BYTES)
        waiting = [asyncio.ensure_future(unread.take(EVENT_BYTES)) for _ in range(2)]
        await turn()
        waiting[0].cancel()
        unread.give_back(EVENT_BYTES)
        await waiting[1]
        assert unread.bytes == EVENT_BYTES

    run(main())


def test_others_have_a_turn_between_the_events_of_many_readers() -> None:
    """However many readers have news at once, a turn of the loop sends about one large event."""

    async def main() -> None:
        unread, sent, turns = Unread(1 << 30), 0, 0

        async def read() -> None:
            nonlocal sent
            async with unread.room() as room:
                room.fit(EVENT_BYTES)
                sent += 1

        tasks = [asyncio.ensure_future(read()) for _ in range(200)]
        most = 0
        while sent < 200:
            before = sent
            await asyncio.sleep(0)
            most, turns = max(most, sent - before), turns + 1
        await asyncio.gather(*tasks)
        assert most <= 2
        assert turns >= 100

    run(main())


class Outgoing:
    """Connection that sends nothing until it is told."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()
        self.messages: list[Any] = []
        self.aborted = False
        self._gone = asyncio.Event()

    async def send(self, message: Any) -> None:
        """Keep what was written."""
        self.messages.append(message)

    async def receive(self) -> dict[str, Any]:
        """Tell that the client has gone, once it has."""
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def drain(self) -> None:
        """Wait until it is told that all has gone."""
        await self.sent.wait()

    def abort(self) -> None:
        """Note it."""
        self.aborted = True
        self._gone.set()


def test_a_reader_has_one_event_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event is written when the last one has gone; one that never goes cuts the connection."""
    monkeypatch.setattr("rxtemporal.serve.event_streams.PATIENCE", 0.05)

    async def main() -> None:
        wire = Outgoing()
        wire.sent.set()
        scope = {"extensions": {CONNECTION: wire}}
        channel = SseChannel(scope, wire.receive, wire.send)

        async def write() -> None:
            async with channel:
                await channel.write(FeedEvent("rows", 1, b"[]"))
                wire.sent.clear()
                await channel.write(FeedEvent("rows", 2, b"[]"))

        with pytest.raises(TimeoutError):
            await write()
        assert wire.aborted
        assert [message["type"] for message in wire.messages] == [
            "http.response.start", *["http.response.body"] * 3,
        ]  # fmt: skip

    run(main())


# Behind a server ----------------------------------------------------------------------------------


def make_house() -> tuple[rxt.Application, rxt.PushSource, Settings]:
    """Return an application whose query gives what it gets, and settings for a free port."""
    source = rxt.PushSource("readings", schema={"x": str})
    house = rxt.Application("house")
    house.query("all", source.stream)
    server = settings.ServerSettings(port=0, drain_seconds=5.0)
    return house, source, Settings(server=server, limits=settings.Limits(ahead=None))


@pytest.mark.parametrize("protocol", ["http", "websocket"])
def test_a_client_that_reads_nothing_is_cut_off(
    protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection is reset, what it has not read is dropped, and the log has no error."""
    monkeypatch.setattr("rxtemporal.serve.event_streams.PATIENCE", 0.3)
    house, source, given = make_house()
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    )
    more = upgrade if protocol == "websocket" else ""
    served = app(house, given)
    with serve(served) as url:
        source.push([{"time": t, "x": "x" * 60_000} for t in range(400)])
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            head = f"GET /queries/all/events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n"
            client.sendall(head.encode())
            status = client.recv(12)
            deadline = time.monotonic() + 60
            while served.service._drain_callbacks and time.monotonic() < deadline:
                time.sleep(0.01)
            assert httpx.get(f"{url}/healthz").status_code == 200
            rest = sum(map(len, iter(lambda: client.recv(1 << 20), b"")))
    assert status == (b"HTTP/1.1 200" if protocol == "http" else b"HTTP/1.1 101")
    # what has left the process, and not the rest
    assert 0 < rest < 20_000_000
    # a subscription that another test has left open may warn that nothing comes out
    told = [each for each in caplog.records if "process='subscribe'" not in each.getMessage()]
    assert [each for each in told if each.levelname in ("ERROR", "WARNING")] == []


def test_a_window_of_many_devices_passes_clients_with_the_usual_limit() -> None:
    """Rows with one start that would be a message of some MB come whole over both protocols."""
    house, source, given = make_house()
    rows = [{"time": 1, "x": f"device {n} " * 20} for n in range(20_000)]
    wanted = sorted(row["x"] for row in rows)
    with serve(app(house, given)) as url:
        source.push([*rows, rxt.Cti(9)])
        found: list[str] = []
        with httpx.stream("GET", f"{url}/queries/all/events", timeout=60) as answer:
            for _, position, data in read_events(answer):
                found += [row["x"] for row in data]
                if position:
                    break
        assert sorted(found) == wanted
        found = []
        address = f"{url.replace('http', 'ws')}/queries/all/events"
        with websockets.sync.client.connect(address, max_size=1 << 20) as client:
            for text in client:
                message = json.loads(text)
                found += [row["x"] for row in message["data"]]
                if message["position"] is not None:
                    break
        assert sorted(found) == wanted
