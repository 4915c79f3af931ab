"""Results so far of a query, for readers over HTTP."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from rxtemporal.core.spans import SECOND, parse_span
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.run.process import Process
from rxtemporal.serve.responses import RequestError, dumps
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent

# a reader may not ask more often than this, in seconds
LEAST = 0.1


def read_pause(text: str) -> float:
    """Return a span such as ``1s`` in seconds. ``RequestError``: 400.

    >>> read_pause("500ms")
    0.5
    """
    try:
        seconds = parse_span(text, "every") / SECOND
    except ArgumentError as error:
        raise RequestError(400, str(error)) from None
    if seconds < LEAST:
        raise RequestError(400, f"every={text} is less than {LEAST} s")
    return seconds


async def read_now(process: Process | None, query: str) -> list[bytes]:
    """Return the results so far as JSON, row by row. ``RequestError``: 409, 503."""
    if process is None:
        raise RequestError(503, "the service stops", retry_after=1, close=True)
    try:
        return await asyncio.to_thread(_encode_rows, process, query)
    except CheckpointError as error:  # of users' objects there is no copy
        raise RequestError(409, str(error)) from None


def _encode_rows(process: Process, query: str) -> list[bytes]:
    return [dumps(row) for row in process.peek(query).to_dicts()]


def join_rows(texts: Sequence[bytes]) -> bytes:
    """Return rows as one array."""
    return b"[" + b",".join(texts) + b"]"


class NowReader:
    """Reader of the results so far, which are looked at again and again.

    Its events are ``now``, with the rows that are new or have changed since the event before, and
    ``gone``, with those that are not there any more: they have become final, or have another value.
    Nothing is sent while nothing changes, and ``end`` when the query has completed.
    ``find_process`` returns the run, which may be another one after a restart; None while there is
    none.
    """

    def __init__(
        self, find_process: Callable[[], Process | None], query: str, seconds: float
    ) -> None:
        self._find_process, self._query, self._seconds = find_process, query, seconds
        self._shown: dict[bytes, None] = {}
        self._waiting: deque[FeedEvent] = deque()
        self._due = 0.0
        self._is_first = True

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is no news."""
        return self._waiting.popleft() if self._waiting else None

    async def wait(self, seconds: float, left: asyncio.Future[None]) -> None:
        """Look again when it is time, at most after so many seconds and until ``left`` is done."""
        clock = asyncio.get_running_loop().time
        pause = min(self._due - clock(), seconds)
        if pause > 0:
            await asyncio.wait([left], timeout=pause)
        if left.done() or clock() < self._due:
            return
        self._due = clock() + self._seconds
        process = self._find_process()
        self._note([] if process is None else await read_now(process, self._query))
        if process is not None and process.ended and process.error is None:
            self._waiting.append(FeedEvent("end", None, b"{}"))

    def _note(self, texts: Sequence[bytes]) -> None:
        """Make events of what has changed."""
        now = dict.fromkeys(texts)
        gone = [text for text in self._shown if text not in now]
        new = [text for text in now if text not in self._shown]
        self._shown = now
        for kind, rows in (("gone", gone), ("now", new)):
            self._waiting += [FeedEvent(kind, None, data) for data in _split(rows)]
        if self._is_first and not self._waiting:  # a reader learns that there is nothing
            self._waiting.append(FeedEvent("now", None, b"[]"))
        self._is_first = False

    def close(self) -> None:
        """Leave nothing behind."""


def _split(texts: Sequence[bytes]) -> list[bytes]:
    """Return rows as arrays, each no longer than an event."""
    arrays, part, size = list[bytes](), list[bytes](), 0
    for text in texts:
        if part and size + len(text) > EVENT_BYTES:
            arrays.append(join_rows(part))
            part, size = [], 0
        part.append(text)
        size += len(text) + 1
    return [*arrays, join_rows(part)] if part else arrays
