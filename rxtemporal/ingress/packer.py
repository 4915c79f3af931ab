"""Packer: a door whose accepted events wait until a CTI completes a batch of them."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Self, TypeAlias

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch
from rxtemporal.core.columns import Columns
from rxtemporal.core.events import (
    Cti,
    Event,
    IntervalEvent,
    PlainRow,
    PointEvent,
    RowEvent,
    ends_row,
)
from rxtemporal.core.payloads import BadPayloadError, PayloadReader
from rxtemporal.core.schema import refuse_lists, to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.engine.codec import Deferred
from rxtemporal.errors import EventError, annotate
from rxtemporal.ingress.batch_verdicts import (
    EventRun,
    JudgedRun,
    LateRows,
    Verdicts,
    judge_rows,
    kept_payloads,
)
from rxtemporal.ingress.clock_guard import ClockGuard
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import Lateness
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.ingress.unpacker import make_event

# a row that waits: an event; or the ticks and the payload of one that is none or was saved
Pending: TypeAlias = RowEvent | PlainRow
# the CTIs that stood before events: each with the number of the first event after it
Ctis: TypeAlias = list[tuple[int, int]]


def find_cti(ctis: Ctis, number: int) -> int:
    """Return the CTI that stood before an event."""
    return ctis[bisect_right(ctis, number, key=itemgetter(0)) - 1][1]


def list_columns(rows: Sequence[Any]) -> tuple[list[int], list[int], list[Any]]:
    """Return the starts, the ends and the payloads of rows that wait."""
    kinds = set(map(type, rows))
    if tuple not in kinds:
        # a comprehension reads a slot in less time than attrgetter does
        starts, ends = [row.start for row in rows], [row.end for row in rows]
        return starts, ends, [row.payload for row in rows]
    if len(kinds) > 1:
        rows = [row if type(row) is tuple else (row.start, row.end, row.payload) for row in rows]
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def make_batch(
    starts: list[int], ends: list[int], edges: Mapping[int, int], payload: Columns, cti: int
) -> EventBatch:
    """Return rows as a batch with these payloads, and a CTI after them.

    ``edges`` has the ids of those that are edges, by their numbers.
    """
    start = np.fromiter(starts, np.int64, payload.height)
    end = np.fromiter(ends, np.int64, payload.height)
    if not edges:
        return EventBatch.of_rows(start, end, payload, cti)
    edge = np.zeros(payload.height, np.int64)
    edge[list(edges)] = list(edges.values())
    return EventBatch(start, end, edge, payload, cti)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SavedWaitingRows(Deferred):
    """Rows that wait as they are saved, the ids of those that are edges, and the CTIs before."""

    rows: Sequence[Pending]
    edges: Mapping[int, int]
    ctis: Ctis

    def make_plain(self) -> list[list[Any]]:
        """Return start, end, fields, edge id and the CTI before it of each row."""
        edges, ctis = self.edges, self.ctis
        return [
            [start, end, to_fields(payload), edges.get(n, 0), find_cti(ctis, n)]
            for n, (start, end, payload) in enumerate(zip(*list_columns(self.rows), strict=True))
        ]

    @classmethod
    def restore(cls, plain: Sequence[Sequence[Any]]) -> Self:
        """Return the rows from the result of ``make_plain``."""
        rows = [(start, end, payload) for start, end, payload, *_ in plain]
        edges = {number: edge for number, (*_, edge, _) in enumerate(plain) if edge}
        ctis = [(number, before) for number, (*_, before) in enumerate(plain)]
        return cls(rows, edges, [(0, MIN_TIME), *ctis])


# when so many rows wait, they leave without a CTI
MOST_ROWS = 65_536
BOTH = "the edges of a stream are either of events or of batches, got both"
# a field that has been null in so many events is taken to be of type null
UNTYPED_ROWS = 1_024
# fewer events than these are judged one by one
RUN_LEAST = UNTYPED_ROWS
# late events in their original form, one or many
Late: TypeAlias = tuple[RowEvent, Lateness] | LateRows
_COMPLETE = frozenset({PointEvent, IntervalEvent})


class Packer(Door):
    """Door of a stream whose accepted row events wait until a CTI turns them into a batch.

    ``min_rows``: the number of waiting rows from which a CTI sends them on; 1 answers every CTI
    at once, more makes larger batches out of many CTIs. ``time`` is the form in which the source
    gives times, if known. ``omits_ctis``: a batch without a CTI keeps the previous one instead of
    going back. Holds the waiting rows, and in ``unreported`` the late events until they are
    reported.
    """

    __slots__ = (
        "_ctis",
        "_edges",
        "_free",
        "_is_trusting",
        "_kind",
        "_least",
        "_limit",
        "_most",
        "_omits_ctis",
        "_waiting",
        "only_keeps",
        "payloads",
        "sent",
        "times",
        "unreported",
    )

    def __init__(
        self,
        settings: AdvanceTimeSettings | None,
        source: str,
        payloads: PayloadReader,
        min_rows: int = 1,
        times: StreamTime | None = None,
        *,
        delays_ctis: bool = False,
        omits_ctis: bool = False,
    ) -> None:
        super().__init__(settings, source, delays_ctis=delays_ctis)
        self._omits_ctis = omits_ctis
        self.times = times or StreamTime()
        # the type of the last time; another time of this type needs no check
        self._kind: type | None = None
        self.payloads = payloads
        self.unreported: list[Late] = []
        self._least, self._most = min_rows, MOST_ROWS
        # the last CTI that has been sent
        self.sent = MIN_TIME
        # True if points and intervals only have to be kept: the subject has judged them
        self.only_keeps = self._is_trusting = False
        self._clear()

    def _clear(self) -> None:
        self._waiting: list[Pending] = []
        # the ids of those that are edges, by their numbers
        self._edges: dict[int, int] = {}
        # of CTIs in a row the last one counts, so there are never more of them than rows
        self._ctis: Ctis = [(0, self.cti)]
        self._set_limit()

    def _set_limit(self) -> None:
        """Set the number of waiting rows that make a batch."""
        self._limit = self._least if self.has_news else self._most
        # while fewer rows wait, another one in time only has to be kept, whatever CTI it makes
        self._free = (min(self._least, self._most) if self.generates else self._limit) - 1

    @property
    def has_news(self) -> bool:
        """True if time has advanced since the last batch."""
        return self.cti > self.sent

    @property
    def least(self) -> int:
        """The number of waiting rows from which a CTI sends them on."""
        return self._least

    def set_bounds(self, least: int, most: int | None = None) -> None:
        """Set ``least``: more while the query is busy; and ``most``, where few rows may wait."""
        self._least, self._most = least, self._most if most is None else most
        self._set_limit()

    @property
    def time(self) -> TimeForm | None:
        """The form in which the source gives times; None until it is known."""
        return self.times.shown

    def note_form(self, form: TimeForm | None) -> None:
        """Note the form of the times of rows that come as columns; raise for another one."""
        if form is not None and not self.times.takes(form):
            raise EventError(
                f"stream {self.source!r} has times in ticks and datetimes: the start of a "
                f"batch is {self.times.explain(None)}"
            )

    def _see(self, event: Any) -> None:
        """Note the form of an event's times; ``EventError`` if the stream's is another."""
        if not isinstance(event, RowEvent | Cti):
            return  # the door refuses it
        time = event.start_time
        self.times.see(time, self.source, event)
        if time not in (0, MIN_TIME, MAX_TIME):
            self._kind = type(time)

    def _see_run(self, run: EventRun) -> bool:
        """Note the form of the times of a run; return False if some may be of another one."""
        kinds = run.time_types
        if kinds == {self._kind}:
            return True
        if len(kinds) > 1:
            return False
        try:  # all are of one type, so one that shows the form is enough
            for event in run.items:
                self._see(event)
                if self._kind is not None:
                    break
        except EventError:
            return False
        return self._kind is None or kinds == {self._kind}

    @property
    def rows(self) -> int:
        """The number of waiting rows."""
        return len(self._waiting)

    @property
    def next_due(self) -> int | None:
        """The start of the oldest waiting row; None if no row waits."""
        return min(list_columns(self._waiting)[0], default=None)

    def keep(self, event: Event) -> bool:
        """Keep an event that only has to wait; return False, with nothing changed, for another.

        Such an event is a point or an interval in time, or a CTI behind waiting rows, with which no
        batch is due.
        """
        # this runs once for each event that is pushed
        kind, waiting = type(event), self._waiting
        if kind is PointEvent or kind is IntervalEvent:
            if type(event.start_time) is not self._kind:
                return False
            if not self.only_keeps:
                return self.keep_row(event.start, event)  # type: ignore[arg-type]
            if len(waiting) >= self._free:
                return False
            self.events += 1
            waiting.append(event)  # type: ignore[arg-type]
            return True
        if (
            kind is Cti
            and type(event.start_time) is self._kind
            and event.device is None  # type: ignore[union-attr]
            and 0 < len(waiting) < self._least
            and self.pass_cti(event.start)
        ):
            self._note_cti()
            return True
        return False

    def keep_row(self, start: int, row: Pending) -> bool:
        """Keep a complete row in time; return False, with nothing changed, if it cannot just wait.

        So it is with a late row, and if a batch is due. Its times have the form of the stream's.
        """
        # this runs once for each row that is pushed
        waiting = self._waiting
        if start < self.late_below or len(waiting) >= self._free:
            return False
        before = self.cti
        self.note_row(start)
        waiting.append(row)
        if self.cti > before:
            self._ctis.append((len(waiting), self.cti))
        return True

    def take_unreported(self) -> list[Late]:
        """Return the late events that have not been reported; from now on they have been."""
        late, self.unreported = self.unreported, []
        return late

    def take(self, event: Event) -> EventBatch | None:
        """Take one event; return a batch if one is due."""
        return None if self.keep(event) else self.judge(event)

    def take_ahead(self, event: Event) -> EventBatch | None:
        """Take one event that is ahead of the wall clock; it makes no CTI."""
        return self.judge(event, ahead=True)

    def judge(self, event: Event, *, ahead: bool = False) -> EventBatch | None:
        """Take one event that may be late, may bring a CTI or a batch, or is an edge."""
        waiting = self._waiting
        if type(getattr(event, "start_time", None)) is not self._kind:
            self._see(event)
        if self.only_keeps and type(event) in _COMPLETE and not ahead:
            self.events += 1
            waiting.append(event)  # type: ignore[arg-type]
            return None if len(waiting) < self._limit else self._pack_if_typed()
        before = self.cti
        kept, edge, late = self.accept(event, ahead)
        if late is not None:
            self.unreported.append((event, late))  # type: ignore[arg-type]
        if edge:
            kept = self._take_edge(kept, edge)
        if kept is not None:  # else the row is late, and dropped
            waiting.append(kept)
        if self.cti > before:
            self._note_cti()
        # the first condition is part of the second one, and answers for most rows in less time
        if self.cti > self.sent or self.has_news:
            # without rows there is nothing to merge, and somebody may wait for the time
            return None if 0 < len(waiting) < self._least else self._pack_if_typed()
        return None if len(waiting) < self._most else self._pack_if_typed()

    def _note_cti(self) -> None:
        number, cti, ctis = len(self._waiting), self.cti, self._ctis
        if ctis[-1][0] == number:
            ctis[-1] = (number, cti)
        else:
            ctis.append((number, cti))
        # the first CTI after a batch lowers the limit, the next ones leave it
        if self._limit != (self._least if cti > self.sent else self._most):
            self._set_limit()

    def _take_edge(self, kept: RowEvent | None, edge: int) -> RowEvent | None:
        if self.has_batch_edges:
            raise EventError(BOTH)
        # an end edge at the end of time leaves its row as it is: one that never ends
        if kept is None or (kept.end == MAX_TIME and ends_row(kept)):
            return None
        self._edges[len(self._waiting)] = edge
        return kept

    def trust_events(self) -> None:
        """Accept points and intervals unjudged from now on: the subject has judged them."""
        self._is_trusting = True
        self.only_keeps = not self.generates

    def change_settings(self, settings: AdvanceTimeSettings | None) -> None:
        """Judge by other settings from now on; time stays where it is.

        Not for a stream in which each device has its own time.
        """
        assert not self.by_device
        if settings != self.settings:
            self._set_rules(settings)
            self.only_keeps = self._is_trusting and not self.generates
            self._set_limit()

    def due(self) -> EventBatch | None:
        """Return a batch if one is due, after a CTI from outside or other bounds."""
        self._note_cti()
        due = self.has_news and not self._waiting
        return self._pack_if_typed() if due or len(self._waiting) >= self._limit else None

    # Batches and runs -----------------------------------------------------------------------------

    def check_batch(self, batch: EventBatch) -> EventBatch:
        """Check a batch against the contract of batches; return it with the stream's fields."""
        if len(batch):  # rows whose form nobody knows fit both
            self.note_form(batch.time)
        if self.open_rows.opened and batch.edge.any():
            raise EventError(BOTH)
        if self._omits_ctis and batch.cti == MIN_TIME:
            batch = batch.replace(cti=self.sent)
        # with settings the door judges the batch, and lets no CTI go back
        batch.check(self.sent if self.settings is None else MIN_TIME)
        refuse_lists(batch.schema)
        return self.payloads.conform(batch)

    def take_batch(self, batch: EventBatch, ahead: Bools | None = None) -> EventBatch:
        """Take a whole batch, whose CTI comes after its rows; return its accepted rows.

        No event is waiting. Edges of a stream are either of events or of batches, each of which
        numbers them in its own way.
        ``ahead`` is the mask of the rows that are ahead of the wall clock, if any are.
        """
        return self._put_batch(*self.accept_batch(batch, ahead))

    def take_verdicts(self, batch: EventBatch, verdicts: Verdicts) -> EventBatch:
        """Take a batch of complete rows with the verdicts on it; return its accepted rows."""
        return self._put_batch(*self.accept_judged(batch, verdicts))

    def _put_batch(self, batch: EventBatch, late: LateRows | None) -> EventBatch:
        if late is not None:
            self.unreported.append(late)
        if len(batch) and self.times.form is None:
            self.times.takes(batch.time)
        if batch.cti < self.sent:
            batch = batch.replace(cti=self.sent)
        self.sent = batch.cti
        self._note_cti()
        return batch

    def judge_run(self, run: EventRun, guard: ClockGuard | None = None) -> JudgedRun | None:
        """Return a run of events with their verdicts, without changing the door.

        None if they have to be taken one by one: one is invalid, or ``guard`` finds one ahead of
        the wall clock. No row may be waiting.
        """
        if guard is not None and guard.rows_ahead(run.start, run.kind) is not None:
            return None
        if not self._see_run(run):
            return None
        verdicts = judge_rows(run.start, run.end, self.rules, self.state, run.kind)
        if self.settings is None and (len(verdicts.late) or verdicts.backwards):
            return None
        kept = verdicts.kept & run.row_mask if len(verdicts.late) else run.row_mask
        payload = self._convert_if_typed(kept_payloads(run, kept))
        return None if payload is None else JudgedRun(run, verdicts, kept, payload)

    def _convert_if_typed(self, payloads: list[Any]) -> Columns | None:
        try:
            self.payloads.learn(payloads)
            if not self.payloads.is_complete and len(payloads) < UNTYPED_ROWS:
                return None
            return self.payloads.columns(payloads)
        except BadPayloadError:
            return None

    def take_run(self, judged: JudgedRun) -> EventBatch | None:
        """Take a run with its verdicts; return its accepted rows, or None if nothing changes."""
        run, verdicts, kept = judged.run, judged.verdicts, judged.kept
        self.apply(verdicts, run.rows)
        self.unreported += judged.late()
        cti = max(self.cti, self.sent)
        if not judged.payload.height and not kept.any() and not self.has_news:
            return None
        self.sent = cti
        self._note_cti()
        return judged.make_batch(cti)

    # The end --------------------------------------------------------------------------------------

    def pack_last(self) -> EventBatch | None:
        """Return the waiting rows as a batch when the source has completed."""
        self.finish()
        return self.pack()

    def _pack_if_typed(self) -> EventBatch | None:
        # a batch of time alone needs no fields
        if self._waiting and not self.payloads.is_complete:
            self.payloads.learn(list_columns(self._waiting)[2])
            if not self.payloads.is_complete and len(self._waiting) < UNTYPED_ROWS:
                return None
        return self.pack()

    def pack(self) -> EventBatch | None:
        """Return the waiting rows as a batch; None if there are neither rows nor a new CTI."""
        cti = max(self.cti, self.sent)
        waiting = self._waiting
        if not waiting:
            if not self.has_news:
                return None
            self.sent = cti
            self._note_cti()
            return EventBatch.empty(self.payloads.columns([]).schema, cti)
        starts, ends, payloads = list_columns(waiting)
        payload = self.payloads.columns(payloads)
        batch = make_batch(starts, ends, self._edges, payload, cti)
        self.sent = cti
        self._clear()
        return batch

    def rescue(self, error: Exception) -> tuple[EventBatch | None, Exception]:
        """Return the rows accepted before the stream failed, and its first error.

        Payloads are checked when they are packed, so that a bad payload may have come before the
        event that ``error`` is about.
        """
        while True:
            try:
                if isinstance(error, BadPayloadError) and error.row < len(self._waiting):
                    edge = self._edges.get(error.row, 0)
                    event = self.make_event(self._waiting[error.row], edge)
                    annotate(error, f"the event is {event!r}")
                    self._forget_from(error.row)
                return self.pack(), error
            except BadPayloadError as earlier:
                error = earlier

    def _forget_from(self, row: int) -> None:
        self.set_cti(find_cti(self._ctis, row))
        del self._waiting[row:]
        self._edges = {number: edge for number, edge in self._edges.items() if number < row}

    def make_event(self, item: Any, edge: int = 0) -> Any:
        """Return a row for which no event was made as one; an event as it is.

        ``edge`` is the id of the row if it is an edge.
        """
        if type(item) is not tuple:
            return item
        start, end, payload = item
        return make_event(self.times.show(start), start, end, edge, payload)

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return the state of the door, the known fields and the waiting rows."""
        waiting = SavedWaitingRows([*self._waiting], {**self._edges}, [*self._ctis])
        return [super().save(), self.payloads.save(), self.sent, self.times.form, waiting]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of a packer of the same stream."""
        door, payloads, self.sent, form, waiting = state
        self.note_form(form)
        super().load(door)
        self.payloads.load(payloads)
        held = SavedWaitingRows.read(waiting)
        self._waiting, self._edges, self._ctis = [*held.rows], {**held.edges}, [*held.ctis]
        self._note_cti()
