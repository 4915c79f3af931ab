"""Taps of streams: rows as they are accepted, for people who look; they cost nothing otherwise."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import polars as pl

from rxtemporal.core.log import get_logger
from rxtemporal.ingress.encoded_rows import JsonMessages
from rxtemporal.ingress.verdict import Verdict
from rxtemporal.serve.bells import Bell
from rxtemporal.serve.responses import dumps
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent

_log = get_logger(__name__)

# so many rows of one push are shown, and so many pushes and bytes wait for a reader
_MOST_ROWS, _MOST_PUSHES, _MOST_BYTES = 200, 256, 16 << 20


class StreamTap:
    """Tap of one stream: its readers see the rows that are accepted from now on.

    Best effort: nothing is kept, a reader that is too slow misses pushes and is told how many, and
    of a push with many rows it sees the first. An event ``rows`` has ``source``, the ``rows`` as
    they were sent, without those that were late or refused, and how many of these are
    ``duplicates`` or not shown (``more``), if any.

    Threads: any.

    >>> tap = StreamTap()
    >>> reader = tap.open()
    >>> tap.offer([{"time": 1}, {"time": 2}], Verdict(accepted=2), "device 7")
    >>> reader.read().data
    b'{"source":"device 7","rows":[{"time":1},{"time":2}]}'
    """

    def __init__(self) -> None:
        # whoever pushes looks here whether to offer anything
        self.readers: set[TapReader] = set()
        self.bell = Bell()

    def open(self) -> TapReader:
        """Return a new reader."""
        reader = TapReader(self)
        self.readers.add(reader)
        return reader

    def offer(self, items: Any, verdict: Verdict, source: str | None = None) -> None:
        """Show the accepted rows of a push to the readers; never waits and never raises.

        ``items`` are a row, a list of rows, a frame or messages of a broker.
        """
        if not verdict.accepted:
            return
        try:
            data = _encode(items, verdict, source)
        except Exception:
            _log.debug("tap.failed", exc_info=True)
            return
        for reader in tuple(self.readers):
            reader.put(data)
        self.bell.ring()

    def offer_all(
        self, pushes: Iterable[tuple[str | None, Any]], verdicts: Iterable[Verdict]
    ) -> None:
        """Show several pushes, each with its source, if anybody looks."""
        if self.readers:
            for (source, items), verdict in zip(pushes, verdicts, strict=True):
                self.offer(items, verdict, source)


class TapReader:
    """Reader of a tap."""

    def __init__(self, tap: StreamTap) -> None:
        self._tap = tap
        self._waiting: deque[bytes] = deque()
        # the thread that pushes puts, and the event loop reads
        self._lock = threading.Lock()
        self._bytes = self._missed = 0

    def put(self, data: bytes) -> None:
        """Take one push; the oldest ones that wait go if there are many, or they are large."""
        with self._lock:
            self._waiting.append(data)
            self._bytes += len(data)
            while len(self._waiting) > _MOST_PUSHES or self._bytes > _MOST_BYTES:
                self._bytes -= len(self._waiting.popleft())
                self._missed += 1

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is none."""
        with self._lock:
            if missed := self._missed:
                self._missed = 0
                return FeedEvent("gap", None, dumps({"missed": missed}))
            if not self._waiting:
                return None
            data = self._waiting.popleft()
            self._bytes -= len(data)
        return FeedEvent("rows", None, data)

    async def wait(self, seconds: float, left: asyncio.Future[None]) -> None:
        """Wait for news, at most so many seconds and until ``left`` is done."""
        await self._tap.bell.wait(lambda: bool(self._waiting or self._missed), seconds, left)

    def close(self) -> None:
        """Take nothing more."""
        self._tap.readers.discard(self)


def _encode(items: Any, verdict: Verdict, source: str | None) -> bytes:
    dropped = {each.index for each in verdict.late if not each.reason.keeps_row}
    dropped |= {each.index for each in verdict.rejected}
    most = _MOST_ROWS + len(dropped)
    if isinstance(items, pl.DataFrame):
        count, first = items.height, items.head(most).to_dicts()
    else:
        rows = items.list_rows() if isinstance(items, JsonMessages) else items
        rows = rows if isinstance(rows, list) else [rows]
        count, first = len(rows), rows[:most]
    kept = (row for number, row in enumerate(first) if number not in dropped)
    shown = list(_encode_first(islice(kept, _MOST_ROWS)))
    event: dict[str, Any] = {"source": source, "rows": shown}
    if verdict.duplicates:
        event["duplicates"] = verdict.duplicates
    if (more := count - len(dropped) - len(shown)) > 0:
        event["more"] = more
    return dumps(event)


def _encode_first(rows: Iterable[Any]) -> Iterator[msgspec.Raw]:
    """Yield the first rows as JSON, as many as an event may have."""
    size = 0
    for row in rows:
        text = dumps(row)
        size += len(text) + 1
        if size > EVENT_BYTES:
            return
        yield msgspec.Raw(text)
