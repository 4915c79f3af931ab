"""The door of a stream: decides which events are late, and generates CTIs.

A stream's door judges its events one by one, in the order of acceptance, or the columns of a batch.
The rules are those of ``engine/door_rules``; ``lateness`` applies them to events, and
``engine/kernels/door`` to columns. The door knows nothing of the layers above it: the caller
records and logs events and reports late ones.
Source: *Advancing Application Time*.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    Event,
    IntervalEvent,
    PointEvent,
    RowEvent,
    ends_row,
    find_late_bound,
    get_judged_time,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Deferred
from rxtemporal.engine.door_rules import (
    NEVER,
    is_due,
    make_cti,
    make_sent_cti,
)
from rxtemporal.errors import EventError
from rxtemporal.ingress.batch_verdicts import (
    NO_KINDS,
    NO_ROWS,
    BatchEdges,
    Bytes,
    LateRows,
    Rules,
    State,
    Verdicts,
    classify_rows,
    judge_rows,
    pass_rows,
    refuse_strays,
)
from rxtemporal.ingress.lateness import (
    NO_CTI,
    Lateness,
    LatenessCounts,
    LateReason,
    Opened,
    judge,
    make_no_event_error,
    make_reversal,
    make_violation,
    measure_lateness,
)
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.settings import (
    AdvanceTimeSettings,
    WhenAhead,
)

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable
    from rxtemporal.ingress.device_clocks import DeviceClocks
    from rxtemporal.ingress.input_state import ClockStats


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SavedOpenRows(Deferred):
    """Open rows as they are saved, with the part of each payload that is written."""

    rows: Sequence[Opened]
    payloads: Sequence[Any]

    def make_plain(self) -> list[list[Any]]:
        """Return start, payload, accepted start, id and input of each row."""
        return [
            [row.edge.start_time, payload, row.start, row.id, row.owner]
            for row, payload in zip(self.rows, self.payloads, strict=True)
        ]

    @classmethod
    def restore(cls, plain: Sequence[Sequence[Any]]) -> Self:
        """Return the rows from the result of ``make_plain``."""
        rows = [
            Opened(EdgeEvent.create_start(time, payload), start, number, owner)
            for time, payload, start, number, owner in plain
        ]
        return cls(rows, [payload for _, payload, *_ in plain])


# the accepted event or None, the id of its row if it is an edge, and its lateness if it is late
Decision: TypeAlias = tuple[RowEvent | None, int, Lateness | None]
IN_TIME: Decision = (None, 0, None)
# the accepted rows of a batch with the CTI after them, and the late ones
Accepted: TypeAlias = tuple[EventBatch, LateRows | None]


class Door:
    """Entrance of one source into a stream: judges each event, and generates CTIs.

    Events are accepted one by one or as columns, also mixed; the verdicts are the same. Holds one
    entry for each open edge row. Not thread-safe: its owner serialises calls.

    An event that its owner calls ``ahead`` (of the wall clock) makes no CTI; the settings say
    whether it is taken. With ``delays_ctis`` the delay of the settings also holds for CTIs that the
    source sends. ``largest_lateness`` is the smallest delay, in ticks, with which no event would
    have been late by a CTI of this stream: the largest distance of an event behind ``high``, the
    highest time before it that made a CTI. CTIs from outside have no part in it.

    >>> from rxtemporal import INCREASING_START_TIME, PointEvent
    >>> door = Door(INCREASING_START_TIME, "a")
    >>> door.accept(PointEvent(7, "x")), door.cti
    ((PointEvent(7, 'x'), 0, None), 7)
    >>> kept, row, late = door.accept(PointEvent(5, "late"))
    >>> kept, late.by, door.late.total()
    (None, 2, 1)
    """

    # beyond 30 attributes dicts share no keys, and calls of methods take longer by two thirds
    __slots__ = (
        "_batch_rows",
        "_before_end",
        "_count",
        "_delay",
        "_delays_ctis",
        "_drops_ahead",
        "_every",
        "_last",
        "cti",
        "events",
        "generates",
        "high",
        "largest_lateness",
        "late",
        "late_below",
        "late_by_import",
        "lateness",
        "open_rows",
        "own",
        "rules",
        "settings",
        "source",
    )

    by_device = False
    """True if each device has its own time."""

    def __init__(
        self, settings: AdvanceTimeSettings | None, source: str, *, delays_ctis: bool = False
    ) -> None:
        self.source = source
        self._delays_ctis = delays_ctis
        self._set_rules(settings)
        self.cti = NO_CTI
        # the start below which a row is late by this CTI
        self.late_below = NO_CTI
        # what the CTI would be without imports; and without any delay
        self.own = self.high = NO_CTI
        self._before_end = NO_CTI
        self.events = 0
        self.late_by_import = 0
        self.late: Counter[LateReason] = Counter()
        self.lateness = LatenessCounts()
        self.largest_lateness = 0
        self.open_rows: OpenRows[Opened] = OpenRows()
        # the accepted starts of open rows of batches, by edge id, counted from MIN_TIME
        self._batch_rows: IntTable | None = None
        # the number of events so far that count for the next CTI, and the start that made the last
        self._count, self._last = 0, NEVER

    def _set_rules(self, settings: AdvanceTimeSettings | None) -> None:
        self.settings = settings
        self._drops_ahead = settings is not None and settings.when_ahead is WhenAhead.LATE
        # True if events generate CTIs
        self.generates = settings is not None and settings.generation is not None
        self.rules = Rules.of(settings, delays_ctis=self._delays_ctis)
        # read for each row, which costs less here
        self._every, self._delay = self.rules.every, self.rules.delay

    def measure_behind(self, event: RowEvent, time: int) -> int:
        """Return how far an event at this time is behind the highest time of its device."""
        return self.high - time

    def match_rows_by(self, fields: Callable[[Any], Any]) -> None:
        """Match edges by the part of the payload that ``fields`` returns; call before any event."""
        self.open_rows = OpenRows(fields)

    # Events one by one ----------------------------------------------------------------------------

    def accept(self, event: Event, ahead: bool = False) -> Decision:
        """Judge one event; return the accepted event or None, the id of its row, and its lateness.

        Afterwards ``cti`` is the stream's CTI; it counts for what comes after this event. An event
        that is ``ahead`` does not advance it.
        """
        kind = type(event)
        is_complete = kind is PointEvent or kind is IntervalEvent
        if is_complete and not ahead and event.start >= self.late_below:
            self.note_row(event.start)
            return event, 0, None  # type: ignore[return-value]
        if isinstance(event, Cti):
            if not ahead:
                self._take_cti(event)
            return IN_TIME
        if not isinstance(event, RowEvent):
            raise make_no_event_error(event)
        if ahead and self._drops_ahead:
            self.events += 1
            return None, 0, self._count_late(event, LateReason.AHEAD)
        return self._judge(event, ahead)

    def _judge(self, event: RowEvent, ahead: bool) -> Decision:
        ends = ends_row(event)
        generates = self.generates and not ends and not ahead
        if not generates:  # before an error that ends the stream
            self.events += 1
            self.largest_lateness = max(self.largest_lateness, measure_lateness(event, self.high))
        policy = None if self.settings is None else self.settings.policy
        kept, reason, row = judge(event, self.cti, policy, self.open_rows)
        late = None if reason is None else self._count_late(event, reason)
        if generates:
            self.note_row(event.start)
        if row is None:
            return kept, 0, late
        if ends and kept is not None and kept.payload is not row.edge.payload:
            # payloads equal as keys may differ in a type or a sign: the start edge's counts
            kept = EdgeEvent.create_end(kept.start_time, kept.end_time, row.edge.payload)
        return kept, row.id, late

    def note_row(self, start: int) -> None:
        """Count a row that has been judged, and make the CTI that it makes due, if any.

        The row is complete or begins, and is not ahead of the wall clock.
        """
        # this runs once for each row that is pushed
        self.events += 1
        if self.high - start > self.largest_lateness:
            self.largest_lateness = self.high - start
        if not self.generates:
            return
        self._count += 1
        every = self._every
        if every != 1 and not is_due(start, self._count, every, self.rules.span, self._last):
            return
        self._last = start
        if start > self.high:
            self.high = start
        cti = make_cti(start, self._delay)
        if cti > self.own:
            self._reach(cti)

    def pass_cti(self, time: int) -> bool:
        """Advance to a plain CTI of the source; return False, with nothing changed, for another."""
        # this runs once for each CTI that is pushed
        if not self.cti < time < MAX_TIME or self.rules.cti_delay:
            return False
        self.cti = self.own = time
        self.late_below = find_late_bound(time)  # without a second call
        if time > self.high:
            self.high = time
        return True

    def _take_cti(self, event: Cti) -> None:
        if event.device is not None:
            raise EventError(
                f"{event!r} holds for one device, and stream {self.source!r} has one time for all "
                'its rows. Hint: clock="device" where the stream is made gives each device its own.'
            )
        if event.start < self.cti and self.settings is None:
            raise make_reversal(event, self.cti, self.source)
        self._reach_sent(event.start)

    def _count_late(self, event: RowEvent, reason: LateReason) -> Lateness:
        if self.settings is None:
            raise make_violation(event, reason, self.cti, self.source)
        self.late[reason] += 1
        if reason is not LateReason.NO_OPEN_ROW and reason is not LateReason.AHEAD:
            bounds = [self.own, self.cti]
            if reason is not LateReason.END_MOVED:
                bounds = [*map(find_late_bound, bounds)]
            self.late_by_import += bounds[0] <= get_judged_time(event) < bounds[1]
        broken = max(self.cti, MIN_TIME)
        by = measure_lateness(event, broken)
        self.lateness.add(by)
        return Lateness(reason, broken, by)

    # Time -----------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Advance to the end of time when the source completes, unless the settings forbid it.

        Returns the CTI.
        """
        generation = None if self.settings is None else self.settings.generation
        if generation is None or generation.advance_to_infinity_on_shutdown:
            self.set_cti(MAX_TIME)
        return max(self.cti, MIN_TIME)

    @property
    def reached(self) -> int:
        """The CTI that has been reached: of some devices at least, if each has its own."""
        return self.cti

    @property
    def clocks(self) -> DeviceClocks:
        """The clocks of devices, if each has its own time."""
        raise AssertionError("the devices of this stream have one time")

    def get_clock_stats(self) -> ClockStats | None:
        """Return counters of the clocks of devices; None if all have one time."""
        return None

    @property
    def importable_cti(self) -> int:
        """The CTI for streams that import it: the last one before the end of time.

        One batch may bring that CTI and the end of time at once.
        """
        return self.cti if self.cti < MAX_TIME else self._before_end

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return True if it advances this one."""
        if cti <= self.cti or cti >= MAX_TIME:
            return False
        self.set_cti(cti)
        return True

    def advance(self, cti: int, device: Any = None) -> bool:
        """Take a CTI from outside, which may hold for one device; return True if it advances."""
        assert device is None, "the devices of this stream have one time"
        return self.import_cti(cti)

    def take_cti(self, cti: int) -> None:
        """Take the CTI after a batch if it advances the stream; MIN_TIME stands for no CTI."""
        if cti > MIN_TIME:
            self._reach_sent(cti)

    def _reach_sent(self, time: int) -> None:
        if self.high < time < MAX_TIME:
            self.high = time
        self._reach(make_sent_cti(time, self.rules.cti_delay))

    def _reach(self, cti: int) -> None:
        # this runs for each row that makes a CTI: a call of max costs as much as the rest
        if cti > self.own:
            self.own = cti
        if cti > self.cti:
            if cti >= MAX_TIME:
                self._before_end = self.cti
            self.cti, self.late_below = cti, find_late_bound(cti)

    def set_cti(self, cti: int) -> None:
        """Note the CTI that has been reached, whatever it was before."""
        self.cti, self.late_below = cti, find_late_bound(cti)

    # Columns --------------------------------------------------------------------------------------

    @property
    def has_batch_edges(self) -> bool:
        """True if edges have come in batches."""
        return self._batch_rows is not None

    @property
    def state(self) -> State:
        """The state from which the kernels continue."""
        return self.cti, self.own, self._count, self._last, 0, self.high, 0

    def accept_batch(self, batch: EventBatch, ahead: Bools | None = None) -> Accepted:
        """Judge a batch; return its accepted rows with the CTI after them, and the late rows.

        An end edge is matched by its id. Without settings every row is accepted and an end edge
        without an open row is an error; the caller checks CTIs. ``ahead`` is the mask of the rows
        that are ahead of the wall clock, if any are.
        """
        if batch.has_edges:
            return self.accept_items(batch, classify_rows(batch), ahead)
        if self.settings is None:
            self.events += len(batch.start)
            self.take_cti(batch.cti)
            return batch, None
        if ahead is None:
            passed = pass_rows(batch.start, self.rules, self.state, batch.in_order)
            if passed is not None:
                state, in_order = passed
                self._continue(state, len(batch.start))
                self.take_cti(batch.cti)
                cti = self.cti if self.cti > MIN_TIME else MIN_TIME  # in less time than max
                return batch.replace(cti=cti, in_order=in_order), None
        return self.accept_judged(batch, self.judge_columns(batch, ahead=ahead))

    def accept_items(self, batch: EventBatch, kind: Bytes, ahead: Bools | None = None) -> Accepted:
        """Judge a batch with edges, or with CTIs among its rows; as ``accept_batch``.

        ``kind`` has the kind of each item. The time of a CTI is its start, and it leaves no row.
        """
        edges = BatchEdges(self._edge_table(), batch.edge, kind)
        verdicts = self.judge_columns(batch, kind, edges.row, edges.moved, ahead)
        if self.settings is None:
            refuse_strays(batch, verdicts, self.source)
        accepted = self.accept_judged(batch, verdicts, kind)
        edges.remember_open()
        return accepted

    def judge_columns(
        self,
        batch: EventBatch,
        kind: Bytes = NO_KINDS,
        row: Int64s = NO_ROWS,
        moved: Int64s = NO_ROWS,
        ahead: Bools | None = None,
    ) -> Verdicts:
        """Return the verdicts on a batch, to be applied next; the kernel defines the columns."""
        return judge_rows(
            batch.start, batch.end, self.rules, self.state, kind, row, moved,
            ahead=ahead, drops_ahead=self._drops_ahead,
        )  # fmt: skip

    def accept_judged(
        self, batch: EventBatch, verdicts: Verdicts, kind: Bytes = NO_KINDS
    ) -> Accepted:
        """Apply the verdicts on a batch; return its accepted rows, and the late ones."""
        self.apply(verdicts, len(batch))
        self.take_cti(batch.cti)
        accepted = verdicts.apply(batch, kind).replace(cti=max(self.cti, MIN_TIME))
        return accepted, verdicts.late_rows(batch)

    def apply(self, verdicts: Verdicts, rows: int) -> None:
        """Take over the state after the verdicts on ``rows`` rows, and count the late ones."""
        self._continue(verdicts.state, rows)
        if not len(verdicts.late):
            return
        self.lateness.add_all(verdicts.by)
        self.late.update(verdicts.count_reasons())

    def _continue(self, state: State, rows: int) -> None:
        """Take over the state that a kernel has reached after so many rows."""
        self.events += rows
        cti, self.own, self._count, self._last, by_import, self.high, behind = state
        self.set_cti(cti)
        self.late_by_import += by_import
        if behind > self.largest_lateness:
            self.largest_lateness = behind

    def _edge_table(self) -> IntTable:
        if self._batch_rows is None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._batch_rows = IntTable()
        return self._batch_rows

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return the CTI, the counters and the open rows.

        Of an open row's payload, the part that ``open_rows`` saves is written, usually all of it.
        """
        rows, fields = self.open_rows.list_rows(), self.open_rows.saved_payload
        opened = SavedOpenRows(rows, [fields(each.edge.payload) for each in rows])
        late = {reason.value: count for reason, count in self.late.items()}
        counts = [self.events, self.late_by_import, late, self.largest_lateness]
        counts += self.lateness.save()
        reached = [self.cti, self._before_end, self.own, self.high, self._count, self._last]
        table = None if self._batch_rows is None else [*self._batch_rows.state()]
        return [reached, counts, self.open_rows.opened, opened, table]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of a door with the same settings, before any event."""
        reached, counts, opened, rows, table = state
        cti, self._before_end, self.own, self.high, self._count, self._last = reached
        self.set_cti(cti)
        self.events, self.late_by_import, late, self.largest_lateness, *lateness = counts
        if lateness:  # a state of an earlier release has none
            self.lateness.load(lateness)
        self.late = Counter({LateReason(value): count for value, count in late.items()})
        for each in SavedOpenRows.read(rows).rows:
            self.open_rows.set_owner(each.owner)
            self.open_rows.open(each.edge.start, each.edge.payload, each)
        self.open_rows.resume(opened)
        self.open_rows.set_owner("")
        if table is not None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._batch_rows = IntTable.restore(*table)
