"""Queue of one source between its door, which puts accepted batches in, and the query."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Protocol

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti
from rxtemporal.core.safe_text import show
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ProcessEndedError, RxTemporalError
from rxtemporal.ingress.packer import MOST_ROWS, Packer
from rxtemporal.ingress.settings import HandOff, HandOffDiagnostics, WhenFull
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.run.hand_off.buffer import Chunk, QueueCopy, SpillBuffer
from rxtemporal.run.hand_off.gate import Gate, State, StreamLock

# while the query is busy, rows are packed into columns this many at a time, whatever the CTIs
BUSY_ROWS = 1_024
# so many events wait in front of the door at most, and none where it would be fewer than these
MOST_EVENTS, LEAST_EVENTS = 16_384, 256


class BatchObserver(Protocol):
    """Entry of one source into a run."""

    def on_next(self, batch: EventBatch) -> None:
        """Push a batch."""

    def on_error(self, error: Exception) -> None:
        """Fail the source."""

    def on_completed(self) -> None:
        """End the source."""


class BoundedQueue:
    """Bounded queue between the reader of one source and the query.

    The reader calls ``on_next``, ``on_error`` and ``on_completed`` while it holds the gate, as if
    this were the query. Only ``deliver`` and ``deliver_error`` call the query. Without
    settings there is no bound: the producer delivers its own rows when it leaves ``lock``.
    """

    def __init__(
        self,
        gate: Gate,
        lock: StreamLock,
        entry: BatchObserver,
        settings: HandOff | None,
    ) -> None:
        self.lock = lock
        self.settings = settings
        # orders the queues: the number of the put that found this one empty
        self.since = 0
        # the clock's time up to which the query may wait for more rows; 0.0: not at all
        self.due = 0.0
        self._linger = 0.0 if settings is None else settings.linger_seconds
        self.batches = 0
        self.most_waiting = 0
        self.times_blocked = 0
        self.seconds_blocked = 0.0
        self.gate = gate
        self._entry = entry
        self._buffer = SpillBuffer(settings)
        self._completed = False
        self._packer: Packer | None = None
        self._abort: Callable[[BaseException], None] = gate.run_end.end
        # events of a subject in front of the door
        self.inbox: Inbox | None = None
        # with how many waiting rows a CTI makes a batch, and with how many there is one without
        self._least, self._most = 1, MOST_ROWS
        gate.flushes.append(self._flush)

    def connect(self, packer: Packer, abort: Callable[[BaseException], None]) -> None:
        """Share the bound with the packer of a source that pushes; ``abort`` fails its stream."""
        assert self.settings is not None
        self._packer, self._abort = packer, abort
        share = self._buffer.file_rows if self.spills else self.settings.max_rows
        self._most = min(MOST_ROWS, max(1, share))
        self._least = min(packer.least, self._most)
        self._set_bounds(packer)

    def add_inbox(self, wait_for_room: Callable[[], object]) -> None:
        """Let events of a subject wait in front of the door, if there is room for more than a few.

        ``wait_for_room`` is called when there is none for another event.
        """
        # a row may linger from when it comes, so that is to be known
        may_wait = self._least == 1 and not self._linger and not self.gate.is_served
        if may_wait and self._most_events >= LEAST_EVENTS:
            self.inbox = Inbox(self.gate, self._most_events, wait_for_room, self._abort)

    @property
    def _most_events(self) -> int:
        """The number of events that may wait in front of the door."""
        return 0 if self.settings is None else min(MOST_EVENTS, self.settings.max_rows // 16)

    def limit_inbox(self) -> None:
        """Let no more events wait in front of the door than there is room for."""
        if self.inbox is not None and self.settings is not None:
            room = self._most_events if self.spills else self.settings.max_rows - self.rows
            self.inbox.limit(max(0, min(self._most_events, room)))

    def rest(self) -> None:
        """Judge the events in front of the door; from now on one that matters wakes the query."""
        if self.inbox is not None:
            self.inbox.rest()

    def _set_bounds(self, packer: Packer) -> None:
        """Let rows wait in the packer for more of them while the query is busy, if there is room.

        The bounds are such that the packer keeps no row for which there is no room.
        """
        least, most = self._least, self._most
        if self._buffer:
            least = max(least, BUSY_ROWS)
            if self.settings is not None and not self.spills:
                most = max(1, min(most, self.settings.max_rows - self._buffer.rows))
        packer.set_bounds(min(least, most), most)
        self.limit_inbox()

    @property
    def spills(self) -> bool:
        """True if rows go to disk when the queue is full, so that there is always room."""
        return self.settings is not None and self.settings.when_full is WhenFull.SPILL

    @property
    def has_rows(self) -> bool:
        """True if there is something to deliver: rows, time or the end."""
        return bool(self._buffer) or self._completed

    @property
    def has_spilled(self) -> bool:
        """True if rows wait on disk."""
        return self._buffer.rows_on_disk > 0

    @property
    def rows(self) -> int:
        """The accepted rows in memory that are not delivered yet."""
        return self._buffer.rows + (0 if self._packer is None else self._packer.rows)

    def has_room(self, rows: int) -> bool:
        """Return True if ``rows`` more fit, or if nothing can be taken out to make room."""
        if self.settings is None or self.spills or not self._buffer:
            return True
        return self.rows + rows <= self.settings.max_rows

    def wait_for_room(self, rows: int) -> bool:
        """Wait until ``rows`` more fit or the run is ending; return True if that took waiting.

        The caller holds the gate, once.
        """
        gate = self.gate
        if self.has_room(rows) or gate.state is not State.OPEN or not gate.may_wait:
            return False
        self.times_blocked += 1
        self._hurry()
        started = time.monotonic()
        try:
            while not self.has_room(rows) and gate.state is State.OPEN:
                gate.wait_for_room()
        finally:
            self.seconds_blocked += time.monotonic() - started
        return True

    def _hurry(self) -> None:
        """Let the query wait no longer for more rows."""
        if self.due:
            self.due = 0.0
            self.gate.notify_rows()

    # The producer's side, under the gate ----------------------------------------------------------

    def on_next(self, batch: EventBatch) -> None:
        """Put an accepted batch at the end."""
        if self.gate.accepts:
            self._put(batch)

    def _put(self, batch: EventBatch) -> None:
        had_rows = self.has_rows
        try:
            self._buffer.put(batch)
        except RxTemporalError as error:
            self.on_error(error)
        if self._packer is not None:
            self._set_bounds(self._packer)
        self._note_waiting()
        if self.inbox is not None:
            self.inbox.note_work()
        if not had_rows:
            self._announce()
        elif self.has_spilled:
            self._hurry()

    def _announce(self) -> None:
        """Tell the consumer of the first rows of a batch."""
        self.due = time.monotonic() + self._linger if self._linger else 0.0
        self.since = self.gate.notify_rows()

    def _note_waiting(self) -> None:
        self.most_waiting = max(self.most_waiting, self.rows)

    def on_error(self, error: Exception) -> None:
        """Fail the run, after delivering all rows accepted before."""
        self.gate.fail(self.deliver_error, error)

    def on_completed(self) -> None:
        """End the source."""
        if self.gate.accepts:
            had_rows = self.has_rows
            self._completed = True
            if not had_rows:
                self.since = self.gate.notify_rows()
            self._hurry()

    def _flush(self) -> None:
        """Put the events in front of the door, and the rows in the packer, at the end."""
        if self.inbox is not None:
            self.inbox.collect()
        if self._packer is None:
            return
        self._packer.set_bounds(self._least)
        try:
            batch = self._packer.due()
        except Exception as error:
            self._abort(error)
            return
        if batch is not None:
            self._put(batch)

    # The consumer's side --------------------------------------------------------------------------

    def copy(self) -> QueueCopy:
        """Return a copy of what waits; the caller holds the gate."""
        return self._buffer.copy()

    def take(self) -> Chunk:
        """Take out everything in memory, or one file from disk; the caller holds the gate."""
        # single rows are not counted as they come
        self._note_waiting()
        self._flush()
        chunk = self._buffer.take()
        if not self._buffer:
            chunk.set_completed(completed=self._completed)
            self._completed = False
        if self._packer is not None:
            self._set_bounds(self._packer)
        return chunk

    def deliver(self, chunk: Chunk) -> None:
        """Push what was taken out into the query, as one batch."""
        try:
            batch = chunk.read()
        except Exception as error:
            self._entry.on_error(error)
            return
        if batch is not None:
            self.batches += 1
            self._entry.on_next(batch)
        if chunk.completed:
            self._entry.on_completed()

    def deliver_error(self, error: Exception) -> None:
        """Push the source's error into the query."""
        self._entry.on_error(error)

    def close(self) -> None:
        """Delete the files on disk."""
        self._buffer.close()

    def diagnostics(self) -> HandOffDiagnostics | None:
        """Return the counters; None for a source without a hand-off."""
        if self.settings is None:
            return None
        with self.gate.lock:
            self._note_waiting()
            return HandOffDiagnostics(
                rows_waiting=self.rows + self._buffer.rows_on_disk,
                most_rows_waiting=self.most_waiting,
                rows_spilled=self._buffer.rows_spilled,
                times_blocked=self.times_blocked,
                blocked=timedelta(seconds=self.seconds_blocked),
                batches=self.batches,
            )


class Producer:
    """Way of a source into its reader that waits until there is room in the queue.

    ``accept`` takes an item for which there is room; ``refuse`` is called for each item that is
    pushed after the end, and may raise.
    """

    def __init__(
        self,
        queue: BoundedQueue,
        packer: Packer,
        accept: Callable[[Any], None],
        refuse: Callable[[], None],
    ) -> None:
        assert queue.settings is not None
        queue.add_inbox(self._wait_in_front)
        self._gate = queue.gate
        self._queue = queue
        self._max_rows = queue.settings.max_rows
        self._accept = accept
        self._door = packer
        self._refuse = refuse

    def on_next(self, item: Any) -> None:
        """Push an event or a batch once there is room for it."""
        if isinstance(item, EventBatch):
            for part in self._split(item):
                self._push(part, len(part))
        elif isinstance(item, SentRows):
            for part in self._split(item.batch):
                self._push(item._replace(batch=part), len(part))
        else:
            event = item.event if isinstance(item, Sent) else item
            self._push(item, 0 if isinstance(event, Cti) else 1)

    def _push(self, item: Any, rows: int) -> None:
        queue, gate = self._queue, self._gate
        with gate.lock:
            if queue.wait_for_room(rows) and gate.error is not None:
                raise self._fail_blocked(gate.error)
            if gate.state is not State.OPEN or not gate.run_end.accepts:
                self._refuse()
                return
            self._accept(item)

    def _wait_in_front(self) -> None:
        """Wait for room for an event that will wait in front of the door."""
        queue, gate = self._queue, self._gate
        with gate.lock:
            if queue.has_room(1):
                queue.limit_inbox()
                return
        with gate.lock:
            if queue.wait_for_room(1) and gate.error is not None:
                raise self._fail_blocked(gate.error)
            queue.limit_inbox()

    def _fail_blocked(self, error: BaseException) -> ProcessEndedError:
        failed = ProcessEndedError(
            f"stream {self._door.source!r} was waiting for room in its hand-off when the run "
            f"failed with {show(error)}; the pushed event was not accepted. "
            "Hint: wait() of the process raises that error, and on_error receives it."
        )
        failed.__cause__ = error
        return failed

    def _split(self, batch: EventBatch) -> Iterator[EventBatch]:
        """Yield a batch whole, or in parts that fit if it is larger than the queue."""
        most, door = self._max_rows, self._door
        if len(batch) <= most:
            yield batch
            return
        # the source's own CTI: an imported one does not bind the source
        reached = max(door.own, MIN_TIME)
        try:
            # with settings the door judges each row
            batch.check(reached if door.settings is None else MIN_TIME)
        except RxTemporalError:
            yield batch  # the reader rejects it as a whole, as it does without a hand-off
            return
        for begin in range(0, len(batch), most):
            last = begin + most >= len(batch)
            part = batch.slice(begin, begin + most)
            yield part if last else part.replace(cti=reached)
