"""Simulated devices of the house: each posts its readings over HTTP, as a real one would."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rxtemporal.core.log import get_logger

# a device that has no answer by then asks again
TIMEOUT = 10.0
MOST_BYTES = 1 << 20
NO_ANSWER = (OSError, EOFError, ValueError, asyncio.LimitOverrunError)


class DeviceAnswer(NamedTuple):
    """Answer to a request: its status, its JSON, and the seconds to wait before the next try."""

    status: int
    body: Any
    retry_after: float


class DeviceConnection:
    """Connection of one device, which stays open for its next request.

    ``source`` names the device. Errors: one of ``NO_ANSWER`` if there is no answer that can be
    read; the next request connects again.
    """

    def __init__(self, host: str, port: int, source: str, token: str | None = None) -> None:
        self._host, self._port = host, port
        own = {"Host": f"{host}:{port}", "Source": source, "Content-Type": "application/json"}
        self._headers = own if token is None else {**own, "Authorization": f"Bearer {token}"}
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, path: str, rows: Any) -> DeviceAnswer:
        """Post rows as JSON, and return the answer."""
        try:
            async with asyncio.timeout(TIMEOUT):
                return await self._post(path, json.dumps(rows).encode())
        except BaseException:
            await self.close()
            raise

    async def _post(self, path: str, body: bytes) -> DeviceAnswer:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._streams
        headers = {**self._headers, "Content-Length": str(len(body))}
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        await writer.drain()
        status, answer = _parse_head(await reader.readuntil(b"\r\n\r\n"))
        length = int(answer.get("content-length", 0))
        if length > MOST_BYTES:
            raise ValueError(f"an answer of {length:,} bytes is too long for a device")
        received = await reader.readexactly(length)
        if answer.get("connection", "").lower() == "close":
            await self.close()
        retry = float(answer.get("retry-after", 1))
        return DeviceAnswer(status, json.loads(received) if received else None, retry)

    async def close(self) -> None:
        """Close the connection. Idempotent."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with contextlib.suppress(OSError):
                await streams[1].wait_closed()


def _parse_head(head: bytes) -> tuple[int, Mapping[str, str]]:
    """Return the status and the headers, whose names are in small letters."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    status = first.split()[1:2]
    return int("".join(status)), {name.lower(): value.strip() for name, _, value in pairs}


_log = get_logger(__name__)
PATH = "/streams/readings"
# seconds between two readings of a device
PERIOD = 1
# seconds of readings that the devices have when they start, and that they send at a time
STORED, SLICE = 150, 4
# so many readings wait in a device for their receipts; beyond that the oldest are lost
MOST_WAITING = 600
# what a device does not try again: the service refuses it
HOPELESS = frozenset({401, 403, 404})


@dataclasses.dataclass(frozen=True)
class Device:
    """A simulated device, and what is wrong with it.

    Its readings are numbered by the seconds of the true time, so that a number means the same
    reading after a restart. ``clock``: seconds that its clock is fast. ``repeats``: it sends each
    reading whose number divides by it twice. ``slow``: each such reading is sent ``slow_by``
    seconds late. ``away``: so many seconds of each ``away_every`` it has no network, and sends
    afterwards what it has.
    """

    name: str
    temp: float
    clock: int = 0
    repeats: int = 0
    slow: int = 0
    slow_by: int = 12
    away: int = 0
    away_every: int = 120

    def read(self, number: int) -> dict[str, Any]:
        """Return a reading: a slow wave, and some noise."""
        noise = math.sin(number * 12.9898 + self.temp) * 0.3
        temp = self.temp + 2 * math.sin(number / 95) + noise
        stamp = datetime.fromtimestamp(number + self.clock, UTC)
        return {
            "device": self.name,
            "time": stamp.isoformat().replace("+00:00", "Z"),
            "temp": round(temp, 2),
            "seq": number,
        }

    def find_due(self, number: int) -> int:
        """Return the second at which a reading is sent."""
        if self.slow and number % self.slow == 0:
            return number + self.slow_by
        into = number % self.away_every
        return number if into >= self.away else number - into + self.away

    def is_repeat(self, number: int) -> bool:
        """Return True if what is sent in this second is sent twice."""
        return bool(self.repeats) and number % self.repeats == 0


DEVICES = (
    Device("kitchen", 21.5),
    Device("hall", 19.0, repeats=5),
    Device("cellar", 12.0, slow=7),
    Device("greenhouse", 27.0, clock=300),
    Device("shed", 8.0, away=30),
)


class _Simulation:
    """One device at work: the readings that wait for a receipt, and its connection."""

    def __init__(self, device: Device, connection: DeviceConnection) -> None:
        self.device, self._connection = device, connection
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        # True once the service has refused it for good
        self.refused = False

    def read(self, number: int, due: int) -> None:
        """Take a reading, which is to be sent at a time."""
        self._waiting = [*self._waiting[-MOST_WAITING:], (due, self.device.read(number))]

    async def send(self, now: int) -> None:
        """Send what is due, and wait for the receipt."""
        due = [reading for at, reading in self._waiting if at <= now]
        if not due or self.refused:
            return
        try:
            answer = await self._connection.post(PATH, due)
        except NO_ANSWER as error:  # again, with the same numbers
            _log.debug("no receipt", device=self.device.name, error=repr(error))
            return
        if answer.status == 200:
            self._waiting = [each for each in self._waiting if each[0] > now]
        elif answer.status in HOPELESS:
            _log.warning("a device is refused", device=self.device.name, status=answer.status)
            self.refused = True
        else:
            await asyncio.sleep(answer.retry_after)

    async def run(self) -> None:
        """Read and send each second, until the task is cancelled or the service refuses it."""
        done = int(time.time())
        while not self.refused:
            await asyncio.sleep(max(done + PERIOD - time.time(), 0.0))
            now = int(time.time())
            # a device that had to wait has read meanwhile
            for number in range(max(done + 1, now - MOST_WAITING), now + 1):
                self.read(number, self.device.find_due(number))
            done = max(now, done)
            await self.send(now)
            if self.device.is_repeat(now):
                self.read(now, now)
                await self.send(now)

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


async def run(host: str, port: int, *, token: str | None = None) -> None:
    """Run the devices against a service until the task is cancelled.

    Each connects to ``host`` and ``port``, names itself as the source of what it posts, and keeps a
    reading until it has the receipt for it. First they send what they have stored in the last
    minutes, so that there are results to look at.
    """
    simulations = [
        _Simulation(device, DeviceConnection(host, port, device.name, token)) for device in DEVICES
    ]
    try:
        await _send_stored(simulations)
        async with asyncio.TaskGroup() as group:
            for each in simulations:
                group.create_task(each.run())
    finally:
        for each in simulations:
            await each.close()


async def _send_stored(simulations: list[_Simulation]) -> None:
    """Send the readings of the last minutes, all devices in step, so that none is late."""
    now = int(time.time())
    for begin in range(now - STORED, now + 1, SLICE):
        for each in simulations:
            for number in range(begin, min(begin + SLICE, now + 1)):
                each.read(number, number)
            await each.send(now)
