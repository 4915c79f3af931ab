"""Results so far of a query, for readers over HTTP."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import describe_failure
from rxtemporal.core.spans import SECOND, parse_span
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.run.process import Process
from rxtemporal.serve.responses import RequestError, dumps
from rxtemporal.serve.results import EVENT_BYTES, FeedEvent

_log = get_logger(__name__)

# a reader may not ask more often than this, in seconds
LEAST = 0.1
# seconds that a look waits for a query that is busy
PATIENCE = 5.0


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


class NowLooks:
    """Looks at the results so far of a service's queries, in threads of their own.

    However many ask, there is one look at a query at a time: those who ask meanwhile share the next
    one, which has all that came before they asked. A look waits at most ``PATIENCE`` seconds for
    the query. ``find_process`` returns the run, which may be another one after a restart; None
    while there is none. Not thread-safe: for one event loop.
    """

    def __init__(self, find_process: Callable[[], Process | None]) -> None:
        self._find_process = find_process
        self._threads = ThreadPoolExecutor(2, "rxtemporal now")
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        # the look at each query that has not begun
        self._next: dict[str, asyncio.Task[list[bytes]]] = {}
        # the queries whose failure has been logged
        self._failed: set[str] = set()

    @property
    def has_completed(self) -> bool:
        """True if the run has completed: there is nothing more to come."""
        process = self._find_process()
        return process is not None and process.ended and process.error is None

    async def read(self, query: str) -> list[bytes]:
        """Return the results so far as JSON, row by row. ``RequestError``: 409, 503."""
        if query not in self._next:
            self._next[query] = asyncio.create_task(self._look(query))
        return await asyncio.shield(self._next[query])

    async def _look(self, query: str) -> list[bytes]:
        async with self._turns[query]:
            del self._next[query]
            process, loop = self._find_process(), asyncio.get_running_loop()
            if process is None or process.error is not None:
                raise RequestError(503, "the query does not run", retry_after=1)
            try:
                rows = await loop.run_in_executor(self._threads, _encode_rows, process, query)
            except TimeoutError:
                raise RequestError(503, "the query is busy", retry_after=1) from None
            except RxTemporalError as error:
                self._log_failure(query, error)
                raise RequestError(409, f"there are no results so far: {error}") from None
            self._failed.discard(query)
            return rows

    def _log_failure(self, query: str, error: Exception) -> None:
        """Log that a query cannot be looked at, once until it can."""
        if query not in self._failed:
            self._failed.add(query)
            _log.warning("now.failed", query=query, error=str(error))


def _encode_rows(process: Process, query: str) -> list[bytes]:
    try:
        rows = process.peek(query, timeout=PATIENCE)
    except (RxTemporalError, TimeoutError):
        raise
    except Exception as error:  # of a user's function
        raise RxTemporalError(describe_failure(error)) from error
    return [dumps(row) for row in rows.to_dicts()]


def join_rows(texts: Sequence[bytes]) -> bytes:
    """Return rows as one array."""
    return b"[" + b",".join(texts) + b"]"


class NowReader:
    """Reader of the results so far, which are looked at again and again.

    Its events are ``now``, with the rows that are new or have changed since the event before, and
    ``gone``, with those that are not there any more: they have become final, or have another value.
    Nothing is sent while nothing changes or while the query is busy or being restarted, and ``end``
    when it has completed. ``texts`` is the first look.
    """

    def __init__(self, looks: NowLooks, query: str, seconds: float, texts: Sequence[bytes]) -> None:
        self._looks, self._query, self._seconds = looks, query, seconds
        self._shown: Counter[bytes] = Counter()
        self._waiting: deque[FeedEvent] = deque()
        self._due = asyncio.get_running_loop().time() + seconds
        self._note(texts)
        if not texts:  # a reader learns that there is nothing
            self._waiting.append(FeedEvent("now", None, b"[]"))

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
        ends = self._looks.has_completed
        try:
            self._note(await self._looks.read(self._query))
        except RequestError as error:
            if error.status != 503:  # it may be answered later
                raise
        if ends:
            self._waiting.append(FeedEvent("end", None, b"{}"))

    def _note(self, texts: Sequence[bytes]) -> None:
        """Make events of what has changed."""
        now = Counter(texts)
        gone, new = self._shown - now, now - self._shown
        self._shown = now
        for kind, rows in (("gone", gone), ("now", new)):
            self._waiting += [FeedEvent(kind, None, data) for data in _split(rows.elements())]

    def close(self) -> None:
        """Leave nothing behind."""


def _split(texts: Iterable[bytes]) -> list[bytes]:
    """Return rows as arrays, each no longer than an event."""
    arrays, part, size = list[bytes](), list[bytes](), 0
    for text in texts:
        if part and size + len(text) > EVENT_BYTES:
            arrays.append(join_rows(part))
            part, size = [], 0
        part.append(text)
        size += len(text) + 1
    return [*arrays, join_rows(part)] if part else arrays
