"""Reader of a source that pushes, as its observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.core.turns import leave_interrupted
from rxtemporal.ingress.batch_verdicts import EventRun
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.reactive.subscriber import HandOffObserver, RunObserver
from rxtemporal.run.hand_off import Producer
from rxtemporal.run.hand_off.gate import find_bare
from rxtemporal.run.input_stream import StreamState
from rxtemporal.run.reader import Reader
from rxtemporal.run.run_end import Refusal, RunEnd, release
from rxtemporal.storage.event_log.log import StreamLog, count_pushed

_READING = StreamState.READING
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti})


class Acknowledger(RunObserver):
    """Observer whose ``on_next`` returns once the event is durable in the event log.

    Producers wait outside of the run's lock, so those of several streams share a commit. ``failed``
    is called with the error if an event cannot be logged; the producer gets it, too. ``safe`` is
    called when events have become durable. If ``subject`` is what producers push into, they get
    ``ProcessEndedError`` after the run's end, until another run subscribes to it.
    """

    def __init__(
        self,
        observer: abc.ObserverBase[Any],
        log: StreamLog,
        failed: Callable[[BaseException], None],
        safe: Callable[[], object],
        run_end: RunEnd,
        subject: Any = None,
    ) -> None:
        self._observer = observer
        self._log = log
        self._failed = failed
        self._on_safe = safe
        self._subject = subject
        self._refusal = None if subject is None else Refusal(subject, log.facts.name, run_end)

    def subscribe(
        self, connect: Callable[[Acknowledger], abc.DisposableBase]
    ) -> abc.DisposableBase:
        """Connect to the source; return the subscription, which refuses once it is disposed."""
        if self._subject is not None:
            release(self._subject)
        return CompositeDisposable(Disposable(self._refuse), connect(self))

    def _refuse(self) -> None:
        if self._refusal is not None:
            self._refusal.begin()

    def on_next(self, item: Any) -> None:
        """Push an event or a batch; it is durable afterwards, or else an error is raised."""
        try:
            # before any lock, which a thread of the parent may have held
            self._log.refuse_fork()
            self._observer.on_next(item)
            self._make_durable()
        except BaseException:
            self._refuse()  # an observer that raises is detached
            raise

    def on_error(self, error: Exception) -> None:
        """Fail the source; this is not logged, since the source may work in the next run."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the source; its end is durable afterwards."""
        self._observer.on_completed()
        self._make_durable()

    def _make_durable(self) -> None:
        try:
            self._log.flush()
            self._on_safe()
        except BaseException as error:
            self._failed(error)
            raise


class PushedStream(Reader, HandOffObserver):
    """Reader of a source that pushes: its observer.

    The three methods of the observer take the lock; callers of the others hold it.
    """

    __slots__ = ("_accept_later", "_acquire", "_bare", "_plain", "_release", "_watched")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # the lock, while no batch is made; its methods are bound once
        self._bare = find_bare(self.lock)
        self._acquire, self._release = self._bare.acquire, self._bare.release
        # accepts a pushed item, waiting for room if necessary
        self._accept_later: Callable[[Any], None] = self.accept_pushed
        self._watched = self.source.lively is not None
        # True if pushed events are neither recorded, logged nor stamped, and nobody watches for
        # silence or for clocks that run ahead
        self._plain = False

    def open(self) -> None:
        """Open the source after the items already read."""
        super().open()
        is_watched = self._watched or self.guard is not None or self.arrivals is not None
        self._plain = not self.is_recorded and not is_watched

    def connect(self) -> abc.DisposableBase:
        """Subscribe to the source, with a producer in between if there is a hand-off."""
        if self.queue is not None and self.queue.settings is not None:
            self.queue.connect(self.door, self.abort)
            producer = Producer(self.queue, self.door, self.accept_pushed, self._refuse_unlogged)
            self._accept_later = producer.on_next
        if self._log is None:
            return super().connect()
        if self.front is not None:
            self.front.restore()
        acknowledger = Acknowledger(
            self, self._log, self.abort, self.on_safe, self.run_end, self.source.subject
        )
        return acknowledger.subscribe(self._cursor.connect)

    def _refuse_unlogged(self) -> None:
        """Raise for an item that is not accepted, if its producer relies on the event log."""
        if self._log is not None:
            raise self.run_end.refuse(self.name)

    # Events that wait in front of the door --------------------------------------------------------

    @property
    def inbox(self) -> Inbox | None:
        """The inbox for events that wait; None if somebody asks when each has come.

        So it is without given fields, and where a stream takes its time from another one.
        """
        if self.queue is None or self.source.schema is None or self.flow.may_follow:
            return None
        waits = self._plain and self.door.only_keeps and self.run_end.accepts
        return self.queue.inbox if waits else None

    def accept_waiting(self, item: EventRun | Event) -> None:
        """Accept an event or a run out of the inbox; the caller holds the lock."""
        # accepted when it was pushed, so only an error keeps it out
        if self.queue is None or not self.queue.gate.accepts or self.ended:
            return
        if isinstance(item, EventRun):
            events = [] if self.judge_run(item) else item.list_events()
        else:
            events = [item]
        for event in events:
            if not self._keep_waiting(event):
                self.accept_pushed(event)

    def _keep_waiting(self, event: Any) -> bool:
        try:
            return self.door.keep(event)
        except BaseException as error:
            self.abort(error)
            return True

    # The observer ---------------------------------------------------------------------------------

    def on_next(self, item: Any) -> None:
        """Accept an event or a batch that the source pushes."""
        # This runs once for each event that is pushed. Most only have to wait for others: then
        # nobody else is told, and the lock is taken without noting by whom.
        failed: BaseException | None = None
        try:
            self._acquire()
        except BaseException:
            leave_interrupted(self._bare)
            raise
        try:
            if (
                self._plain
                and self.state is _READING
                and self.run_end.accepts
                and not self.flow.active
                and self.door.keep(item)
            ):
                return
        except BaseException as error:
            failed = error
        finally:
            self._release()
        if failed is None:
            self._accept_later(item)
        else:
            self.abort(failed)

    def accept_pushed(self, item: Any) -> None:
        """Accept an item that the source pushes and for which there is room."""
        with self.lock:
            if self.state is not _READING:
                if self.state is StreamState.ENDED:
                    self._refuse_unlogged()
                    return
                self.state = _READING
            if self._plain and type(item) in _EVENTS:
                door = self.door
                try:
                    batch = door.judge(item)
                except BaseException as error:
                    self.fail(error)
                    return
                if batch is not None or door.unreported:
                    self.give(batch)
            else:
                self._accept_watched(item)
            if self.flow.active and not self.ended:
                self.flow.follow(self)

    def _accept_watched(self, item: Any) -> None:
        """Accept an item that is recorded, logged, stamped or a batch, or ends a silence."""
        if self.arrivals is not None:
            item = self.arrivals.stamp(item)
        if self._watched:
            self.flow.note_activity(self)
        if self._log is None:
            self.accept(item)
            return
        whole = self._log.accepted + count_pushed(item)
        self.accept(item)
        if self._log.accepted < whole:  # it has ended the run instead
            raise self.run_end.refuse(self.name)

    def on_error(self, error: Exception) -> None:
        """Fail the stream when its source has failed."""
        self.abort(error)

    def on_completed(self) -> None:
        """End the stream when its source has completed."""
        with self.lock:
            if self.state is not StreamState.ENDED:
                self.complete(finishes=self.completes)
