"""Sources being read: what they give, in which order it is accepted, whose CTIs go where."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from reactivex import abc
from reactivex.subject import Subject

from rxtemporal.batch import EventBatch
from rxtemporal.pacing import Pacing
from rxtemporal.packing import Packer
from rxtemporal.plan import AnySource
from rxtemporal.recorded import OpenRecorded
from rxtemporal.recording import Recorder, Tape
from rxtemporal.sources import ObservableSource, OpenEvents, OpenFrames
from rxtemporal.stepping import EventSteps, FrameSteps, Steps
from rxtemporal.ticks import MAX_TIME, MIN_TIME

__all__ = ["Asked", "Reading", "accept_next"]


class Asked(Protocol):
    """What has to be asked for what comes next: one source, or several that stand together."""

    unread: bool
    place: int

    def next_place(self) -> int:
        """Return the place of the next event."""

    def step(self, until: int, inclusive: bool) -> None:
        """Accept what comes next, up to a place."""

    def advance(self) -> None:
        """Accept what comes next, as much as is at hand."""


class Reading:
    """One source of a run, and how far it has come."""

    def __init__(
        self, source: AnySource, entry: Subject[EventBatch], lock: threading.RLock, name: str
    ) -> None:
        self.source = source
        self.name = name
        self.ended = False
        self.importers: list[Reading] = []
        self._steps: Steps | None = None
        self.opened: OpenFrames | OpenEvents | OpenRecorded | Packer = source.open(name)
        # where what comes is noted, in a run that is recorded
        self.tape: Tape | None = None
        self.pulls = not isinstance(source, ObservableSource)
        self.unread = self.pulls
        self.place = MIN_TIME
        self._entry = entry
        self._lock = lock
        self._batches: Iterator[EventBatch] | None = None

    def connect(self) -> abc.DisposableBase | None:
        """Make ready to read, or subscribe to what pushes."""
        if isinstance(self.source, ObservableSource):
            pusher = _Pusher(self, self._entry, self._lock)
            return self.source.observable.subscribe(pusher)
        if isinstance(self.opened, OpenFrames | OpenEvents):
            self._batches = iter(self.opened)
        return None

    def record(self, recorder: Recorder) -> None:
        """Have what is brought to the door noted before the door judges it."""
        opened = self.opened
        self.tape = recorder.tape(
            self.name,
            columns=isinstance(opened, OpenFrames)
            or (isinstance(opened, OpenRecorded) and opened.in_columns),
            settings=self.source.settings,
            schema=self.source.schema,
            time=opened.time,
        )
        if isinstance(opened, OpenFrames):
            opened.columns.tape = self.tape
        elif isinstance(opened, OpenRecorded):
            opened.steps.entrance.tape = self.tape
        else:
            packer = opened.packer if isinstance(opened, OpenEvents) else opened
            packer.tape = self.tape

    def answer_promptly(self) -> None:
        """Have every CTI answered at once, however many events are there already."""
        if isinstance(self.opened, OpenEvents):
            self.opened.packer.least_rows = 1
        elif isinstance(self.opened, OpenRecorded):
            self.opened.answer_promptly()

    def _failed(self, error: Exception) -> None:
        self.unread, self.ended = False, True
        if self.tape is not None:
            self.tape.failed(error)

    def next_place(self) -> int:
        """Return the place of the next event: the highest start shown, its own included.

        Reads one event ahead. The end, and an error, have the place that was reached.
        """
        if self._steps is None:
            opened = self.opened
            assert not isinstance(opened, Packer)
            if isinstance(opened, OpenRecorded):
                self._steps = opened.steps
            elif isinstance(opened, OpenEvents):
                self._steps = EventSteps(opened)
            else:
                self._steps = FrameSteps(opened)
        return self._steps.place()

    def step(self, until: int, inclusive: bool) -> None:
        """Accept what comes next, up to the place where another stream's next event lies."""
        assert self._steps is not None
        with self._lock:
            try:
                batch = self._steps.take(until, inclusive)
            except Exception as error:
                self._fail(error)
                return
            if batch is not None:
                self._entry.on_next(batch)
            self.spread()
            if self._steps.ended:
                self.unread, self.ended = False, True
                self._entry.on_completed()

    def _fail(self, error: Exception) -> None:
        self._failed(error)
        if isinstance(self.opened, OpenEvents | OpenRecorded):
            accepted, error = self.opened.rescue(error)
            if accepted is not None:
                self._entry.on_next(accepted)
        self._entry.on_error(error)

    def spread(self) -> None:
        """Pass the CTI on to the streams that import it, and from them to theirs.

        Ends, however they import from each other: a stream hands on only a CTI that has advanced
        it, and that is the one CTI this began with, so each stream hands it on at most once.
        """
        waiting = [self]
        while waiting:
            reading = waiting.pop()
            cti = reading.opened.door.cti
            waiting += [each for each in reading.importers if each.imported(cti)]

    def imported(self, cti: int) -> bool:
        """Take another stream's CTI; return whether it advances this one."""
        if self.ended or not self.opened.import_cti(cti):
            return False
        batch = self.opened.due()
        if batch is not None:
            self._entry.on_next(batch)
        return True

    def advance(self) -> None:
        """Push the next batch, or the end."""
        assert self._batches is not None
        try:
            batch = next(self._batches, None)
        except Exception as error:
            with self._lock:
                self._failed(error)
                self._entry.on_error(error)
            return
        with self._lock:
            if batch is None:
                self.unread, self.ended = False, True
                self._entry.on_completed()
                return
            if len(batch):
                self.place = max(self.place, int(batch.start.max()))
            self._entry.on_next(batch)


def accept_next(waiting: Sequence[Asked], pacing: Pacing | None = None) -> None:
    """Accept the event with the lowest place of all streams next; ties go by order of the streams.

    What follows it on its own stream before any other stream's next event is accepted with it: no
    CTI comes to it from outside in between, so the verdicts are those of one event at a time.
    With a pace it is waited for, and no more is accepted than it is time for.
    """
    places = [reading.next_place() for reading in waiting]
    first = min(range(len(places)), key=lambda i: (places[i], i))
    others = [(place, i) for i, place in enumerate(places) if i != first]
    until, other = min(others, default=(MAX_TIME, len(places)))
    inclusive = first < other
    if pacing is not None and (due := pacing.wait_for(places[first])) < until:
        until, inclusive = due, True
    waiting[first].step(until, inclusive)


class _Pusher(abc.ObserverBase[Any]):
    """Takes what an observable pushes, events or whole batches, through the door."""

    def __init__(self, reading: Reading, entry: Subject[EventBatch], lock: threading.RLock) -> None:
        assert isinstance(reading.opened, Packer)
        self._reading = reading
        self._packer = reading.opened
        self._entry = entry
        self._lock = lock
        self._ended = False

    def on_next(self, item: Any) -> None:
        with self._lock:
            if not self._ended:
                self._take(item)

    def _take(self, item: Any) -> None:
        try:
            batch = (
                self._packer.take_batch(item)
                if isinstance(item, EventBatch)
                else self._packer.take(item)
            )
        except Exception as error:
            self._fail(error)
            return
        if batch is not None:
            self._entry.on_next(batch)
        if self._reading.importers:
            self._reading.spread()

    def _fail(self, error: Exception) -> None:
        self._ended = True
        self._reading._failed(error)
        accepted, first = self._packer.rescue(error)
        if accepted is not None:
            self._entry.on_next(accepted)
        self._entry.on_error(first)

    def on_error(self, error: Exception) -> None:
        with self._lock:
            if not self._ended:
                self._fail(error)

    def on_completed(self) -> None:
        with self._lock:
            if not self._ended:
                self._complete()

    def _complete(self) -> None:
        self._ended = self._reading.ended = True
        try:
            last = self._packer.finish()
        except Exception as error:
            self._fail(error)
            return
        if last is not None:
            self._entry.on_next(last)
        self._entry.on_completed()
