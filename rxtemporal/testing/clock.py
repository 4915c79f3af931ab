"""Virtual time: events pushed at moments of a scheduler's clock, and a recorder of results.

Virtual time replaces the wall clock; application time is in the events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reactivex import Observable, abc
from reactivex.testing import ReactiveTest, TestScheduler


def hot(
    scheduler: TestScheduler,
    moments: Iterable[tuple[Any, Any]],
    *,
    completed: Any = None,
) -> Observable[Any]:
    """Return an observable that pushes each event to its subscribers at the event's moment.

    Moments are seconds of the scheduler's clock. It completes at ``completed``, if given.
    ``scheduler.start()`` advances the clock without waiting.

    >>> import rxtemporal as rxt
    >>> from reactivex.testing import TestScheduler
    >>> scheduler = TestScheduler()
    >>> source = hot(scheduler, [(210.0, rxt.PointEvent(5, "a")), (230.0, rxt.Cti(7))])
    >>> subject = rxt.CtiSynchronizingSubject.create_point(delay=1)
    >>> seen = Recorder(scheduler)
    >>> _ = subject.subscribe(seen), source.subscribe(subject)
    >>> scheduler.start() and seen.events
    [(210.0, PointEvent(5, 'a')), (230.0, Cti(6))]
    """
    messages = [ReactiveTest.on_next(moment, event) for moment, event in moments]
    if completed is not None:
        messages.append(ReactiveTest.on_completed(completed))
    return scheduler.create_hot_observable(messages)


class Recorder(abc.ObserverBase[Any]):
    """Observer that records events with their moments by the scheduler's clock.

    ``events`` are pairs of moment and event; ``completed`` is the moment at which the stream
    completed, and ``failed`` the pair of moment and error with which it failed, or None.
    """

    def __init__(self, scheduler: TestScheduler) -> None:
        self._scheduler = scheduler
        self.events: list[tuple[float, Any]] = []
        self.completed: float | None = None
        self.failed: tuple[float, Exception] | None = None

    def on_next(self, value: Any) -> None:
        """Record an event."""
        self.events.append((self._scheduler.clock, value))

    def on_error(self, error: Exception) -> None:
        """Record the error that ended the stream."""
        self.failed = (self._scheduler.clock, error)

    def on_completed(self) -> None:
        """Record that the stream completed."""
        self.completed = self._scheduler.clock
