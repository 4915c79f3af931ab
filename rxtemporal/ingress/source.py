"""Sources and cursors: the one way in which streams are read, and what users write sources with."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, TypeAlias

import polars as pl
from reactivex import abc

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import SourceError
from rxtemporal.ingress.settings import AdvanceTimeSettings, HandOff, Liveliness


@dataclasses.dataclass(frozen=True, slots=True)
class OutsideCti:
    """A CTI that neither the source nor an import has made: a heartbeat's, or of an idle stream."""

    cti: int


_start = attrgetter("start")
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti})

Item: TypeAlias = Event | EventBatch | OutsideCti
# so many events of a source whose items are all there are taken at once
RUN_ROWS = 8_192


class Cursor:
    """A source being read: the time of its next item, the items up to a time, its position.

    An item is a row event, a ``Cti`` or an ``EventBatch``. This class reads any iterable of items,
    and keeps one that was read ahead; a subclass may read in another way, and then defines
    ``peek``, ``take`` and, if it can be opened at a position, ``position``. ``position`` is the one
    at which it begins, by default the number of items taken before; ``run_rows`` is how many
    items may be read at once, more than 1 only where reading the next one never waits.

    Not thread-safe: one thread reads a cursor.

    >>> from rxtemporal import PointEvent
    >>> cursor = Cursor([PointEvent(4, "a"), PointEvent(9, "b"), PointEvent(7, "c")], run_rows=10)
    >>> cursor.peek(), cursor.take(until=8), cursor.position
    (4, [PointEvent(4, 'a')], 1)
    >>> cursor.peek(), cursor.take(), cursor.take()
    (9, [PointEvent(9, 'b'), PointEvent(7, 'c')], None)
    """

    completes = True
    """True if the stream ends with the items; False if it was cut off, and no more is final."""

    checked = False
    """True if every batch is known to keep the contract of batches and the stream's fields."""

    _items: Iterator[Any] = iter(())

    def __init__(self, items: Iterable[Any] = (), position: int = 0, *, run_rows: int = 1) -> None:
        self._items: Iterator[Any] = iter(items)
        self._run_rows = run_rows
        self._taken = position
        self._ahead: list[Any] = []
        self._failed: Exception | None = None
        self._ended = False
        self._reached = MIN_TIME

    @property
    def position(self) -> Any:
        """The position after the items taken: plain data, with which ``Source.open`` goes on."""
        return self._taken

    def peek(self) -> int:
        """Return the time of the next item: the highest start shown so far, its own included.

        Reads one item ahead. The end, and an error, have the time that was reached.
        """
        if not self._ahead and self._read(1):
            self._see(self._ahead[0])
        return self._reached

    def take(self, until: int = MAX_TIME) -> Sequence[Any] | None:
        """Return the items up to a time (ticks, itself included), at least the next; None: the end.

        An error of the source is raised when what came before it has been taken.
        """
        if until >= MAX_TIME:
            self._read(self._run_rows)
            items, self._ahead = self._ahead, []
            self._see_all(items)
        else:
            items = self._take_until(until)
        if not items and self._failed is not None:
            raise self._failed
        self._taken += len(items)
        return items or None

    def close(self) -> None:
        """Release the source, if the run ends before it; by default, close what is iterated."""
        close = getattr(self._items, "close", None)
        # a generator ends by itself, and cannot be closed while it runs
        if close is not None and not isinstance(self._items, Generator):
            close()

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        """Push items to an observer from now on, if the source pushes; disposed, it stops."""
        raise NotImplementedError

    def read_in_step(self) -> None:
        """Read nothing ahead: to be asked for the next item means that this one is durable."""
        in_step = getattr(self._items, "in_step", None)
        if in_step is not None:
            in_step()

    def __iter__(self) -> Iterator[Any]:
        """Yield all items from here on."""
        while (items := self.take()) is not None:
            yield from items

    def _take_until(self, until: int) -> list[Any]:
        items: list[Any] = []
        place = self.peek()
        while self._ahead and (not items or place <= until) and len(items) < self._run_rows:
            items += self._ahead
            self._ahead = []
            if len(items) < self._run_rows:
                place = self.peek()
        return items

    def _read(self, count: int) -> bool:
        """Read ahead, up to so many items; return True if there is one."""
        ahead = self._ahead
        if not self._ended and self._failed is None and len(ahead) < count:
            try:
                ahead.extend(islice(self._items, count - len(ahead)))
            except Exception as error:  # what came before it is taken first
                self._failed = error
            self._ended = len(ahead) < count
        return bool(ahead)

    def _see_all(self, items: list[Any]) -> None:
        if _EVENTS.issuperset(map(type, items)):
            self._reached = max(self._reached, max(map(_start, items), default=MIN_TIME))
            return
        for item in items:
            self._see(item)

    def _see(self, item: Any) -> None:
        # of a batch, and of what is no event at all, no single start is asked
        start = getattr(item, "start", MIN_TIME)
        if isinstance(start, int) and start > self._reached:
            self._reached = start


class Source:
    """A source of one stream: its fields, and how it is read.

    ``schema`` is a mapping name → type, a dataclass or a NamedTuple type; None: the first event
    shows the fields. ``bounded``: all items are there, so that reading never waits and events are
    taken many at a time. ``pushes``: it is not read, but ``Cursor.connect`` is given an observer.
    ``resumes``: ``open`` with a cursor's ``position`` goes on after it.
    """

    name: str = "source"
    schema: Any = None
    bounded: bool = False
    pushes: bool = False
    resumes: bool = True

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor at a position, or at the beginning where that is None."""
        raise NotImplementedError


class StreamSource(Source):
    """A source as a stream of a plan has it: with the settings of its time and of its hand-off."""

    schema: pl.Schema | None = None
    settings: AdvanceTimeSettings | None = None
    lively: Liveliness | None = None
    hand_off: HandOff | None = None
    # the form in which times are given; None: the first event shows it
    time: TimeForm | None = None
    # how many rows have to wait before a CTI sends them on
    least_rows: int = 1
    # True if its points and intervals have been judged: they break none of its CTIs
    judged: bool = False
    # True if it may send CTIs; without settings a source of frames has none before its end
    sends_ctis: bool = True
    # True if all its rows come in batches of complete rows
    in_columns: bool = False
    # True if it pushes numbered pieces and is opened with a ``Position``
    positioned: bool = False
    # True if it may have more when a run is resumed that had come to its end
    goes_on: bool = False
    # True if batches without a CTI of their own keep the one before
    omits_ctis: bool = False


class UserSource(StreamSource):
    """A source that a user has written, as a stream of a plan."""

    resumes = True

    def __init__(
        self,
        source: Source,
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        least_rows: int,
        hand_off: HandOff | None,
        lively: Liveliness | None,
    ) -> None:
        self.source, self.schema, self.settings = source, schema, settings
        self.name, self.hand_off, self.lively = name, hand_off, lively
        self.least_rows = least_rows
        self.bounded, self.pushes = source.bounded, source.pushes
        # what pushes goes through an event log
        self.resumes = source.resumes and not source.pushes

    def open(self, position: Any = None) -> Cursor:
        """Return the user's cursor; refuse what is none."""
        cursor = self.source.open(position)
        if not isinstance(cursor, Cursor):
            raise SourceError(
                f"open() of the source of stream {self.name!r} returned {cursor!r}, which is no "
                "rxt.Cursor. Hint: rxt.Cursor(items) reads any iterable of events."
            )
        return cursor
