"""Time that one CTI synchronizing subject has reached, and its verdicts on late events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from rxtemporal.core.events import Cti, EventShape, RowEvent, ends_row, find_late_bound
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add, match_form
from rxtemporal.ingress.clock_guard import ClockGuard, JumpWatch
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, LateReason, judge, measure_lateness
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.reactive.subjects.inputs import SourceState
from rxtemporal.reactive.subjects.transform import TransformSubject

if TYPE_CHECKING:
    from rxtemporal.core.batch import Bools, EventBatch
    from rxtemporal.ingress.batch_verdicts import EventRun, Rules, State, Verdicts
    from rxtemporal.reactive.subjects.inputs import SubjectRows


@cache
def load_batch_type() -> type[EventBatch]:
    """Return the class of batches: none is the first to load what it is made of."""
    from rxtemporal.core.batch import EventBatch

    return EventBatch


@cache
def load_batch_rules() -> ModuleType:
    """Return the functions that take batches: no subject loads compiled code before it gets one."""
    from rxtemporal.reactive.subjects import batches

    return batches


class Accumulator:
    """State of both CTI synchronizing subjects; its owner serialises."""

    __slots__ = (
        "_edges", "_now", "_watch", "ahead", "cti", "delay", "drops_ahead", "floor", "guard",
        "high", "late", "late_below", "named_start", "out", "policy", "rows_ahead", "shape",
        "source",
    )  # fmt: skip

    def __init__(
        self,
        shape: EventShape,
        delay: int,
        policy: AdvanceTimePolicy,
        source: SourceState,
        now: Callable[[], int],
        guard: ClockGuard | None = None,
        drops_ahead: bool = False,
    ) -> None:
        self._now = now
        # an item ahead of the wall clock does not advance time, and is dropped if so asked
        self.guard, self.drops_ahead = guard, drops_ahead
        self._watch = JumpWatch("subject", now) if guard is None else None
        # True if the last row passed on is ahead; the mask of such rows of the last batch
        self.ahead = False
        self.rows_ahead: Bools | None = None
        # the source of the last item
        self.source = source
        # of an edge whose row has been adjusted: the start that its source has named
        self.named_start: int | None = None
        self.delay = delay
        self.policy = policy
        # the highest CTI that any source has sent, and the highest that was passed on
        self.high = self.cti = NO_CTI
        # An event that starts at or above the floor is behind no CTI, and at or above the second
        # bound it is not late; so it passes without a call to ``admit``, unless it is the furthest
        # behind of its source. Edges never do: their rows are remembered.
        self.shape = shape
        self._edges = shape is EventShape.EDGE
        self.floor = self.late_below = MAX_TIME if self._edges else NO_CTI
        self.late: TransformSubject[LateEvent, LateEvent] = TransformSubject(lambda late: late)
        # the item to pass on for the last one; None if there is none
        self.out: Any = None

    def advance(self, event: Cti, source: SourceState) -> Cti | None:
        """Take a CTI; return the one to pass on, less the delay, or None if it does not advance."""
        # this runs once for each CTI
        time = event.start
        self.source, self.ahead, self.named_start = source, False, None
        if self.guard is not None and self.guard.is_time_ahead(time):
            source.note_ahead(time, self._now())
            return None
        # the end of time means that the stream is over, not that a source has come that far
        if time < MAX_TIME:
            if time > self.high:
                self.high = time
            source.note_ctis(1, time, self._now)
        cti = add(time, -self.delay) if self.delay else time
        passes = cti > self.cti
        if passes:
            self.cti = cti
            if not self._edges:
                self.late_below = find_late_bound(cti)
        if not self._edges:
            high, bound = self.high, self.late_below
            self.floor = bound if bound > high else high
        if not passes:
            return None
        watch = self._watch
        if watch is not None and cti > watch.limit:
            watch.check(cti, source.name)
        return event if cti == time else Cti(match_form(cti, event.start_time))

    def keep(self, out: Any) -> Self:
        """Keep the item to pass on for the last one, None for none; return this object."""
        self.out = out
        return self

    def is_advanced_by(self, event: Cti) -> bool:
        """Return True if a CTI would be passed on now."""
        return event.start - self.delay > self.cti

    def admit_one(self, event: Any, source: SourceState) -> Any:
        """Judge a point, an interval or a CTI; return what passes, or None."""
        if type(event) is Cti:
            return self.advance(event, source)
        self.source = source
        start = event.start
        source.note_row(start)
        if start < self.floor and (
            start < self.late_below or self.high - start > source.largest_lateness
        ):
            return self.admit(event, source)
        return event

    def take(self, event: RowEvent, source: SourceState) -> RowEvent | None:
        """Compare a row with the wall clock, then judge it; return the accepted event, or None."""
        assert self.guard is not None
        self.source = source
        start, self.ahead, self.named_start = event.start, self.guard.is_ahead(event), None
        if not self.ahead:
            source.note_row(start)
        else:
            source.count_events(1)
            source.note_ahead(start, self._now())
            if self.drops_ahead:
                self._report_late(event, LateReason.AHEAD, source)
                return None
        return event if start >= self.floor else self.admit(event, source)

    def admit(self, event: RowEvent, source: SourceState) -> RowEvent | None:
        """Judge an edge, or an event below the floor; return the accepted event, or None."""
        self.source = source
        if ends_row(event):
            source.reach(event.end)
        source.note_behind(measure_lateness(event, self.high))
        kept, reason, row = judge(event, self.cti, self.policy, source.rows)
        moved = row is not None and row.start != row.edge.start
        self.named_start = row.edge.start if row is not None and moved else None
        if reason is not None:
            self._report_late(event, reason, source)
        return kept

    def _report_late(self, event: RowEvent, reason: LateReason, source: SourceState) -> None:
        broken = max(self.cti, MIN_TIME)
        by = measure_lateness(event, broken)
        source.late[reason] += 1
        self.late.on_next(LateEvent(event, source.name, reason, broken, by))

    def resume(self, cti: int, high: int) -> None:
        """Go on from a time that was reached earlier, unless it is further already."""
        self.cti, self.high = max(self.cti, cti), max(self.high, high)
        self._set_floor()

    def admit_run(self, events: Sequence[Any], source: SourceState) -> EventRun | None:
        """Take points or intervals and CTIs at once; return those that pass.

        None, with nothing changed, if they have to be taken one by one: the start of an interval
        has to be adjusted, a CTI is an end of time, or an item is none of these.
        """
        rules = load_batch_rules()
        run = rules.EventRun.from_items(events)
        judged = None if run is None else rules.judge_run(run, self._rules, self._state)
        if judged is None:
            return None
        passed, verdicts = judged
        self.cti, self.high, self.source = verdicts.state[0], verdicts.state[5], source
        self.ahead, self.named_start = False, None
        self._set_floor()
        source.note_rows(run.rows, int(run.start.max()), verdicts.behind)
        source.late.update(verdicts.count_reasons())
        self._note_ctis(len(events) - run.rows, source)
        return passed  # type: ignore[no-any-return]

    @property
    def _rules(self) -> Rules:
        """The rules of a door that takes its time from CTIs alone."""
        adjusts = self.policy is AdvanceTimePolicy.ADJUST
        return load_batch_rules().Rules(0, 0, 0, adjusts, self.delay)  # type: ignore[no-any-return]

    @property
    def _state(self) -> State:
        return self.cti, self.cti, 0, NO_CTI, 0, self.high, 0

    def _note_ctis(self, count: int, source: SourceState) -> None:
        """Count CTIs that a source has sent, and compare the time reached with the clock."""
        if not count:
            return
        source.note_ctis(count, source.reached, self._now)
        watch = self._watch
        if watch is not None and self.cti > watch.limit:
            watch.check(self.cti, source.name)

    def admit_batch(self, rows: SubjectRows, source: SourceState) -> EventBatch | Cti | None:
        """Judge a batch of complete rows, then take its CTI; return the accepted rows.

        If there are none, return the CTI that passes, or None.
        """
        batch, self.rows_ahead, self.source = rows.batch, None, source
        ahead = None if self.guard is None else self.guard.rows_ahead(batch.start)
        if ahead is not None:
            rows = self._note_ahead(rows, ahead, source)
        source.note_rows(len(batch), rows.high, self.high - rows.low)
        accepted = batch
        if ahead is not None or rows.low < find_late_bound(self.cti):
            accepted = self._judge_batch(batch, ahead, source)
        cti = self.advance(Cti(batch.cti), source) if batch.cti > MIN_TIME else None
        if not len(accepted):
            return cti
        reached = max(self.cti, MIN_TIME)
        return accepted if accepted.cti == reached else accepted.replace(cti=reached)

    def _note_ahead(self, rows: SubjectRows, ahead: Bools, source: SourceState) -> SubjectRows:
        """Count the rows ahead of the wall clock; return the measures of the others."""
        source.count_ahead(int(ahead.sum()))
        source.offset.note(rows.high, self._now())
        start = rows.batch.start[~ahead]
        low, high = (int(start.min()), int(start.max())) if len(start) else (MAX_TIME, NO_CTI)
        return rows._replace(low=low, high=high)

    def _judge_batch(
        self, batch: EventBatch, ahead: Bools | None, source: SourceState
    ) -> EventBatch:
        verdicts: Verdicts = load_batch_rules().judge_rows(
            batch.start, batch.end, self._rules, self._state,
            ahead=ahead, drops_ahead=self.drops_ahead,
        )  # fmt: skip
        self.rows_ahead = None if ahead is None or self.drops_ahead else ahead[verdicts.kept]
        source.late.update(verdicts.count_reasons())
        late = verdicts.late_rows(batch) if self.late.has_subscribers else None
        if late is not None:
            for each in late.list_events(source.name, "ticks", self.shape):
                self.late.on_next(each)
        return verdicts.apply(batch)

    def _set_floor(self) -> None:
        if not self._edges:
            self.late_below = find_late_bound(self.cti)
            self.floor = max(self.late_below, self.high)
