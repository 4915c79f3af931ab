"""Time that one CTI synchronizing subject has reached, and its verdicts on late events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, EventShape, RowEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add, match_form
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, judge, measure_lateness
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.reactive.subjects.inputs import SourceState
from rxtemporal.reactive.subjects.transform import TransformSubject

if TYPE_CHECKING:
    from rxtemporal.core.batch import EventBatch


class Accumulator:
    """State of both CTI synchronizing subjects; its owner serialises."""

    __slots__ = (
        "cti", "delay", "edges", "floor", "high", "largest", "late", "named_start", "out", "policy",
        "shape", "source",
    )  # fmt: skip

    def __init__(
        self, shape: EventShape, delay: int, policy: AdvanceTimePolicy, source: SourceState
    ) -> None:
        # the source of the last item
        self.source = source
        # of an edge whose row has been adjusted: the start that its source has named
        self.named_start: int | None = None
        self.delay = delay
        self.policy = policy
        # the highest CTI that any source has sent, and the highest that was passed on
        self.high = self.cti = NO_CTI
        self.largest = 0
        # An event that starts at or above the floor is neither late nor later than any before it,
        # so it passes without a call to ``admit``. Edges never do: their rows are remembered.
        self.shape = shape
        self.edges = shape is EventShape.EDGE
        self.floor = MAX_TIME if self.edges else NO_CTI
        self.late: TransformSubject[LateEvent, LateEvent] = TransformSubject(lambda late: late)
        # the item to pass on for the last one; None if there is none
        self.out: Any = None

    def advance(self, event: Cti, source: SourceState) -> Cti | None:
        """Take a CTI; return the one to pass on, less the delay, or None if it does not advance."""
        time = event.start
        # the end of time means that the stream is over, not that a source has come that far
        if time < MAX_TIME:
            self.high = max(self.high, time)
            source.reached = max(source.reached, time)
        cti = add(time, -self.delay)
        self.named_start = None
        passes = cti > self.cti
        if passes:
            self.cti = cti
        self._set_floor()
        if not passes:
            return None
        return event if cti == time else Cti(match_form(cti, event.start_time))

    def admit(self, event: RowEvent, source: SourceState) -> RowEvent | None:
        """Judge an edge, or an event below the floor; return the accepted event, or None."""
        if isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END:
            source.reached = max(source.reached, event.end)
        behind = measure_lateness(event, self.high)
        if behind > self.largest:
            self.largest = behind
            self._set_floor()
        kept, reason, row = judge(event, self.cti, self.policy, source.rows)
        moved = row is not None and row.start != row.edge.start
        self.named_start = row.edge.start if row is not None and moved else None
        if reason is not None:
            broken = max(self.cti, MIN_TIME)
            by = measure_lateness(event, broken)
            self._report(LateEvent(event, source.name, reason, broken, by), source)
        return kept

    def _report(self, late: LateEvent, source: SourceState) -> None:
        source.late[late.reason] += 1
        source.largest_lateness = max(source.largest_lateness, late.by)
        self.late.on_next(late)

    def resume(self, cti: int, high: int, largest: int) -> None:
        """Go on from a time that was reached earlier, unless it is further already."""
        self.cti, self.high = max(self.cti, cti), max(self.high, high)
        self.largest = max(self.largest, largest)
        self._set_floor()

    def split(self, batch: EventBatch) -> list[Any]:
        """Return a batch as the items to take: the edges in it one by one, other rows together."""
        from rxtemporal.reactive.subjects.batches import split_edges

        return split_edges(batch) if self.edges else [batch]

    def admit_batch(self, batch: EventBatch, source: SourceState) -> EventBatch | Cti | None:
        """Judge a batch of complete rows, then take its CTI; return the accepted rows.

        If there are none, return the CTI that passes, or None.
        """
        # compiled code is loaded by the first batch
        from rxtemporal.reactive.subjects.batches import judge_batch, list_late

        if len(batch):
            self._note_times(batch, source)
        accepted, verdicts = judge_batch(batch, self.cti, self.policy)
        for late in list_late(batch, verdicts, self.shape, source.name):
            self._report(late, source)
        cti = self.advance(Cti(batch.cti), source) if batch.cti > MIN_TIME else None
        if not len(accepted):
            return cti
        return accepted.replace(cti=max(self.cti, MIN_TIME))

    def _note_times(self, batch: EventBatch, source: SourceState) -> None:
        source.events += len(batch)
        source.reached = max(source.reached, int(batch.start.max()))
        behind = self.high - int(batch.start.min())
        if behind > self.largest:
            self.largest = behind
            self._set_floor()

    def _set_floor(self) -> None:
        if not self.edges:
            self.floor = max(self.cti, self.high - self.largest)
