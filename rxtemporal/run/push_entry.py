"""Entry of pushes into a run: each gets a verdict, and is durable afterwards.

How a pushed row becomes durable in a run with an event log:

1. ``RowReader`` holds the row to the schema, outside all locks. A misfit is rejected, and not
   logged.
2. ``judge_one`` or ``judge`` takes the stream's lock. ``_begin`` waits for room in the hand-off,
   which releases the lock meanwhile, and raises if the run has ended.
3. The clock guard and the sequence numbers are asked. A rejected row and a duplicate are not
   logged.
4. The door judges the row, late or not, and then the tape notes it in memory. ``HeldRows`` holds a
   batch that is due; with a hand-off, the batch enters the queue.
5. ``settle`` leaves the lock and calls ``Log.flush``. One thread writes all noted records as one
   transaction, whose commit syncs; ``RunStore.append`` then counts them in the file beside it,
   without a sync.
6. ``HeldRows.release`` gives the durable batches to the query. With a hand-off the query may have
   computed already; ``Process`` flushes the log before it writes to a sink.
7. ``on_safe`` begins a checkpoint if one is due. Its ``cut`` says which records it covers; their
   entries are deleted once it is valid.
8. The source publishes late and rejected rows, and ``push`` returns the verdict.

An error before the commit ends the run, and the push raises ``ProcessEndedError``. After a crash
behind the commit the row is in the log without a verdict: a second push with its sequence number
is a duplicate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s, TimeForm
from rxtemporal.core.events import Cti, EdgeEvent, PointEvent, RowEvent
from rxtemporal.core.forks import FORKED, FORKS
from rxtemporal.core.spans import describe_span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.errors import ProcessEndedError
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, Lateness
from rxtemporal.ingress.pushed_inputs import (
    NEW,
    OWN,
    REPEAT,
    UNSURE,
    PushedInput,
    PushedInputs,
    Seen,
)
from rxtemporal.ingress.rejected import ReadRows, Rejected
from rxtemporal.ingress.row_columns import NO_SEQ
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.ingress.verdict import Verdict, make_accepted
from rxtemporal.run.input_stream import StreamState
from rxtemporal.run.pushed_stream import find_time
from rxtemporal.run.reader import Reader

# of so many rows of an input that come one by one, one is compared with the wall clock
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


class PushEntry:
    """Entry of one source into a run, for those who push.

    ``judge_one`` and ``judge`` accept rows under the stream's lock, after waiting for room in a
    hand-off, and return the verdict; ``judge_each`` does so for rows of several pushes under one
    lock. ``settle`` then makes durable what has been accepted. All raise ``ProcessEndedError`` if
    no run takes the rows.

    Threads: any.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._door, self._run_end = reader.door, reader.run_end
        self.forks = FORKS.count
        queue = reader.queue
        # None without a bound
        self._queue = queue if queue is not None and queue.settings is not None else None
        if self._queue is not None:
            self._queue.connect(reader, reader.door)
        self._guard = reader.guard
        self._refuses_ahead = reader.source.refuses_ahead
        self.is_logged = reader.event_log is not None
        # True if a row of an open stream neither waits for room nor ends a silence, nor is held
        self._is_free = self._queue is None and reader.source.lively is None and reader.held is None
        # the verdict on one row in time, and the CTI that it tells
        self._in_time, self._told = Verdict(1), NO_CTI

    @property
    def accepts(self) -> bool:
        """True while the run takes rows."""
        return self._reader.run_end.accepts and not self._reader.ended

    @property
    def times(self) -> StreamTime:
        """The form of the times of the stream, and of those that it meets."""
        return self._door.times

    @property
    def inputs(self) -> PushedInputs:
        """The inputs there have been, by name."""
        return self._reader.inputs

    @property
    def open_rows(self) -> list[tuple[str, EdgeEvent]]:
        """The input and the start edge of each open row."""
        return [(each.owner or OWN, each.edge) for each in self._reader.door.open_rows]

    @property
    def cti(self) -> Time | None:
        """The stream's CTI, in the form of the source's times; None before the first."""
        cti = self._door.cti
        if cti <= MIN_TIME:
            return None
        return to_datetime(cti) if self._door.time == "datetime" else cti

    def refuse(self) -> ProcessEndedError:
        """Return the error for those who push when the run takes nothing more."""
        reader = self._reader
        return reader.run_end.refuse(reader.name, completed=reader.ended)

    def refuse_fork(self) -> None:
        """Raise in a process that was forked from the run's; take no lock, which may be held."""
        if FORKS.count != self.forks:
            raise ProcessEndedError(FORKED)

    def has_room(self, rows: int, waiting: int = 0) -> bool:
        """Return True if so many rows fit behind ``waiting`` others without waiting for room."""
        queue = self._queue
        if queue is None or queue.settings is None or queue.spills:
            return True
        if not waiting and queue.has_room(rows):
            return rows <= queue.settings.max_rows
        return queue.rows + waiting + rows <= queue.settings.max_rows

    # Judging --------------------------------------------------------------------------------------

    def judge_one(self, event: RowEvent | Cti, name: str, seq: int | None) -> Verdict:
        """Accept one event of an input, unless its number has come before."""
        reader, run_end = self._reader, self._run_end
        with reader.lock:
            if not self._is_free or reader.state is not _READING or not run_end.accepts:
                self._begin(1)
            verdict = self._judge_one(event, reader.inputs[name], seq)
            if run_end.ended:
                self._check_taken()
        if not run_end.accepts:
            self._check_failed()
        return verdict

    def judge_each(self, rows: Iterable[tuple[PointEvent, str]]) -> list[Verdict]:
        """Accept rows without numbers, each with the name of its input; return their verdicts.

        They are as many as the run accepts. There are none behind a hand-off with a bound, where
        each row waits for room.
        """
        if self._queue is not None:
            return []
        verdicts: list[Verdict] = []
        with self._reader.lock:
            self._begin(0)
            for event, name in rows:
                verdicts.append(self._judge_one(event, self._reader.inputs[name], None))
                if not self.accepts:
                    break
            self._check_taken()
        self._check_failed()
        return verdicts

    def _tell_in_time(self, found: Seen) -> Verdict:
        """Return the verdict on a row in time that has just been accepted."""
        if (cti := self._door.cti) != self._told:
            self._told, self._in_time = cti, make_accepted(self.cti)
        if found is NEW:
            return self._in_time
        return dataclasses.replace(self._in_time, unsure=1)

    def _tell_late(self, event: RowEvent | Cti, late: Lateness, found: Seen) -> Verdict:
        told = LateEvent(event, self._reader.name, *late)  # type: ignore[arg-type]
        return Verdict(late=(told,), cti=self.cti, unsure=int(found is UNSURE))

    def _judge_one(self, event: RowEvent | Cti, of: PushedInput, seq: int | None) -> Verdict:
        """Accept one event, and let other streams follow; the caller holds the lock."""
        # this runs once for each row that is pushed
        if not of.accepted % CLOCK_ROWS:
            self._compare(find_time(event), of)
        ahead, found = False, NEW
        is_row = type(event) is not Cti
        if self._guard is not None and self._guard.is_ahead(event):
            ahead = True
            self._compare(event.start, of)
            if self._refuses_ahead and is_row:
                return Verdict(rejected=(self._reject(0, event, of),), cti=self.cti)  # type: ignore[arg-type]
        if seq is not None and is_row:
            found = of.judge_number(seq, event, ahead=ahead)  # type: ignore[arg-type]
            if not found:
                return Verdict(duplicates=1, cti=self.cti)
        try:
            late = self._reader.take(event, of, seq if is_row else None, ahead)
        except BaseException as error:
            raise self._fail(error) from error
        self._reader.let_others_follow()
        if late is not None:
            return self._tell_late(event, late, found)
        return self._tell_in_time(found) if is_row else Verdict(cti=self.cti)

    def judge(self, rows: ReadRows, name: str) -> Verdict:
        """Accept rows of an input, but those whose numbers have come before."""
        reader, of = self._reader, None
        count = _PushCount(rows.rejected)
        for part in self._parts(rows):
            with reader.lock:
                self._begin(len(part.items))
                if of is None:
                    of = self._reader.inputs[name]
                    of.rejected += len(rows.rejected)
                    reader.note_time(rows.time)
                if isinstance(part.items, EventBatch):
                    self._judge_rows(part.items, part, of, count)
                    reader.let_others_follow()
                else:
                    self._judge_events(part.items, part, of, count)
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
        cti, time = items.cti, self._reader.door.time or rows.time or "ticks"
        with_edges = list_events(items, time) if items.edge.any() else items
        yield from self._split(Numbered(with_edges, rows.index, rows.seq))
        if cti > MIN_TIME:
            yield Numbered([Cti(to_datetime(cti) if time == "datetime" else cti)], [0], None)

    def _split(self, rows: Numbered) -> Iterator[Numbered]:
        items, places, seq = rows
        count = len(items)
        settings = None if self._queue is None else self._queue.settings
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
            self._compare(max(map(find_time, items)), of)
        for number, event in enumerate(items):
            self._check_taken()
            seq = NO_SEQ if part.seq is None else int(part.seq[number])
            verdict = self._judge_one(event, of, None if seq == NO_SEQ else seq)
            count.accepted += verdict.accepted
            count.duplicates += verdict.duplicates
            count.unsure += verdict.unsure
            place = int(part.places[number])
            for late in verdict.late:
                count.late.append(_with_index(late, place))
            for each in verdict.rejected:
                count.rejected.append(Rejected(place, each.reason, each.row))

    def _judge_rows(
        self, batch: EventBatch, part: Numbered, of: PushedInput, count: _PushCount
    ) -> None:
        """Accept complete rows as columns."""
        if not len(batch):
            return
        self._compare(int(batch.start.max()), of)
        rows = _PushedRows.of_part(batch, part)
        ahead = None if self._guard is None else self._guard.rows_ahead(batch.start)
        if ahead is not None and self._refuses_ahead:
            for event, place in rows.select(ahead).list_events(self._reader.door.time):
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
            verdicts = self._reader.take_rows(rows.batch, of, rows.seq, ahead)
        except BaseException as error:
            raise self._fail(error) from error
        count.accepted += len(rows.batch) - len(verdicts.late)
        if (late := verdicts.late_rows(rows.batch)) is not None:
            time, places = self._reader.door.time or "ticks", rows.places[verdicts.late].tolist()
            count.late += late.list_events(self._reader.name, time, places=places)

    def _compare(self, time: int, of: PushedInput) -> None:
        """Compare a time of an input with the wall clock; the end of time shows nothing of it."""
        if time < MAX_TIME:
            of.offset.note(time, self._reader.clock.now())

    def _reject(self, place: int, event: RowEvent, of: PushedInput) -> Rejected:
        assert self._guard is not None
        of.ahead += 1
        of.rejected += 1
        most = describe_span(self._guard.ahead)
        return Rejected(place, f"it starts more than {most} ahead of the wall clock", event)

    # The run --------------------------------------------------------------------------------------

    def _begin(self, rows: int) -> None:
        """Wait for room, raise if the run takes nothing more, and end the source's silence."""
        if self._queue is not None:
            self._queue.wait_for_room(rows)
        if not self.accepts:
            raise self.refuse()
        self._reader.note_activity()
        if self._reader.held is not None:
            self._reader.held.hold()

    def _fail(self, error: BaseException) -> ProcessEndedError:
        """End the run with an error of the stream; return the error for those who push."""
        if not self._reader.ended:
            self._reader.fail(error)
        if not isinstance(error, Exception):
            raise error  # Ctrl-C is for the thread that pushes
        return self.refuse()

    def fail(self, error: BaseException) -> None:
        """End the run: what pushes cannot go on."""
        self._reader.fail_unlogged(error)

    def _check_taken(self) -> None:
        """Raise if the rows are in nobody's hands, inside the lock: stop() delivers what is taken.

        A run that has ended under the lock was stopped from inside, or did not wait any longer.
        """
        if self._reader.run_end.ended and not self.is_logged:
            raise self.refuse()

    def _check_failed(self) -> None:
        """Raise if the run has failed meanwhile, unless its log has the rows."""
        if self._reader.run_end.error is not None and not self.is_logged:
            raise self.refuse()

    def settle(self) -> None:
        """Wait until all accepted rows are durable, if the run has a log, and give them on."""
        reader, tape = self._reader, self._reader.event_log
        if tape is None:
            return
        try:
            if reader.held is not None:
                with reader.lock:
                    reader.held.cut()
            tape.flush()
        except Exception as error:
            reader.fail_unlogged(error)
            raise self.refuse() from error
        # from here on the rows are in the log, whatever happens
        try:
            if reader.held is not None:
                with reader.lock:
                    reader.held.release()
            reader.on_safe()
        except Exception as error:
            reader.fail_unlogged(error)

    def complete(self) -> None:
        """End the source for good."""
        reader = self._reader
        with reader.lock:
            if self.accepts:
                reader.complete(finishes=True)
        self.settle()


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


def _with_index(late: LateEvent, index: int) -> LateEvent:
    return LateEvent(late.event, late.source, late.reason, late.cti, late.by, index)
