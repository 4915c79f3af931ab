"""Input stream of a run as the observer of its source, which pushes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Cti, EdgeEvent, Event, IntervalEvent, PointEvent
from rxtemporal.ingress.batch_verdicts import LateRows, Verdicts
from rxtemporal.ingress.event_run import EventRun
from rxtemporal.ingress.lateness import Lateness
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.source import Sent, SentRows, StreamSource
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.reactive.subscriber import HandOffObserver
from rxtemporal.run.hand_off import BoundedQueue, StreamLock
from rxtemporal.run.input_stream import Followers, InputStream, StreamState, to_note
from rxtemporal.run.late import LateEvents
from rxtemporal.run.run_end import RunEnd
from rxtemporal.storage.event_log.log import Tape, count_pushed

_READING = StreamState.READING
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti})


class PushedStream(InputStream, HandOffObserver):
    """Input stream whose items may be pushed: the observer of its source.

    The three methods of the observer and ``wake`` take the lock; callers of the others hold it.
    """

    def __init__(
        self,
        source: StreamSource,
        packer: Packer,
        late: LateEvents,
        flow: Followers,
        lock: StreamLock,
        run_end: RunEnd,
        queue: BoundedQueue | None = None,
    ) -> None:
        super().__init__(source, packer, late, flow, queue)
        self.lock = lock
        self.run_end = run_end
        # of a lock inside of which no batch is made
        self._acquire, self._release = lock.acquire, lock.release
        # accepts a pushed item, waiting for room if necessary
        self._accept_later: Callable[[Any], None] = self.accept_pushed
        self._watched = source.lively is not None
        # True if pushed events are neither recorded nor logged, and nobody watches for silence or
        # for clocks that run ahead
        self._plain = False

    @property
    @abstractmethod
    def completes(self) -> bool:
        """True if the end of the source ends the time of the stream."""

    @property
    def event_log(self) -> Tape | None:
        """The tape on which accepted items are noted for the event log."""
        return self._log

    def note_activity(self) -> None:
        """Note that the source has sent something: it is neither silent nor idle."""
        if self.state is StreamState.IDLE:
            self.state = StreamState.READING
        if self._watched:
            self.flow.note_activity(self)

    def fail_unlogged(self, error: BaseException) -> None:
        """End the run when an event cannot be kept or logged: the door may have changed already."""
        with self.lock:
            if not self.ended:
                self.fail(error)

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
        waits = self._plain and self.packer.only_keeps and self.run_end.accepts
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
            return self.packer.keep(event)
        except BaseException as error:
            self.fail_unlogged(error)
            return True

    def fetch_waiting(self) -> None:
        """Judge the events that wait in front of the door; takes the lock."""
        if self.queue is not None and self.queue.inbox is not None:
            self.queue.inbox.fetch()

    def close_inbox(self) -> None:
        """Judge the events that wait, and from now on each at once; takes the lock."""
        if self.queue is not None and self.queue.inbox is not None:
            self.queue.inbox.close()

    # The observer ---------------------------------------------------------------------------------

    def on_next(self, item: Any) -> None:
        """Accept an event or a batch that the source pushes."""
        # This runs once for each event that is pushed. Most only have to wait for others: then
        # nobody else is told, and the lock is taken without noting by whom.
        failed: BaseException | None = None
        self._acquire()
        try:
            if (
                self._plain
                and self.state is _READING
                and self.run_end.accepts
                and not self.flow.active
                and self.packer.keep(item)
            ):
                return
        except BaseException as error:
            failed = error
        finally:
            self._release()
        if failed is None:
            self._accept_later(item)
        else:
            self.fail_unlogged(failed)

    def accept_pushed(self, item: Any) -> None:
        """Accept an item that the source pushes and for which there is room."""
        with self.lock:
            if self.state is not _READING:
                if self.state is StreamState.ENDED:
                    self._refuse_unlogged()
                    return
                self.state = _READING
            if self._plain and type(item) in _EVENTS:
                packer = self.packer
                try:
                    batch = packer.judge(item)
                except BaseException as error:
                    self.fail(error)
                    return
                if batch is not None or packer.late:
                    self.give(batch)
            else:
                self._accept_watched(item)
            if self.flow.active and not self.ended:
                self.flow.follow(self)

    def _accept_watched(self, item: Any) -> None:
        """Accept an item that is recorded, logged or a batch, or whose source may be silent."""
        if self._watched:
            self.flow.note_activity(self)
        if self._log is None:
            self.accept(item)
            return
        whole = self._log.accepted + count_pushed(item)
        self.accept(item)
        if self._log.accepted < whole:  # it has ended the run instead
            raise self.run_end.refuse(self.name)

    def wake(self) -> bool:
        """Let rejected rows into the query, with an empty batch; return False after the end."""
        with self.lock:
            if self.state is StreamState.ENDED:
                return False
            nothing = EventBatch.empty(self.packer.payloads.frame([]).schema, self.packer.sent)
            self._entry.on_next(nothing)
            return True

    def on_error(self, error: Exception) -> None:
        """Fail the stream when its source has failed."""
        with self.lock:
            if self.state is not StreamState.ENDED:
                self.fail(error)

    def on_completed(self) -> None:
        """End the stream when its source has completed."""
        with self.lock:
            if self.state is not StreamState.ENDED:
                self.complete(finishes=self.completes)

    # With verdicts --------------------------------------------------------------------------------

    def accept_event(self, item: Event | Sent) -> Lateness | None:
        """Accept a pushed event; return how late it is, None if it came in time.

        Raises the error of an event that the stream cannot have, and is unchanged then.
        """
        packer = self.packer
        batch = self._judge_event(item)
        late = packer.late
        if batch is not None or late:
            self.give(batch)
        if not late:
            return None
        assert not isinstance(late[-1], LateRows)
        return late[-1][1]

    def note_time(self, form: TimeForm | None) -> None:
        """Note the form of the times of rows that come as columns, unless it is known."""
        self.packer.note_time(form)
        for tape in (self.tape, self._log):
            if tape is not None and tape.facts.time is None:
                tape.facts.time = form

    def accept_rows(self, item: EventBatch | SentRows) -> Verdicts:
        """Accept pushed complete rows that fit the stream; return the verdicts on them."""
        packer = self.packer
        if (waiting := packer.pack()) is not None:
            self.give(waiting)
        sent = self._note_sender(item)
        noted = to_note(item, sent)
        if self.tape is not None:
            self.tape.batch(noted)
        batch = sent.batch
        verdicts = packer.door.judge_columns(batch.start, batch.end, ahead=sent.ahead)
        accepted = packer.take_verdicts(batch, verdicts)
        if self._log is not None:
            self._log.batch(noted)
        self.give(accepted)
        return verdicts
