"""Entry of pushes into a run: each gets a verdict, and is durable afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import Cti, EdgeEvent, RowEvent
from rxtemporal.core.ticks import MIN_TIME, Time, add, match_form, to_datetime
from rxtemporal.errors import ProcessEndedError
from rxtemporal.ingress.batch_verdicts import REASONS, Verdicts
from rxtemporal.ingress.lateness import LateEvent, Lateness
from rxtemporal.ingress.pushed_inputs import PushedInput
from rxtemporal.ingress.rejected import ReadRows
from rxtemporal.ingress.unpacker import list_events
from rxtemporal.ingress.verdict import Verdict
from rxtemporal.runtime.reader import Reader


class Numbered(NamedTuple):
    """Items of a push, each with its place in the push and its sequence number."""

    items: Sequence[RowEvent | Cti] | EventBatch
    places: Sequence[int]
    seq: Sequence[int] | Int64s | None


class PushEntry:
    """Entry of one source into a run, for those who push.

    ``judge_one`` and ``judge`` accept rows under the stream's lock, after waiting for room in a
    hand-off, and return the verdict; ``settle`` then makes durable what has been accepted. All
    raise ``ProcessEndedError`` if no run takes the rows.

    Threads: any.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        queue = reader.queue
        # None without a bound
        self._queue = queue if queue is not None and queue.settings is not None else None
        if self._queue is not None:
            self._queue.connect(reader, reader.packer)
        self._delay = reader.door.due.delay

    @property
    def accepts(self) -> bool:
        """True while the run takes rows."""
        return self._reader.run_end.accepts and not self._reader.ended

    def refuse(self) -> ProcessEndedError:
        """Return the error for those who push when the run takes nothing more."""
        reader = self._reader
        return reader.run_end.refuse(reader.name, completed=reader.ended)

    def judge_one(self, event: RowEvent | Cti, name: str, seq: int | None) -> Verdict:
        """Accept one event of an input, unless its number has come before."""
        reader = self._reader
        with reader.lock:
            self._begin(1)
            of = reader.inputs[name]
            verdict = self._judge_one(event, of, seq)
            self._follow()
        self._check_taken()
        return verdict

    def _judge_one(self, event: RowEvent | Cti, of: PushedInput, seq: int | None) -> Verdict:
        if isinstance(event, Cti):
            self._take_cti(event, of)
            return Verdict(cti=self._cti())
        if seq is not None and not of.seen.add(seq):
            of.duplicates += 1
            return Verdict(duplicates=1, cti=self._cti())
        late = self._take(event, of)
        if late is None:
            of.accepted += 1
            return Verdict(1, cti=self._cti())
        return Verdict(late=(self._late_event(event, late, 0, of),), cti=self._cti())

    def judge(self, rows: ReadRows, name: str) -> Verdict:
        """Accept rows of an input, but those whose numbers have come before."""
        reader, of = self._reader, None
        accepted = duplicates = 0
        late: list[LateEvent] = []
        for part in self._parts(rows):
            with reader.lock:
                self._begin(len(part.items))
                if of is None:
                    of = reader.inputs[name]
                    of.rejected += len(rows.rejected)
                    reader.packer.note_time(rows.time)
                before = len(late)
                came, fresh = self._judge_part(part, of, late)
                in_time = fresh - (len(late) - before)
                of.accepted, accepted = of.accepted + in_time, accepted + in_time
                of.duplicates, duplicates = of.duplicates + came - fresh, duplicates + came - fresh
                self._follow()
                cti = self._cti()
            self._check_taken()
        return Verdict(accepted, duplicates, tuple(late), rows.rejected, cti)

    def _judge_part(
        self, part: Numbered, of: PushedInput, late: list[LateEvent]
    ) -> tuple[int, int]:
        if not len(part.items):
            return 0, 0
        if isinstance(part.items, EventBatch):
            return self._judge_rows(part, of, late)
        return self._judge_events(part, of, late)

    # Rows -----------------------------------------------------------------------------------------

    def _parts(self, rows: ReadRows) -> Iterator[Numbered]:
        """Yield the rows in parts that fit into the hand-off; batches with edges as events."""
        items, seq = rows.items, rows.seq
        if isinstance(items, EventBatch):
            cti, time = items.cti, self._reader.packer.time or rows.time or "ticks"
            with_edges = list_events(items, time) if items.edge.any() else items
            yield from self._split(Numbered(with_edges, rows.index, seq))
            if cti > MIN_TIME:
                like: Time = to_datetime(cti) if time == "datetime" else cti
                yield Numbered([Cti(like)], [len(items)], None)
            return
        yield from self._split(Numbered(items, rows.index, seq))

    def _split(self, rows: Numbered) -> Iterator[Numbered]:
        count = len(rows.items)
        settings = None if self._queue is None else self._queue.settings
        most = count if settings is None else settings.max_rows
        if count <= most:
            yield rows
            return
        items, places, seq = rows
        for begin in range(0, count, most):
            end = min(begin + most, count)
            part = items.slice(begin, end) if isinstance(items, EventBatch) else items[begin:end]
            yield Numbered(part, places[begin:end], None if seq is None else seq[begin:end])

    def _judge_events(
        self, part: Numbered, of: PushedInput, late: list[LateEvent]
    ) -> tuple[int, int]:
        """Accept events one by one; return how many rows came, and how many are new."""
        assert not isinstance(part.items, EventBatch)
        came = fresh = 0
        for number, event in enumerate(part.items):
            if isinstance(event, Cti):
                self._take_cti(event, of)
                continue
            came += 1
            if part.seq is not None and not of.seen.add(int(part.seq[number])):
                continue
            fresh += 1
            found = self._take(event, of)
            if found is not None:
                late.append(self._late_event(event, found, part.places[number], of))
        return came, fresh

    def _judge_rows(
        self, part: Numbered, of: PushedInput, late: list[LateEvent]
    ) -> tuple[int, int]:
        """Accept complete rows as columns; return how many came, and how many are new."""
        batch, seq = part.items, part.seq
        assert isinstance(batch, EventBatch)
        came = len(batch)
        places = np.asarray(part.places)
        if seq is not None:
            fresh = of.seen.add_all(np.asarray(seq, np.int64))
            if not fresh.any():
                return came, 0
            batch, places = batch.take(fresh), places[fresh]
        of.reached = max(of.reached, int(batch.start.max()))
        try:
            verdicts = self._reader.accept_rows(batch.replace(cti=MIN_TIME))
        except Exception as error:
            raise self._fail(error) from error
        late += self._late_rows(batch, verdicts, places, of)
        return came, len(batch)

    def _late_rows(
        self, batch: EventBatch, verdicts: Verdicts, index: Int64s, of: PushedInput
    ) -> Iterator[LateEvent]:
        rows = verdicts.late_rows(batch)
        if rows is None:
            return
        events = list_events(rows.rows, self._reader.packer.time or "ticks")
        columns = rows.reason.tolist(), rows.cti.tolist(), rows.by.tolist()
        places = index[verdicts.late].tolist()
        for event, number, cti, by, place in zip(events, *columns, places, strict=True):
            reason = REASONS[number]
            assert reason is not None
            yield self._late_event(event, Lateness(reason, cti, by), place, of)

    # One event ------------------------------------------------------------------------------------

    def _take(self, event: RowEvent | Cti, of: PushedInput) -> Lateness | None:
        if event.start > of.reached:
            of.reached = event.start
        reader = self._reader
        if type(event) is EdgeEvent:
            reader.door.rows.owner = of.name
        try:
            return reader.accept_event(event)  # type: ignore[arg-type]
        except Exception as error:
            raise self._fail(error) from error

    def _take_cti(self, event: Cti, of: PushedInput) -> None:
        if self._delay:
            event = Cti(match_form(add(event.start, -self._delay), event.start_time))
        self._take(event, of)

    def _late_event(
        self, event: RowEvent, late: Lateness, index: int, of: PushedInput
    ) -> LateEvent:
        of.late[late.reason] += 1
        of.largest_lateness = max(of.largest_lateness, late.by)
        return LateEvent(event, self._reader.name, *late, index=index)

    # The run --------------------------------------------------------------------------------------

    def _begin(self, rows: int) -> None:
        """Wait for room, raise if the run takes nothing more, and end the source's silence."""
        if self._queue is not None:
            self._queue.wait_for_room(rows)
        reader = self._reader
        if not self.accepts:
            raise self.refuse()
        reader.note_activity()

    def _follow(self) -> None:
        if not self._reader.ended:
            self._reader.let_others_follow()

    def _fail(self, error: Exception) -> Exception:
        """End the run with an error of the stream; return the error for those who push."""
        reader = self._reader
        if not reader.ended:
            reader.fail(error)
        return self.refuse()

    def _check_taken(self) -> None:
        """Raise if the run has ended meanwhile, unless its log has the rows."""
        reader = self._reader
        if not reader.is_logged and reader.run_end.error is not None:
            raise self.refuse()

    def _cti(self) -> Time | None:
        reader = self._reader
        cti = reader.door.cti
        if cti <= MIN_TIME:
            return None
        return to_datetime(cti) if reader.packer.time == "datetime" else cti

    def settle(self) -> None:
        """Wait until all accepted rows are durable, if the run has a log."""
        self._reader.flush_log()

    def complete(self) -> None:
        """End the source for good."""
        reader = self._reader
        with reader.lock:
            if self.accepts:
                reader.complete(finishes=True)
        self.settle()
