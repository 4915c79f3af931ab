"""Clients of the service of the crash tests: each sends rows until each has its receipt."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import websockets
from crash_service import DELAY

# no client gets further ahead of the slowest, so that no row is late
AHEAD = DELAY // 4
Receipt = dict[str, Any]
Send = Callable[[bytes], Awaitable[Receipt]]
LOST = (httpx.TransportError, websockets.WebSocketException, OSError, EOFError, TimeoutError)


class UnsafeError(Exception):
    """An answer that says nothing of the rows: they are to be sent again."""


class Place:
    """Where the service is, while it is there; ``receipts`` counts all that have come."""

    def __init__(self) -> None:
        self.url = ""
        self.there = asyncio.Event()
        self.receipts = 0
        # the clients stop at this number
        self.last = 10**9


class Client:
    """A client with a source of its own, which sends rows in one way.

    ``accepted`` counts the rows by their number for which a receipt said so; ``refused`` are marks
    of rows and bodies that were refused.
    """

    size = 1
    stream = "rows"

    def __init__(self, name: str, place: Place, seed: int) -> None:
        self.name, self.place, self.draw = name, place, random.Random(seed)
        self.next = 0
        self.accepted: Counter[int] = Counter()
        self.refused: set[str] = set()
        # numbers of rows that have been sent more than once
        self.repeated: set[int] = set()
        self.others: list[Client] = []

    async def run(self) -> None:
        """Send all rows, again and again while the service is away."""
        while self.next < self.place.last:
            await self.place.there.wait()
            try:
                async with self.connect() as send:
                    while self.next < self.place.last:
                        await self.step(send)
            except (*LOST, UnsafeError):
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Send]:
        """Open a connection; yield a function that sends a body and returns the receipt."""
        headers = {"source": self.name}
        async with httpx.AsyncClient(base_url=self.place.url, headers=headers, timeout=30) as http:

            async def send(body: bytes) -> Receipt:
                answer = await http.post(f"/streams/{self.stream}", content=body)
                if answer.status_code == 503:
                    raise UnsafeError(answer.text)
                return {**answer.json(), "status": answer.status_code}

            yield send

    async def step(self, send: Send) -> None:
        """Send the next rows, and now and then some that are known or wrong."""
        if self.next > min(each.next for each in self.others) + AHEAD:
            await asyncio.sleep(0.002)
            return
        chance = self.draw.random()
        if chance < 0.1:
            await self.send_wrong(send)
        elif chance < 0.2 and self.accepted:
            await self.send_known(send)
        await self.send_next(send, self.size)

    async def send_next(self, send: Send, size: int) -> None:
        """Send rows that have no receipt yet."""
        numbers = range(self.next, min(self.next + size, self.place.last))
        receipt = await send(self.encode(numbers))
        self.place.receipts += 1
        assert receipt["late"] == receipt["refused"] == [], receipt
        assert receipt["accepted"] + receipt["duplicates"] == len(numbers), receipt
        assert receipt["durable"] is True
        if receipt["accepted"] == len(numbers):
            self.accepted.update(numbers)
        self.next = numbers.stop

    async def send_known(self, send: Send) -> None:
        """Send a row again that was accepted, also by an earlier life of the service."""
        number = self.draw.choice(list(self.accepted))
        receipt = await send(self.encode(range(number, number + 1)))
        assert (receipt["accepted"], receipt["duplicates"]) == (0, 1), receipt

    async def send_wrong(self, send: Send) -> None:
        """Send a row, or a whole body, that is refused."""
        mark = f"{self.name}-{self.draw.getrandbits(64):x}"
        row = {"time": self.next, "device": self.name, "n": 10**6 + self.next, "temp": mark}
        body = json.dumps(row).encode()
        receipt = await send(body if self.draw.random() < 0.5 else body[:-1])
        if "error" in receipt:
            assert receipt["status"] == 400, receipt
        else:
            assert [each["index"] for each in receipt["refused"]] == [0], receipt
        self.refused.add(mark)

    def encode(self, numbers: range) -> bytes:
        """Return rows as a body."""
        rows = [{"time": n, "device": self.name, "n": n, "temp": 0.5} for n in numbers]
        return b"\n".join(json.dumps(row).encode() for row in rows)


class LinesClient(Client):
    """A client that sends JSON lines, enough to be read as columns."""

    size = 40


class SocketClient(Client):
    """A client that sends messages of a few rows over a WebSocket."""

    size = 7

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Send]:
        """Open a WebSocket."""
        url = self.place.url.replace("http", "ws", 1) + f"/streams/{self.stream}"
        headers = {"source": self.name}
        async with websockets.connect(url, additional_headers=headers) as socket:

            async def send(body: bytes) -> Receipt:
                await socket.send(body)
                receipt: Receipt = json.loads(await asyncio.wait_for(socket.recv(), 30))
                if receipt.get("status") == 503:
                    raise UnsafeError(receipt["error"])
                return receipt

            yield send


class PlainClient(Client):
    """A client that sends single rows without sequence numbers, some at a time.

    A row that gets no receipt is sent again, and may then be in the result twice.
    """

    stream = "plain"
    tasks = 8

    async def step(self, send: Send) -> None:
        """Send the next rows at once, each in a request of its own."""
        numbers = range(self.next, min(self.next + self.tasks, self.place.last))
        left = [number for number in numbers if not self.accepted[number]]
        answers = [self.send_one(send, number) for number in left]
        failed = [each for each in await asyncio.gather(*answers, return_exceptions=True) if each]
        if failed:
            raise failed[0]
        self.next = numbers.stop

    async def send_one(self, send: Send, number: int) -> None:
        """Send one row."""
        try:
            receipt = await send(self.encode(range(number, number + 1)))
        except (*LOST, UnsafeError):
            self.repeated.add(number)
            raise
        self.place.receipts += 1
        assert receipt["accepted"] == 1, receipt
        self.accepted[number] += 1
