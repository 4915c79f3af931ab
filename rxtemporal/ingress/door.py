"""The door of a stream: judges each event as it enters, and makes CTIs as the settings say.

An event is late or not by the decision made here and nowhere else, event by event, in the order in
which events are accepted. Source: *Advancing Application Time*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, Event, RowEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, describe, span
from rxtemporal.engine.kernels.door_rules import NEVER, is_due, made
from rxtemporal.errors import CtiViolationError, EventError
from rxtemporal.ingress.lateness import NO_CTI, LateReason, Opened, judge, lateness
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.settings import AdvanceTimeGenerationSettings, AdvanceTimeSettings

_REACH = MAX_TIME - MIN_TIME


class LateListener(Protocol):
    """Is told what a door drops or changes, on the thread that feeds the door."""

    def event(self, event: RowEvent, reason: LateReason, cti: int, by: int) -> None:
        """Take one event as it came, the CTI that it broke, and by how many ticks."""

    def rows(self, late: Any) -> None:
        """Take the late rows of a batch, a ``LateRows``."""


class Tape(Protocol):
    """Where a door notes what it is brought, in a run that is recorded or keeps an input log.

    A recording has what came, whatever became of it: it is told before the verdict. A log has what
    was accepted, so that what ended a run does not end the next one too: it is told after it.
    """

    def event(self, event: Any) -> None:
        """Note an event."""

    def events(self, events: Sequence[Any]) -> None:
        """Note events that follow each other."""

    def batch(self, batch: Any) -> None:
        """Note a batch; a CTI above MIN_TIME is its own."""

    def advanced(self, cti: int) -> None:
        """Note that time was advanced from outside, by neither the source nor an import."""

    def completed(self) -> None:
        """Note that the source has ended."""


class Door:
    """Where one source's events enter a stream: judges each, and makes CTIs as the settings say.

    Holds one entry for each open edge row. Not thread-safe: its owner serialises.

    >>> from rxtemporal import INCREASING_START_TIME, PointEvent
    >>> door = Door(INCREASING_START_TIME, "a")
    >>> door.accept(PointEvent(7, "x")), door.cti
    ((PointEvent(7, 'x'), 0), 7)
    >>> door.accept(PointEvent(5, "late")), door.late.total()
    ((None, 0), 1)
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
        # who is told of each late event
        self.listener: LateListener | None = None
        self.tape: Tape | None = None
        self.log: Tape | None = None
        self._policy = None if settings is None else settings.policy
        self._generation = None if settings is None else settings.generation
        self.due = _Due(self._generation)

    def accept(self, event: Event) -> tuple[RowEvent | None, int]:
        """Take one event; return what goes on of it, and the id of its row if it is an edge.

        ``cti`` is afterwards the stream's CTI, which holds after the event returned.
        """
        if self.log is not None:
            return self._logged(event, self.log)
        if self.tape is not None:
            self.tape.event(event)
        if isinstance(event, Cti):
            self._advance(event)
            return None, 0
        if not isinstance(event, RowEvent):
            raise EventError(
                f"a stream takes PointEvent, IntervalEvent, EdgeEvent and Cti, got {event!r}"
            )
        self.events += 1
        kept, reason, row = judge(event, self.cti, self._policy, self.rows)
        if reason is not None:
            self._note(event, reason)
        ends = isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END
        if self._generation is not None and not ends and self.due.after(event.start):
            self._reach(made(event.start, self.due.delay))
        if row is None:
            return kept, 0
        if ends and kept is not None and kept.payload is not row.edge.payload:
            # payloads equal as keys may differ in a type or a sign: the start edge's counts
            kept = EdgeEvent.create_end(kept.start_time, kept.end_time, row.edge.payload)
        return kept, row.id

    def _logged(self, event: Event, log: Tape) -> tuple[RowEvent | None, int]:
        # a check for each event is enough where there is none
        self.log = None
        try:
            accepted = self.accept(event)
        finally:
            self.log = log
        log.event(event)
        return accepted

    def finish(self) -> None:
        """The source has completed: advance to the end of time, unless the settings say not to."""
        for tape in (self.tape, self.log):
            if tape is not None:
                tape.completed()
        if self._generation is None or self._generation.advance_to_infinity_on_shutdown:
            self.cti = MAX_TIME

    @property
    def announced(self) -> int:
        """The CTI for streams that import it: the last one before the end of time, which is not.

        A batch may bring both at once.
        """
        return self.cti if self.cti < MAX_TIME else self._before_end

    def import_cti(self, cti: int) -> bool:
        """Take a CTI of another stream; return whether it advances this one."""
        if cti <= self.cti or cti >= MAX_TIME:
            return False
        self.cti = cti
        return True

    def enqueue(self, cti: int) -> None:
        """Take the CTI after a batch, if it advances; MIN_TIME is none."""
        if cti > MIN_TIME:
            self._reach(cti)

    def saved(self) -> list[Any]:
        """Return how far it has come, what it has counted and the rows that are open: plain values.

        The rows' payloads are what its ``rows`` keep of them, as a rule what the source gave.
        """
        rows = [
            [each.edge.start_time, self.rows.kept(each.edge.payload), each.start, each.id]
            for each in self.rows
        ]
        late = {reason.value: count for reason, count in self.late.items()}
        counts = [self.events, self.late_by_import, late, self.largest_lateness]
        reached = [self.cti, self._before_end, self.own, self.due.count, self.due.last]
        return [reached, counts, self.rows.opened, rows]

    def restore(self, state: Sequence[Any]) -> None:
        """Go on from what ``saved`` of a door of the same settings returned; before any event."""
        reached, counts, opened, rows = state
        self.cti, self._before_end, self.own, self.due.count, self.due.last = reached
        self.events, self.late_by_import, late, self.largest_lateness = counts
        self.late = Counter({LateReason(value): count for value, count in late.items()})
        for start_time, payload, start, number in rows:
            edge = EdgeEvent.create_start(start_time, payload)
            self.rows.open(edge.start, payload, Opened(edge, start, number))
        self.rows.opened = opened

    def _reach(self, cti: int) -> None:
        if self.cti < MAX_TIME <= cti:
            self._before_end = self.cti
        self.own = max(self.own, cti)
        self.cti = max(self.cti, cti)

    def _advance(self, event: Cti) -> None:
        if event.start < self.cti and self.settings is None:
            raise CtiViolationError(
                f"{event!r} of stream {self.source!r} goes back from CTI {describe(self.cti)}. "
                "Hint: give the stream advance_time= settings, or merge its sources in a "
                "CtiSynchronizingSubject."
            )
        self._reach(event.start)

    def _note(self, event: RowEvent, reason: LateReason) -> None:
        if self.settings is None:
            raise self._violation(event, reason)
        self.late[reason] += 1
        if self.listener is not None:
            broken = max(self.cti, MIN_TIME)
            self.listener.event(event, reason, broken, lateness(event, broken))
        if reason is not LateReason.NO_OPEN_ROW:
            late = lateness(event, self.cti)
            self.largest_lateness = max(self.largest_lateness, late)
            self.late_by_import += late > 0 and lateness(event, self.own) == 0

    def _violation(self, event: RowEvent, reason: LateReason) -> Exception:
        if reason is LateReason.NO_OPEN_ROW:
            return EventError(
                f"{event!r} of stream {self.source!r} ends a row that is not open: no start edge "
                "with this start and payload came before it. Hint: an end edge names its start "
                "edge's start and payload exactly."
            )
        if reason is LateReason.END_MOVED and lateness(event, self.cti) == 0:
            return EventError(f"{event!r} of stream {self.source!r} ends before its row starts")
        return CtiViolationError(
            f"{event!r} of stream {self.source!r} breaks CTI {describe(max(self.cti, MIN_TIME))} "
            f"by {lateness(event, self.cti)} ticks. Hint: advance_time= with a policy drops or "
            "adjusts late events, and a delay waits for them."
        )


class _Due:
    """When a CTI is due: every N-th event, or each start at least T after the last that was."""

    __slots__ = ("count", "delay", "every", "last", "span")

    def __init__(self, generation: AdvanceTimeGenerationSettings | None) -> None:
        frequency = 0 if generation is None else generation.frequency
        by_span = isinstance(frequency, timedelta)
        # beyond these every sum of times has met an end of time: they fit 64 bits
        self.every = 0 if isinstance(frequency, timedelta) else min(frequency, _REACH)
        self.span = min(span(frequency, "frequency"), _REACH) if by_span else 0
        delay = 0 if generation is None else generation.delay_ticks
        self.delay = min(max(delay, -_REACH), _REACH)
        self.count = 0
        self.last = NEVER

    def after(self, start: int) -> bool:
        """Whether the event with this start makes a CTI due."""
        self.count += 1
        due = is_due(start, self.count, self.every, self.span, self.last)
        if due:
            self.last = start
        return due
