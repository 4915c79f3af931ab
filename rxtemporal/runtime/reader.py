"""Sources being read: what they give, and whose CTIs go where."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

from reactivex import abc
from reactivex.disposable import Disposable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_door import ColumnDoor
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.resumable import Position, PositionedSource
from rxtemporal.ingress.settings import HandOffDiagnostics
from rxtemporal.ingress.sources import (
    EventSource,
    FrameSource,
    ObservableSource,
    OpenEvents,
    OpenFrames,
)
from rxtemporal.reactive.meters import Meter
from rxtemporal.runtime.acknowledgement import Acknowledging
from rxtemporal.runtime.cursors import EventSteps, FrameSteps, Steps, steps_of
from rxtemporal.runtime.hand_off import BoundedQueue, add_backpressure
from rxtemporal.runtime.late import Hearing, LateFeed, WithLate
from rxtemporal.storage.event_log import LogTape, Recorder, Tape
from rxtemporal.storage.event_log.source import OpenRecorded, RecordedSource

# what is read; late events come with what they were late on
RealSource: TypeAlias = FrameSource | EventSource | ObservableSource | RecordedSource


class Reading:
    """One source of a run, and how far it has come."""

    def __init__(
        self,
        source: RealSource,
        entry: WithLate,
        lock: AbstractContextManager[Any],
        name: str,
        feed: LateFeed,
        queue: BoundedQueue | None = None,
    ) -> None:
        self.source = source
        self.name = name
        self.ended = False
        # follows the others; what the source sends next ends it
        self.idle = False
        # who is told that something came, and what makes idle streams follow
        self.hear: Callable[[], object] | None = None
        self.settle: Callable[[], object] = lambda: None
        # how far a source has come that pushes numbered pieces, or brings records into a log
        self.position = Position()
        self.relived = 0
        # who is told, outside of any batch, that what was pushed is on disk
        self.on_safe: Callable[[], object] = lambda: None
        self.importers: list[Reading] = []
        self.imported: Reading | None = None
        self._steps: Steps | None = None
        self.opened: OpenFrames | OpenEvents | OpenRecorded | Packer = source.open(name)
        # where what comes from elsewhere is noted in a recording, what was accepted in a log
        self._tape: Tape | None = None
        self._log: LogTape | None = None
        # a source that may be silent is followed on a thread of its own, not asked in turn
        self._follows = isinstance(source, EventSource) and source.lively is not None
        self.pulls = not (isinstance(source, ObservableSource) or self._follows)
        self.unread = self.pulls
        self.place = MIN_TIME
        self._meter = entry.meter
        self._queue = queue
        self._into, self._entry = entry, queue or entry
        opened, packer = self.opened, self.packer
        payloads = PayloadReader(source.schema) if packer is None else packer.payloads
        hearing = Hearing(name, feed, payloads, lambda: opened.time, entry.gathers)
        opened.door.listener = entry.hearing = hearing
        self._lock = lock
        self._batches: Iterator[EventBatch] | None = None

    @property
    def hand_off(self) -> HandOffDiagnostics | None:
        """What has gone through the hand-off; None where there is none."""
        return None if self._queue is None else self._queue.diagnostics()

    @property
    def meter(self) -> Meter:
        """What has gone on from here into the query."""
        return self._meter

    @property
    def packer(self) -> Packer | None:
        """What collects the source's events until a CTI; what comes as columns needs none."""
        opened = self.opened
        if isinstance(opened, OpenFrames):
            return None
        return opened if isinstance(opened, Packer) else opened.packer

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
            if self._queue is not None:
                assert isinstance(self.opened, Packer)
                pusher = add_backpressure(self._queue, pusher, self.opened)
            if isinstance(self.source, PositionedSource):
                return self.source.follow(pusher, self.position)
            return self.source.observable.subscribe(self._acknowledged(pusher))
        if self._follows:
            assert isinstance(self.opened, OpenEvents)
            pusher = self._acknowledged(_Pusher(self, self._entry, self._lock))
            return follow(self.opened.events, pusher, f"rxtemporal source {self.name}")
        if isinstance(self.opened, OpenFrames | OpenEvents):
            self._batches = iter(self.opened)
        return None

    def record(self, recorder: Recorder) -> None:
        """Have what comes noted, in the order in which it is accepted; before ``connect``.

        The door notes what it is brought, before its verdict: the one place that all events pass,
        whether one by one or in columns, pushed, asked for, or behind a hand-off. What the source
        does not bring, an error and time from outside, is noted here.
        """
        opened = self.opened
        in_columns = isinstance(opened, OpenFrames) or (
            isinstance(opened, OpenRecorded) and opened.in_columns
        )
        self._tape = opened.door.tape = recorder.tape(
            self.name,
            columns=in_columns,
            settings=self.source.settings,
            schema=self.source.schema,
            time=opened.time,
        )

    def relive(self, steps: Steps, records: int) -> None:
        """Accept so many records of an input log, before ``connect``; fewer where the stream ends.

        The stream is then as far as it was when they came, and its source goes on from there.
        """
        assert not isinstance(steps, EventSteps | FrameSteps)
        self._steps, steps.allowed = steps, records
        self.idle = False  # as far as anybody has written down
        while steps.allowed and not self.ended:
            self.step(MAX_TIME, True)
        self._steps = None

    def log(self, tape: LogTape) -> None:
        """Have what is accepted from now on noted, and on disk before it is acknowledged."""
        self._log = self.opened.door.log = tape
        if isinstance(self.opened, OpenEvents) and self.opened.goes_on:
            # to be asked for the next event is how such a source learns that this one was taken
            tape.prompt = not self._follows
            in_step = getattr(self.opened.events, "in_step", lambda: None)
            in_step()

    def _acknowledged(self, pusher: abc.ObserverBase[Any]) -> abc.ObserverBase[Any]:
        if self._log is None:
            return pusher
        return Acknowledging(pusher, self._log, self._unlogged, self.on_safe)

    def _unlogged(self, error: Exception) -> None:
        """What was accepted cannot be logged: the run ends, for it is not as it was any more."""
        with self._lock:
            if not self.ended:
                self.fail(error)

    def answer_promptly(self) -> None:
        """Have every CTI answered at once, however many events are there already."""
        if self.packer is not None:
            self.packer.least = 1

    @property
    def _holds(self) -> ColumnDoor | Packer:
        opened = self.opened.columns if isinstance(self.opened, OpenFrames) else self.packer
        assert opened is not None
        return opened

    def saved(self) -> dict[str, Any]:
        """Return how far it has come, what its door holds and what waits: plain values.

        Its owner holds the lock, and nothing is on its way.
        """
        place = self._steps.reached if isinstance(self._steps, FrameSteps) else self.place
        return {
            "place": place,
            "position": self.position.reached,
            "brought": self.relived + (0 if self._log is None else self._log.brought),
            # a source that may have more when it is asked anew goes on where it ended
            "ended": self.ended and not getattr(self.source, "goes_on", False),
            "idle": self.idle,
            "holds": self._holds.saved(),
            "entry": self._into.saved(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``saved`` of a reading of the same source returned; before ``connect``.

        What frames are read from is read again, and the rows that the door has judged are left out.
        """
        self._holds.restore(state["holds"])
        self._into.restore(state["entry"])
        self.place, self.idle, self.ended = state["place"], state["idle"], state["ended"]
        self.position.reached, self.relived = state["position"], state["brought"]
        self.unread = self.pulls and not self.ended

    def complete_again(self) -> None:
        """Say that the source has ended, where a state says so."""
        if self.ended:
            with self._lock:
                self._entry.on_completed()

    def next_place(self) -> int:
        """Return the place of the next event: the highest start shown, its own included.

        Reads one event ahead. The end, and an error, have the place that was reached.
        """
        if self._steps is None:
            assert not isinstance(self.opened, Packer)
            self._steps = steps_of(self.opened, self.place)
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

    def together_with(self, waiting: Sequence[Reading]) -> FrameSteps | None:
        """Return its rows at hand where they may be judged with the others', many at once.

        That is: they are rows of frames, no CTI comes to them from what is not one of these, and
        nobody notes in which order they are accepted.
        """
        steps, outside = self._steps, self.imported
        if self._queue is not None or self._tape is not None or self._log is not None:
            return None
        if not isinstance(steps, FrameSteps) or not steps.at_hand:
            return None
        return steps if outside is None or outside.ended or outside in waiting else None

    def push(self, batch: EventBatch) -> None:
        """Give the query what has been accepted, and let those follow that take their time here."""
        with self._lock:
            self._entry.on_next(batch)
            self.followed_up()

    def fail(self, error: Exception) -> None:
        """End the stream by an error, after what was accepted before it."""
        self.unread, self.ended, self.idle = False, True, False
        accepted = None
        if not isinstance(self.opened, OpenFrames):
            accepted, error = self.opened.rescue(error)
        if self._tape is not None:
            self._tape.failed(error)
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
            cti = reading.opened.door.announced
            waiting += [each for each in reading.importers if each._follow_to(cti)]

    def advanced_to(self, cti: int) -> bool:
        """Advance this stream from outside; return whether it moves.

        What neither the source nor the settings say comes through here: the CTI that an idle stream
        follows to, and a heartbeat's. Those that follow in turn are the caller's business.
        """
        return self._follow_to(cti, outside=True)

    def _follow_to(self, cti: int, *, outside: bool = False) -> bool:
        """Advance to a CTI that the source has not made; return whether the stream moves."""
        if self.ended or not self.opened.import_cti(cti):
            return False
        # an imported one follows from what the other stream brought, when it is brought again
        for tape in (self._tape, self._log) if outside else ():
            if tape is not None:
                tape.advanced(cti)
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
            self.unread, self.ended = False, True
            with self._lock:
                if self._tape is not None:
                    self._tape.failed(error)
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


class _Pusher(abc.ObserverBase[Any]):
    """Takes what an observable pushes, events or whole batches, through the door."""

    def __init__(
        self, reading: Reading, entry: WithLate | BoundedQueue, lock: AbstractContextManager[Any]
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


def follow(items: Iterator[Any], observer: abc.ObserverBase[Any], name: str) -> abc.DisposableBase:
    """Hand what an iterator gives to an observer, each item when the one before has been taken.

    Once what is returned is disposed nothing more is handed on. The thread ends with the iterator;
    who closes that lets go of a thread that waits in it.
    """
    stopped = threading.Event()

    def run() -> None:
        try:
            for item in items:
                if stopped.is_set():
                    return
                observer.on_next(item)
        except Exception as error:
            observer.on_error(error)
        else:
            observer.on_completed()

    threading.Thread(target=run, name=name, daemon=True).start()
    return Disposable(stopped.set)
