"""Sources being read: what they give, in which order it is accepted, whose CTIs go where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from reactivex import abc

from rxtemporal.batch import EventBatch
from rxtemporal.following import follow
from rxtemporal.handoff import HandOffDiagnostics, Line
from rxtemporal.late import Hearing, LateFeed, WithLate
from rxtemporal.meters import Meter
from rxtemporal.packing import Packer
from rxtemporal.payloads import PayloadReader
from rxtemporal.sources import (
    EventSource,
    FrameSource,
    ObservableSource,
    OpenEvents,
    OpenFrames,
)
from rxtemporal.stepping import EventSteps, FrameSteps, Steps
from rxtemporal.ticks import MAX_TIME, MIN_TIME

__all__ = ["Reading", "RealSource", "accept_next"]

# what is read; late events come with what they were late on
RealSource: TypeAlias = FrameSource | EventSource | ObservableSource


class Reading:
    """One source of a run, and how far it has come."""

    def __init__(
        self,
        source: RealSource,
        entry: WithLate,
        lock: AbstractContextManager[Any],
        name: str,
        feed: LateFeed,
        line: Line | None = None,
    ) -> None:
        self.source = source
        self.name = name
        self.ended = False
        # follows the others; what the source sends next ends it
        self.idle = False
        # who is told that something came, and what makes idle streams follow
        self.hear: Callable[[], object] | None = None
        self.settle: Callable[[], object] = lambda: None
        self.importers: list[Reading] = []
        self._steps: Steps | None = None
        self.opened: OpenFrames | OpenEvents | Packer = source.open(name)
        # a source that may be silent is followed on a thread of its own, not asked in turn
        self._follows = isinstance(source, EventSource) and source.lively is not None
        self.pulls = not (isinstance(source, ObservableSource) or self._follows)
        self.unread = self.pulls
        self.place = MIN_TIME
        self._meter = entry.meter
        self._line = line
        self._entry: WithLate | Line = line or entry
        opened = self.opened
        payloads = PayloadReader(source.schema)
        if not isinstance(opened, OpenFrames):
            payloads = (opened.packer if isinstance(opened, OpenEvents) else opened).payloads
        entry.hearing = Hearing(name, feed, payloads, lambda: opened.time, entry.gathers)
        opened.door.listener = entry.hearing
        self._lock = lock
        self._batches: Iterator[EventBatch] | None = None

    @property
    def hand_off(self) -> HandOffDiagnostics | None:
        """What has gone through the hand-off; None where there is none."""
        return None if self._line is None else self._line.diagnostics()

    @property
    def meter(self) -> Meter:
        """What has gone on from here into the query."""
        return self._meter

    @property
    def packer(self) -> Packer | None:
        """What collects the source's events until a CTI; frames need none."""
        opened = self.opened
        if isinstance(opened, OpenFrames):
            return None
        return opened.packer if isinstance(opened, OpenEvents) else opened

    @property
    def rows(self) -> int:
        """How many rows have come in and wait for a CTI to go on with."""
        return 0 if self.packer is None else self.packer.rows

    @property
    def next_due(self) -> int | None:
        """The start of the oldest of them."""
        return None if self.packer is None else self.packer.next_due

    def connect(self) -> abc.DisposableBase | None:
        """Make ready to read, or subscribe to what pushes."""
        if isinstance(self.source, ObservableSource):
            pusher: abc.ObserverBase[Any] = _Pusher(self, self._entry, self._lock)
            if self._line is not None:
                assert isinstance(self.opened, Packer)
                pusher = self._line.admit(pusher, self.opened)
            return self.source.observable.subscribe(pusher)
        if self._follows:
            assert isinstance(self.opened, OpenEvents)
            pusher = _Pusher(self, self._entry, self._lock)
            return follow(self.opened.events, pusher, f"rxtemporal source {self.name}")
        self._batches = iter(self.opened)  # type: ignore[arg-type]
        return None

    def next_place(self) -> int:
        """Return the place of the next event: the highest start shown, its own included.

        Reads one event ahead. The end, and an error, have the place that was reached.
        """
        if self._steps is None:
            opened = self.opened
            assert not isinstance(opened, Packer)
            if isinstance(opened, OpenEvents):
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
                self.fail(error)
                return
            if batch is not None:
                self._entry.on_next(batch)
            if self._steps.ended:
                self.unread, self.ended = False, True
            self.followed_up()
            if self._steps.ended:
                self._entry.on_completed()

    def fail(self, error: Exception) -> None:
        """End the stream by an error, after what was accepted before it."""
        self.unread, self.ended, self.idle = False, True, False
        if self.packer is not None:
            accepted, error = self.packer.rescue(error)
            if accepted is not None:
                self._entry.on_next(accepted)
        self._entry.on_error(error)

    def followed_up(self) -> None:
        """Let the streams follow that take their time from this one: importers, and idle ones."""
        if self.importers:
            self.spread()
        self.settle()

    def spread(self) -> None:
        """Pass the CTI on to the streams that import it, and from them to theirs.

        Ends, however they import from each other: a stream hands on only a CTI that has advanced
        it, and that is the one CTI this began with, so each stream hands it on at most once.
        """
        waiting = [self]
        while waiting:
            reading = waiting.pop()
            cti = reading.opened.door.cti
            waiting += [each for each in reading.importers if each.advanced_to(cti)]

    def advanced_to(self, cti: int) -> bool:
        """Advance this stream from outside; return whether it moves.

        Whatever is not the source itself comes through here: the CTI of a stream that is imported,
        or that an idle one follows, and a heartbeat's. Those that follow in turn are the caller's
        business.
        """
        if self.ended or not self.opened.import_cti(cti):
            return False
        try:
            batch = self.opened.due()
        except Exception as error:  # a payload that waited for the CTI does not fit
            self.fail(error)
            return False
        if batch is not None:
            self._entry.on_next(batch)
        return True

    def advance(self) -> None:
        """Push the next batch, or the end."""
        assert self._batches is not None
        try:
            batch = next(self._batches, None)
        except Exception as error:
            self.unread = False
            with self._lock:
                self._entry.on_error(error)
            return
        with self._lock:
            if batch is None:
                self.unread, self.ended = False, True
                self.settle()
                self._entry.on_completed()
                return
            if len(batch):
                self.place = max(self.place, int(batch.start.max()))
            self._entry.on_next(batch)
            self.settle()


def accept_next(waiting: Sequence[Reading]) -> None:
    """Accept the event with the lowest place of all streams next; ties go by order of the streams.

    What follows it on its own stream before any other stream's next event is accepted with it: no
    CTI comes to it from outside in between, so the verdicts are those of one event at a time.
    """
    places = [reading.next_place() for reading in waiting]
    first = min(range(len(places)), key=lambda i: (places[i], i))
    others = [(place, i) for i, place in enumerate(places) if i != first]
    until, other = min(others, default=(MAX_TIME, len(places)))
    waiting[first].step(until, first < other)


class _Pusher(abc.ObserverBase[Any]):
    """Takes what an observable pushes, events or whole batches, through the door."""

    def __init__(
        self, reading: Reading, entry: WithLate | Line, lock: AbstractContextManager[Any]
    ) -> None:
        assert reading.packer is not None
        self._reading = reading
        self._packer = reading.packer
        self._entry = entry
        self._lock = lock

    def on_next(self, item: Any) -> None:
        with self._lock:
            if not self._reading.ended:
                self._take(item)

    def _take(self, item: Any) -> None:
        reading = self._reading
        reading.idle = False
        if reading.hear is not None:
            reading.hear()
        try:
            batch = self._packer.take_any(item)
        except Exception as error:
            reading.fail(error)
            return
        if batch is not None:
            self._entry.on_next(batch)
        reading.followed_up()

    def on_error(self, error: Exception) -> None:
        with self._lock:
            if not self._reading.ended:
                self._reading.fail(error)

    def on_completed(self) -> None:
        with self._lock:
            if not self._reading.ended:
                self._complete()

    def _complete(self) -> None:
        reading = self._reading
        try:
            last = self._packer.finish()
        except Exception as error:
            reading.fail(error)
            return
        reading.ended, reading.idle = True, False
        if last is not None:
            self._entry.on_next(last)
        reading.settle()
        self._entry.on_completed()
