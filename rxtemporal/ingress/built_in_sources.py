"""Built-in sources: frames, iterables of events, observables."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import length_hint
from pathlib import Path
from types import GeneratorType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.subject import Subject

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import RowEvent
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.core.time_forms import TimeForm, Unit, find_time_form, find_unit_form
from rxtemporal.errors import CheckpointError, SchemaError, SourceError, blame
from rxtemporal.ingress.settings import AdvanceTimeSettings, HandOff, Liveliness
from rxtemporal.ingress.source import (
    RUN_ROWS,
    Cursor,
    Front,
    StreamSource,
    UnixObserver,
    read_units,
)

if TYPE_CHECKING:
    from rxtemporal.ingress.input_state import SourceStats
    from rxtemporal.ingress.row_reader import RowReader

# batches of a bounded stream have at least so many rows
SIZED_ROWS = 1_024
# so many events of a list are looked at when the stream is made
_MOST_SEEN = 1_000


class FrameSource(StreamSource):
    """Frames of complete rows, in arrival order, read a batch at a time.

    A frame is a batch, or is cut into batches of ``batch_rows`` rows: to convert a frame costs
    more than 50 µs, however few rows it has.
    """

    bounded = True
    sends_ctis = False
    in_columns = True

    def __init__(
        self,
        frames: Callable[[], Iterator[pl.DataFrame]],
        schema: pl.Schema,
        start: str,
        end: str | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        batch_rows: int | None = None,
    ) -> None:
        for column in (start, end):
            if column is not None and column not in schema:
                raise SchemaError(
                    f"{name} has no column {column!r}; it has {', '.join(schema) or 'none'}. "
                    "Hint: start= and end= name the columns of the times."
                )
        self.name = name
        self._frames = frames
        self._start, self._end = start, end
        self._batch_rows = batch_rows
        self.settings = settings
        # an empty batch gives the payload's schema, and raises for types that are not supported
        empty = EventBatch.from_polars(pl.DataFrame(schema=dict(schema)), start=start, end=end)
        self.schema = empty.schema
        self.time = "ticks" if schema[start].is_integer() else "datetime"

    def open(self, position: Any = None) -> FrameCursor:
        """Return a cursor; ``position`` is the number of rows to skip."""
        return FrameCursor(self._convert_all(position or 0), position or 0, self._batch_rows)

    def _convert_all(self, skip: int) -> Iterator[EventBatch]:
        """Yield the frames; one that is read only in part is yielded whole."""
        seen = 0
        for frame in self._frames():
            for rows in self._convert(frame, seen):
                seen += len(rows)
                yield rows
        if seen < skip:
            raise CheckpointError(
                f"{self.name} has {seen:,} rows, but the run had read {skip:,} before it stopped. "
                "Hint: a run resumes over the same rows; start a new run over others."
            )

    def _convert(self, frame: pl.DataFrame, seen: int) -> Iterator[EventBatch]:
        """Yield a frame; if a row of it cannot be read, batch by batch up to the one with it."""
        rows = self._batch_rows or frame.height
        try:
            whole = EventBatch.from_polars(frame, start=self._start, end=self._end)
        except Exception as error:
            if rows >= frame.height:
                raise blame(error, f"of {self.name}, counted from its row {seen:,}") from error
        else:
            yield whole
            return
        for begin in range(0, frame.height, rows):
            yield from self._convert(frame.slice(begin, rows), seen + begin)


class FrameCursor(Cursor):
    """Cursor over the rows of frames, ``batch_rows`` at a time or, without, a frame.

    A batch is cut where another stream's next event lies between its rows.
    """

    checked = True

    def __init__(
        self, frames: Iterator[EventBatch], position: int, batch_rows: int | None = None
    ) -> None:
        super().__init__(frames, position)
        self._skip = position
        self._rows = batch_rows
        # the current frame, the times of its rows (computed on demand), its current batch
        self._frame: EventBatch | None = None
        self._places: Int64s | None = None
        self._begin = self._end = 0

    @property
    def at_hand(self) -> bool:
        """True if the current batch has more rows; call ``peek`` before."""
        return self._frame is not None

    @property
    def last(self) -> int:
        """The time of the last row of the current batch."""
        return int(self._times()[self._end - 1])

    def peek(self) -> int:
        """Return the time of the next row; read its frame if need be."""
        if not self._load():
            return self._reached
        return int(self._times()[self._begin])

    def cut(self, until: int, least: int = 0) -> tuple[EventBatch, Int64s]:
        """Take the current rows up to and including a time; return them and their times."""
        places, begin = self._times(), self._begin
        upto = int(np.searchsorted(places, until, side="right"))
        end = min(max(begin + least, upto), self._end)
        return self._take_rows(end), places[begin:end]

    def take(self, until: int = MAX_TIME) -> list[EventBatch] | None:
        """Return the rows of the current batch up to a time."""
        if self._frame is None and not self._load():
            if self._failed is not None:
                raise self._failed
            return None
        if until < MAX_TIME:
            return [self.cut(until, least=1)[0]]
        return [self._take_rows(self._end)]

    def _take_rows(self, end: int) -> EventBatch:
        """Take the rows up to a number."""
        frame, begin = self._frame, self._begin
        assert frame is not None
        self._taken += end - begin
        self._go_to(end)
        return frame if end - begin == len(frame.start) else frame.slice(begin, end)

    def _go_to(self, begin: int) -> None:
        """Let the current batch begin with this row of the frame."""
        frame = self._frame
        assert frame is not None
        self._begin = begin
        if begin < self._end:
            return
        height = len(frame.start)
        if begin == height:
            if height:  # also rows that are skipped advance the time of the stream
                self._reached = max(self._reached, frame.highest_start)
            self._frame = self._places = None
            return
        rows = self._rows or height
        self._end = min(begin - begin % rows + rows, height)

    def _load(self) -> bool:
        """Read the next frame if the current one is used up; return True if there are rows."""
        while self._frame is None and self._failed is None:
            if not self._ahead and not self._read(1):
                return False
            self._frame, self._end = self._ahead.pop(), 0
            skipped = min(self._skip, len(self._frame))
            self._skip -= skipped
            self._go_to(skipped)
        return self._frame is not None

    def _times(self) -> Int64s:
        assert self._frame is not None
        if self._places is None:
            highest = np.maximum.accumulate(self._frame.start)
            self._places = np.maximum(highest, self._reached)
        return self._places


def scan_batches(
    scan: Callable[[], pl.LazyFrame], batch_rows: int, what: str
) -> tuple[Callable[[], Iterator[pl.DataFrame]], pl.Schema]:
    """Return a reader of a lazy frame in batches, and its schema; errors name the file."""
    try:
        schema = scan().collect_schema()
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {what}. Hint: check the path.") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SourceError(f"{what} cannot be read: {_explain(error, what)}") from error

    def frames() -> Iterator[pl.DataFrame]:
        try:
            yield from scan().collect_batches(chunk_size=batch_rows, maintain_order=True)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SourceError(f"{what} cannot be read: {_explain(error, what)}") from error

    return frames, schema


# polars names options of its own after these, which the readers here do not have
_MISFIT = re.compile(r"could not parse `(.*)` as dtype `(\w+)` at column '(.*?)'", re.DOTALL)
_RAGGED = "found more fields than defined"
# for files of JSON lines no message names the line
_JSON = frozenset({".json", ".jsonl", ".ndjson"})


def _explain(error: Exception, what: str) -> str:
    """Return why polars cannot read a file, and what to do."""
    reason = str(error)
    path = Path(what)
    if path.suffix in _JSON and (line := _find_bad_line(path)) is not None:
        return f"line {line} is not a JSON object. Hint: a file of JSON lines has one on each line."
    if found := _MISFIT.match(reason):
        value, dtype, column = found.groups()
        return (
            f"{brief(value)} in column {column!r} is not of type {dtype}, which the column has by "
            f"its first rows, or by schema=. Hint: schema={{{column!r}: float, …}} gives each "
            "column its type; str holds any value."
        )
    if reason.startswith(_RAGGED):
        return (
            "a line has more values than there are columns. Hint: a value that contains the "
            "separator stands in quotes."
        )
    return reason.split("\n\n")[0]


def _find_bad_line(path: Path) -> int | None:
    """Return the number, from 1, of the first line that is not a JSON object; None if unknown."""
    if not path.is_file():
        return None
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                if line.strip() and not isinstance(json.loads(line), dict):
                    return number
            except ValueError:
                return number
    return None


class EventSource(StreamSource):
    """Row events from an iterable.

    An iterable with a length is bounded, and starts again when it is read again. Any other may be
    slow, and is assumed to continue after the items already read from it. A source that may be
    silent is read on its own thread.
    """

    resumes = False

    def __init__(
        self,
        events: Iterable[Any],
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        lively: Liveliness | None = None,
        unit: Unit | None = None,
    ) -> None:
        self.name = name
        self.unit = unit
        self.time = find_unit_form(unit) or _find_form(events)
        self.schema = schema
        self._events = events
        self.settings = settings
        self.lively = lively
        self.bounded = hasattr(events, "__len__")
        self._opened = False
        self.pushes = lively is not None
        self.min_rows = SIZED_ROWS if self.bounded else 1

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor; ``position`` is how many records a bounded source skips.

        An event is a record; a batch has one for each row, and one for its CTI.
        """
        if self._opened and position is None:
            self._refuse_used_up()
        self._opened = True
        items = iter(self._events)
        if self.bounded:
            items = self._skip(items, position or 0)
        name = f"rxtemporal source {self.name}"
        cursor: Cursor = IteratorCursor(items)
        if self.pushes:
            cursor = ThreadCursor(items, name)
        elif self.bounded:
            cursor = Cursor(items, run_rows=RUN_ROWS)
        cursor.unit = self.unit
        return cursor

    def _refuse_used_up(self) -> None:
        """Raise an error if an earlier run has read the iterator to its end."""
        events = self._events
        closed = isinstance(events, GeneratorType) and events.gi_frame is None
        if closed or (hasattr(events, "__length_hint__") and length_hint(events, 1) == 0):
            raise SourceError(
                f"the iterator of stream {self.name!r} is used up: an earlier run has read it to "
                "its end, so there are no rows for another. Hint: pass a list, or make the stream "
                "anew for each run."
            )

    def _skip(self, items: Iterator[Any], records: int) -> Iterator[Any]:
        seen = 0
        while seen < records:
            item = next(items, None)
            if item is None:
                raise CheckpointError(
                    f"the source of stream {self.name!r} has {seen:,} events, but the run had "
                    f"read {records:,}. Hint: a run resumes over the same events; an iterable "
                    "without a length is assumed to continue after them."
                )
            own = isinstance(item, EventBatch)
            seen += len(item) + (item.cti > MIN_TIME) if own else 1
        return items


def _find_form(events: Iterable[Any]) -> TimeForm | None:
    """Return the form of the times of the first events of a list that show one."""
    if not isinstance(events, (list, tuple)):
        return None
    times = (each.start_time for each in events[:_MOST_SEEN] if isinstance(each, RowEvent))
    return next((form for time in times if (form := find_time_form(time))), None)


class IteratorCursor(Cursor):
    """Reads an iterator item by item."""

    item_by_item = True

    def __iter__(self) -> Iterator[Any]:
        """Yield all items from here on; what was read ahead comes first."""
        while self._ahead:
            yield from self.take() or ()
        for item in read_units(self._items, self.unit):
            self._taken += 1
            if self._is_timed:
                self._see(item)
            yield item


class ThreadCursor(Cursor):
    """Cursor that pushes the items of an iterator from its own thread.

    Each item is pushed when the one before has been taken. The thread ends with the iterator;
    ``close`` releases a thread that waits in the iterator.
    """

    def __init__(self, items: Iterator[Any], name: str) -> None:
        super().__init__(items)
        self._name = name

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        """Start the thread; it stops pushing when the result is disposed."""
        stopped = threading.Event()

        def run() -> None:
            try:
                for item in read_units(self._items, self.unit):
                    if stopped.is_set():
                        return
                    observer.on_next(item)
            except Exception as error:
                observer.on_error(error)
            else:
                observer.on_completed()

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return Disposable(stopped.set)


class ObservableSource(StreamSource):
    """Row events or batches from an observable."""

    pushes = True
    resumes = False

    def __init__(
        self,
        observable: Observable[Any],
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        min_rows: int,
        hand_off: HandOff | None = None,
        lively: Liveliness | None = None,
        judged: bool = False,
        rows: RowReader | None = None,
        unit: Unit | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.unit = unit
        self.time = find_unit_form(unit) if rows is None else rows.time
        self._rows = rows
        self.arrives = rows is not None and rows.arrives
        # batches that are made of rows have no CTI
        self.omits_ctis = rows is not None
        self.observable = observable
        self.subject = observable if callable(getattr(observable, "on_next", None)) else None
        self.settings = settings
        self.lively = lively
        self.min_rows = min_rows
        self.hand_off = hand_off
        self.judged = judged

    def inputs(self) -> Mapping[str, SourceStats]:
        """Return the counters of the sources of a subject that has judged the events."""
        subject: Any = self.observable
        return subject.stats().sources if self.judged else {}

    def open(self, position: Any = None) -> Cursor:
        """Return a cursor that subscribes to the observable."""
        cursor = _ObservableCursor(self.observable, self._rows)
        cursor.unit = self.unit
        return cursor

    def make_front(self, fields: Callable[[Any], Any]) -> Front | None:
        """Return the state of a CTI synchronizing subject."""
        subject: Any = self.observable
        return subject.make_front(fields) if self.judged else None


class _ObservableCursor(Cursor):
    def __init__(self, observable: Observable[Any], rows: RowReader | None) -> None:
        super().__init__()
        self._observable = observable
        self._rows = rows

    def connect(self, observer: abc.ObserverBase[Any]) -> abc.DisposableBase:
        if self._rows is not None:
            from rxtemporal.ingress.row_reader import RowObserver

            rows = self._rows if self.times is None else self._rows.join(self.times)
            observer = RowObserver(observer, rows)
        if self.unit not in (None, "ticks"):
            observer = UnixObserver(observer, self.unit)
        if type(self._observable) is Subject:
            # as it is: ``subscribe`` would wrap it, which costs each event a call
            return self._observable._subscribe_core(observer)
        return self._observable.subscribe(observer)
