"""Entry of pushes into a run: each gets a verdict, and is durable afterwards.

How a pushed row becomes durable in a run with an event log:

1. ``RowReader`` checks the row against the schema, outside all locks. A misfit is rejected, and not
   logged.
2. ``judge_one`` or ``judge`` takes the stream's lock. ``_begin`` waits for room in the hand-off,
   which releases the lock meanwhile, and raises if the run has ended.
3. The clock guard and the sequence numbers are asked. A rejected row and a duplicate are not
   logged.
4. The door judges the row, late or not, and then the log of the stream notes it in memory.
   ``HeldRows`` holds a batch that is due; with a hand-off, the batch enters the queue.
5. ``settle`` leaves the lock and calls ``Log.flush``. One thread writes all noted records as one
   transaction, whose commit syncs; ``RunStore.append`` then counts them in the file beside it,
   without a sync.
6. ``HeldRows.release`` gives the durable batches to the query. With a hand-off the query may have
   computed already; ``Process`` flushes the log before it writes to a sink.
7. ``on_safe`` begins a checkpoint if one is due. ``Log.cut`` says which records it covers; their
   entries are deleted once it is valid.
8. The source publishes late and rejected rows, and ``push`` returns the verdict.

An error before the commit ends the run, and the push raises ``ProcessEndedError``. After a crash
that follows the commit the row is in the log without a verdict: a second push with its sequence
number is a duplicate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, NoReturn

import numpy as np
from reactivex import abc

from rxtemporal.core.batch import Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.events import Cti, EdgeEvent, PlainRow, RowEvent, get_judged_time
from rxtemporal.core.spans import describe_span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.core.turns import FORKED, FORKS
from rxtemporal.errors import ProcessEndedError
from rxtemporal.ingress.batch_verdicts import Verdicts
from rxtemporal.ingress.input_state import SourceStats
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, Lateness
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.pushed_inputs import (
    NEW,
    OWN,
    REPEAT,
    UNSURE,
    PushedInput,
    PushedInputs,
    Seen,
)
from rxtemporal.ingress.row_columns import NO_SEQ
from rxtemporal.ingress.source import OutsideCti, Sent, SentRows, Silence
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.ingress.verdict import ReadRows, Rejected, Verdict, make_accepted
from rxtemporal.run.hand_off import BoundedQueue
from rxtemporal.run.hand_off.bounded_queue import BUSY_ROWS, BatchObserver
from rxtemporal.run.input_stream import StreamState, to_note
from rxtemporal.run.reader import Reader
from rxtemporal.storage.event_log.cursors import RecordedCursor
from rxtemporal.storage.event_log.log import StreamLog

# of so many accepted rows of an input one is compared with the wall clock, and of each list one
CLOCK_ROWS = 16
_READING = StreamState.READING


class Numbered(NamedTuple):
    """Items of a push, each with its place in the push and its sequence number."""

    items: Sequence[RowEvent | Cti] | EventBatch
    places: Sequence[int] | Int64s
    seq: Sequence[int] | Int64s | None


class _PushCount:
    """Verdict on a push that is being made."""

    __slots__ = ("accepted", "duplicates", "late", "rejected", "unsure")

    def __init__(self, rejected: Sequence[Rejected]) -> None:
        self.accepted = self.duplicates = self.unsure = 0
        self.late: list[LateEvent] = []
        self.rejected = list(rejected)


class HeldRows:
    """Entry of one stream into the query that holds its rows until they are durable.

    No result leaves the query before its events are durable. If the rows went on at once, each push
    would wait for the disk under the stream's lock, and nobody could share its write. So whoever
    pushes calls ``hold``, has the rows judged, calls ``cut``, leaves the lock, flushes the log, and
    then calls ``release``, which passes on what is durable. A batch that is due while nobody
    pushes, because time advanced from outside, is made durable and passed on at once.

    Callers hold the stream's lock.
    """

    def __init__(self, entry: BatchObserver, packer: Packer, log: StreamLog) -> None:
        self._entry = entry
        self._packer = packer
        self._log = log
        self._least = packer.least
        self._is_judging = False
        # each with the number of records that have to be durable before
        self._batches: list[tuple[int, EventBatch]] = []

    def hold(self) -> None:
        """Hold the rows that are judged next."""
        self._is_judging = True
        self._packer.set_bounds(max(self._least, BUSY_ROWS))

    def cut(self) -> None:
        """Make a batch of the rows that wait for a CTI, if it has come."""
        self._is_judging = False
        packer = self._packer
        packer.set_bounds(self._least)
        if packer.has_news and (batch := packer.due()) is not None:
            self._batches.append((self._log.noted, batch))

    def release(self) -> None:
        """Pass on the rows that are durable."""
        durable, batches = self._log.durable, self._batches
        count = sum(number <= durable for number, _ in batches)
        if count:
            self._batches = batches[count:]
            try:
                self._entry.on_next(EventBatch.concat([batch for _, batch in batches[:count]]))
            except BaseException as error:
                # the batch is lost, so the run ends; the log still has the rows
                self._entry.on_error(error)  # type: ignore[arg-type]
                raise

    def drain(self) -> None:
        """Make all rows durable, and pass them on."""
        self.cut()
        self._flush()

    def _flush(self) -> None:
        try:
            self._log.flush()
        except Exception as error:
            self._entry.on_error(error)
        self.release()

    def on_next(self, batch: EventBatch) -> None:
        """Hold a batch; pass it on at once unless ``release`` will be called."""
        self._batches.append((self._log.noted, batch))
        if not self._is_judging:
            self._flush()

    def on_error(self, error: Exception) -> None:
        """Fail the stream, after the rows that were accepted before."""
        self._flush()
        self._entry.on_error(error)

    def on_completed(self) -> None:
        """End the stream, after its rows."""
        self._flush()
        self._entry.on_completed()


class PushEntry(Reader):
    """Entry of a source into a run, for those who push: each push gets a verdict.

    ``judge_one`` and ``judge`` accept rows under the stream's lock, after waiting for room in a
    hand-off, and return the verdict; ``judge_each`` does so for rows of several pushes under one
    lock. ``settle`` then makes durable what has been accepted. All raise ``ProcessEndedError`` if
    no run takes the rows.

    Threads: any.
    """

    __slots__ = (
        "_bound",
        "_by_device",
        "_held",
        "_in_time",
        "_is_free",
        "_needs_events",
        "_told",
        "forks",
        "inputs",
        "is_logged",
    )

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        # the inputs there have been, by name
        self.inputs = PushedInputs()
        self.forks = FORKS.count
        self.is_logged = False
        # None without a bound
        self._bound: BoundedQueue | None = None
        # holds rows that are not durable yet, in a run with a log and without hand-offs
        self._held: HeldRows | None = None
        # True if a row of an open stream neither waits for room nor ends a silence, nor is held
        self._is_free = False
        # True if each point has to be an event: it is stamped, noted, or given to its device
        self._needs_events = True
        # the verdict on one row in time, and the CTI that it tells
        self._in_time, self._told = Verdict(1), NO_CTI
        self._by_device = self.door.by_device

    def log(self, log: StreamLog, records: int) -> None:
        """Note all judged items in a log from now on; rows are held until they are durable."""
        super().log(log, records)
        self.is_logged = True
        if self.queue is None:
            self._entry = self._held = HeldRows(self._entry, self.door, log)
            self.holds_rows = True

    def list_inputs(self) -> Mapping[str, SourceStats]:
        """Return the counters of the inputs of this run, also when the source is in another one."""
        source: Any = self.source
        found: Mapping[str, SourceStats] = source.inputs(self)
        return found

    def count_refused(self) -> int:
        """Return the number of rows that are in no log: rejected ones and duplicates."""
        return sum(each.rejected + each.duplicates for each in list(self.inputs.values()))

    def drain(self) -> None:
        """Make all rows that are held durable, and pass them on."""
        if self._held is not None:
            self._held.drain()

    def connect(self) -> abc.DisposableBase:
        """Let the source push."""
        queue, self.forks = self.queue, FORKS.count
        if queue is not None and queue.settings is not None:
            self._bound = queue
            queue.connect(self.door, self.abort)
        self._is_free = self._bound is None and self.source.lively is None and self._held is None
        self._needs_events = self.is_recorded or self._by_device or self.arrivals is not None
        return super().connect()

    @property
    def accepts(self) -> bool:
        """True while the run takes rows."""
        return self.run_end.accepts and not self.ended

    @property
    def times(self) -> StreamTime:
        """The form of the times of the stream, and of those that it meets."""
        return self.door.times

    @property
    def open_rows(self) -> list[tuple[str, EdgeEvent]]:
        """The input and the start edge of each open row."""
        return [(each.owner or OWN, each.edge) for each in self.door.open_rows]

    @property
    def cti(self) -> Time | None:
        """The stream's CTI, in the form of the source's times; None before the first."""
        return self.door.times.show_cti(self.door.cti)

    def refuse(self) -> ProcessEndedError:
        """Return the error for those who push when the run takes nothing more."""
        return self.run_end.refuse(self.name, completed=self.ended)

    def refuse_fork(self) -> None:
        """Raise in a process that was forked from the run's; take no lock, which may be held."""
        if FORKS.count != self.forks:
            raise ProcessEndedError(FORKED)

    def has_room(self, rows: int, waiting: int = 0) -> bool:
        """Return True if so many rows fit behind ``waiting`` others without waiting for room."""
        queue = self._bound
        if queue is None or queue.settings is None or queue.spills:
            return True
        if not waiting and queue.has_room(rows):
            return rows <= queue.settings.max_rows
        return queue.rows + waiting + rows <= queue.settings.max_rows

    # Judging --------------------------------------------------------------------------------------

    def judge_one(
        self, item: RowEvent | Cti | PlainRow, name: str, seq: int | None, compares: bool = False
    ) -> Verdict:
        """Accept one event or point of an input, unless its number has come before.

        With ``compares`` its time is compared with the wall clock in any case, as that of a list
        is; otherwise that of one row in ``CLOCK_ROWS``.
        """
        run_end = self.run_end
        # a lock is entered in C: Ctrl-C cannot come between the lock and the block
        with self.lock:
            if not self._is_free or self.state is not _READING or not run_end.accepts:
                self._begin(1)
            verdict = self._judge_one(item, self.inputs[name], seq, compares)
            if self._log is not None:
                self._log.note_gathered()  # of a callback inside of judge_each
            if run_end.ended:
                self._check_taken()
        if not run_end.accepts:
            self._check_failed()
        return verdict

    def judge_each(self, rows: Iterable[tuple[PlainRow, str, bool]]) -> list[Verdict]:
        """Accept points without numbers; return their verdicts.

        Each row has the name of its input, and True if its time is compared with the wall clock.
        Verdicts are as many as the run accepts. There are none behind a hand-off with a bound,
        where each row waits for room.
        """
        if self._bound is not None:
            return []
        verdicts: list[Verdict] = []
        with self.lock:
            self._begin(0)
            try:
                with nullcontext() if self._log is None else self._log.gather():
                    for point, name, compares in rows:
                        verdicts.append(self._judge_one(point, self.inputs[name], None, compares))
                        if not self.accepts:
                            break
            except ProcessEndedError:
                raise
            except BaseException as error:
                self._fail(error)
            self._check_taken()
        self._check_failed()
        return verdicts

    def _tell_late(self, event: RowEvent | Cti, late: Lateness, found: Seen) -> Verdict:
        told = LateEvent(event, self.name, *late)  # type: ignore[arg-type]
        return Verdict(late=(told,), cti=self.cti, unsure=int(found is UNSURE))

    def _judge_one(
        self,
        item: RowEvent | Cti | PlainRow,
        of: PushedInput,
        seq: int | None,
        compares: bool = False,
    ) -> Verdict:
        """Accept one event or point, and let other streams follow; the caller holds the lock."""
        # this runs once for each row that is pushed
        row: Any = item
        is_row, guard = True, self.guard
        if type(row) is tuple:
            time = row[0]
            if self._needs_events or (guard is not None and time > guard.limit):
                row = self.door.make_event(row)
        if type(row) is not tuple:
            if self.arrivals is not None:
                row = self.arrivals.stamp(row)
            is_row, time = type(row) is not Cti, get_judged_time(row)
        if compares or not of.accepted % CLOCK_ROWS:
            self._compare(time, of)
        ahead, found = False, NEW
        if guard is not None and time > guard.limit and guard.is_ahead(row):
            ahead = True
            self._compare(row.start, of)
            if self.source.refuses_ahead and is_row:
                return Verdict(rejected=(self._reject(0, row, of),), cti=self.cti)
        if seq is not None and is_row:
            found = of.judge_number(seq, row, ahead=ahead)
            if not found:
                return Verdict(duplicates=1, cti=self.cti)
        try:
            late = self.take(row, time, of, seq if is_row else None, ahead)
        except BaseException as error:
            self._fail(error)
        if self.flow.active:
            self.flow.follow(self)
        if late is not None:
            return self._tell_late(self.door.make_event(row), late, found)
        if not is_row:
            return Verdict(cti=self._find_cti(row.device, ahead))
        cti = self.door.cti
        if cti != self._told:
            self._told, self._in_time = cti, make_accepted(self.door.times.show_cti(cti))
        return self._in_time if found is NEW else dataclasses.replace(self._in_time, unsure=1)

    def _find_cti(self, device: Any, ahead: bool) -> Time | None:
        """Return the CTI after one that was pushed: of its device, unless it does not count."""
        if device is None or ahead:
            return self.cti
        door = self.door
        return door.times.show_cti(door.clocks.find_cti_of(device))

    def judge(self, rows: ReadRows, name: str) -> Verdict:
        """Accept rows of an input, except those whose numbers have come before."""
        of = None
        count = _PushCount(rows.rejected)
        for part in self._parts(rows):
            with self.lock:
                self._begin(len(part.items))
                if of is None:
                    of = self.inputs[name]
                    of.count_rejected(len(rows.rejected))
                    self.note_form(rows.time)
                if isinstance(part.items, EventBatch):
                    self._judge_rows(part.items, part, of, count)
                    self.let_others_follow()
                else:
                    self._judge_events(part.items, part, of, count)
                if self._log is not None:
                    self._log.note_gathered()
                cti = self.cti
                self._check_taken()
            self._check_failed()
        rejected = sorted(count.rejected, key=lambda each: each.index)
        late = tuple(count.late)
        return Verdict(count.accepted, count.duplicates, late, tuple(rejected), cti, count.unsure)

    def _parts(self, rows: ReadRows) -> Iterator[Numbered]:
        """Yield the rows in parts that fit into the hand-off; batches with edges as events."""
        items = rows.items
        if not isinstance(items, EventBatch):
            yield from self._split(Numbered(items, rows.index, rows.seq))
            return
        cti, time = items.cti, self.door.time or rows.time or "ticks"
        with_edges = list_events(items, time) if items.edge.any() else items
        yield from self._split(Numbered(with_edges, rows.index, rows.seq))
        if cti > MIN_TIME:
            yield Numbered([Cti(to_datetime(cti) if time == "datetime" else cti)], [0], None)

    def _split(self, rows: Numbered) -> Iterator[Numbered]:
        items, places, seq = rows
        count = len(items)
        settings = None if self._bound is None else self._bound.settings
        most = count if settings is None else settings.max_rows
        if count <= most:
            yield rows
            return
        for begin in range(0, count, most):
            end = min(begin + most, count)
            part = items.slice(begin, end) if isinstance(items, EventBatch) else items[begin:end]
            yield Numbered(part, places[begin:end], None if seq is None else seq[begin:end])

    def _judge_events(
        self, items: Sequence[RowEvent | Cti], part: Numbered, of: PushedInput, count: _PushCount
    ) -> None:
        """Accept events one by one."""
        if items:
            self._compare(max(map(get_judged_time, items)), of)
        for number, event in enumerate(items):
            self._check_taken()
            seq = NO_SEQ if part.seq is None else int(part.seq[number])
            verdict = self._judge_one(event, of, None if seq == NO_SEQ else seq)
            count.accepted += verdict.accepted
            count.duplicates += verdict.duplicates
            count.unsure += verdict.unsure
            place = int(part.places[number])
            for late in verdict.late:
                count.late.append(dataclasses.replace(late, index=place))
            for each in verdict.rejected:
                count.rejected.append(Rejected(place, each.reason, each.row))

    def _judge_rows(
        self, batch: EventBatch, part: Numbered, of: PushedInput, count: _PushCount
    ) -> None:
        """Accept complete rows as columns."""
        if not len(batch):
            return
        if self.arrivals is not None:
            batch = self.arrivals.stamp(batch)
        self._compare(int(batch.start.max()), of)
        rows = _PushedRows.of_part(batch, part)
        ahead = None if self.guard is None else self.guard.rows_ahead(batch.start)
        if ahead is not None and self.source.refuses_ahead:
            for event, place in rows.select(ahead).list_events(self.door.time):
                count.rejected.append(self._reject(place, event, of))
            rows, ahead = rows.select(~ahead), None
        if rows.seq is not None and len(rows.seq):
            found = of.judge_numbers(rows.seq, rows.batch.start, ahead)
            fresh = found != REPEAT
            count.duplicates += len(fresh) - int(fresh.sum())
            count.unsure += int((found == UNSURE).sum())
            rows, ahead = rows.select(fresh), None if ahead is None else ahead[fresh]
        if not len(rows.batch):
            return
        try:
            verdicts = self.take_rows(rows.batch, of, rows.seq, ahead)
        except BaseException as error:
            self._fail(error)
        count.accepted += len(rows.batch) - len(verdicts.late)
        if (late := verdicts.late_rows(rows.batch)) is not None:
            time, places = self.door.time or "ticks", rows.places[verdicts.late].tolist()
            count.late += late.list_events(self.name, time, places=places)

    def take(
        self,
        item: RowEvent | Cti | PlainRow,
        time: int,
        of: PushedInput,
        seq: int | None,
        ahead: bool,
    ) -> Lateness | None:
        """Accept an event or a point of an input; return how late it is, None if it is in time.

        ``time`` is its start, of an end edge its end. The caller has seen that its number is new.
        Raises the error of an event that the stream cannot have.
        """
        # this runs once for each row that is pushed
        door, kind, batch = self.door, type(item), None
        if ahead:
            of.count_ahead(1)
            behind = 0
        else:
            if of.reached < time < MAX_TIME:  # no input has reached the end of time
                of.reached = time
            by_device = self._by_device and kind is not Cti
            behind = door.measure_behind(item, time) if by_device else door.high - time  # type: ignore[arg-type]
        if kind is tuple and door.keep_row(time, item):  # type: ignore[arg-type]
            self.sender = of.sender
        else:
            batch = self._judge_item(door.make_event(item), of, seq, ahead)
        fate: Lateness | None = None
        if door.unreported:
            late: Any = door.unreported[-1]
            fate = late[1]
            self.give(batch)
        elif batch is not None:
            self.give(batch)
        if kind is Cti:
            return None
        if fate is None:
            of.accepted += 1
        else:
            of.late[fate.reason] += 1
        if behind > of.largest_lateness:
            of.largest_lateness = behind
        return fate

    def give(self, batch: EventBatch | None) -> None:
        """Push a batch into the query, once all its rows are noted."""
        if self._log is not None:
            self._log.note_gathered()
        super().give(batch)

    def _judge_item(
        self, event: Any, of: PushedInput, seq: int | None, ahead: bool
    ) -> EventBatch | None:
        # a log tells the input and the number of an item; an edge is closed by its own input alone
        if ahead or self.is_recorded or type(event) is EdgeEvent:
            is_plain = not ahead and of.sender is None and seq is None
            return self._judge_event(event if is_plain else Sent(event, of.sender, seq, ahead))
        self.sender = of.sender
        return self.door.take(event)

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
        if self.recording is not None:
            self.recording.note_batch(noted)
        batch = sent.batch
        verdicts = door.judge_columns(batch, ahead=sent.ahead)
        accepted = door.take_verdicts(batch, verdicts)
        if self._log is not None:
            self._log.note_batch(noted)
        self.give(accepted)
        of.count_rows(rows, verdicts, ahead)
        return verdicts

    def _compare(self, time: int, of: PushedInput) -> None:
        """Compare a time of an input with the wall clock.

        The end of time shows nothing of the input's clock, nor does a row that is stamped here.
        """
        if time < MAX_TIME and self.arrivals is None:
            of.offset.note(time, self.clock.now())

    def _reject(self, place: int, event: RowEvent, of: PushedInput) -> Rejected:
        assert self.guard is not None
        of.count_ahead(1)
        of.count_rejected(1)
        most = describe_span(self.guard.ahead)
        return Rejected(place, f"it starts more than {most} ahead of the wall clock", event)

    def advance(self, cti: int, device: Any) -> None:
        """Advance the stream, or a device, to a time in ticks; see ``PushSource.advance``."""
        with self.lock:
            self._begin(0)
            try:
                if self.advance_to(cti, device):
                    self.let_others_follow()
            except BaseException as error:
                self._fail(error)
            self._check_taken()
        self._check_failed()

    # The run --------------------------------------------------------------------------------------

    def _begin(self, rows: int) -> None:
        """Wait for room, raise if the run takes nothing more, and end the source's silence."""
        if self._bound is not None:
            self._bound.wait_for_room(rows)
        if not self.accepts:
            raise self.refuse()
        self.note_activity()
        if self._held is not None:
            self._held.hold()

    def _fail(self, error: BaseException) -> NoReturn:
        """End the run with an error of the stream; raise the error for those who push.

        Its cause is that of the run, which may have ended with another error meanwhile.
        """
        if not self.ended:
            self.fail(error)
        if not isinstance(error, Exception):
            raise error  # Ctrl-C is for the thread that pushes
        raise self.refuse()

    def _check_taken(self) -> None:
        """Raise if the run has ended and has no log: its rows are lost.

        Called with the lock held: once it is left, ``stop()`` delivers what has been accepted.
        """
        if self.run_end.ended and self._log is None:
            raise self.refuse()

    def _check_failed(self) -> None:
        """Raise if the run has failed meanwhile, unless its log has the rows."""
        if self.run_end.error is not None and self._log is None:
            raise self.refuse()

    def settle(self) -> None:
        """Wait until all accepted rows are durable, if the run has a log, and pass them on."""
        log = self._log
        if log is None:
            return
        try:
            if self._held is not None:
                with self.lock:
                    self._held.cut()
            log.flush()
        except Exception as error:
            self.abort(error)
            # the log may be closed because the run has failed elsewhere: that is the cause
            raise self.refuse() from self.run_end.error or error
        # from here on the rows are in the log, whatever happens
        try:
            if self._held is not None:
                with self.lock:
                    self._held.release()
            self.on_safe()
        except Exception as error:
            self.abort(error)

    def end(self) -> None:
        """End the source for good."""
        with self.lock:
            if self.accepts:
                self.complete(finishes=True)
        self.settle()

    # Replay and state -----------------------------------------------------------------------------

    def replay(self, cursor: RecordedCursor, records: int) -> None:
        """Read ``records`` of earlier runs; see ``Reader``."""
        self.door.note_form(cursor.time)
        super().replay(cursor, records)

    def accept_all(self, items: Sequence[Any]) -> None:
        """Accept records of a log again, each with its input and number."""
        for item in items:
            if not self.ended:
                self.replay_pushed(item)

    def replay_pushed(self, item: Any) -> None:
        """Accept an item of a log again; its error ends the stream."""
        if isinstance(item, OutsideCti | Silence):
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
        self.take(sent.event, get_judged_time(sent.event), of, sent.seq, sent.ahead)

    def _replay_rows(self, sent: SentRows) -> None:
        of, batch = self.inputs[sent.input or OWN], sent.batch
        if not len(batch):
            return
        if sent.seq is not None:
            of.judge_numbers(np.asarray(sent.seq, np.int64), batch.start, sent.ahead)
        self.take_rows(batch.replace(cti=MIN_TIME), of, sent.seq, sent.ahead)

    def note_form(self, form: TimeForm | None) -> None:
        """Note the form of the times of rows that come as columns, unless it is known."""
        self.door.note_form(form)
        for log in (self.recording, self._log):
            if log is not None:
                log.facts.note_form(form)

    def save(self) -> dict[str, Any]:
        """Return the state, to be captured, that of the inputs included."""
        return super().save() | {"inputs": self.inputs.save()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Resume from the result of ``save``."""
        super().load(state)
        self.inputs.load(state["inputs"])


class _PushedRows(NamedTuple):
    """Complete rows of a push as columns, with their places in it and their numbers."""

    batch: EventBatch
    places: Int64s
    seq: Int64s | None

    @classmethod
    def of_part(cls, batch: EventBatch, part: Numbered) -> _PushedRows:
        seq = None if part.seq is None else np.asarray(part.seq, np.int64)
        return cls(batch.replace(cti=MIN_TIME), np.asarray(part.places, np.int64), seq)

    def select(self, mask: Bools) -> _PushedRows:
        if mask.all():
            return self
        seq = None if self.seq is None else self.seq[mask]
        return _PushedRows(self.batch.take(mask), self.places[mask], seq)

    def list_events(self, time: TimeForm | None) -> Iterator[tuple[RowEvent, int]]:
        return zip(list_events(self.batch, time or "ticks"), self.places.tolist(), strict=True)
