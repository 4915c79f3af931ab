"""What both CTI synchronizing subjects share: construction, inputs, late events and counters."""

from __future__ import annotations

import threading
from typing import Any, TypeVar

from reactivex import Observable, abc

from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    EventShape,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Span, add, as_given, span
from rxtemporal.errors import ArgumentError, EventError
from rxtemporal.ingress.lateness import NO_CTI, LateEvent, judge, lateness
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.reactive.subjects.inputs import Input, Source, SubjectStats
from rxtemporal.reactive.subjects.transform import TransformSubject
from rxtemporal.reactive.subscriber import OnCompleted, OnError, OnNext

Self = TypeVar("Self", bound="CtiSubject")

# the name under which what comes through the subject's own on_next is counted
OWN = "subject"

_TYPES: dict[EventShape, type[RowEvent]] = {
    EventShape.POINT: PointEvent,
    EventShape.INTERVAL: IntervalEvent,
    EventShape.EDGE: EdgeEvent,
}


class Ledger:
    """The time that one subject has reached, and its verdicts on what is late.

    It is the accumulator of both subjects. Whoever owns it serialises.
    """

    __slots__ = ("cti", "delay", "edges", "floor", "high", "largest", "late", "out", "policy")

    def __init__(self, shape: EventShape, delay: int, policy: AdvanceTimePolicy) -> None:
        self.delay = delay
        self.policy = policy
        # the highest CTI that any source has sent, and the highest that was passed on
        self.high = self.cti = NO_CTI
        self.largest = 0
        # An event that starts at or above the floor is neither late nor later than any before it,
        # and goes on without another look. Edges always get one, for their rows are remembered.
        self.edges = shape is EventShape.EDGE
        self.floor = MAX_TIME if self.edges else NO_CTI
        self.late: TransformSubject[LateEvent, LateEvent] = TransformSubject(lambda late: late)
        # what goes on of the item taken last; None if nothing does
        self.out: Any = None

    def advance(self, event: Cti, source: Source) -> Cti | None:
        """Take a CTI and return the one to pass on, less the delay; None if it does not advance."""
        time = event.start
        # the end of time says that all is over, not that a source has come that far
        if time < MAX_TIME:
            self.high = max(self.high, time)
            source.reached = max(source.reached, time)
        cti = add(time, -self.delay)
        passes = cti > self.cti
        if passes:
            self.cti = cti
        self._set_floor()
        if not passes:
            return None
        return event if cti == time else Cti(as_given(cti, event.start_time))

    def admit(self, event: RowEvent, source: Source) -> RowEvent | None:
        """Return what goes on of an edge, or of an event below the floor; None if nothing does."""
        if isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END:
            source.reached = max(source.reached, event.end)
        behind = lateness(event, self.high)
        if behind > self.largest:
            self.largest = behind
            self._set_floor()
        kept, reason, _ = judge(event, self.cti, self.policy, source.rows)
        if reason is not None:
            broken = max(self.cti, MIN_TIME)
            by = lateness(event, broken)
            source.late[reason] += 1
            source.largest_lateness = max(source.largest_lateness, by)
            self.late.on_next(LateEvent(event, source.name, reason, broken, by))
        return kept

    def _set_floor(self) -> None:
        if not self.edges:
            self.floor = max(self.cti, self.high - self.largest)


class CtiSubject(Observable[Any]):
    """The common half of the two CTI synchronizing subjects; use one of those."""

    def __init__(self, shape: EventShape, delay: Span, policy: AdvanceTimePolicy) -> None:
        super().__init__()
        if not isinstance(policy, AdvanceTimePolicy):
            raise ArgumentError(f"policy is AdvanceTimePolicy.DROP or ADJUST, got {policy!r}")
        length = span(delay, "delay")
        if length < 0:
            raise ArgumentError(
                f"delay must not be negative, got {delay}. "
                "Hint: to move results forward in time use shift_event_time."
            )
        self.shape = shape
        self._type = _TYPES[shape]
        self._ledger = Ledger(shape, length, policy)
        self._sources: dict[str, Source] = {}
        self._sources_lock = threading.Lock()
        self._own = self._source(OWN)
        self._own.opened(self)

    @classmethod
    def create_point(
        cls: type[Self], delay: Span, *, policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP
    ) -> Self:
        """Return a subject of point events; ``delay`` is a timedelta or ticks, not negative."""
        return cls(EventShape.POINT, delay, policy)

    @classmethod
    def create_interval(
        cls: type[Self], delay: Span, *, policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP
    ) -> Self:
        """Return a subject of interval events; ``delay`` is a timedelta or ticks, not negative."""
        return cls(EventShape.INTERVAL, delay, policy)

    @classmethod
    def create_edge(
        cls: type[Self], delay: Span, *, policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP
    ) -> Self:
        """Return a subject of edge events; ``delay`` is a timedelta or ticks, not negative.

        It remembers each open row until its end edge comes. End edges are matched within the
        source (see ``input``) that opened the row.
        """
        return cls(EventShape.EDGE, delay, policy)

    def input(self, name: str) -> Input:
        """Return a handle for the source called ``name``, also a context manager.

        Sources come and go without completing or failing the others. A source that returns under
        its name finds its counters and its open rows again.
        """
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"an input's name is a non-empty str, got {name!r}")
        return Input(self._source(name), self._accept)

    @property
    def late(self) -> Observable[LateEvent]:
        """Every event that was dropped or adjusted, as it happens, with the CTI that it broke."""
        return self._ledger.late

    def stats(self) -> SubjectStats:
        """Return what has been counted so far. Costs time for each source there has been."""
        with self._sources_lock:
            sources = list(self._sources.values())
        most_advanced = max(source.reached for source in sources)
        ledger = self._ledger
        return SubjectStats(
            events=sum(source.events for source in sources),
            late=sum(source.late.total() for source in sources),
            cti=None if ledger.cti == NO_CTI else ledger.cti,
            largest_lateness=ledger.largest,
            open_rows=sum(len(source.rows) for source in sources),
            subscriber_errors=self.subscriber_errors,
            sources={source.name: source.stats(most_advanced) for source in sources},
        )

    def _source(self, name: str) -> Source:
        with self._sources_lock:
            source = self._sources.get(name)
            if source is None:
                source = self._sources[name] = Source(name)
            return source

    @property
    def subscriber_errors(self) -> int:
        """How often a subscriber has raised."""
        raise NotImplementedError

    def _refuse(self, event: Any) -> EventError:
        return EventError(
            f"this subject takes {self.shape.value} events and CTIs, got {event!r} "
            f"({type(event).__name__})"
        )

    def _accept(self, event: Any, source: Source) -> None:
        """Take one event of one source."""
        raise NotImplementedError

    def on_next(self, event: Any) -> None:
        """Push an event or a CTI in, from any thread; refuse another shape than this subject's."""
        self._accept(event, self._own)

    def on_error(self, error: Exception) -> None:
        """Fail the whole stream. A single source fails through its own handle, see ``input``."""
        raise NotImplementedError

    def on_completed(self) -> None:
        """End the stream: subscribers get a CTI at the end of time, then ``on_completed``."""
        raise NotImplementedError

    def dispose(self) -> None:
        """Release every subscriber; what is pushed afterwards raises ``DisposedException``."""
        raise NotImplementedError

    def subscribe(
        self,
        on_next: abc.ObserverBase[Any] | OnNext | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Deliver everything that comes out from now on; dispose the result to stop."""
        raise NotImplementedError
