"""Bounds on the work that a service takes: rows and bytes that wait, and rates of tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rxtemporal.query.push_source import PushSource
from rxtemporal.serve.responses import RequestError
from rxtemporal.serve.settings import Limits
from rxtemporal.serve.tokens import Access


class Load:
    """Rows and bytes of the requests that have no answer yet.

    ``add_bytes`` and ``add_rows`` raise a ``RequestError`` (503) beyond the limits, and have then
    added nothing. Not thread-safe: for one event loop.

    >>> load = Load(Limits(waiting_rows=10))
    >>> load.add_bytes(100)
    >>> load.bytes, load.rows
    (100, 0)
    """

    __slots__ = ("_limits", "_streams", "bytes", "rows")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.bytes = self.rows = 0
        self._streams: dict[str, int] = {}

    def share(self) -> Share:
        """Return the share of one request."""
        return Share(self)

    def add_bytes(self, count: int) -> None:
        """Note bytes of a body that are kept."""
        if self.bytes + count > self._limits.waiting_bytes:
            raise self._refuse("bytes")
        self.bytes += count

    def add_rows(self, stream: str, source: PushSource, count: int) -> None:
        """Note rows that are pushed into a stream; also its hand-off has room for them."""
        waiting = self._streams.get(stream, 0)
        # a body of more rows than may wait at all could never come in
        if self.rows and self.rows + count > self._limits.waiting_rows:
            raise self._refuse("rows")
        if not source.has_room(count, waiting):
            raise self._refuse("rows")
        self._streams[stream] = waiting + count
        self.rows += count

    def remove_rows(self, stream: str, count: int) -> None:
        """Note that rows have their verdicts."""
        self._streams[stream] -= count
        self.rows -= count

    def _refuse(self, what: str) -> RequestError:
        return RequestError(
            503, f"too many {what} wait for the query", retry_after=self._limits.retry_after
        )


class Share:
    """Share of one request in what waits: its bytes, and its rows in a stream.

    It is given back by ``release``; if the request has ended before the push of its rows, then once
    ``last`` is done, a push behind that one.
    """

    __slots__ = ("_load", "bytes", "last", "rows", "stream")

    def __init__(self, load: Load) -> None:
        self._load = load
        self.bytes = self.rows = 0
        self.stream = ""
        self.last: asyncio.Future[Any] | None = None

    def add(self, count: int) -> None:
        """Note bytes that are kept; ``Load.add_bytes`` may refuse them."""
        self._load.add_bytes(count)
        self.bytes += count

    def add_rows(self, stream: str, source: PushSource, count: int) -> None:
        """Note rows that are pushed; ``Load.add_rows`` may refuse them."""
        self._load.add_rows(stream, source, count)
        self.stream, self.rows = stream, count

    def release(self) -> None:
        """Give back what waits no more."""
        if self.last is None or self.last.done():
            self._give_back()
        else:
            self.last.add_done_callback(self._end)

    def _end(self, last: asyncio.Future[Any]) -> None:
        self._give_back()
        if not last.cancelled():
            last.exception()  # nobody waits for it

    def _give_back(self) -> None:
        self._load.bytes -= self.bytes
        if self.rows:
            self._load.remove_rows(self.stream, self.rows)
        self.bytes = self.rows = 0


class _Bucket:
    """Rows that a token may send now; negative after a body that was larger."""

    __slots__ = ("at", "left")

    def __init__(self, left: float, at: float) -> None:
        self.left, self.at = left, at


class Rates:
    """Rates of tokens: each may send ``rate`` rows a second, and ``burst`` at once.

    A body is taken while anything is left of that, and is then counted whole: so one that is larger
    than ``burst`` comes in, and those behind it wait the longer.

    >>> from rxtemporal.serve.settings import TokenSettings
    >>> now = [0.0]
    >>> rates = Rates(lambda: now[0])
    >>> access = Access("a", TokenSettings("sha256:" + 64 * "0", rate=10.0))
    >>> rates.take(access, 15)
    >>> rates.take(access, 1)
    Traceback (most recent call last):
    rxtemporal.serve.responses.RequestError: the token 'a' may send 10 rows a second
    >>> now[0] = 0.6
    >>> rates.take(access, 1)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        # one for each token with a rate
        self._buckets: dict[str, _Bucket] = {}

    def take(self, access: Access, rows: int) -> None:
        """Count rows of a token. ``RequestError`` (429): it has sent too many."""
        rate = access.rate
        if rate is None:
            return
        burst, now = access.burst or rate, self._now()
        bucket = self._buckets.get(access.name)
        if bucket is None:
            bucket = self._buckets[access.name] = _Bucket(burst, now)
        bucket.left = min(burst, bucket.left + (now - bucket.at) * rate)
        bucket.at = now
        if bucket.left <= 0:
            raise RequestError(
                429,
                f"the token {access.name!r} may send {rate:g} rows a second",
                retry_after=(1 - bucket.left) / rate,
            )
        bucket.left -= rows
