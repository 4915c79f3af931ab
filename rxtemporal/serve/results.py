"""Feed of a query's results: a sink whose readers come and go, each from its position in time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s, TimeForm
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.engine import codec
from rxtemporal.errors import ArgumentError
from rxtemporal.serve.bells import Bell
from rxtemporal.serve.responses import dumps
from rxtemporal.sinks.positioned import find_position, list_positions
from rxtemporal.sinks.sink import Sink

# so many small batches, or rows of them, become one
_BATCHES, _ROWS = 64, 4_096


_NOWHERE: Int64s = np.empty(0, np.int64)


class _Part(NamedTuple):
    """Rows that were written together, their positions, and about how many bytes they take."""

    batch: EventBatch
    at: Int64s
    bytes: int

    @property
    def last(self) -> int:
        """The position of the last row."""
        return int(self.at[-1])


class _Kept(NamedTuple):
    """All that is kept at one moment; never modified, so that readers need no lock."""

    run: int
    oldest: int = MIN_TIME
    end: int = MIN_TIME
    rows: int = 0
    bytes: int = 0
    parts: tuple[_Part, ...] = ()
    # how many of the parts are not merged with the next ones any more
    compact: int = 0
    # True while batches that were kept before may still come again
    is_repeating: bool = False


class RowsRead(NamedTuple):
    """Rows from a position on, and the position of each.

    ``after`` is the position of the next row, or that after all. ``rows`` is None if there are
    none. ``run`` counts the runs whose rows have been kept.
    """

    rows: EventBatch | None
    after: int
    run: int
    at: Int64s = _NOWHERE


class KeptRows:
    """The last rows of a query, in order of their positions.

    A **position** is a time in ticks: a reader at ``t`` has been given exactly the rows with
    ``start < t``. It holds in every life of the run, since after a batch with CTI ``t`` exactly
    these have been written, whatever the boundaries of batches. The order of rows with the same
    start is the same in one run, and may be another one in the next. Where each device has its own
    time a position is the number of a batch; see ``rxtemporal.sinks.positioned``.

    At most ``most_rows`` rows stay, of about ``most_bytes`` bytes, and an eighth more before the
    oldest go. ``oldest`` is the first position from which all rows are there.

    Threads: one that appends, any that read.
    """

    def __init__(self, most_rows: int, most_bytes: int) -> None:
        self.most_rows, self.most_bytes = most_rows, most_bytes
        self._kept = _Kept(0)

    @property
    def oldest(self) -> int:
        """The first position from which no row is missing."""
        return self._kept.oldest

    @property
    def end(self) -> int:
        """The position after the last batch."""
        return self._kept.end

    @property
    def count(self) -> int:
        """The number of rows."""
        return self._kept.rows

    def clear(self) -> None:
        """Begin again without rows, at the beginning of time."""
        self._kept = _Kept(self._kept.run + 1, is_repeating=self._kept.is_repeating)

    def set_repeating(self, *, is_repeating: bool) -> None:
        """Note whether batches that were kept before may still come again."""
        self._kept = self._kept._replace(is_repeating=is_repeating)

    def can_reach(self, position: int) -> bool:
        """Return False for the number of a batch that has not been, as one of another run may."""
        kept = self._kept
        return position <= kept.end or kept.is_repeating

    def append(self, batch: EventBatch) -> None:
        """Keep the rows of the next batch, in order of start and before its CTI."""
        kept = self._kept
        if not len(batch):
            self._kept = kept._replace(end=find_position(batch))
            return
        part = _Part(batch, list_positions(batch), batch.estimate_bytes())
        parts, compact = (*kept.parts, part), kept.compact
        if len(batch) >= _ROWS or len(parts) - compact >= _BATCHES:
            parts, compact = _merge(parts, compact)
        kept = kept._replace(
            end=find_position(batch),
            rows=kept.rows + len(batch),
            bytes=kept.bytes + part.bytes,
            parts=parts,
            compact=compact,
        )
        rows, size = self.most_rows, self.most_bytes
        is_over = kept.rows > rows + rows // 8 or kept.bytes > size + size // 8
        self._kept = self._drop_excess(kept) if is_over else kept

    def _drop_excess(self, kept: _Kept) -> _Kept:
        return _drop(kept, kept.rows - self.most_rows, kept.bytes - self.most_bytes)

    def read(self, position: int, skipped: int, most: int) -> RowsRead:
        """Return up to ``most`` rows from a position on, without the first ``skipped`` of them.

        There are none if time has not come so far, and if the first rows are gone.
        """
        kept = self._kept
        if position < kept.oldest:
            return RowsRead(None, position, kept.run)
        number = bisect_left(kept.parts, position, key=lambda part: part.last)
        found: list[EventBatch] = []
        places: list[Int64s] = []
        after = max(position, kept.end)
        for rows, at, _ in kept.parts[number:]:
            begin = skipped + int(np.searchsorted(at, position))
            skipped = max(0, begin - len(rows))
            if begin >= len(rows):
                continue
            end = min(len(rows), begin + most)
            if end > begin:
                found.append(rows.slice(begin, end))
                places.append(at[begin:end])
                most -= end - begin
            if end < len(rows):
                after = int(at[end])
                break
        if not found:
            return RowsRead(None, after, kept.run)
        return RowsRead(EventBatch.concat(found), after, kept.run, np.concatenate(places))

    # Checkpoints ----------------------------------------------------------------------------------

    def save(self, ended: bool) -> Callable[[], bytes]:
        """Return a function that returns the rows, as they are now, as bytes."""
        kept = self._kept

        def finish() -> bytes:
            rows = at = None
            if kept.parts:
                rows = EventBatch.concat([part.batch for part in kept.parts])
                at = np.concatenate([part.at for part in kept.parts])
            return codec.dumps("results", [kept.oldest, kept.end, ended, rows, at])

        return finish

    def load(self, state: bytes) -> bool:
        """Keep the rows of a state; return True if the stream had ended."""
        # a release before saved no positions: they were the starts
        oldest, end, ended, rows, *at = codec.loads(
            "results", state, "the state of the results", "or begin with a new folder"
        )
        is_repeating = self._kept.is_repeating
        kept = _Kept(self._kept.run + 1, oldest, end, is_repeating=is_repeating)
        if rows is not None:
            size = rows.estimate_bytes()
            parts = (_Part(rows, at[0] if at else rows.start, size),)
            kept = kept._replace(rows=len(rows), bytes=size, parts=parts, compact=1)
        self._kept = self._drop_excess(kept)
        return bool(ended)


def _merge(parts: tuple[_Part, ...], compact: int) -> tuple[tuple[_Part, ...], int]:
    """Make one part of those that are not compact; one that has few rows is merged again."""
    small = parts[compact:]
    merged = EventBatch.concat([part.batch for part in small])
    part = _Part(
        merged.replace(payload=merged.columns.copy_texts()),
        np.concatenate([part.at for part in small]),
        sum(part.bytes for part in small),
    )
    return (*parts[:compact], part), compact + (len(merged) >= _ROWS)


def _drop(kept: _Kept, rows: int, size: int) -> _Kept:
    """Drop the oldest rows, so many and of so many bytes; rows with one start go together."""
    oldest, count, left = kept.oldest, kept.rows, kept.bytes
    rest = kept.parts
    while rest and (rows > 0 or size > 0):
        (part, at, part_bytes), rest = rest[0], rest[1:]
        share = math.ceil(size * len(part) / max(part_bytes, 1))
        wanted = min(max(rows, share), len(part))
        cut = int(np.searchsorted(at, at[wanted - 1], "right"))
        taken = part_bytes * cut // len(part)
        oldest = int(at[cut - 1]) + 1
        rows, size, count, left = rows - cut, size - taken, count - cut, left - taken
        if cut < len(part):
            # copied, so that the memory of the rows in front is free
            left_over = part.take(np.arange(cut, len(part)))
            rest = (_Part(left_over, at[cut:].copy(), part_bytes - taken), *rest)
            break
    compact = max(0, kept.compact - (len(kept.parts) - len(rest)))
    return kept._replace(oldest=oldest, rows=count, bytes=left, parts=rest, compact=compact)


# an event has at most so many bytes of rows, one row at least; a client of WebSockets refuses
# messages above 1 MiB
EVENT_BYTES = 1 << 18
# about so many rows are read at once, and so many events stay encoded for the next reader
_PART, _ENCODED = 500, 8


class RestartedError(Exception):
    """The run was started again while a reader had some of the rows with one start.

    Their order may be another one now, so the reader has to come back to its position.
    """


@dataclasses.dataclass(frozen=True)
class FeedEvent:
    """One event for a reader; readers at one place share its bytes.

    ========= ==================================================== ===========================
    kind      meaning                                              data (JSON)
    ========= ==================================================== ===========================
    ``rows``  the rows that start before ``position``              array of rows
    ``cti``   time has advanced without rows                       ``{"cti": …}``
    ``gap``   rows that the reader has not read are lost           ``{"from": …, "oldest": …}``
    ``end``   the query has completed: nothing follows             ``{}``
    ========= ==================================================== ===========================

    A reader that reconnects cannot continue at an event without a position. Rows without one are
    some of those with one start, and come again.
    """

    kind: str
    position: int | None
    data: bytes

    @cached_property
    def server_sent(self) -> bytes:
        """The event in the form of server-sent events."""
        # the id comes with the rows: they are complete, or the reader comes back for them
        id = b"" if self.position is None else b"id: %d\n" % self.position
        return b"%sevent: %s\ndata: %s\n\n" % (id, self.kind.encode(), self.data)

    @cached_property
    def message(self) -> str:
        """The event as a message of a WebSocket."""
        at = "null" if self.position is None else self.position
        return f'{{"event":"{self.kind}","position":{at},"data":{self.data.decode()}}}'


class FeedPlace(NamedTuple):
    """Place of a reader: its position, and the rows after it that it has got in this run."""

    position: int
    skipped: int = 0
    run: int = 0


class FeedReader:
    """Reader of a feed, from a position on."""

    def __init__(self, feed: ResultFeed, position: int) -> None:
        self._feed, self._place = feed, FeedPlace(position)

    def read(self) -> FeedEvent | None:
        """Return the next event; None if there is no news.

        ``RestartedError``: the reader cannot continue here, but at its last position.
        """
        found = self._feed.read(self._place)
        if found is None:
            return None
        event, self._place = found
        return event

    async def wait(self, seconds: float, left: asyncio.Future[None]) -> None:
        """Wait for news, at most so many seconds and until ``left`` is done."""
        position = self._place.position
        await self._feed.bell.wait(lambda: self._feed.has_news(position), seconds, left)

    def close(self) -> None:
        """Leave nothing behind."""


class ResultFeed(Sink):
    """Sink that keeps the last ``rows`` results of a query for readers over HTTP.

    A **position** is a CTI, in ticks: a reader at position ``t`` has exactly the results that start
    before ``t``, and continues there. Where each device has its own time it is a number: results
    leave in batches, and a reader has exactly those of the batches before it. This also holds after
    a restart of a run with ``resume=``, which saves the kept rows: a reader ahead of the run
    waits for it. A slow reader never delays the query: it gets an event ``gap``, and continues at
    the oldest row that is kept.

    * Held: ``rows`` results of about ``bytes`` bytes in memory, and up to an eighth more.
    * Order: by start, or by number. A row that never ends has a null ``end_time``.
    * Events have up to 256 kB of rows, or one row. Rows with the same start that have more are
      several events, of which only the last one has a position.

    Threads: the query writes on any; readers are in event loops.

    >>> import rxtemporal as rxt
    >>> feed = ResultFeed(rows=1_000)
    >>> with rxt.from_events([rxt.PointEvent(4, {"x": 1}), rxt.Cti(9)]).run(feed):
    ...     pass
    >>> feed.read_from(0).read().data
    b'[{"start_time":4,"end_time":5,"x":1}]'
    """

    by_position = True

    def __init__(self, rows: int = 100_000, bytes: int = 1 << 28) -> None:
        if not isinstance(rows, int) or rows < 1:
            raise ArgumentError(f"rows is the number of results to keep, got {rows!r}")
        if not isinstance(bytes, int) or bytes < 1:
            raise ArgumentError(f"bytes is the memory for the results to keep, got {bytes!r}")
        self.schema = pl.Schema()
        # True when the query has completed
        self.ended = False
        self._kept = KeptRows(rows, bytes)
        # rings when there is news for readers
        self.bell = Bell()
        self._loaded = False
        self._form: Callable[[], TimeForm] = lambda: "datetime"
        # events with rows, and the places after them, for readers at the same place
        self._encoded: OrderedDict[FeedPlace, tuple[FeedEvent, FeedPlace]] = OrderedDict()

    # The query ------------------------------------------------------------------------------------

    def set_time_form(self, form: Callable[[], TimeForm]) -> None:
        """Set the function that returns the form of the sources' times."""
        self._form = form

    def set_next_number(self, number: int | None) -> None:
        """Note the number of the next new batch; None: others may still come again."""
        self._kept.set_repeating(is_repeating=number is None)
        # a reader that waits for a number that has not come again is told
        self.bell.ring()

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
        """Keep the rows of a checkpoint, also of one in which another sink was beside this one."""
        if codec.read_kind(state) == "sinks":
            *_, state = codec.loads("sinks", state)
        self.ended = self._kept.load(state)
        self._loaded = True

    # Readers --------------------------------------------------------------------------------------

    @property
    def cti(self) -> int:
        """The CTI of the results so far, in ticks: the position of a reader that has read all.

        Where each device has its own time it is the number of the next batch.
        """
        return self._kept.end

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

    def read_from(self, position: int) -> FeedReader:
        """Return a reader that begins at a position."""
        return FeedReader(self, position)

    def read(self, place: FeedPlace) -> tuple[FeedEvent, FeedPlace] | None:
        """Return the next event for a reader at a place, and the place after it; None if no news.

        ``RestartedError``: the place is inside the rows with one start, of an earlier run.
        """
        position = place.position
        if position < self.oldest or self._is_strange(position):
            return self._tell_gap(position)
        if position >= self.cti:
            if self.ended:
                return _tell("end", max(position, MAX_TIME), b"{}")
            return None
        if (known := self._encoded.get(place)) is not None:
            return known
        found = self._kept.read(position, place.skipped, _PART)
        if place.skipped and found.run != place.run:
            raise RestartedError
        after = found.after
        if found.rows is not None:
            return self._encode(place, found, found.rows)
        if after <= position:  # the oldest rows have gone meanwhile, or another run has begun
            return self._tell_gap(position) if position < self.oldest else None
        return _tell("cti", after, dumps({"cti": self.tell_time(after)}))

    def _tell_gap(self, position: int) -> tuple[FeedEvent, FeedPlace]:
        oldest = self.oldest
        times = {"from": self.tell_time(position), "oldest": self.tell_time(oldest)}
        return _tell("gap", oldest, dumps(times))

    def has_news(self, position: int) -> bool:
        """Return True if there is news for a reader at a position."""
        is_there = position < self.cti or position < self.oldest
        return is_there or self.ended or self._is_strange(position)

    def _is_strange(self, position: int) -> bool:
        """Return True for the number of a batch that this run has not had, as another one may.

        What has left before comes again when a run resumes: its numbers are not strange, but ahead.
        """
        return self.numbered and position < MAX_TIME and not self._kept.can_reach(position)

    def tell_time(self, position: int) -> Time | None:
        """Return a position in the form of the rows' times; None for the ends of time.

        Of numbered results it is the number.
        """
        if not MIN_TIME < position < MAX_TIME:
            return None
        return position if self.numbered or self._form() == "ticks" else to_datetime(position)

    def _encode(
        self, place: FeedPlace, read: RowsRead, rows: EventBatch
    ) -> tuple[FeedEvent, FeedPlace]:
        """Return an event with the first of these rows.

        It ends between two positions if it can.
        """
        texts, at, after = _encode_rows(rows, self._form()), read.at, read.after
        count = len(texts)
        if count < len(rows):
            after = int(at[count])
        last = int(at[count - 1])
        if after == last and (whole := int(np.searchsorted(at[:count], last))):
            count, after = whole, last
        data = b"[%s]" % b",".join(texts[:count])
        if after == int(at[count - 1]):  # there are more with this position
            rest = FeedPlace(place.position, place.skipped + count, read.run)
            found = FeedEvent("rows", None, data), rest
        else:
            found = _tell("rows", after, data)
        self._encoded[place] = found
        while len(self._encoded) > _ENCODED:
            with contextlib.suppress(KeyError):
                self._encoded.popitem(last=False)
        return found


def _tell(kind: str, position: int, data: bytes) -> tuple[FeedEvent, FeedPlace]:
    """Return an event with a position, and the place after it."""
    return FeedEvent(kind, position, data), FeedPlace(position)


def _encode_rows(rows: EventBatch, form: TimeForm) -> list[bytes]:
    """Return the first rows as JSON: as many as have ``EVENT_BYTES``, one at least."""
    # JSON takes about as much as memory: so no more is encoded than will be sent
    while len(rows) > 1 and (size := rows.estimate_bytes()) > EVENT_BYTES:
        rows = rows.slice(0, max(1, len(rows) * EVENT_BYTES // size))
    texts: list[bytes] = []
    size = 0
    for row in rows.to_dicts(form):
        text = dumps(row)
        size += len(text) + 1
        if texts and size > EVENT_BYTES:
            break
        texts.append(text)
    return texts
