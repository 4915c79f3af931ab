"""Log of several streams, and the part of each: records in order of arrival, written in groups."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, Event, RowEvent
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.core.time_forms import find_time_form
from rxtemporal.core.turns import FORKED, FORKS
from rxtemporal.engine.codec import dump_frame
from rxtemporal.errors import SpoolError
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.storage.event_log.columns import (
    Item,
    Mark,
    Rows,
    find_kinds,
    get_event,
    make_json_encoder,
    to_frame,
)
from rxtemporal.storage.event_log.layout import StreamFacts

# an entry of so many records is compressed
COMPRESSED_ROWS = 1_024
# runs of records, pairs of a stream and a number of records, and the items of each stream
Noted: TypeAlias = "tuple[list[list[int]], dict[StreamLog, list[Item]]]"


class Log:
    """Base class of event logs and recordings, which write the records of their streams.

    ``noted`` is the number of the next record, counted over all streams.

    Threads: any may call ``flush``, and the methods of ``StreamLog``. If several call ``flush`` at
    once, one writes; the next write has all records that the others have noted meanwhile.
    """

    def __init__(self) -> None:
        self.noted = 0
        self.streams: list[StreamLog] = []
        self._forks = FORKS.count
        self._mutex = threading.Lock()
        self._changed = threading.Condition(self._mutex)
        self._runs: list[list[int]] = []
        # the records before each cut that are not written: their runs and their items
        self._cut_off: list[Noted] = []
        # how many records are durable
        self._durable = 0
        self._writing = self._closed = False
        self._error: BaseException | None = None

    def note(self, stream: StreamLog, items: Sequence[Item], records: int) -> None:
        """Append items that make ``records`` records. Called by ``StreamLog``.

        They are ignored if the log takes none of the stream, for example once it is closed.
        """
        # this runs once for each row that is pushed; a lock is entered in C, a condition is not
        self.refuse_fork()
        with self._mutex:
            if not self._admits(stream):
                return
            if self._error is not None:
                raise self._error
            stream.items += items
            if self._runs and self._runs[-1][0] == stream.number:
                self._runs[-1][1] += records
            else:
                self._runs.append([stream.number, records])
            self.noted += records

    def flush(self) -> None:
        """Wait until all records noted so far are durable; raise the error that prevents it."""
        self.refuse_fork()
        leads = False
        try:
            with self._changed:
                if not self._must_lead(self.noted):
                    return
                leads = self._writing = True
                entries, self._cut_off = [*self._cut_off, self._take()], []
                noted = self.noted
            for runs, items in entries:
                if runs:
                    self._write(runs, items)
            self._durable = noted
        except BaseException as error:
            if leads:
                interrupted = SpoolError("writing the log was interrupted")
                self._error = error if isinstance(error, Exception) else interrupted
            raise
        finally:
            if leads:
                with self._changed:
                    self._writing = False
                    self._changed.notify_all()

    def cut(self) -> int:
        """Write no record noted so far together with a later one; return the number of the next."""
        with self._changed:
            if self._runs:
                self._cut_off.append(self._take())
            return self.noted

    def _take(self) -> Noted:
        """Take the records that have been noted; called with the lock held."""
        runs, self._runs = self._runs, []
        return runs, {stream: stream.take() for stream in self.streams if stream.items}

    def _must_lead(self, upto: int) -> bool:
        """Wait while another thread writes; return True if this one has to write the rest.

        The caller holds the lock. Records that are durable stay so, whatever fails after them.
        """
        while self._writing and self._error is None and self._durable < upto:
            self._changed.wait()
        if self._durable >= upto:
            return False
        if self._error is not None:
            raise self._error
        return True

    def refuse_fork(self) -> None:
        """Raise in a process that was forked from the one that writes this log."""
        if FORKS.count != self._forks:
            raise SpoolError(FORKED)

    @property
    def durable(self) -> int:
        """The number of durable records, counted over all streams."""
        return self._durable

    def _admits(self, stream: StreamLog) -> bool:
        """Return True if a stream may note; called with the lock held; may wait on it."""
        return not self._closed

    def _write(self, runs: list[list[int]], items: Mapping[StreamLog, list[Item]]) -> None:
        """Write the noted records, durably."""
        raise NotImplementedError


class StreamLog:
    """Log of one stream: notes its records into the log of several, in order.

    ``accepted`` counts pushed events, rows of batches, and the end; a batch without rows counts as
    one. ``brought`` counts records of the source: a batch's own CTI is one, the end is not. With
    ``prompt`` each record of the source is durable before the call returns.
    """

    def __init__(
        self,
        log: Log,
        number: int,
        facts: StreamFacts,
        given: pl.Schema | None,
        learned: pl.Schema | None = None,
    ) -> None:
        self.facts = facts
        self.number = number
        self.items: list[Item] = []
        self.accepted = self.brought = 0
        self.prompt = False
        self._log = log
        self._given = given
        self._learned = learned
        self._to_json = None if given is None else make_json_encoder(given)
        # events to be noted together, while some are gathered
        self._gathered: list[Event | Sent] | None = None

    @contextlib.contextmanager
    def gather(self) -> Iterator[None]:
        """Return a context whose events are noted together at its end, which takes less time.

        Before a batch of them leaves the door, ``note_gathered`` notes those that there are.
        """
        self._gathered = []
        try:
            yield
        finally:
            # first of all: whatever happens now, later events are not gathered
            events, self._gathered = self._gathered, None
            if events:
                self.note_events(events)

    def note_gathered(self) -> None:
        """Note the events that have been gathered."""
        if self._gathered:
            events, self._gathered = self._gathered, []
            self.note_events(events)

    def note_event(self, event: Event | Sent) -> None:
        """Note an event, with its sender if given; the door rejects other objects."""
        if self._gathered is not None:
            self._gathered.append(event)
        else:
            self.note_events((event,))

    def note_events(self, events: Sequence[Event | Sent]) -> None:
        """Note a run of events, each with its sender if given."""
        first = get_event(events[0]) if events else None
        if not isinstance(first, RowEvent) and type(first) is not Cti:
            return
        if self.facts.time is None:
            self.facts.note_form(find_time_form(first.start_time))
        items: Sequence[Item] = events
        if self.facts.clock is not None:
            items = [self._name_device(each) for each in events]
        self._note(items, len(items), accepted=len(items))

    def _name_device(self, event: Event | Sent) -> Item:
        """Return an event as it is noted: a CTI of one device as a record with its fields."""
        cti = get_event(event)
        if type(cti) is not Cti or cti.device is None:
            return event
        mark: Any = Mark("cti", cti.start, self._list_fields(cti.device))
        return event._replace(event=mark) if isinstance(event, Sent) else mark

    def _list_fields(self, device: Any) -> dict[str, Any]:
        """Return a payload that names a device."""
        clock, known = self.facts.clock, self._given
        assert clock is not None
        assert known is not None
        values = (device,) if len(clock.fields) == 1 else device
        return {**dict.fromkeys(known), **dict(zip(clock.fields, values, strict=True))}

    def note_batch(self, batch: EventBatch | SentRows) -> None:
        """Note rows with their sender if given, and the CTI after them if the batch has one."""
        sent = batch if isinstance(batch, SentRows) else None
        batch = batch.batch if isinstance(batch, SentRows) else batch
        own = batch.cti > MIN_TIME
        if len(batch):
            self.facts.note_form(batch.time)
        records = len(batch) + own
        self._note(
            [Rows(batch, own, sent)] if records else [], records, accepted=count_pushed(batch)
        )

    def note_end(self) -> None:
        """Note that the source has ended."""
        self._note([Mark("completed")], 1, accepted=1, brought=0)

    def note_advance(self, cti: int, device: Any = None) -> None:
        """Note that the time of the stream, or of a device, was advanced to a CTI in ticks.

        A heartbeat and an idle time-out do so, and ``advance`` of a source. An imported CTI is not
        noted, since it follows from the records of the other stream.
        """
        fields = None if device is None else self._list_fields(device)
        self._pass_on([Mark("outside", cti, fields)], 1)

    def note_silence(self, devices: Sequence[Any] | None) -> None:
        """Note that devices have become silent; None: all."""
        payloads = [None] if devices is None else [self._list_fields(each) for each in devices]
        marks = [Mark("outside", None, payload) for payload in payloads]
        self._pass_on(marks, len(marks))

    def note_failure(self, error: BaseException) -> None:
        """Note that the stream has ended with an error."""
        self.facts.note_failure(error)
        # if the log cannot be written any more, closing it raises that error
        with contextlib.suppress(SpoolError):
            self._pass_on([Mark("failed")], 1)

    @property
    def noted(self) -> int:
        """The number of records noted so far, of all streams."""
        return self._log.noted

    @property
    def durable(self) -> int:
        """The number of records that are durable, of all streams."""
        return self._log.durable

    def flush(self) -> None:
        """Wait until all records noted so far are durable."""
        self._log.flush()

    def refuse_fork(self) -> None:
        """Raise in a process that was forked from the one that writes this log."""
        self._log.refuse_fork()

    def _note(
        self, items: Sequence[Item], records: int, *, accepted: int, brought: int | None = None
    ) -> None:
        if records:
            self._pass_on(items, records)
        self.brought += records if brought is None else brought
        self.accepted += accepted
        if self.prompt:
            self._log.flush()

    def _pass_on(self, items: Sequence[Item], records: int) -> None:
        self.note_gathered()  # which come before
        self._log.note(self, items, records)

    def take(self) -> list[Item]:
        """Return the items noted so far and forget them. Used by the log."""
        items, self.items = self.items, []
        return items

    def set_prompt(self, *, prompt: bool) -> None:
        """Make each record durable before the next one is asked for, if ``prompt``."""
        self.prompt = prompt

    def to_frame(self, items: Sequence[Item]) -> pl.DataFrame:
        """Return items as columns; ``MisfitError`` at a payload that does not fit."""
        reader = PayloadReader(self._given)
        if self._given is None:
            # the type of a field that was always null may still become known
            reader.resume(self._learned)
        try:
            frame = to_frame(items, reader)
        except BadPayloadError as error:
            rows = [n for n, item in enumerate(items) if isinstance(get_event(item), RowEvent)]
            raise MisfitError(error, rows[error.row]) from error
        self._learned = reader.schema
        self._note_kinds(items)
        return frame

    def dump(self, items: Sequence[Item], *, plain: bool) -> bytes:
        """Return items as bytes, a few of plain values as JSON; errors are those of ``to_frame``.

        ``plain``: the file may have JSON.
        """
        content = self._to_json(items) if plain and self._to_json is not None else None
        if content is None:
            frame = self.to_frame(items)
            return dump_frame(frame, compress=frame.height >= COMPRESSED_ROWS)
        self._note_kinds(items)
        return content

    def _note_kinds(self, items: Sequence[Item]) -> None:
        kinds = find_kinds(items)
        if not kinds.issubset(self.facts.kinds):
            self.facts.note_kinds(kinds)


class MisfitError(Exception):
    """Error for a payload that does not fit; ``place`` is the number of its item."""

    def __init__(self, error: BadPayloadError, place: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.place = place


def count_pushed(item: Any) -> int:
    """Return what an event or a batch adds to ``accepted``: a batch's rows, or one."""
    item = item.batch if isinstance(item, SentRows) else item
    return max(1, len(item)) if isinstance(item, EventBatch) else 1


def count_records(items: Sequence[Item]) -> int:
    """Return the number of records in items."""
    return sum(len(each.batch) + each.own if isinstance(each, Rows) else 1 for each in items)
