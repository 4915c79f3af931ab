"""Input stream of a run: its items pass the door into the query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Protocol

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EdgeEvent, Event
from rxtemporal.core.spans import SECOND
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import annotate
from rxtemporal.ingress.arrivals import ArrivalClock
from rxtemporal.ingress.batch_verdicts import EventRun, classify_rows
from rxtemporal.ingress.clock_guard import ClockGuard, JumpWatch
from rxtemporal.ingress.packer import RUN_LEAST, Packer
from rxtemporal.ingress.source import Front, OutsideCti, Sent, SentRows, Silence, StreamSource
from rxtemporal.reactive.clock import Clock
from rxtemporal.run.hand_off import BoundedQueue
from rxtemporal.run.hand_off.bounded_queue import BatchObserver
from rxtemporal.run.late import LateEvents, RejectedRows
from rxtemporal.storage.event_log.log import StreamLog

# how far a row may be ahead of the wall clock and move other devices, without ``ahead=``
TRUSTED = 60 * SECOND


class StreamState(Enum):
    """The state of a stream in a run."""

    READING = "reading"
    IDLE = "idle"
    """It follows the other streams until its source sends something."""
    ENDED = "ended"


class Followers(Protocol):
    """The streams that take their time from another one."""

    active: bool

    @property
    def may_follow(self) -> bool:
        """True if a stream may take its time from another one, now or after a silence."""

    def follow(self, reader: Any) -> None:
        """Advance those that follow a stream."""

    def note_activity(self, reader: Any) -> None:
        """Note that the source of a stream has sent an item."""


class InputStream:
    """Input stream of a run.

    Each item is noted in the recording, judged by the door, and noted in the log, late or not; late
    events are reported. The door's batches are pushed into the query, or into a queue before it.
    Not thread-safe: callers hold the stream's lock.
    """

    # beyond 30 attributes dicts share no keys, and calls of methods take longer by two thirds
    __slots__ = (
        "_checked",
        "_entry",
        "_log",
        "_watch",
        "ahead",
        "arrivals",
        "batches",
        "clock",
        "door",
        "flow",
        "front",
        "guard",
        "late",
        "name",
        "pulls",
        "queue",
        "recording",
        "rejected",
        "sender",
        "source",
        "state",
    )

    def __init__(
        self,
        source: StreamSource,
        packer: Packer,
        late: LateEvents,
        flow: Followers,
        queue: BoundedQueue | None,
    ) -> None:
        self.source = source
        self.pulls = not source.pushes
        self.door = packer
        self.name = packer.source
        self.state = StreamState.READING
        self.queue = queue
        # the number of batches
        self.batches = 0
        self.flow = flow
        self.late = late
        # beside the stream, if a query reads what is rejected
        self.rejected: RejectedRows | None = None
        self._entry: BatchObserver = queue or late.entry
        # True if the batches are known to satisfy the contract of batches
        self._checked = False
        self.clock = Clock()
        # the state of what producers push into, in a run with an event log
        self.front: Front | None = None
        # a stream has a guard, or its CTIs are watched, or neither
        self.guard: ClockGuard | None = None
        # stamps the rows of the source, if they start when they arrive
        self.arrivals: ArrivalClock | None = None
        self._watch: JumpWatch | None = None
        # how many rows and CTIs have been ahead of the wall clock
        self.ahead = 0
        # the input of the last item, where its source merges several
        self.sender: str | None = None
        # of a run that is recorded for a replay
        self.recording: StreamLog | None = None
        self._log: StreamLog | None = None

    def use_clock(self, clock: Clock) -> None:
        """Guard the stream against clocks that run ahead as its settings say, or watch its CTIs.

        Records of a replay are not compared with the clock: they were when they came. Nor are the
        CTIs of sources that are read at once, and those that a subject watches.
        """
        self.clock, source = clock, self.source
        if source.arrives:
            self.arrivals = ArrivalClock(clock.now, self.door)
        if source.replays:
            return
        if source.clock is not None and source.clock.silent_by_wall:
            self.door.clocks.follow(clock.read_moment)
        ahead = None if source.settings is None else source.settings.ahead_ticks
        if ahead is None and source.clock is not None and source.clock.by_wall:
            ahead = TRUSTED  # what is further ahead advances no other device
        if ahead is not None:
            self.guard = ClockGuard(ahead, clock.now)
        elif not source.bounded and (source.settings is not None or not source.judged):
            self._watch = JumpWatch(self.name, clock.now)

    def keep_front(self, front: Front | None) -> None:
        """Keep the state of what producers push into."""
        self.front = front

    def join_rejected(self, rejected: RejectedRows) -> None:
        """Note the rejected rows beside the stream, which a query reads."""
        self.rejected = rejected

    @property
    def ended(self) -> bool:
        """True if the stream has ended."""
        return self.state is StreamState.ENDED

    @property
    def idle(self) -> bool:
        """True if the stream is idle and follows the others."""
        return self.state is StreamState.IDLE

    @property
    def is_recorded(self) -> bool:
        """True if the order in which items are accepted is recorded or logged."""
        return self.recording is not None or self._log is not None

    @property
    def rows(self) -> int:
        """The number of accepted rows that wait for a CTI."""
        return self.door.rows

    @property
    def next_due(self) -> int | None:
        """The start of the oldest waiting row."""
        return self.door.next_due

    def accept_all(self, items: Sequence[Any]) -> None:
        """Accept a run of items, many events at once."""
        if len(items) >= RUN_LEAST:
            run = EventRun.from_items(items)
            if run is not None and self.judge_run(run):
                return
        for item in items:
            self.accept(item)
            if self.state is StreamState.ENDED:
                return

    def judge_run(self, run: EventRun) -> bool:
        """Accept many events at once if possible; return True if done."""
        door = self.door
        self.give_waiting()
        if self.ended:
            return True
        try:
            judged = door.judge_run(run, self.guard)
            if judged is not None and self.recording is not None:
                self.recording.note_events(run.items)
            batch = None if judged is None else door.take_run(judged)
            if judged is not None and self._log is not None:
                self._log.note_events(run.items)
        except BaseException as error:
            self.fail(error)
            return True
        self.give(batch)
        return judged is not None

    def accept(self, item: Any) -> None:
        """Note and judge an item, and push a batch into the query if one is due."""
        door, kind = self.door, type(item)
        try:
            if kind is EventBatch or kind is SentRows:
                batch: EventBatch | None = self._judge_batch(item)
            elif kind is OutsideCti:
                batch = self._advance(item)
            elif kind is Silence:
                self.note_silence(item.devices)
                return
            else:
                batch = self._judge_event(item)
            if self.front is not None and kind in (Sent, SentRows):
                self.front.note(item)
        except BaseException as error:
            self.fail(error)
            return
        if batch is not None or door.unreported:
            self.give(batch)

    def _judge_event(self, item: Event | Sent) -> EventBatch | None:
        """Note and judge an event; one is ahead of the wall clock if it was when it came."""
        if isinstance(item, Sent):
            event, ahead, self.sender = item.event, item.ahead, item.input
        else:
            event, ahead, self.sender = item, False, None
        if type(event) is EdgeEvent:
            self.door.open_rows.set_owner(self.sender or "")
        if self.guard is not None and not ahead and self.guard.is_ahead(event):
            ahead = True
            sent = item if isinstance(item, Sent) else Sent(event)
            item = sent._replace(ahead=True)
        if self.recording is not None:
            self.recording.note_event(item)
        self.ahead += ahead
        batch = self.door.take_ahead(event) if ahead else self.door.take(event)
        if self._log is not None:
            self._log.note_event(item)
        return batch

    def _judge_batch(self, item: EventBatch | SentRows) -> EventBatch:
        """Note and judge a batch, row by row as single events."""
        if self.door.rows:  # events that came before
            self.give(self.door.pack())
        if not self._checked:
            batch = self.door.check_batch(item if isinstance(item, EventBatch) else item.batch)
            item = batch if isinstance(item, EventBatch) else item._replace(batch=batch)
        noted, ahead = item, None
        if isinstance(item, EventBatch) and (self.guard is None or self.guard.passes(item)):
            self.sender, batch = None, item
        else:
            sent = self._note_sender(item)
            noted, ahead = to_note(item, sent), sent.ahead
            batch = sent.batch.replace(cti=MIN_TIME) if sent.cti_ahead else sent.batch
        if self.recording is not None:
            self.recording.note_batch(noted)
        accepted = self.door.take_batch(batch, ahead)
        if self._log is not None:
            self._log.note_batch(noted)
        return accepted

    def _note_sender(self, item: EventBatch | SentRows) -> SentRows:
        """Note whose batch comes; return it with what the clock says of its rows and its CTI."""
        sent = item if isinstance(item, SentRows) else SentRows(item)
        self.sender = sent.input
        if self.guard is not None:
            sent = _compare_with_clock(sent, self.guard)
        self.ahead += sent.cti_ahead + (0 if sent.ahead is None else int(sent.ahead.sum()))
        return sent

    def give(self, batch: EventBatch | None) -> None:
        """Report late events, and push a batch into the query."""
        door = self.door
        if door.unreported:
            self.late.report(door.take_unreported())
        if batch is not None:
            self.batches += 1
            if self._watch is not None and batch.cti > self._watch.limit:
                self._watch.check(batch.cti, self.sender or self.name)
            try:
                self._entry.on_next(batch)
            except BaseException as error:
                # the batch is lost, so a run that continued would give wrong results
                self.state = StreamState.ENDED
                self._entry.on_error(error)  # type: ignore[arg-type]
                raise

    def give_waiting(self) -> None:
        """Push the accepted rows that wait for more rows, with the CTI."""
        try:
            batch = self.door.pack()
        except Exception as error:
            self.fail(error)
            return
        self.give(batch)

    def let_others_follow(self) -> None:
        """Advance the streams that follow this one, if any."""
        if self.flow.active:
            self.flow.follow(self)

    def complete(self, *, finishes: bool = True) -> None:
        """End the stream; ``finishes`` also ends its time, unless it was only cut off."""
        try:
            last = self._finish() if finishes else self.door.pack()
        except BaseException as error:
            self.fail(error)
            return
        self.state = StreamState.ENDED
        try:
            self.give(last)
            self.let_others_follow()
            self._entry.on_completed()
        except BaseException as error:
            self._entry.on_error(error)  # type: ignore[arg-type]
            raise

    def _finish(self) -> EventBatch | None:
        for log in (self.recording, self._log):
            if log is not None:
                log.note_end()
        return self.door.pack_last()

    def fail(self, error: BaseException) -> None:
        """End the stream with an error, after delivering the events accepted before it.

        One that is no ``Exception``, such as Ctrl-C, is raised again.
        """
        self.state = StreamState.ENDED
        first = error
        try:
            if isinstance(error, Exception):
                with suppress(Exception):  # the first error counts, and the run ends with it
                    accepted, first = self.door.rescue(error)
                    annotate(first, f"in stream {self.name!r}")
                    if self.recording is not None:
                        self.recording.note_failure(first)
                    self.give(accepted)
        finally:
            self._entry.on_error(first)  # type: ignore[arg-type]
        if not isinstance(error, Exception):
            raise error

    # Time from outside ----------------------------------------------------------------------------

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return True if it advances this one."""
        return not self.ended and self.door.import_cti(cti) and self._give_due()

    def advance_to(self, cti: int, device: Any = None) -> bool:
        """Advance this stream, or one of its devices, from outside; return True if it moves.

        For CTIs from neither the source nor the settings: those of a heartbeat, and those that an
        idle stream follows. The caller advances the streams that follow this one.
        """
        if self.ended or not self.door.advance(cti, device):
            return False
        # an imported CTI is not noted: a replay of the other stream generates it again
        try:
            for log in (self.recording, self._log):
                if log is not None:
                    log.note_advance(cti, device)
        except BaseException as error:
            self.fail(error)
            return False
        return self._give_due()

    def note_silence(self, devices: Sequence[Any] | None) -> None:
        """Let devices that are silent follow the fleet from now on; None: all are silent."""
        door: Any = self.door
        try:
            for log in (self.recording, self._log):
                if log is not None:
                    log.note_silence(devices)
            door.note_silence(devices)
            batch = door.pack() if door.has_news else None
        except BaseException as error:
            self.fail(error)
            return
        self.give(batch)

    def _give_due(self) -> bool:
        try:
            batch = self.door.due()
        except BaseException as error:  # a payload that waited for the CTI does not fit
            self.fail(error)
            return False
        self.give(batch)
        return True

    def _advance(self, item: OutsideCti) -> EventBatch | None:
        """Advance to a CTI that came from outside when the stream was recorded."""
        if self.door.advance(item.cti, item.device) and self.recording is not None:
            self.recording.note_advance(item.cti, item.device)
        return self.door.due()


def _compare_with_clock(sent: SentRows, guard: ClockGuard) -> SentRows:
    """Return a batch with the verdicts of the clock on its rows and its CTI."""
    batch, ahead = sent.batch, sent.ahead
    found = guard.rows_ahead(batch.start, classify_rows(batch))
    if found is not None:
        ahead = found if ahead is None else found | ahead
    cti_ahead = sent.cti_ahead or guard.is_time_ahead(batch.cti)
    return sent._replace(ahead=ahead, cti_ahead=cti_ahead)


def to_note(item: EventBatch | SentRows, sent: SentRows) -> EventBatch | SentRows:
    """Return the form in which a batch is noted: with its sender, or as it is if that says all."""
    says_all = isinstance(item, EventBatch) and sent.ahead is None and not sent.cti_ahead
    return sent.batch if says_all else sent
