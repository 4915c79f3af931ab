"""The door of a stream: decides which events are late, and generates CTIs.

A stream's door judges its events one by one, in the order of acceptance, by the rules in
``lateness``; the columns of a batch by the same rules in ``engine/kernels/door``. It knows nothing
of the layers above it: the caller records and logs events and reports late ones.
Source: *Advancing Application Time*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    Event,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe, span
from rxtemporal.engine.kernels.door_rules import NEVER, NO_OPEN_ROW, is_due, make_cti
from rxtemporal.errors import CtiViolationError, EventError
from rxtemporal.ingress.batch_verdicts import (
    NO_KINDS,
    NO_ROWS,
    REASONS,
    BatchEdges,
    Bytes,
    LateRows,
    Rules,
    Verdicts,
    classify_rows,
    judge_rows,
)
from rxtemporal.ingress.lateness import (
    NO_CTI,
    Lateness,
    LateReason,
    Opened,
    judge,
    measure_lateness,
)
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.settings import (
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
)

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

_REACH = MAX_TIME - MIN_TIME

# the accepted event or None, the id of its row if it is an edge, and its lateness if it is late
Verdict: TypeAlias = tuple[RowEvent | None, int, Lateness | None]
IN_TIME: Verdict = (None, 0, None)


class Door:
    """Entrance of one source into a stream: judges each event, and generates CTIs.

    Events are accepted one by one or as columns, also mixed; the verdicts are the same. Holds one
    entry for each open edge row. Not thread-safe: its owner serialises calls.

    >>> from rxtemporal import INCREASING_START_TIME, PointEvent
    >>> door = Door(INCREASING_START_TIME, "a")
    >>> door.accept(PointEvent(7, "x")), door.cti
    ((PointEvent(7, 'x'), 0, None), 7)
    >>> kept, row, late = door.accept(PointEvent(5, "late"))
    >>> kept, late.by, door.late.total()
    (None, 2, 1)
    """

    def __init__(self, settings: AdvanceTimeSettings | None, source: str) -> None:
        self.settings = settings
        self.source = source
        self.cti = NO_CTI
        # what the CTI would be without imports
        self.own = NO_CTI
        self._before_end = NO_CTI
        self.events = 0
        self.late_by_import = 0
        self.late: Counter[LateReason] = Counter()
        self.largest_lateness = 0
        self.rows: OpenRows[Opened] = OpenRows()
        # the accepted starts of open rows of batches, by edge id, counted from MIN_TIME
        self._batch_rows: IntTable | None = None
        self._policy = None if settings is None else settings.policy
        self._generation = None if settings is None else settings.generation
        self.due = _Due(self._generation)

    def match_rows_by(self, fields: Callable[[Any], Any]) -> None:
        """Match edges by the part of the payload that ``fields`` returns; call before any event."""
        self.rows = OpenRows(fields)

    # Events one by one ----------------------------------------------------------------------------

    def accept(self, event: Event) -> Verdict:
        """Judge one event; return the accepted event or None, the id of its row, and its lateness.

        ``cti`` is afterwards the stream's CTI, which holds after the event returned.
        """
        kind = type(event)
        if (kind is PointEvent or kind is IntervalEvent) and event.start >= self.cti:
            self.events += 1
            if self._generation is not None:
                self._generate(event.start)
            return event, 0, None  # type: ignore[return-value]
        if isinstance(event, Cti):
            self._advance(event)
            return IN_TIME
        if not isinstance(event, RowEvent):
            raise EventError(
                f"a stream takes PointEvent, IntervalEvent, EdgeEvent and Cti, got {event!r}"
            )
        return self._judge(event)

    def _judge(self, event: RowEvent) -> Verdict:
        self.events += 1
        kept, reason, row = judge(event, self.cti, self._policy, self.rows)
        late = None if reason is None else self._count_late(event, reason)
        ends = isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END
        if self._generation is not None and not ends:
            self._generate(event.start)
        if row is None:
            return kept, 0, late
        if ends and kept is not None and kept.payload is not row.edge.payload:
            # payloads equal as keys may differ in a type or a sign: the start edge's counts
            kept = EdgeEvent.create_end(kept.start_time, kept.end_time, row.edge.payload)
        return kept, row.id, late

    def _generate(self, start: int) -> None:
        if self.due.after(start):
            self._reach(make_cti(start, self.due.delay))

    def _advance(self, event: Cti) -> None:
        if event.start < self.cti and self.settings is None:
            raise CtiViolationError(
                f"{event!r} of stream {self.source!r} is before its last CTI, "
                f"{describe(self.cti)}. "
                "Hint: give the stream advance_time= settings, or merge its sources in a "
                "CtiSynchronizingSubject."
            )
        self._reach(event.start)

    def _count_late(self, event: RowEvent, reason: LateReason) -> Lateness:
        if self.settings is None:
            raise self._violation(event, reason)
        self.late[reason] += 1
        if reason is not LateReason.NO_OPEN_ROW:
            late = measure_lateness(event, self.cti)
            self.largest_lateness = max(self.largest_lateness, late)
            self.late_by_import += late > 0 and measure_lateness(event, self.own) == 0
        broken = max(self.cti, MIN_TIME)
        return Lateness(reason, broken, measure_lateness(event, broken))

    def _violation(self, event: RowEvent, reason: LateReason) -> Exception:
        if reason is LateReason.NO_OPEN_ROW:
            return EventError(
                f"{event!r} of stream {self.source!r} ends a row that is not open: no start edge "
                "with this start and payload came before it. Hint: an end edge names its start "
                "edge's start and payload exactly."
            )
        if reason is LateReason.END_MOVED and measure_lateness(event, self.cti) == 0:
            return EventError(f"{event!r} of stream {self.source!r} ends before its row starts")
        return CtiViolationError(
            f"{event!r} of stream {self.source!r} breaks CTI {describe(max(self.cti, MIN_TIME))} "
            f"by {measure_lateness(event, self.cti)} ticks. "
            "Hint: advance_time= with a policy drops or adjusts late events, and a delay waits for "
            "them."
        )

    # Time -----------------------------------------------------------------------------------------

    def finish(self) -> int:
        """Advance to the end of time when the source completes, unless the settings forbid it.

        Returns the CTI.
        """
        if self._generation is None or self._generation.advance_to_infinity_on_shutdown:
            self.cti = MAX_TIME
        return max(self.cti, MIN_TIME)

    @property
    def generates(self) -> bool:
        """True if events generate CTIs."""
        return self._generation is not None

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
        self.cti = cti
        return True

    def enqueue(self, cti: int) -> None:
        """Take the CTI after a batch if it advances the stream; MIN_TIME stands for no CTI."""
        if cti > MIN_TIME:
            self._reach(cti)

    def _reach(self, cti: int) -> None:
        if self.cti < MAX_TIME <= cti:
            self._before_end = self.cti
        self.own = max(self.own, cti)
        self.cti = max(self.cti, cti)

    # Columns --------------------------------------------------------------------------------------

    @property
    def has_batch_edges(self) -> bool:
        """True if edges have come in batches."""
        return self._batch_rows is not None

    @property
    def rules(self) -> Rules:
        """The settings in the form that the kernels take."""
        adjust = self._policy is AdvanceTimePolicy.ADJUST
        return self.due.every, self.due.span, self.due.delay, adjust

    @property
    def state(self) -> tuple[int, int, int, int, int]:
        """The state from which the kernels continue."""
        return self.cti, self.own, self.due.count, self.due.last, 0

    def accept_batch(self, batch: EventBatch) -> tuple[EventBatch, LateRows | None]:
        """Judge a batch; return its accepted rows with the CTI after them, and the late rows.

        An end edge is matched by its id. Without settings every row is accepted and an end edge
        without an open row is an error; the caller checks CTIs.
        """
        kind = classify_rows(batch)
        if self.settings is None and not len(kind):
            self.events += len(batch)
            self.enqueue(batch.cti)
            return batch, None
        if not len(kind):
            return self.accept_judged(batch, self.judge_columns(batch.start, batch.end))
        edges = BatchEdges(self._edge_table(), batch.edge, kind)
        verdicts = self.judge_columns(batch.start, batch.end, kind, edges.row, edges.moved)
        if self.settings is None:
            self._refuse_strays(batch, verdicts)
        accepted = self.accept_judged(batch, verdicts, kind)
        edges.remember_open()
        return accepted

    def judge_columns(
        self,
        start: Int64s,
        end: Int64s,
        kind: Bytes = NO_KINDS,
        row: Int64s = NO_ROWS,
        moved: Int64s = NO_ROWS,
    ) -> Verdicts:
        """Return the verdicts on items, with the door unchanged; the kernel defines the columns."""
        return judge_rows(start, end, self.rules, np.array(self.state, np.int64), kind, row, moved)

    def accept_judged(
        self, batch: EventBatch, verdicts: Verdicts, kind: Bytes = NO_KINDS
    ) -> tuple[EventBatch, LateRows | None]:
        """Apply the verdicts on a batch; return its accepted rows, and the late ones."""
        self.apply(verdicts, len(batch))
        self.enqueue(batch.cti)
        accepted = verdicts.apply(batch, kind).replace(cti=max(self.cti, MIN_TIME))
        return accepted, verdicts.late_rows(batch)

    def apply(self, verdicts: Verdicts, rows: int) -> None:
        """Take over the state after the verdicts on ``rows`` rows, and count the late ones."""
        self.events += rows
        self.cti, self.own, self.due.count, self.due.last, by_import = verdicts.state.tolist()
        if not len(verdicts.late):
            return
        self.late_by_import += by_import
        counts = np.bincount(verdicts.reason, minlength=len(REASONS)).tolist()
        self.late.update({r: n for r, n in zip(REASONS, counts, strict=True) if r and n})
        matched = verdicts.by[verdicts.reason != NO_OPEN_ROW]
        if len(matched):
            self.largest_lateness = max(self.largest_lateness, int(matched.max()))

    def _edge_table(self) -> IntTable:
        if self._batch_rows is None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._batch_rows = IntTable()
        return self._batch_rows

    def _refuse_strays(self, batch: EventBatch, verdicts: Verdicts) -> None:
        strays = verdicts.late[verdicts.reason == NO_OPEN_ROW]
        if len(strays):
            stray = batch.take(strays[:1])
            raise EventError(
                f"row {int(strays[0])} of a batch of stream {self.source!r} is an end edge of "
                f"id {int(stray.edge[0])}, but no row with this id is open: {stray.to_dicts()[0]}. "
                "Hint: an end edge carries its start edge's id."
            )

    # State ----------------------------------------------------------------------------------------

    def save(self) -> list[Any]:
        """Return the CTI, the counters and the open rows as plain values.

        Of an open row's payload, the part that ``rows`` saves is returned, usually all of it.
        """
        fields = self.rows.saved_payload
        rows = [
            [each.edge.start_time, fields(each.edge.payload), each.start, each.id, each.owner]
            for each in self.rows
        ]
        late = {reason.value: count for reason, count in self.late.items()}
        counts = [self.events, self.late_by_import, late, self.largest_lateness]
        reached = [self.cti, self._before_end, self.own, self.due.count, self.due.last]
        table = None if self._batch_rows is None else [*self._batch_rows.state()]
        return [reached, counts, self.rows.opened, rows, table]

    def load(self, state: Sequence[Any]) -> None:
        """Resume from the result of ``save`` of a door with the same settings, before any event."""
        reached, counts, opened, rows, table = state
        self.cti, self._before_end, self.own, self.due.count, self.due.last = reached
        self.events, self.late_by_import, late, self.largest_lateness = counts
        self.late = Counter({LateReason(value): count for value, count in late.items()})
        for start_time, payload, start, number, self.rows.owner in rows:
            edge = EdgeEvent.create_start(start_time, payload)
            self.rows.open(edge.start, payload, Opened(edge, start, number, self.rows.owner))
        self.rows.opened, self.rows.owner = opened, ""
        if table is not None:
            from rxtemporal.engine.kernels.hash_table import IntTable

            self._batch_rows = IntTable.restore(*table)


class _Due:
    """The next CTI to generate: after every N-th event, or at a start T or more after the last."""

    __slots__ = ("count", "delay", "every", "last", "span")

    def __init__(self, generation: AdvanceTimeGenerationSettings | None) -> None:
        frequency = 0 if generation is None else generation.frequency
        by_span = isinstance(frequency, timedelta)
        # larger values make no difference, for time is bounded; these fit 64 bits
        self.every = 0 if isinstance(frequency, timedelta) else min(frequency, _REACH)
        self.span = min(span(frequency, "frequency"), _REACH) if by_span else 0
        delay = 0 if generation is None else generation.delay_ticks
        self.delay = min(max(delay, -_REACH), _REACH)
        self.count = 0
        self.last = NEVER

    def after(self, start: int) -> bool:
        """Return True if the event with this start makes a CTI due."""
        self.count += 1
        due = is_due(start, self.count, self.every, self.span, self.last)
        if due:
            self.last = start
        return due
