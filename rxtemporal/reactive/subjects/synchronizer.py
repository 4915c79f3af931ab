"""CTI synchronizing subject built from Rx operators, as the document builds it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from reactivex import Observable, abc
from reactivex import operators as rx

from rxtemporal.core.events import Cti
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.reactive.subjects.accumulator import Accumulator
from rxtemporal.reactive.subjects.base import CtiSubject
from rxtemporal.reactive.subjects.inputs import SourceState
from rxtemporal.reactive.subjects.transform import TransformSubject
from rxtemporal.reactive.subscriber import OnCompleted, OnError, OnNext, RunObserver
from rxtemporal.reactive.synchronize import synchronize


class _SourceEvent:
    """Event that came through the handle of a source, with that source."""

    __slots__ = ("event", "source")

    def __init__(self, event: Any, source: SourceState) -> None:
        self.event = event
        self.source = source


class CtiSynchronizingSubject(CtiSubject):
    """Subject that merges sources into one stream; they may come and go, and differ in time.

    The **delay** is the greatest difference allowed between the most and the least advanced source.

    * Rows: an event passes as the same object, at once, unless it breaks a CTI already passed on;
      then ``policy`` decides (DROP it, or ADJUST its start if its lifetime reaches past the CTI).
    * CTIs: one goes through, less the delay, only if it is higher than any before. On completion
      subscribers get one at the end of time.
    * Batches: an ``EventBatch`` of the subject's shape is judged as its rows one by one, its CTI
      after them; subscribers get its accepted rows as a batch, edges as events.
    * Errors: an item of another shape is an ``EventError``. What a subscriber raises is counted
      and logged; only a run with an event log that has not accepted an item raises
      ``ProcessEndedError`` to its producer, when all others have had the item.
    * Held: one entry for each open edge row, until its end edge; counters for each source.
    * Threads: every method from any thread; notifications are delivered one at a time, and what a
      subscriber pushes from inside its ``on_next`` follows when the current event has reached all.

    Built from ``synchronize``, ``scan``, ``filter`` and ``publish``; for the same behaviour at
    several times the speed see ``CtiSynchronizingSubjectAlternate``. The document's first round
    passes on a CTI *equal* to the highest, its prose and its second round do not; the prose holds.

    Source: *CTI Synchronizing Subject*, round 1.

    >>> from rxtemporal import Cti, PointEvent
    >>> subject = CtiSynchronizingSubject.create_point(delay=5)
    >>> subscription = subject.subscribe(print)
    >>> for event in PointEvent(7, "a"), Cti(8), PointEvent(2, "late"), PointEvent(3, "b"):
    ...     subject.on_next(event)
    PointEvent(7, 'a')
    Cti(3)
    PointEvent(3, 'b')
    """

    def _set_up(self) -> None:
        self._has_ended = False
        self._subject: TransformSubject[Any, Any] = TransformSubject(self._transform)
        self._push = self._subject.on_next

    def _transform(self, events: Observable[Any]) -> Observable[Any]:
        return events.pipe(
            synchronize(),
            rx.scan(self._accumulate, self._accumulator),
            # an event is truthy and None is not; attrgetter runs at the speed of C
            rx.filter(attrgetter("out")),
            rx.map(attrgetter("out")),
        )

    def _accumulate(self, state: Accumulator, item: Any) -> Accumulator:
        event, source = item, self._own
        if type(item) is _SourceEvent:
            event, source = item.event, item.source
        is_common = type(event) is self._short_type or type(event) is Cti
        take = state.admit_one if is_common else self._take_other
        return state.keep(take(event, source))

    def _take_other(self, item: Any, source: SourceState) -> Any:
        if type(item) is self._type:
            return self._accumulator.take(item, source)
        if callable(item):
            return item()
        return self._accumulator.admit_batch(item, source)

    def on_next(self, event: Any) -> None:
        """Push an event, a CTI or a batch, from any thread; refuse any shape but the subject's."""
        if type(event) is self._type or type(event) is Cti:
            self._push(event)
        else:
            self._push_batch(event, self._own)
        if self._failures or self._has_ended:
            self._raise_failure()

    def _accept(self, event: Any, source: SourceState) -> None:
        if type(event) is self._type or type(event) is Cti:
            self._push(_SourceEvent(event, source))
        else:
            self._push_batch(event, source)
        if self._failures or self._has_ended:
            self._raise_failure()

    def _push_batch(self, batch: Any, source: SourceState) -> None:
        for item in self._read_other(batch):
            self._push(_SourceEvent(item, source))

    def _run_between_events(self, action: Callable[[], None]) -> None:
        self._push(_SourceEvent(action, self._own))

    def _raise_failure(self) -> None:
        super()._raise_failure()
        if self._has_ended and self._has_runs:
            raise self._refuse()

    def on_error(self, error: Exception) -> None:
        """Fail the whole stream. A single source fails through its own handle, see ``input``."""
        self._has_ended = True
        self._subject.on_error(error)

    def on_completed(self) -> None:
        """End the stream: subscribers get a CTI at the end of time, then ``on_completed``."""
        self._subject.on_next(Cti(MAX_TIME))
        self._has_ended = True
        self._subject.on_completed()

    def subscribe(
        self,
        on_next: abc.ObserverBase[Any] | OnNext | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Deliver all events from now on; dispose the result to stop."""
        if isinstance(on_next, RunObserver):
            return self._subject.attach(self._feed(on_next))
        return self._subject.subscribe(on_next, on_error, on_completed, scheduler=scheduler)

    @property
    def subscriber_errors(self) -> int:
        """The number of exceptions that subscribers have raised."""
        return self._subject.subscriber_errors

    def dispose(self) -> None:
        """Release all subscribers; pushing afterwards raises ``DisposedException``."""
        self._subject.dispose()
