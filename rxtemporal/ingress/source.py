"""Sources and cursors: how all streams are read, and the base classes of users' own sources."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias

import polars as pl
from reactivex import abc

from rxtemporal.core.batch import Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.core.time_forms import (
    FORMS,
    Unit,
    count_unit,
    find_unit_form,
    read_number,
    unite_forms,
)
from rxtemporal.errors import ArgumentError, SourceError
from rxtemporal.ingress.clock_settings import ClockSettings
from rxtemporal.ingress.settings import AdvanceTimeSettings, HandOff, Liveliness
from rxtemporal.ingress.stream_time import StreamTime

if TYPE_CHECKING:
    from rxtemporal.ingress.input_state import SourceStats
    from rxtemporal.ingress.row_reader import RowReader


def read_units(items: Iterable[Any], unit: Unit | None) -> Iterable[Any]:
    """Return items in whose events numbers have been Unix times; others are as they are."""
    if unit in (None, "ticks"):
        return items
    return map(partial(_read_item, unit), items)


def _read_item(unit: Unit, item: Any) -> Any:
    kind = type(item)
    if kind not in (PointEvent, IntervalEvent, EdgeEvent, Cti) or type(item.start_time) is not int:
        return item
    start = _read_time(item.start, unit)
    if kind is Cti:
        return Cti(start)
    if kind is PointEvent:
        return PointEvent(start, item.payload)
    end = _read_time(item.end, unit)
    if kind is IntervalEvent:
        return IntervalEvent(start, end, item.payload)
    return EdgeEvent(item.edge_type, start, end, item.payload)


def _read_time(time: int, unit: Unit) -> Time:
    # the ends of time have no unit
    return time if time in (MIN_TIME, MAX_TIME) else to_datetime(read_number(time, unit))


class UnixObserver(abc.ObserverBase[Any]):
    """Observer in front of another one, to which numbers come as datetimes."""

    def __init__(self, observer: abc.ObserverBase[Any], unit: Unit) -> None:
        self._observer, self._unit = observer, unit

    def on_next(self, value: Any) -> None:
        """Pass an item on."""
        try:
            item = _read_item(self._unit, value)
        except Exception as error:
            self._observer.on_error(error)
            return
        self._observer.on_next(item)

    def on_error(self, error: Exception) -> None:
        """Fail the stream."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the stream."""
        self._observer.on_completed()


_DELAYS = {"datetime": "a span with a unit", "ticks": "a number of ticks", None: "0"}
_DELAY_HINTS = {
    "datetime": "a delay over ticks is a number; if the numbers are Unix times, unit= says so, for "
    "example unit='s'.",
    "ticks": "over datetimes a delay has a unit, for example '5s'.",
    None: "",
}


def unite_delay(what: str, time: TimeForm | None, delay: TimeForm | None) -> TimeForm | None:
    """Return the form of times whose CTIs are made with a delay; ``what`` has these times.

    ``ArgumentError`` if the delay is meant for the other form.
    """
    try:
        return unite_forms([time, delay])
    except ValueError:
        raise ArgumentError(
            f"the times of {what} are {FORMS[time or 'datetime']}, and its delay is "
            f"{_DELAYS[delay]}. Hint: {_DELAY_HINTS[delay]}"
        ) from None


@dataclasses.dataclass(frozen=True, slots=True)
class OutsideCti:
    """A CTI from neither the source nor an import: of a heartbeat, an idle time-out, ``advance``.

    ``device`` is the one for which it holds; None: for all.
    """

    cti: int
    device: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Silence:
    """Devices of which the run had heard nothing for so long that they follow the fleet.

    None: so it was of all. Then each was moved once, and follows no longer.
    """

    devices: tuple[Any, ...] | None


class Sent(NamedTuple):
    """An event with its sender: the input's name, and the event's number there.

    ``ahead``: the clock guard found it ahead of the wall clock when it came. ``named_start`` is the
    start that its source named, in ticks, if it was adjusted before.
    """

    event: Event
    input: str | None = None
    seq: int | None = None
    ahead: bool = False
    named_start: int | None = None


class SentRows(NamedTuple):
    """A batch with its sender; ``seq`` and ``ahead`` have one value for each row.

    ``cti_ahead``: the clock guard found the batch's own CTI ahead of the wall clock.
    """

    batch: EventBatch
    input: str | None = None
    seq: Int64s | None = None
    ahead: Bools | None = None
    cti_ahead: bool = False


_start = attrgetter("start")
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti})
Item: TypeAlias = Event | EventBatch | OutsideCti | Sent | SentRows | Silence
# so many events of a bounded source are taken at once
RUN_ROWS = 8_192


class Cursor:
    """Reader of a source: the time of the next item, the items up to a time, the position.

    An item is a row event, a ``Cti`` or an ``EventBatch``. This class reads any iterable of items,
    and keeps one that was read ahead; a subclass that reads in another way defines ``peek``,
    ``take`` and, if it can be opened at a position, ``position``. The argument ``position`` is the
    first position, by default the number of items taken before; ``run_rows`` is how many items may
    be read at once, more than 1 only if reading the next one never waits.

    Not thread-safe: one thread reads a cursor.

    >>> from rxtemporal import PointEvent
    >>> cursor = Cursor([PointEvent(4, "a"), PointEvent(9, "b"), PointEvent(7, "c")], run_rows=10)
    >>> cursor.peek(), cursor.take(until=8), cursor.position
    (4, [PointEvent(4, 'a')], 1)
    >>> cursor.peek(), cursor.take(), cursor.take()
    (9, [PointEvent(9, 'b'), PointEvent(7, 'c')], None)
    """

    completes = True
    """True if the stream ends with its items; False if it was cut off there, and may continue."""

    checked = False
    """True if every batch is known to satisfy the contract of batches and the stream's schema."""

    may_wait = False
    """True if ``take`` may return no items: it has waited, and the run may be saved or stopped."""

    item_by_item = False
    """True if items are read one by one, by iterating, since the next one may be long in coming."""

    time_form: TimeForm | None = None
    """The form of the times of rows that come in batches, once it is known."""

    times: StreamTime | None = None
    """The form of the times in the run that reads: set by the run, before any item."""

    unit: Unit | None = None
    """The unit of the numbers among the times of events."""

    _items: Iterator[Any] = iter(())

    def __init__(self, items: Iterable[Any] = (), position: int = 0, *, run_rows: int = 1) -> None:
        self._items: Iterator[Any] = iter(items)
        self._run_rows = run_rows
        self._taken = position
        self._ahead: list[Any] = []
        self._failed: Exception | None = None
        self._ended = False
        self._reached = MIN_TIME
        # times are needed only where several streams are read
        self._is_timed = False

    def use_times(self, times: StreamTime) -> None:
        """Read times in the form of those in the run; it calls this before any item."""
        self.times = times

    def __repr__(self) -> str:
        # a subclass may keep a position of its own
        return f"{type(self).__name__}(position {getattr(self, '_taken', 'unknown')})"

    @property
    def position(self) -> Any:
        """The position after the items taken: plain data, from which ``Source.open`` continues."""
        return self._taken

    @property
    def input_counts(self) -> Any:
        """The counters of the source's inputs at the position, as plain data; None without any."""
        return None

    def resume_input_counts(self, counts: Any) -> None:
        """Go on from the ``input_counts`` of a run that was saved, None if it has none."""

    def peek(self) -> int:
        """Return the time of the next item: the highest start so far, its own included.

        Reads one item ahead. The end and an error have the highest start so far, too. Items taken
        before the first call do not count.
        """
        self._is_timed = True
        if not self._ahead and self._read(1):
            self._see(self._ahead[0])
        return self._reached

    def take(self, until: int = MAX_TIME) -> Sequence[Any] | None:
        """Return the items up to and including a time, at least the next one; None at the end.

        An error of the source is raised after the items before it have been taken.
        """
        if until >= MAX_TIME:
            self._read(self._run_rows)
            items, self._ahead = self._ahead, []
            if self._is_timed:
                self._see_all(items)
        else:
            items = self._take_until(until)
        if not items and self._failed is not None:
            raise self._failed
        self._taken += len(items)
        return items or None

    def close(self) -> None:
        """Release the source if the run ends before it; by default, close the iterator."""
        close = getattr(self._items, "close", None)
        # a generator ends by itself, and cannot be closed while it runs
        if close is not None and not isinstance(self._items, Generator):
            close()

    def note_saved(self, position: Any) -> None:
        """Note that a checkpoint of the run has this position; called by any thread."""

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        """Push items to an observer until the result is disposed, if the source pushes."""
        raise NotImplementedError

    def read_in_step(self) -> None:
        """Read nothing ahead: asking for the next item means that this one is durable."""
        stop = getattr(self._items, "stop_reading_ahead", None)
        if stop is not None:
            stop()

    def __iter__(self) -> Iterator[Any]:
        """Yield all remaining items."""
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
        """Read up to ``count`` items ahead; return True if there is one."""
        ahead = self._ahead
        if not self._ended and self._failed is None and len(ahead) < count:
            try:
                ahead.extend(read_units(islice(self._items, count - len(ahead)), self.unit))
            except Exception as error:  # the items before it are taken first
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
        # a batch has no single start, nor has an item that is not an event
        start = getattr(item, "start", MIN_TIME)
        if isinstance(start, int) and start > self._reached:
            self._reached = start


def check_items(cursor: Cursor, items: Sequence[Any] | None, name: str) -> bool:
    """Return True if a cursor returned no items, but has more; raise if it may not."""
    if items is None or len(items):
        return False
    if not cursor.may_wait:
        raise SourceError(
            f"take() of the cursor of stream {name!r} returned no items. Hint: return None at the "
            "end, and at least the next item before the end."
        )
    return True


class Source(ABC):
    """A source of one stream: its fields, and how it is read.

    ``schema`` is a mapping name → type, or a class with typed fields, as in ``from_events``; None:
    the first event defines the fields. ``bounded``: all items are available, so that reading never
    waits and many events are taken at a time. ``pushes``: the source is not read, but
    pushes to the observer given to ``Cursor.connect``. ``resumes``: ``open`` with a cursor's
    ``position`` continues after it.
    """

    name: str = "source"
    schema: Any = None
    bounded: bool = False
    pushes: bool = False
    resumes: bool = True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @abstractmethod
    def open(self, position: Any = None) -> Cursor:
        """Return a cursor at a position, or at the beginning if that is None."""


class Front(Protocol):
    """State in front of a run with an event log: of what producers push into.

    It is a function of the items that the run has accepted, and is saved with the run.
    """

    def note(self, item: Sent | SentRows) -> None:
        """Note an item that the run has accepted, live or from its log."""

    def save(self) -> Any:
        """Return the state as plain values."""

    def load(self, state: Any) -> None:
        """Resume from the result of ``save``, before any item."""

    def restore(self) -> None:
        """Hand the state to what producers push into, before the run subscribes to it."""


class StreamSource(Source):
    """Source of a stream in a plan, with the settings of its time and its hand-off."""

    schema: pl.Schema | None = None
    settings: AdvanceTimeSettings | None = None
    # if each device has its own time
    clock: ClockSettings | None = None
    lively: Liveliness | None = None
    hand_off: HandOff | None = None
    # the form of its times; None: that of the first event
    time: TimeForm | None = None
    # the unit of the numbers among its times; None: numbers are ticks
    unit: Unit | None = None
    # the number of waiting rows from which a CTI sends them on
    min_rows: int = 1
    # True if its points and intervals have been judged and break none of its CTIs
    judged: bool = False
    # True if it may send CTIs; without settings a source of frames has none before its end
    sends_ctis: bool = True
    # True if all its rows come in batches of complete rows
    in_columns: bool = False
    # True if it pushes numbered pieces and is opened with a ``Position``
    positioned: bool = False
    # True if it may have more items when a run that reached its end is resumed
    goes_on: bool = False
    # the subject that producers push into, if it is the source itself
    subject: Any = None
    # True if batches without a CTI keep the previous one
    omits_ctis: bool = False
    # True if it pushes into the run's ``PushEntry``, which gives a verdict on each push
    has_verdicts: bool = False
    # True if a row that is ahead of the wall clock is rejected
    refuses_ahead: bool = False
    # True if the delay of the settings also holds for the CTIs that the source sends
    delays_ctis: bool = False
    # True if it never ends, so that no call may wait for its end
    endless: bool = False
    # True if its items were compared with the wall clock when they were recorded
    replays: bool = False
    # True if its rows start when the door accepts them
    arrives: bool = False

    @property
    def declared_time(self) -> TimeForm | None:
        """The form of its times as far as it is known: its own, or that of its delay.

        ``ArgumentError`` if these differ.
        """
        delays = None if self.settings is None or self.replays else self.settings.time
        return unite_delay(f"stream {self.name!r}", self.time, delays)

    def describe_time(self) -> str:
        """Return what says the form of the times, for a message."""
        if self.time is not None:
            return f"the times of stream {self.name!r} are {FORMS[self.time]}"
        return f"the delay of stream {self.name!r} is {_DELAYS[self.declared_time]}"

    def use_clock(self, clock: ClockSettings | None) -> None:
        """Give each device its own time; None: give all rows one time."""
        self.clock = clock

    def use_time(self, form: TimeForm | None) -> None:
        """Declare the form of the times; None: that of the first event."""
        self.time = form

    def copy_with(self, settings: AdvanceTimeSettings) -> Self:
        """Return a copy of the source whose time has other settings."""
        changed = copy.copy(self)
        changed.settings = settings
        return changed

    def inputs(self) -> Mapping[str, SourceStats]:
        """Return the counters of the inputs that this source merges, by name; none by default."""
        return {}

    def make_front(self, fields: Callable[[Any], Any]) -> Front | None:
        """Return the state in front of a run with an event log, if there is one.

        ``fields`` returns the part of a payload that the log stores.
        """
        return None


class UserSource(StreamSource):
    """A source written by a user, as a stream of a plan."""

    resumes = True

    def __init__(
        self,
        source: Source,
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        min_rows: int,
        hand_off: HandOff | None,
        lively: Liveliness | None,
        unit: Unit | None = None,
        rows: RowReader | None = None,
    ) -> None:
        self.unit, self.time = unit, find_unit_form(unit)
        self._rows = rows
        if rows is not None:
            self.time, self.arrives, self.omits_ctis = rows.time, rows.arrives, True
        self.source, self.schema, self.settings = source, schema, settings
        self.name, self.hand_off, self.lively = name, hand_off, lively
        self.min_rows = min_rows
        self.bounded, self.pushes = source.bounded, source.pushes
        # a source that pushes resumes from the event log
        self.resumes = source.resumes and not source.pushes

    def open(self, position: Any = None) -> Cursor:
        """Return the user's cursor; raise if it is not a ``Cursor``."""
        cursor = self.source.open(position)
        if not isinstance(cursor, Cursor):
            raise SourceError(
                f"open() of the source of stream {self.name!r} returned {type(cursor).__name__}, "
                "not an rxt.Cursor. Hint: rxt.Cursor(items) reads any iterable of events."
            )
        if self._rows is not None:
            return RowCursor(cursor, self._rows)
        return cursor if self.unit in (None, "ticks") else UnixCursor(cursor, self.unit)


class RowCursor(Cursor):
    """Cursor of a source that pushes rows, which become events without a start."""

    def __init__(self, inner: Cursor, rows: RowReader) -> None:
        super().__init__()
        self._inner, self._reader = inner, rows
        self.completes = inner.completes

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        """Push the rows of the inner cursor."""
        from rxtemporal.ingress.row_reader import RowObserver

        rows = self._reader if self.times is None else self._reader.join(self.times)
        return self._inner.connect(RowObserver(observer, rows))

    def note_saved(self, position: Any) -> None:
        """Note that a checkpoint of the run has this position."""
        self._inner.note_saved(position)

    def close(self) -> None:
        """Release the source."""
        self._inner.close()


class UnixCursor(Cursor):
    """Cursor over the items of another one, in whose events numbers are Unix times of a unit."""

    def __init__(self, inner: Cursor, unit: Unit) -> None:
        super().__init__()
        self._inner, self.unit = inner, unit
        self.completes, self.checked = inner.completes, inner.checked
        self.may_wait, self.item_by_item = inner.may_wait, inner.item_by_item

    @property
    def position(self) -> Any:
        """The position of the inner cursor."""
        return self._inner.position

    def peek(self) -> int:
        """Return the time of the next item, as a run compares it with those of other streams."""
        time = self._inner.peek()
        if time in (MIN_TIME, MAX_TIME):
            return time
        assert self.unit is not None
        return read_number(time, self.unit)

    def take(self, until: int = MAX_TIME) -> Sequence[Any] | None:
        """Return the items up to and including a time."""
        assert self.unit is not None
        items = self._inner.take(count_unit(until, self.unit))
        self.completes, self.time_form = self._inner.completes, self._inner.time_form
        return items if items is None else list(read_units(items, self.unit))

    def close(self) -> None:
        """Release the source."""
        self._inner.close()

    def note_saved(self, position: Any) -> None:
        """Note that a checkpoint of the run has this position."""
        self._inner.note_saved(position)

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        """Push the items of the inner cursor."""
        assert self.unit is not None
        return self._inner.connect(UnixObserver(observer, self.unit))

    def read_in_step(self) -> None:
        """Read nothing ahead."""
        self._inner.read_in_step()

    def __iter__(self) -> Iterator[Any]:
        """Yield all remaining items."""
        return iter(read_units(self._inner, self.unit))


class Position:
    """Position of a run in one source: the last accepted piece; a resumable run saves it.

    ``reached`` is the number of that piece, None before the first. ``folder`` is for files that
    the source needs to resume; None if the run is not saved.
    """

    def __init__(self) -> None:
        self.reached: int | None = None
        self.folder: Path | None = None
        # held during each push, so that nothing is on its way when the run is saved
        self.gate: AbstractContextManager[Any] = nullcontext()
        self._save: Callable[[], object] = lambda: None

    def resume(self, reached: int | None) -> None:
        """Go on after a piece; None: at the beginning."""
        self.reached = reached

    def save_with(
        self, folder: Path, gate: AbstractContextManager[Any], save: Callable[[], object]
    ) -> None:
        """Call ``save`` after each piece, holding ``gate``; set this before the run starts."""
        self.folder, self.gate, self._save = folder, gate, save

    @contextmanager
    def accept(self, number: int) -> Iterator[None]:
        """Return a context to push a piece in: when it exits, results are delivered and saved.

        If the body or saving raises, the position does not change.
        """
        with self.gate:
            before = self.reached
            try:
                yield
                self.reached = number
                self._save()
            except BaseException:
                self.reached = before
                raise


class Subscription(abc.DisposableBase):
    """Subscription whose ``dispose`` does not wait; its source stops some time afterwards."""

    def join(self) -> None:
        """Wait until the source has stopped pushing; never call it from the pushing thread."""
        raise NotImplementedError


class PositionedSource(StreamSource):
    """A source that pushes event batches in numbered pieces, and can push them again.

    ``open`` is given the ``Position`` after which the cursor continues.
    """

    pushes = True
    positioned = True
