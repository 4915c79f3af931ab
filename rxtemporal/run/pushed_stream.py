"""Input stream of a run as the observer of its source, which pushes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    Event,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_verdicts import Verdicts
from rxtemporal.ingress.event_run import EventRun
from rxtemporal.ingress.lateness import Lateness
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.pushed_inputs import OWN, PushedInput, PushedInputs
from rxtemporal.ingress.source import OutsideCti, Sent, SentRows, StreamSource
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
        # bound once, for the lock under which no batch is made
        self._acquire, self._release = lock.acquire, lock.release
        # the inputs that push into a source that gives verdicts
        self.inputs = PushedInputs()
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
            nothing = EventBatch.empty(self.door.payloads.frame([]).schema, self.door.sent)
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

    def take(
        self, event: RowEvent | Cti, of: PushedInput, seq: int | None, ahead: bool
    ) -> Lateness | None:
        """Accept an event of an input; return how late it is, None if it is in time.

        Its number is new. Raises the error of an event that the stream cannot have.
        """
        # this runs once for each row that is pushed
        door, kind, sender = self.door, type(event), of.sender
        time = find_time(event) if kind is EdgeEvent else event.start
        if ahead:
            of.ahead += 1
        elif of.reached < time < MAX_TIME:  # the end of time is no place that an input has reached
            of.reached = time
        behind = 0 if ahead else self.door.high - time
        # a log tells the input and the number of an item; an edge is closed by its own input alone
        asked = self.guard is not None or self.tape is not None or self._log is not None
        if asked or ahead or kind is EdgeEvent:
            batch = self._judge_event(Sent(event, sender, seq, ahead))  # type: ignore[arg-type]
        else:
            self.sender = sender
            batch = None if door.keep(event) else door.judge(event)  # type: ignore[arg-type]
        late: Any = door.unreported
        fate = late[-1][1] if late else None
        if batch is not None or late:
            self.give(batch)
        if kind is not Cti:
            of.count(None if fate is None else fate.reason, behind)
        return fate

    def take_rows(
        self, rows: EventBatch, of: PushedInput, seq: Int64s | None, ahead: Bools | None
    ) -> Verdicts:
        """Accept complete rows of an input, whose numbers are new; return the verdicts on them."""
        door = self.door
        if (waiting := door.pack()) is not None:
            self.give(waiting)
        is_plain = ahead is None and of.sender is None and seq is None
        item = rows if is_plain else SentRows(rows, of.sender, seq, ahead)
        sent = self._note_sender(item)
        noted = to_note(item, sent)
        if self.tape is not None:
            self.tape.batch(noted)
        batch = sent.batch
        verdicts = door.judge_columns(batch.start, batch.end, ahead=sent.ahead)
        accepted = door.take_verdicts(batch, verdicts)
        if self._log is not None:
            self._log.batch(noted)
        self.give(accepted)
        of.count_rows(rows, verdicts, ahead)
        return verdicts

    def replay_pushed(self, item: Any) -> None:
        """Accept an item of a log again; its error ends the stream."""
        if isinstance(item, OutsideCti):
            self.accept(item)
            return
        try:
            if isinstance(item, EventBatch | SentRows):
                self._replay_rows(item if isinstance(item, SentRows) else SentRows(item))
            else:
                self._replay_event(item if isinstance(item, Sent) else Sent(item))
        except Exception as error:
            self.fail(error)

    def _replay_event(self, sent: Sent) -> None:
        of = self.inputs[sent.input or OWN]
        if sent.seq is not None and not isinstance(sent.event, Cti):
            of.judge_number(sent.seq, sent.event, ahead=sent.ahead)
        self.take(sent.event, of, sent.seq, sent.ahead)

    def _replay_rows(self, sent: SentRows) -> None:
        of, batch = self.inputs[sent.input or OWN], sent.batch
        if not len(batch):
            return
        if sent.seq is not None:
            of.judge_numbers(np.asarray(sent.seq, np.int64), batch.start, sent.ahead)
        self.take_rows(batch.replace(cti=MIN_TIME), of, sent.seq, sent.ahead)

    def note_time(self, form: TimeForm | None) -> None:
        """Note the form of the times of rows that come as columns, unless it is known."""
        self.door.note_time(form)
        for tape in (self.tape, self._log):
            if tape is not None and tape.facts.time is None:
                tape.facts.time = form


def find_time(event: RowEvent | Cti) -> int:
    """Return the time that an event shows of its input: of an end edge its end, else its start."""
    if isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END:
        return event.end
    return event.start
