"""Connection of a simulated device to the service: HTTP as a small device speaks it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

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
