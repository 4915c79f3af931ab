"""Base of both CTI synchronizing subjects: construction, inputs, late events and counters."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable, abc

from rxtemporal.core.events import (
    EdgeEvent,
    EventShape,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.spans import Span, span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, EventError, ProcessEndedError
from rxtemporal.ingress.clock_guard import ClockGuard
from rxtemporal.ingress.lateness import LateEvent
from rxtemporal.ingress.pushed_inputs import check_name
from rxtemporal.ingress.settings import AdvanceTimePolicy, WhenAhead, check_ahead
from rxtemporal.reactive.clock import Clock
from rxtemporal.reactive.subjects.accumulator import Accumulator, load_batch_rules, load_batch_type
from rxtemporal.reactive.subjects.inputs import OWN, Input, SourceState, SubjectStats
from rxtemporal.reactive.subscriber import OnCompleted, OnError, OnNext, RunObserver

if TYPE_CHECKING:
    from rxtemporal.reactive.subjects.front import RunFeed, SubjectFront

Self = TypeVar("Self", bound="CtiSubject")

_TYPES: dict[EventShape, type[RowEvent]] = {
    EventShape.POINT: PointEvent,
    EventShape.INTERVAL: IntervalEvent,
    EventShape.EDGE: EdgeEvent,
}


class CtiSubject(Observable[Any]):
    """Base class of the two CTI synchronizing subjects."""

    def __init__(
        self,
        shape: EventShape,
        delay: Span,
        policy: AdvanceTimePolicy,
        ahead: Span | None = None,
        when_ahead: WhenAhead = WhenAhead.KEEP,
        scheduler: abc.SchedulerBase | None = None,
    ) -> None:
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
        self._sources: dict[str, SourceState] = {}
        self._sources_lock = threading.Lock()
        self._own = self._source(OWN)
        self._own.add_handle(self)
        most, now = check_ahead(ahead, when_ahead), Clock(scheduler).now
        guard = None if most is None else ClockGuard(most, now)
        drops_ahead = when_ahead is WhenAhead.LATE
        self._accumulator = Accumulator(shape, length, policy, self._own, now, guard, drops_ahead)
        # the type of the rows that need no comparison with the clock
        self._short_type = self._type if guard is None else None
        # errors of runs with an event log, by the thread whose event they have not accepted
        self._failures: dict[int, Exception] = {}
        # True if such a run has ever subscribed
        self._has_runs = False
        self._set_up()

    def __repr__(self) -> str:
        stats, shape = self.stats(), self.shape.value
        cti = "no CTI" if stats.cti is None else f"CTI {stats.cti:,}"
        return (
            f"{type(self).__name__}({shape}, {stats.events:,} events, {stats.late:,} late, {cti})"
        )

    def _set_up(self) -> None:
        """Prepare delivery; called once, at the end of construction."""
        raise NotImplementedError

    @classmethod
    def create_point(
        cls: type[Self],
        delay: Span,
        *,
        policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
        ahead: Span | None = None,
        when_ahead: WhenAhead = WhenAhead.KEEP,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Self:
        """Return a subject of point events; ``delay`` is a timedelta or ticks, not negative.

        An event or a CTI further ``ahead`` of the wall clock (a timedelta or ticks) than that does
        not advance time: the CTI is ignored, and ``when_ahead`` says whether the event is kept, or
        dropped and reported in ``late``. ``scheduler`` replaces the wall clock, in tests.
        """
        return cls(EventShape.POINT, delay, policy, ahead, when_ahead, scheduler)

    @classmethod
    def create_interval(
        cls: type[Self],
        delay: Span,
        *,
        policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
        ahead: Span | None = None,
        when_ahead: WhenAhead = WhenAhead.KEEP,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Self:
        """Return a subject of interval events; ``delay`` is a timedelta or ticks, not negative.

        An event or a CTI further ``ahead`` of the wall clock (a timedelta or ticks) than that does
        not advance time: the CTI is ignored, and ``when_ahead`` says whether the event is kept, or
        dropped and reported in ``late``. ``scheduler`` replaces the wall clock, in tests.
        """
        return cls(EventShape.INTERVAL, delay, policy, ahead, when_ahead, scheduler)

    @classmethod
    def create_edge(
        cls: type[Self],
        delay: Span,
        *,
        policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
        ahead: Span | None = None,
        when_ahead: WhenAhead = WhenAhead.KEEP,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Self:
        """Return a subject of edge events; ``delay`` is a timedelta or ticks, not negative.

        It remembers each open row until its end edge comes. End edges are matched within the
        source (see ``input``) that opened the row. ``ahead``, ``when_ahead`` and ``scheduler`` are
        as in ``create_point``; only start edges are compared with the clock.
        """
        return cls(EventShape.EDGE, delay, policy, ahead, when_ahead, scheduler)

    def input(self, name: str) -> Input:
        """Return a handle for the source called ``name``, also a context manager.

        Sources come and go without completing or failing the others. A source that returns under
        its name continues with its counters and its open rows.
        """
        return Input(self._source(check_name(name)), self._accept)

    @property
    def late(self) -> Observable[LateEvent]:
        """Each event that is dropped or adjusted, as it happens, with the CTI that it breaks."""
        return self._accumulator.late

    def stats(self) -> SubjectStats:
        """Return the current counters. Takes time for each source there has been."""
        with self._sources_lock:
            sources = list(self._sources.values())
        most_advanced = max(source.reached for source in sources)
        accumulator = self._accumulator
        return SubjectStats(
            events=sum(source.events for source in sources),
            late=sum(source.late.total() for source in sources),
            # at the beginning of time it promises nothing, and is not known after a restart
            cti=None if accumulator.cti <= MIN_TIME else accumulator.cti,
            largest_lateness=max(source.largest_lateness for source in sources),
            open_rows=sum(len(source.rows) for source in sources),
            subscriber_errors=self.subscriber_errors,
            sources={source.name: source.stats(most_advanced) for source in sources},
        )

    def _source(self, name: str) -> SourceState:
        with self._sources_lock:
            source = self._sources.get(name)
            if source is None:
                source = self._sources[name] = SourceState(name)
            return source

    @property
    def subscriber_errors(self) -> int:
        """The number of exceptions that subscribers have raised."""
        raise NotImplementedError

    def _read_other(self, item: Any) -> list[Any]:
        """Return an item that is neither a CTI nor an event of this shape as the items to take."""
        if not isinstance(item, load_batch_type()):
            raise EventError(
                f"this subject takes {self.shape.value} events and CTIs, got {item!r} "
                f"({type(item).__name__})"
            )
        items: list[Any] = load_batch_rules().read_batch(item, self.shape)
        return items

    def _feed(self, observer: RunObserver) -> RunFeed:
        """Return the subscriber for a run with an event log."""
        # a subject without such a run loads nothing of it
        from rxtemporal.reactive.subjects.front import RunFeed

        self._has_runs = True
        return RunFeed(observer, self._accumulator, self._failures)

    def make_front(self, fields: Callable[[Any], Any]) -> SubjectFront:
        """Return the state of this subject for one run with an event log.

        ``fields`` returns the part of a payload that the log stores.
        """
        from rxtemporal.reactive.subjects.front import SubjectFront

        return SubjectFront(
            self._accumulator, self._sources, self._source, self._run_between_events, fields
        )

    def _run_between_events(self, action: Callable[[], None]) -> None:
        """Call a function while no event is judged."""
        raise NotImplementedError

    def _raise_failure(self) -> None:
        error = self._failures.pop(threading.get_ident(), None)
        if error is not None:
            raise error

    def _refuse(self) -> ProcessEndedError:
        return ProcessEndedError(
            "the subject has completed or failed, and a run with an event log is subscribed: this "
            "event is not accepted. Hint: on_completed() ends a stream for good; process.stop() "
            "ends only this run."
        )

    def _accept(self, event: Any, source: SourceState) -> None:
        """Take one event of one source."""
        raise NotImplementedError

    def on_next(self, event: Any) -> None:
        """Push an event, a CTI or a batch, from any thread; refuse any shape but the subject's."""
        self._accept(event, self._own)

    def on_error(self, error: Exception) -> None:
        """Fail the whole stream. A single source fails through its own handle, see ``input``."""
        raise NotImplementedError

    def on_completed(self) -> None:
        """End the stream: subscribers get a CTI at the end of time, then ``on_completed``."""
        raise NotImplementedError

    def dispose(self) -> None:
        """Release all subscribers; pushing afterwards raises ``DisposedException``."""
        raise NotImplementedError

    def subscribe(
        self,
        on_next: abc.ObserverBase[Any] | OnNext | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Deliver all events from now on; dispose the result to stop."""
        raise NotImplementedError
