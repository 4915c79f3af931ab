"""Where streams enter: frames, files, events and observables, each through its door."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

import polars as pl
from reactivex import Observable

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import CheckpointError, SchemaError, SourceError, blame
from rxtemporal.ingress.batch_door import ColumnDoor
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.packer import RUN_ROWS, Packer, taken
from rxtemporal.ingress.settings import AdvanceTimeSettings, HandOff, Liveliness

# a stream that is all there already is answered in batches of at least so many rows
SIZED_ROWS = 1_024


class FrameSource:
    """Frames of complete rows, in arrival order, read a batch at a time."""

    # what can always be asked for more is never silent
    lively: Liveliness | None = None

    def __init__(
        self,
        frames: Callable[[], Iterator[pl.DataFrame]],
        schema: pl.Schema,
        *,
        start: str,
        end: str | None,
        settings: AdvanceTimeSettings | None,
        name: str,
    ) -> None:
        for column in (start, end):
            if column is not None and column not in schema:
                raise SchemaError(
                    f"{name} has no column {column!r}; it has {', '.join(schema) or 'none'}"
                )
        self.name = name
        self._frames = frames
        self._start, self._end = start, end
        self.settings = settings
        # an empty batch shows the payload's schema, and refuses what cannot be carried
        empty = EventBatch.from_polars(pl.DataFrame(schema=dict(schema)), start=start, end=end)
        self.schema: pl.Schema | None = empty.schema
        self.time: TimeForm = "ticks" if schema[start].is_integer() else "datetime"

    def open(self, name: str | None = None) -> OpenFrames:
        """Return the source, ready to be read from its beginning, under a name."""
        return OpenFrames(self, ColumnDoor(Door(self.settings, name or self.name)))

    def batches(self, door: ColumnDoor) -> Iterator[EventBatch]:
        """Yield the rows that the door lets in, and at the end the last CTI."""
        schema = self.schema or pl.Schema()
        cti = max(door.door.cti, MIN_TIME)
        for rows in self.from_row(door.door.events):
            batch = door.admit(rows)
            cti = batch.cti
            yield batch
        last = door.finish()
        if last > cti:
            yield EventBatch.empty(schema, last)

    def read(self) -> Iterator[EventBatch]:
        """Yield the rows as they are, before the door."""
        return self.batches(ColumnDoor(Door(None, self.name)))

    def from_row(self, skip: int) -> Iterator[EventBatch]:
        """Yield the rows before the door that come after the first so many."""
        seen = 0
        for frame in self._frames():
            known = min(max(skip - seen, 0), frame.height)
            seen += frame.height
            if known and known == frame.height:
                continue
            try:
                rows = EventBatch.from_polars(frame[known:], start=self._start, end=self._end)
            except Exception as error:
                first = seen - frame.height + known
                raise blame(error, f"of {self.name}, counted from its row {first:,}") from error
            yield rows
        if seen < skip:
            raise CheckpointError(
                f"{self.name} has {seen:,} rows, and {skip:,} of them were read before the run "
                "stopped. Hint: a run goes on over the same rows; begin anew over others."
            )


class OpenFrames:
    """A frame source being read."""

    def __init__(self, source: FrameSource, door: ColumnDoor) -> None:
        self.source = source
        self.door = door.door
        self.time: TimeForm | None = source.time
        self.columns = door
        self._nothing = EventBatch.empty(source.schema or pl.Schema(), MIN_TIME)

    def __iter__(self) -> Iterator[EventBatch]:
        return self.source.batches(self.columns)

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        return self.columns.import_cti(cti)

    def due(self) -> EventBatch | None:
        """Return the time that has come by an import."""
        return self._nothing.replace(cti=max(self.door.cti, MIN_TIME))


def scanned(
    scan: Callable[[], pl.LazyFrame], batch_rows: int, what: str
) -> tuple[Callable[[], Iterator[pl.DataFrame]], pl.Schema]:
    """Return how to read a lazy frame in batches, and its schema; say which file is missing."""
    try:
        schema = scan().collect_schema()
    except FileNotFoundError as error:
        raise SourceError(f"there is no file {what}. Hint: check the path; {error}") from error
    except (OSError, pl.exceptions.PolarsError) as error:
        raise SourceError(f"{what} cannot be read: {error}") from error

    def frames() -> Iterator[pl.DataFrame]:
        try:
            yield from scan().collect_batches(chunk_size=batch_rows, maintain_order=True)
        except (OSError, pl.exceptions.PolarsError) as error:
            raise SourceError(f"{what} cannot be read: {error}") from error

    return frames, schema


class EventSource:
    """Row events from an iterable."""

    def __init__(
        self,
        events: Iterable[Any],
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        lively: Liveliness | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self._events = events
        self.settings = settings
        self.lively = lively
        # what has a length is all there: nobody waits for an answer to the next CTI, and it begins
        # again when it is read again
        self.goes_on = not hasattr(events, "__len__")
        self._least = 1 if self.goes_on else SIZED_ROWS

    def open(self, name: str | None = None) -> OpenEvents:
        """Return the source, ready to be read from its beginning, under a name."""
        door = Door(self.settings, name or self.name)
        packer = Packer(door, PayloadReader(self.schema), self._least)
        return OpenEvents(iter(self._events), packer, self.goes_on)


class OpenEvents:
    """An event source being read."""

    def __init__(self, events: Iterator[Any], packer: Packer, goes_on: bool) -> None:
        self.door = packer.door
        self.events = events
        self.packer = packer
        # whether a source that is read again gives what comes next, and not all from its beginning
        self.goes_on = goes_on

    def skip(self, records: int) -> None:
        """Leave out what made so many records, before anything has been read, if it comes again."""
        seen = 0
        while seen < records and not self.goes_on:
            item = next(self.events, None)
            if item is None:
                raise CheckpointError(
                    f"the source of stream {self.door.source!r} has {seen:,} events, and "
                    f"{records:,} of them were read before. Hint: a run goes on over the same "
                    "events; an iterable without a length is taken to go on after them."
                )
            own = isinstance(item, EventBatch)
            seen += len(item) + (item.cti > MIN_TIME) if own else 1

    @property
    def time(self) -> TimeForm | None:
        """The form in which the first event gave its time."""
        return self.packer.time

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        return self.packer.import_cti(cti)

    def due(self) -> EventBatch | None:
        """Return a batch if it is time for one."""
        return self.packer.due()

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return what was accepted before the stream failed, and the first thing wrong."""
        return self.packer.rescue(error)

    def close(self) -> None:
        """Let go of what events are read from, if it can be told; a generator ends by itself."""
        close = getattr(self.events, "close", None)
        if close is not None and not isinstance(self.events, Generator):
            close()

    def __iter__(self) -> Iterator[EventBatch]:
        packer = self.packer
        try:
            # what waits for its size anyway is taken many at a time
            yield from self._at_once() if packer.least > 1 else self._each()
            last = packer.finish()
        except Exception as error:
            # what came before it was accepted, and is not lost
            accepted, first = packer.rescue(error)
            if accepted is not None:
                yield accepted
            raise first from first.__cause__
        if last is not None:
            yield last

    def _each(self) -> Iterator[EventBatch]:
        for event in self.events:
            batch = self.packer.take_any(event)
            if batch is not None:
                yield batch

    def _at_once(self) -> Iterator[EventBatch]:
        failed: Exception | None = None
        more = True
        while more:
            items: list[Any] = []
            try:
                items.extend(islice(self.events, RUN_ROWS))
            except Exception as error:  # what came before it is taken first
                failed = error
            yield from taken(self.packer, items)
            if failed is not None:
                raise failed
            more = len(items) == RUN_ROWS


class ObservableSource:
    """Row events or batches from an observable."""

    def __init__(
        self,
        observable: Observable[Any],
        schema: pl.Schema | None,
        settings: AdvanceTimeSettings | None,
        name: str,
        least_rows: int,
        hand_off: HandOff | None = None,
        lively: Liveliness | None = None,
    ) -> None:
        self.name = name
        self.schema = schema
        self.observable = observable
        self.settings = settings
        self.lively = lively
        self._least = least_rows
        self.hand_off = hand_off

    def open(self, name: str | None = None) -> Packer:
        """Return a packer for one run, under a name."""
        return Packer(
            Door(self.settings, name or self.name), PayloadReader(self.schema), self._least
        )
