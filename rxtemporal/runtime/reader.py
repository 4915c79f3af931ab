"""Reader of one source of a run: its items pass door and packer into the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.ingress.lateness import NO_CTI
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.positions import Position
from rxtemporal.ingress.source import Cursor, StreamSource, check_items
from rxtemporal.reactive.meters import Meter
from rxtemporal.runtime.acknowledgement import Acknowledger
from rxtemporal.runtime.hand_off import BoundedQueue, Producer, StreamLock
from rxtemporal.runtime.held_rows import HeldRows
from rxtemporal.runtime.input_stream import Followers, InputStream, StreamState
from rxtemporal.runtime.late import LateEvents
from rxtemporal.runtime.pushed_items import PushedItems
from rxtemporal.runtime.run_end import RunEnd
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.log import Tape, count_pushed

_END = object()


_READING = StreamState.READING
_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti})


class Reader(InputStream, abc.ObserverBase[Any]):
    """Reader of one source of a run: takes items from its cursor, or is the source's observer.

    ``peek``, the methods that read and the three of the observer take the lock; callers of the
    others hold it.
    """

    def __init__(
        self,
        source: StreamSource,
        packer: Packer,
        late: LateEvents,
        meter: Meter,
        flow: Followers,
        lock: StreamLock,
        run_end: RunEnd,
        queue: BoundedQueue | None = None,
    ) -> None:
        super().__init__(source, packer, late, flow, queue)
        self.lock = lock
        # of a lock inside of which no batch is made
        self._acquire, self._release = lock.acquire, lock.release
        # accepts a pushed item, waiting for room if necessary
        self._accept_later: Callable[[Any], None] = self.accept_pushed
        self.run_end = run_end
        self.meter = meter
        # the position of a source that pushes numbered pieces
        self.position = Position()
        # what is pushed into a source that gives verdicts
        self.pushed = PushedItems(self) if source.has_verdicts else None
        # how many records of the source earlier runs have accepted
        self.replayed = 0
        self.cursor: Cursor | None = None
        # True if the cursor had nothing when it was last read
        self.waits = False
        self._closed = False
        # called, outside of any batch, when pushed events are on disk
        self.on_safe: Callable[[], object] = lambda: None
        self._saved_position: Any = None
        self._watched = source.lively is not None
        # True if pushed events are neither recorded nor logged, and nobody watches for silence or
        # for clocks that run ahead
        self._plain = False

    @property
    def unread(self) -> bool:
        """True if the source is read and may have more items."""
        return self.pulls and self.state is not StreamState.ENDED

    # Begin and end --------------------------------------------------------------------------------

    def record(self, tape: Tape) -> None:
        """Note all items on a tape, in order of acceptance; call before ``open``."""
        self.tape = tape

    def log(self, tape: Tape, records: int) -> None:
        """Note accepted items on a tape from now on; they are acknowledged once they are on disk.

        ``records`` of the source were accepted before, and have been replayed.
        """
        self._log = tape
        self.replayed += records
        if self.pushed is not None and self.queue is None:
            self._entry = self.held = HeldRows(self._entry, self.packer, tape)
        # such a source takes the request for the next event as the acknowledgement of this one
        tape.prompt = self.pulls and not self.source.bounded

    def open(self) -> None:
        """Open the source after the items already read."""
        source = self.source
        position: Any = self.position if source.positioned else self._saved_position
        if not source.resumes or self._log is not None:
            # None where nothing has come before: then it begins
            position = self.replayed or None
        self._use(source.open(position))
        if self._log is not None:
            self._cursor.read_in_step()
        self._plain = not self.is_recorded and not self._watched and self.guard is None
        # a new subject may have judged by a lower CTI than a saved one
        if source.judged and source.settings is None and self.door.cti == NO_CTI:
            self.packer.trust_events()

    def _use(self, cursor: Cursor) -> None:
        self.cursor, self._checked = cursor, cursor.checked
        self._items = iter(cursor) if cursor.item_by_item else iter(())

    @property
    def _cursor(self) -> Cursor:
        assert self.cursor is not None
        return self.cursor

    def connect(self, entry: Any = None) -> abc.DisposableBase:
        """Subscribe to a source that pushes; one that gives verdicts pushes into ``entry``."""
        if entry is not None:
            return self._cursor.connect(entry)
        if self.queue is not None and self.queue.settings is not None:
            producer = Producer(self.queue, self, self.packer, self._refuse_unlogged)
            self._accept_later = producer.on_next
        if self._log is None:
            return self._cursor.connect(self)
        if self.front is not None:
            self.front.restore()
        acknowledger = Acknowledger(
            self,
            self._log,
            self.fail_unlogged,
            self.on_safe,
            self.run_end,
            self.source.subject,
        )
        return acknowledger.subscribe(self._cursor.connect)

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

    def close(self) -> None:
        """Release the source, once."""
        if self.cursor is not None and not self._closed:
            self._closed = True
            self.cursor.close()

    def replay(self, cursor: RecordedCursor, records: int) -> None:
        """Read ``records`` of earlier runs, fewer if the stream ends; call before ``open``."""
        position, guard = self._saved_position, self.guard
        self.guard = None
        if self.state is StreamState.IDLE:
            self.state = StreamState.READING  # the log ends here, but the stream may continue
        self._use(cursor)
        if self.pushed is not None:
            self.packer.note_time(cursor.time)
        while records and not self.ended:
            records = self.read_records(records)
        self.cursor, self._saved_position, self.guard = None, position, guard

    def set_idle(self) -> None:
        """Make the stream idle: it follows the others from now on."""
        self.state = StreamState.IDLE

    # Reading --------------------------------------------------------------------------------------

    def peek(self) -> int:
        """Return the time of the next item: the highest start so far, its own included."""
        return self._cursor.peek()

    def read_records(self, records: int, until: int = MAX_TIME) -> int:
        """Read ``records`` of a recorded stream, up to a time; return how many are left.

        If the recording has no more, the stream is cut off.
        """
        cursor = self.cursor
        assert isinstance(cursor, RecordedCursor)
        cursor.allowed = records
        self.read(until)
        return cursor.allowed

    def accept_all(self, items: Sequence[Any]) -> None:
        """Accept a run of items, many events at once, or each with its sender in a replay."""
        if self.pushed is None:
            super().accept_all(items)
            return
        for item in items:
            if not self.ended:
                self.pushed.replay(item)

    def answer_promptly(self) -> None:
        """Answer every CTI at once, however many events are already available."""
        self.packer.set_bounds(1)

    def read_batch(self) -> None:
        """Accept the next items until a batch is pushed."""
        batches = self.batches
        if self._cursor.item_by_item:
            self._read_items()
            return
        while self.batches == batches and self.state is not StreamState.ENDED:
            self.read()

    def _read_items(self) -> None:
        # the next item is waited for outside of the lock
        items, batches = self._items, self.batches
        while self.batches == batches and self.state is not StreamState.ENDED:
            try:
                item = next(items, _END)
            except Exception as error:
                with self.lock:
                    self.fail(error)
                return
            with self.lock:
                if item is _END:
                    self.complete(finishes=self._cursor.completes)
                    return
                self.accept(item)
                if self.flow.active and not self.ended:
                    self.flow.follow(self)

    def read(self, until: int = MAX_TIME) -> None:
        """Accept the items up to a time, at least the next one."""
        cursor = self._cursor
        try:
            items = cursor.take(until)
            self.waits = check_items(cursor, items, self.name)
        except Exception as error:
            with self.lock:
                self.fail(error)
            return
        with self.lock:
            if items is None:
                self.complete(finishes=cursor.completes)
                return
            self.packer.note_time(cursor.time_form)
            self.accept_all(items)
            self._saved_position = cursor.position
            self.batches += self.waits  # the run may be saved now, or stopped
            if self.state is not StreamState.ENDED:
                self.let_others_follow()

    def push(self, batch: EventBatch) -> None:
        """Push a batch accepted elsewhere into the query, and advance the streams that follow."""
        with self.lock:
            self._saved_position = self._cursor.position
            self.give(batch)
            self.let_others_follow()

    # Pushed ---------------------------------------------------------------------------------------

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
                self.complete(finishes=self._cursor.completes)

    # State ----------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Return position, state of the door and waiting rows as plain values."""
        goes_on = self.ended and self.source.goes_on
        brought = 0 if self._log is None else self._log.brought
        return {
            "place": self.place,
            "position": self.position.reached if self.source.positioned else self._saved_position,
            "brought": self.replayed + brought,
            # a source that may have more later is read on after its end
            "state": (StreamState.READING if goes_on else self.state).value,
            "packer": self.packer.save(),
            "late": self._late.save(),
            "meter": [self.meter.rows, self.meter.cti],
            "ahead": self.ahead,
            "inputs": [] if self.pushed is None else self.pushed.inputs.save(),
            "front": None if self.front is None else self.front.save(),
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``save`` of a reader of the same source, before ``open``."""
        self.packer.load(state["packer"])
        self._late.load(state["late"])
        self.meter.rows, self.meter.cti = state["meter"]
        self.ahead = state["ahead"]
        if self.pushed is not None:
            self.pushed.inputs.load(state["inputs"])
        self.place, self.state = state["place"], StreamState(state["state"])
        self._saved_position = state["position"]
        self.position.reached = state["position"] if self.source.positioned else None
        self.replayed = state["brought"]
        if self.front is not None and state.get("front") is not None:
            self.front.load(state["front"])

    def complete_again(self) -> None:
        """Complete a stream that had ended when it was saved."""
        if self.ended:
            with self.lock:
                self._entry.on_completed()
