"""Simulated devices of the demonstration: they keep a reading until they have its receipt."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter

import pytest

from rxtemporal.serve.demo import devices
from rxtemporal.serve.demo.devices import DEVICES, NO_ANSWER, Device, DeviceConnection

RECEIPT = b'{"accepted": 1}'


def answer(status: int, body: bytes = RECEIPT, *headers: str) -> bytes:
    """Return an answer as it is on the wire."""
    head = [f"HTTP/1.1 {status} Text", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(head).encode() + body


class Scripted:
    """A server that gives these answers by turns, the last one for ever; None hangs up."""

    def __init__(self, *answers: bytes | None) -> None:
        self._answers = list(answers)
        self.posted: list[tuple[dict[str, str], list[dict]]] = []
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers["content-length"]))
                self.posted.append(({"request": head[0], **headers}, json.loads(body)))
                sent = self._answers[0]
                if len(self._answers) > 1:
                    del self._answers[0]
                if sent is None:
                    break
                writer.write(sent)
        writer.close()

    def run(self, use) -> None:
        """Run a coroutine function with the port of this server."""

        async def main() -> None:
            server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
            async with server:
                await use(server.sockets[0].getsockname()[1])

        asyncio.run(main())


# A device -----------------------------------------------------------------------------------------


def test_a_number_means_the_same_reading_after_a_restart():
    """A reading follows from its number alone; its time is that of the device's clock."""
    right, fast = Device("a", 20), Device("a", 20, clock=300)
    assert right.read(1_000) == right.read(1_000)
    assert right.read(1_000)["time"] == "1970-01-01T00:16:40Z"
    assert fast.read(1_000) == {**right.read(1_000), "time": "1970-01-01T00:21:40Z"}


def test_a_device_that_is_away_sends_when_it_is_back():
    """What it reads meanwhile is due at once, when it is back; a slow reading is due later."""
    away = Device("a", 20, away=30, away_every=120)
    assert [away.find_due(each) for each in (1_200, 1_229, 1_230, 1_319)] == [1_230] * 3 + [1_319]
    slow = Device("a", 20, slow=7, slow_by=12)
    assert [slow.find_due(each) for each in (700, 701)] == [712, 701]


def test_the_devices_show_what_goes_wrong():
    """Among them are one that repeats, a slow one, one that goes away and one with a fast clock."""
    assert len({each.name for each in DEVICES}) == len(DEVICES)
    for flaw in ("repeats", "slow", "away", "clock"):
        assert any(getattr(each, flaw) for each in DEVICES)
    assert not any(each.is_repeat(7) for each in DEVICES if not each.repeats)


# The connection -----------------------------------------------------------------------------------


def test_a_connection_stays_open():
    """Several requests go over one connection, each with the name and the token of the device."""
    server = Scripted(answer(200), answer(503, b"{}", "Retry-After: 3"), answer(200))

    async def use(port: int) -> None:
        connection = DeviceConnection("127.0.0.1", port, "shed", token="secret")
        assert await connection.post("/streams/readings", [1]) == (200, {"accepted": 1}, 1)
        assert await connection.post("/streams/readings", [2]) == (503, {}, 3)
        await connection.close()
        await connection.close()

    server.run(use)
    headers, _ = server.posted[0]
    assert (headers["request"], headers["source"]) == ("POST /streams/readings HTTP/1.1", "shed")
    assert headers["authorization"] == "bearer secret"
    assert server.connections == 1


@pytest.mark.parametrize(
    "bad", [None, b"what\r\n\r\n", b"x" * 100_000, answer(200, b"{")], ids=["", "what", "long", "{"]
)
def test_a_lost_connection_is_made_again(bad):
    """An answer that cannot be read is an error; the next request connects again."""
    server = Scripted(bad, answer(200))

    async def use(port: int) -> None:
        connection = DeviceConnection("127.0.0.1", port, "shed")
        with pytest.raises(NO_ANSWER):
            await connection.post("/streams/readings", [1])
        assert (await connection.post("/streams/readings", [1])).status == 200
        await connection.close()

    server.run(use)
    assert server.connections == 2


# All of them --------------------------------------------------------------------------------------


def test_refused_devices_end_by_themselves():
    """A service without such a stream is asked once by each device."""
    server = Scripted(answer(404, b"{}"))

    async def use(port: int) -> None:
        await devices.run("127.0.0.1", port)

    server.run(use)
    assert Counter(headers["source"] for headers, _ in server.posted) == Counter(
        each.name for each in DEVICES
    )


def test_a_reading_is_sent_until_there_is_a_receipt():
    """After an answer that is lost the same readings come again, with the same numbers."""
    server = Scripted(None, answer(200), answer(404, b"{}"))

    async def use(port: int) -> None:
        await devices.run("127.0.0.1", port)

    server.run(use)
    first, *others = [
        rows for headers, rows in server.posted if headers["source"] == DEVICES[0].name
    ]
    assert others[0][: len(first)] == first


def test_devices_end_with_their_task():
    """Cancelled devices close their connections, also if nobody answers them."""

    async def use(port: int) -> None:
        task = asyncio.create_task(devices.run("127.0.0.1", port))
        while len(server.posted) < len(DEVICES):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    server = Scripted(answer(200))
    server.run(use)
