"""State of a subject in front of a run with an event log, to save and load with the run's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, RowEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK, add, match_form
from rxtemporal.errors import SchemaError
from rxtemporal.ingress.lateness import NO_CTI, Opened
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.reactive.subjects.accumulator import Accumulator
from rxtemporal.reactive.subjects.inputs import OWN, SourceState
from rxtemporal.reactive.subscriber import RunObserver


class RunFeed(abc.ObserverBase[Any]):
    """Subscriber that stands for a run with an event log.

    The run gets each item with the name of its input. What it raises is kept for the producer, by
    the thread that delivers, until all subscribers have had the item.
    """

    # its producers ask at once
    waiter = None

    def __init__(
        self, observer: RunObserver, accumulator: Accumulator, failures: dict[int, Exception]
    ) -> None:
        self._observer = observer
        self._accumulator = accumulator
        self._failures = failures
        self.receive = self.on_next

    def on_next(self, item: Any) -> None:
        """Deliver an item with its sender."""
        accumulator = self._accumulator
        name = accumulator.source.name
        if isinstance(item, EventBatch):
            rows = SentRows(item, name, ahead=accumulator.rows_ahead)
            self._call(self._observer.on_next, rows)
        else:
            ahead, named_start = accumulator.ahead, accumulator.named_start
            sent = Sent(item, name, ahead=ahead, named_start=named_start)
            self._call(self._observer.on_next, sent)

    def on_error(self, error: Exception) -> None:
        """Deliver the error that ended the stream."""
        self._call(self._observer.on_error, error)

    def on_completed(self) -> None:
        """Report the end of the stream."""
        self._call(self._observer.on_completed)

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception as error:
            self._failures.setdefault(threading.get_ident(), error)


Fields = Callable[[Any], Any]


class SubjectFront:
    """State of a subject as far as one run has accepted its items: time, and its inputs.

    The run calls ``note`` with each item that it has accepted, also in a replay of its log; so what
    is saved with the run fits what the run has. Late events that are not passed on are counted as
    of the moment of saving. ``restore`` hands the state to the subject before the run subscribes.

    Holds one entry for each open edge row. Not thread-safe: the run serialises calls.
    """

    def __init__(
        self,
        accumulator: Accumulator,
        sources: Mapping[str, SourceState],
        get_source: Callable[[str], SourceState],
        run_between_events: Callable[[Callable[[], None]], None],
        fields: Fields,
    ) -> None:
        # the subject's own
        self._accumulator, self._sources, self._get_source = accumulator, sources, get_source
        self._run_between_events = run_between_events
        self._fields = fields
        self._cti = self._high = NO_CTI
        # ``events`` of these are the accepted ones alone
        self._inputs: dict[str, SourceState] = {}
        self._live = False

    def note(self, item: Sent | SentRows) -> None:
        """Note an item that the run has accepted."""
        source = self._get_input(item.input or OWN)
        if isinstance(item, SentRows):
            batch = item.batch
            source.count_events(len(batch))
            start = batch.start
            if item.ahead is not None:
                source.count_ahead(int(item.ahead.sum()))
                start = start[~item.ahead]
            if len(start):
                self._reach(source, int(start.max()))
            if batch.cti > MIN_TIME:
                self._advance(batch.cti, source)
        elif isinstance(item.event, Cti):
            self._advance(item.event.start, source)
        else:
            source.count_ahead(int(item.ahead))
            self._note_event(item.event, item.named_start, source)
            if not item.ahead:
                self._reach(source, item.event.start)

    def _advance(self, cti: int, source: SourceState) -> None:
        if cti <= self._cti:
            return
        self._cti = cti
        if cti < MAX_TIME:
            self._high = max(self._high, add(cti, self._accumulator.delay))
            source.reach(self._high)

    def _reach(self, source: SourceState, time: int) -> None:
        # an adjusted event has the CTI's time, which is not its source's
        if time > self._cti:
            source.reach(time)

    def _note_event(self, event: RowEvent, named: int | None, source: SourceState) -> None:
        source.count_events(1)
        if not isinstance(event, EdgeEvent):
            return
        start = event.start if named is None else named
        if event.edge_type is EdgeType.END:
            if event.end > event.start + TICK:
                self._reach(source, event.end)
            source.rows.close(start, event.payload)
            return
        edge = EdgeEvent.create_start(match_form(start, event.start_time), event.payload)
        row = Opened(edge, event.start, source.rows.opened + 1)
        if self._live:
            source.rows.open(start, event.payload, row)
        else:
            _saved_rows(source).put_back(row)

    def _get_input(self, name: str) -> SourceState:
        source = self._inputs.get(name)
        if source is None:
            source = self._inputs[name] = SourceState(name, ReturnedRows(self._fields))
        return source

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return the state as plain values."""
        for source in list(self._sources.values()):
            self._get_input(source.name).take_from(source)
        inputs = [_save_input(each, self._fields) for each in self._inputs.values()]
        return [self._cti, self._high, inputs]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save``, before any item."""
        self._cti, self._high, inputs = state
        for name, *counts, rows in inputs:
            source = self._get_input(name)
            source.load(counts)
            for start_time, payload, start in rows:
                edge = EdgeEvent.create_start(start_time, payload)
                _saved_rows(source).put_back(Opened(edge, start, source.rows.opened + 1))

    def restore(self) -> None:
        """Let the subject go on from this state, unless it is further already.

        Its time is the latest of both. An input has the counters and open rows of that side which
        has had more of its events. So of several runs the one that is ahead counts.
        """
        self._run_between_events(self._restore)
        self._live = True

    def _restore(self) -> None:
        self._accumulator.resume(self._cti, self._high)
        for mine in self._inputs.values():
            source = self._get_source(mine.name)
            source.reach(mine.reached)
            events = mine.events + sum(n for why, n in mine.late.items() if not why.keeps_row)
            if events > source.events:
                rows = ReturnedRows(self._fields)
                for row in mine.rows:
                    rows.put_back(row)
                source.resume(mine, events, rows)


class ReturnedRows(OpenRows[Opened]):
    """Open rows, some of which were opened in an earlier run.

    The payloads of those are as they were saved: an end edge closes such a row if the saved part of
    its payload is equal.
    """

    __slots__ = ("_saved",)

    def __init__(self, fields: Fields) -> None:
        super().__init__()
        self._saved: OpenRows[Opened] = OpenRows(fields)

    def __len__(self) -> int:
        return super().__len__() + len(self._saved)

    def __iter__(self) -> Iterator[Opened]:
        yield from self._saved
        yield from super().__iter__()

    def put_back(self, row: Opened) -> None:
        """Remember a row that was opened in an earlier run."""
        self._saved.open(row.edge.start, row.edge.payload, row)
        self.opened += 1

    def close(self, start: int, payload: Any) -> Opened | None:
        """Remove and return the oldest row opened under this start and payload; None if none is."""
        row = None
        if len(self._saved):
            try:
                row = self._saved.close(start, payload)
            except SchemaError:  # such a payload was never saved
                row = None
        return super().close(start, payload) if row is None else row


def _saved_rows(source: SourceState) -> ReturnedRows:
    assert isinstance(source.rows, ReturnedRows)
    return source.rows


def _save_input(source: SourceState, fields: Fields) -> list[Any]:
    rows = [[row.edge.start_time, fields(row.edge.payload), row.start] for row in source.rows]
    return [source.name, *source.save(), rows]
