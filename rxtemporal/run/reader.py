"""Reader of one source of a run: its items pass the door into the query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.driver import Entry
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.ingress.lateness import NO_CTI
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.source import Cursor, Position, StreamSource, check_items
from rxtemporal.run.hand_off import BoundedQueue, StreamLock
from rxtemporal.run.input_stream import Followers, InputStream, StreamState
from rxtemporal.run.late import LateEvents
from rxtemporal.run.run_end import RunEnd
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.log import StreamLog

_END = object()


class Reader(InputStream):
    """Reader of one source of a run: takes items from its cursor, and can be saved.

    ``peek``, the methods that read, ``wake`` and ``abort`` take the lock; callers of the others
    hold it.
    """

    __slots__ = (
        "_closed",
        "_items",
        "_saved_counts",
        "_saved_position",
        "cursor",
        "holds_rows",
        "lock",
        "meter",
        "on_safe",
        "position",
        "replayed",
        "run_end",
        "waits",
    )

    def __init__(
        self,
        source: StreamSource,
        packer: Packer,
        late: LateEvents,
        meter: Entry,
        flow: Followers,
        lock: StreamLock,
        run_end: RunEnd,
        queue: BoundedQueue | None = None,
    ) -> None:
        super().__init__(source, packer, late, flow, queue)
        self.lock = lock
        self.run_end = run_end
        self.meter = meter
        # True if no row enters the query before it is durable
        self.holds_rows = False
        # the position of a source that pushes numbered pieces
        self.position = Position()
        # how many records of the source earlier runs have accepted
        self.replayed = 0
        self.cursor: Cursor | None = None
        # True if the cursor had nothing when it was last read
        self.waits = False
        self._closed = False
        # called, outside of any batch, when pushed events are on disk
        self.on_safe: Callable[[], object] = lambda: None
        # the position of a cursor, and the counters of its inputs there
        self._saved_position: Any = None
        self._saved_counts: Any = None

    def call_when_safe(self, on_safe: Callable[[], object]) -> None:
        """Call a function, outside of any batch, when pushed events are on disk."""
        self.on_safe = on_safe

    def list_inputs(self) -> Mapping[str, SourceStats]:
        """Return the counters of the inputs of the source, by name."""
        return self.source.inputs()

    @property
    def event_log(self) -> StreamLog | None:
        """The part of the event log in which accepted items are noted."""
        return self._log

    @property
    def saved_position(self) -> Any:
        """The position of a source that is read, as it is saved."""
        return self._saved_position

    @property
    def place(self) -> int:
        """The highest start of a row that has entered the query."""
        return self.meter.highest

    @property
    def unread(self) -> bool:
        """True if the source is read and may have more items."""
        return self.pulls and self.state is not StreamState.ENDED

    # Begin and end --------------------------------------------------------------------------------

    def record(self, log: StreamLog) -> None:
        """Note all items in a recording, in order of acceptance; call before ``open``."""
        self.recording = log

    def log(self, log: StreamLog, records: int) -> None:
        """Note accepted items in a log from now on; they are acknowledged once they are on disk.

        ``records`` of the source were accepted before, and have been replayed.
        """
        self._log = log
        self.replayed += records
        # such a source takes the request for the next event as the acknowledgement of this one
        log.set_prompt(prompt=self.pulls and not self.source.bounded)

    def open(self) -> None:
        """Open the source after the items already read."""
        source = self.source
        position: Any = self.position if source.positioned else self._saved_position
        if not source.resumes or self._log is not None:
            # None where nothing has come before: then it begins
            position = self.replayed or None
        self._use(source.open(position))
        self._cursor.resume_input_counts(self._saved_counts)
        if self._log is not None:
            self._cursor.read_in_step()
        # a new subject may have judged by a lower CTI than a saved one
        if source.judged and source.settings is None and self.door.cti == NO_CTI:
            self.door.trust_events()

    def _use(self, cursor: Cursor) -> None:
        cursor.use_times(self.door.times)
        self.cursor, self._checked = cursor, cursor.checked
        self._items = iter(cursor) if cursor.item_by_item else iter(())

    @property
    def _cursor(self) -> Cursor:
        assert self.cursor is not None
        return self.cursor

    @property
    def completes(self) -> bool:
        """True if the end of the source ends the time of the stream."""
        return self._cursor.completes

    def connect(self) -> abc.DisposableBase:
        """Subscribe to a source that pushes."""
        return self._cursor.connect(self)  # type: ignore[arg-type]

    def close(self) -> None:
        """Release the source, once."""
        if self.cursor is not None and not self._closed:
            self._closed = True
            self.cursor.close()

    def replay(self, cursor: RecordedCursor, records: int) -> None:
        """Read ``records`` of earlier runs, fewer if the stream ends; call before ``open``."""
        saved, guard = (self._saved_position, self._saved_counts), self.guard
        self.guard = None
        if self.state is StreamState.IDLE:
            self.state = StreamState.READING  # the log ends here, but the stream may continue
        self._use(cursor)
        while records and not self.ended:
            records = self.read_records(records)
        self.cursor, self.guard = None, guard
        self._saved_position, self._saved_counts = saved

    def set_idle(self) -> None:
        """Make the stream idle: it follows the others from now on."""
        self.state = StreamState.IDLE

    def note_activity(self) -> None:
        """Note that the source has sent something: it is neither silent nor idle."""
        if self.state is StreamState.IDLE:
            self.state = StreamState.READING
        if self.source.lively is not None:
            self.flow.note_activity(self)

    def count_refused(self) -> int:
        """Return the number of rows that are in no log: rejected ones and duplicates."""
        return 0

    def drain(self) -> None:
        """Make all rows that are held durable, and pass them on; by default none are held."""

    @property
    def may_advance(self) -> bool:
        """True while a clock may advance the stream.

        Not while its run is stopped: what comes behind the last checkpoint would come again.
        """
        return not self.ended and self.run_end.accepts

    def wake(self) -> bool:
        """Let what waits into the query, with an empty batch; return False after the end."""
        with self.lock:
            if not self.may_advance:
                return False
            nothing = EventBatch.empty(self.door.payloads.frame([]).schema, self.door.sent)
            self.give(nothing)
            return True

    def abort(self, error: BaseException) -> None:
        """Fail the stream, unless it has ended; the door may have changed already."""
        with self.lock:
            if not self.ended:
                self.fail(error)

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
        cursor.allow(records)
        self.read(until)
        return cursor.count_allowed()

    def wrap_cursor(self, wrap: Callable[[Cursor], Cursor]) -> None:
        """Read by the cursor that ``wrap`` returns for the present one."""
        self.cursor = wrap(self._cursor)

    def answer_promptly(self) -> None:
        """Answer every CTI at once, however many events are already available."""
        self.door.set_bounds(1)

    def read_batch(self) -> None:
        """Accept the next items until a batch is pushed."""
        cursor, batches = self.cursor, self.batches
        if cursor is not None and cursor.item_by_item:
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
                    self.complete(finishes=self.completes)
                    return
                self.accept(item)
                if self.flow.active and not self.ended:
                    self.flow.follow(self)

    def read(self, until: int = MAX_TIME) -> None:
        """Accept the items up to a time, at least the next one."""
        cursor = self.cursor
        assert cursor is not None
        try:
            items = cursor.take(until)
            self.waits = not items and check_items(cursor, items, self.name)
        except Exception as error:
            with self.lock:
                self.fail(error)
            return
        with self.lock:
            if items is None:
                self.complete(finishes=cursor.completes)
                return
            if (form := cursor.time_form) is not None:
                self.door.note_form(form)
            self.accept_all(items)
            self._note_position(cursor)
            self.batches += self.waits  # the run may be saved now, or stopped
            if self.flow.active and self.state is not StreamState.ENDED:
                self.flow.follow(self)

    def push(self, batch: EventBatch) -> None:
        """Push a batch accepted elsewhere into the query, and advance the streams that follow."""
        with self.lock:
            self._note_position(self._cursor)
            self.give(batch)
            self.let_others_follow()

    def _note_position(self, cursor: Cursor) -> None:
        self._saved_position, self._saved_counts = cursor.position, cursor.input_counts

    # State ----------------------------------------------------------------------------------------

    def save(self) -> dict[str, Any]:
        """Return position, state of the door and waiting rows, to be captured."""
        goes_on = self.ended and self.source.goes_on
        brought = 0 if self._log is None else self._log.brought
        return {
            "place": self.place,
            "position": self.position.reached if self.source.positioned else self._saved_position,
            # of those that count their inputs where they are read
            "counts": self._saved_counts,
            "brought": self.replayed + brought,
            # a source that may have more later is read on after its end
            "state": (StreamState.READING if goes_on else self.state).value,
            "packer": self.door.save(),
            "late": self.late.save(),
            "meter": [self.meter.rows_out, self.meter.cti],
            "ahead": self.ahead,
            "front": None if self.front is None else self.front.save(),
            # by which the moments are known at which devices were heard
            "moment": [self.clock.now(), self.clock.read_moment()] if self.silent_after else None,
        }

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``save`` of a reader of the same source, before ``open``."""
        self.door.load(state["packer"])
        if state.get("moment") is not None and self.silent_after is not None:
            time, moment = state["moment"]
            self._resume_moments(time, moment, self.silent_after)
        self.late.load(state["late"])
        self.meter.resume(*state["meter"])
        self.ahead = state["ahead"]
        self.meter.resume_at(state["place"])
        self.state = StreamState(state["state"])
        self._saved_position = state["position"]
        # a release before saved none
        self._saved_counts = state.get("counts")
        self.position.resume(state["position"] if self.source.positioned else None)
        self.replayed = state["brought"]
        if self.front is not None and state.get("front") is not None:
            self.front.load(state["front"])

    @property
    def silent_after(self) -> int | None:
        """The span of the wall clock after which a device is silent, if that counts here."""
        clock = self.source.clock
        if clock is None or not clock.silent_by_wall or self.source.replays:
            return None
        return clock.quiet

    def _resume_moments(self, time: int, moment: int, silent_after: int) -> None:
        """Count the time since a state was saved as one in which no device was heard.

        If it is so long that all would be silent, each has the whole span again.
        """
        clocks = self.door.clocks
        now, away = self.clock.read_moment(), max(self.clock.now() - time, 0)
        clocks.shift_moments(now - away - moment)
        if away >= silent_after:
            clocks.hear_all(now)

    def complete_again(self) -> None:
        """Complete a stream that had ended when it was saved."""
        if self.ended:
            with self.lock:
                self._entry.on_completed()
