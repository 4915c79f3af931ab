"""Bodies of requests, read with limits: their size, decompressed, and the time they take."""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import Callable
from typing import NamedTuple

from starlette.types import Receive, Scope

from rxtemporal.serve.responses import RequestError

# zlib's sizes of the window: with gzip's header, with zlib's
_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
# a body of gzip may be several one behind the other; each costs its own decoder
_MOST_MEMBERS = 64
_MOST_NAME = 512
_DIGITS = 19
# bytes of a refused body that are read so that its sender gets the answer, the seconds for that,
# and those after which a sender that sends nothing more gets it
_MOST_DISCARDED, _DISCARD_SECONDS, _DISCARD_PAUSE = 64 << 20, 5.0, 0.5


class DisconnectError(Exception):
    """The sender disconnected before its body was complete; there is no one to answer."""


class Head(NamedTuple):
    """Headers that say what a body is: its type and encoding, its length, its source, its rows.

    ``waits``: the sender waits for a word before it sends the body (``Expect: 100-continue``).
    """

    kind: str
    encoding: str
    length: int
    source: str | None
    first: int | None
    waits: bool = False


def read_head(scope: Scope) -> Head:
    """Return the headers of a request. ``RequestError``: one of them is malformed."""
    headers = dict(scope["headers"])
    kind, _, _ = headers.get(b"content-type", b"").partition(b";")
    source, first = headers.get(b"source"), headers.get(b"sequence")
    return Head(
        kind.strip().lower().decode("latin-1"),
        headers.get(b"content-encoding", b"").strip().lower().decode("latin-1"),
        _read_number(headers.get(b"content-length", b"0"), "Content-Length"),
        None if source is None else _read_name(source),
        None if first is None else _read_number(first, "Sequence"),
        b"expect" in headers,
    )


def _read_number(text: bytes, header: str) -> int:
    text = text.strip()
    # int() also takes signs, underscores and digits of all scripts
    if not (text.isdigit() and len(text) <= _DIGITS and int(text) < 2**63):
        raise RequestError(400, f"the header {header} is not a number from 0 to {2**63 - 1}")
    return int(text)


def _read_name(name: bytes) -> str:
    try:
        source = name.strip().decode()
    except UnicodeDecodeError:
        raise RequestError(400, "the header Source is not written in UTF-8") from None
    if not 0 < len(source) <= _MOST_NAME:
        raise RequestError(400, f"the header Source has 1 to {_MOST_NAME} characters")
    return source


async def read_body(
    receive: Receive,
    head: Head,
    most: int,
    seconds: float,
    reserve: Callable[[int], None],
) -> bytes:
    """Return the body of a request, decompressed.

    ``most`` is the limit for what is sent and for what it decompresses to. ``reserve`` is called
    with each number of bytes before they are kept; it may raise.

    ``RequestError``: the body is too large (413), too slow (408), or its encoding is unknown (415)
    or broken (400).
    """
    try:
        if head.length > most:
            raise _make_too_large(most)
        sink = _make_sink(head.encoding, most, reserve)
    except RequestError:
        if not head.waits and head.length <= _MOST_DISCARDED:
            await _discard_rest(receive)
        raise
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise DisconnectError
                try:
                    sink.write(message.get("body", b""))
                except RequestError:
                    if message.get("more_body", False):
                        await _discard_rest(receive)
                    raise
                if not message.get("more_body", False):
                    return sink.read()
    except TimeoutError:
        raise RequestError(
            408, f"the body did not arrive within {seconds:g} seconds", close=True
        ) from None


async def _discard_rest(receive: Receive) -> None:
    """Read the rest of a body that is refused, within limits, and keep nothing of it.

    A client that is still sending when the connection is closed may not see the answer, and would
    send the same body again.
    """
    left, clock = _MOST_DISCARDED, asyncio.get_running_loop().time
    end = clock() + _DISCARD_SECONDS
    with contextlib.suppress(TimeoutError):
        while left > 0 and clock() < end:
            # one that has stopped sending waits for the answer
            async with asyncio.timeout(_DISCARD_PAUSE):
                message = await receive()
            left -= len(message.get("body", b""))
            if message["type"] == "http.disconnect" or not message.get("more_body", False):
                return


def _make_too_large(most: int) -> RequestError:
    return RequestError(413, f"a body has at most {most} bytes, decompressed", close=True)


def _make_sink(encoding: str, most: int, reserve: Callable[[int], None]) -> _Plain | _Compressed:
    if encoding in ("", "identity"):
        return _Plain(most, reserve)
    if encoding not in _WINDOWS:
        raise RequestError(415, "the encoding of a body is gzip, deflate or none", close=True)
    return _Compressed(encoding, most, reserve)


class _Plain:
    """Bytes of a body as they come."""

    __slots__ = ("_most", "_parts", "_reserve", "size")

    def __init__(self, most: int, reserve: Callable[[int], None]) -> None:
        self._most, self._reserve = most, reserve
        self._parts: list[bytes] = []
        self.size = 0

    def write(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self._most:
            raise _make_too_large(self._most)
        self._reserve(len(data))
        self._parts.append(data)

    def read(self) -> bytes:
        parts = self._parts
        return parts[0] if len(parts) == 1 else b"".join(parts)


class _Compressed:
    """Bytes of a body that are decompressed as they come, and never beyond the limit."""

    __slots__ = ("_encoding", "_inflate", "_members", "_most", "_plain", "_taken", "_window")

    def __init__(self, encoding: str, most: int, reserve: Callable[[int], None]) -> None:
        self._encoding, self._window, self._most = encoding, _WINDOWS[encoding], most
        self._plain = _Plain(most, reserve)
        self._inflate = zlib.decompressobj(self._window)
        self._members, self._taken = 1, 0

    def write(self, data: bytes) -> None:
        # what is sent counts, too: it may decompress to nothing for ever
        self._taken += len(data)
        if self._taken > self._most:
            raise _make_too_large(self._most)
        try:
            while data:
                data = self._write_part(data)
        except zlib.error:
            raise self._make_broken() from None

    def _write_part(self, data: bytes) -> bytes:
        """Decompress what one call gives; return what it has not used."""
        if self._inflate.eof:
            self._members += 1
            if self._members > _MOST_MEMBERS:
                raise self._make_broken()
            self._inflate = zlib.decompressobj(self._window)
        room = self._most - self._plain.size
        # one byte beyond the limit tells that there is more
        self._plain.write(self._inflate.decompress(data, room + 1))
        return self._inflate.unused_data or self._inflate.unconsumed_tail

    def read(self) -> bytes:
        if not self._inflate.eof:
            raise self._make_broken()
        return self._plain.read()

    def _make_broken(self) -> RequestError:
        return RequestError(
            400,
            f"the body is no {self._encoding}, or is cut off, before byte {self._taken}",
            byte=self._taken,
        )
