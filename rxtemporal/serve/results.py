"""Feed of a query's results: a sink whose readers come and go, each from its position in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.errors import ArgumentError
from rxtemporal.serve.bells import Bell
from rxtemporal.serve.kept_rows import KeptRows
from rxtemporal.serve.responses import dumps
from rxtemporal.sinks import Sink

# about so many rows are read at once, and so many parts stay encoded for the next reader
_PART, _ENCODED = 500, 8


class FeedEvent(NamedTuple):
    """One event for a reader.

    ========= ==================================================== ===========================
    kind      meaning                                              data (JSON)
    ========= ==================================================== ===========================
    ``rows``  the rows that start before ``position``              array of rows
    ``cti``   time has advanced without rows                       ``{"cti": …}``
    ``gap``   rows that the reader has not read are lost           ``{"from": …, "oldest": …}``
    ``end``   the query has completed: nothing follows             ``{}``
    ========= ==================================================== ===========================

    A reader that reconnects cannot continue at an event without a position.
    """

    kind: str
    position: int | None
    data: bytes


class FeedReader:
    """Reader of a feed, from a position on."""

    def __init__(self, feed: ResultFeed, position: int) -> None:
        self._feed, self.position = feed, position

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is no news."""
        event = self._feed.read(self.position)
        if event is not None and event.position is not None:
            self.position = event.position
        return event

    async def wait(self, seconds: float, left: asyncio.Future[None]) -> None:
        """Wait for news, at most so many seconds and until ``left`` is done."""
        await self._feed.bell.wait(lambda: self._feed.has_news(self.position), seconds, left)

    def close(self) -> None:
        """Leave nothing behind."""


class ResultFeed(Sink):
    """Sink that keeps the last ``rows`` results of a query for readers over HTTP.

    A **position** is a CTI, in ticks: a reader at position ``t`` has exactly the results that start
    before ``t``, and continues there. This also holds after a restart of a run with ``resume=``,
    which saves the kept rows. A slow reader never delays the query: it gets an event ``gap``, and
    continues at the oldest row that is kept.

    * Held: ``rows`` results, and up to an eighth more.
    * Order: by start. A row that never ends has a null ``end_time``.

    Threads: the query writes on any; readers are in event loops.

    >>> import rxtemporal as rxt
    >>> feed = ResultFeed(rows=1_000)
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1}), rxt.Cti(9)]).run(feed):
    ...     pass
    >>> feed.read(0).data
    b'[{"start_time":4,"end_time":5,"x":1}]'
    """

    def __init__(self, rows: int = 100_000) -> None:
        if not isinstance(rows, int) or rows < 1:
            raise ArgumentError(f"rows is the number of results to keep, got {rows!r}")
        self.schema = pl.Schema()
        # True when the query has completed
        self.ended = False
        self._kept = KeptRows(rows)
        # rings when there is news for readers
        self.bell = Bell()
        self._loaded = False
        self._form: Callable[[], TimeForm] = lambda: "datetime"
        # parts as JSON by position, for readers at the same place
        self._encoded: OrderedDict[tuple[int, int], bytes] = OrderedDict()

    # The query ------------------------------------------------------------------------------------

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self._form = form

    def open(self, query: str, schema: pl.Schema) -> None:
        """Begin: with the rows of the checkpoint, if there was one, else with none."""
        self.schema = schema
        if not self._loaded:
            self._kept.clear()
            self.ended = False
        self._loaded = False
        self._encoded.clear()

    def write(self, batch: EventBatch) -> None:
        """Keep the rows and wake the readers, without waiting for one."""
        self._kept.append(batch)
        self.bell.ring()

    def close(self, error: BaseException | None) -> None:
        """End the readers if the query has completed; otherwise they wait for the next run."""
        form = self._form()
        self._form = lambda: form
        if error is None:
            self.ended = True
            self.bell.ring()

    def save(self) -> Callable[[], bytes]:
        """Return a function that returns the kept rows."""
        return self._kept.save(self.ended)

    def load(self, state: bytes) -> None:
        """Keep the rows of a checkpoint."""
        self.ended = self._kept.load(state)
        self._loaded = True

    # Readers --------------------------------------------------------------------------------------

    @property
    def cti(self) -> int:
        """The CTI of the results so far, in ticks: the position of a reader that has read all."""
        return self._kept.cti

    @property
    def oldest(self) -> int:
        """The first position from which no row is missing."""
        return self._kept.oldest

    @property
    def count(self) -> int:
        """The number of rows that are kept."""
        return self._kept.count

    @property
    def time_form(self) -> TimeForm:
        """The form of times in the data: datetimes or ticks."""
        return self._form()

    def read(self, position: int) -> FeedEvent | None:
        """Return the next event for a reader at a position; None if there is no news."""
        if position < self.oldest:
            return self._tell_gap(position)
        if position >= self.cti:
            if self.ended:
                return FeedEvent("end", max(position, MAX_TIME), b"{}")
            return None
        rows, after = self._kept.read(position, _PART)
        if after <= position:  # the oldest rows have gone meanwhile, or another run has begun
            return self._tell_gap(position) if position < self.oldest else None
        if rows is None:
            return FeedEvent("cti", after, dumps({"cti": self.tell_time(after)}))
        return FeedEvent("rows", after, self._encode(position, after, rows))

    def _tell_gap(self, position: int) -> FeedEvent:
        oldest = self.oldest
        times = {"from": self.tell_time(position), "oldest": self.tell_time(oldest)}
        return FeedEvent("gap", oldest, dumps(times))

    def has_news(self, position: int) -> bool:
        """Return True if there is news for a reader at a position."""
        return position < self.cti or position < self.oldest or self.ended

    def tell_time(self, position: int) -> Time | None:
        """Return a position in the form of the rows' times; None for the ends of time."""
        if not MIN_TIME < position < MAX_TIME:
            return None
        return position if self._form() == "ticks" else to_datetime(position)

    def _encode(self, position: int, after: int, rows: EventBatch) -> bytes:
        key = position, after
        data = self._encoded.get(key)
        if data is None:
            data = self._encoded[key] = dumps(rows.to_dicts(self._form()))
            while len(self._encoded) > _ENCODED:
                with contextlib.suppress(KeyError):
                    self._encoded.popitem(last=False)
        return data
