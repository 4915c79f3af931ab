"""The wall clock, used only by heartbeats, idle time-outs, clock guards and reports.

No operator uses it: results depend on application time alone, and on what has come in by which CTI.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from reactivex import abc
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import TimeoutScheduler

from rxtemporal.core.ticks import ticks
from rxtemporal.errors import ArgumentError

NANOSECONDS_PER_TICK = 1_000
# seconds by which a timer may fire early
TOLERANCE = 1e-6


class Clock:
    """The wall clock: current time, elapsed time and scheduled actions.

    ``scheduler`` replaces the machine's clock; with a scheduler of virtual time a test controls
    time. Actions run on the scheduler's threads, by default one for each waiting action.
    """

    def __init__(self, scheduler: abc.SchedulerBase | None = None) -> None:
        if scheduler is not None and not isinstance(scheduler, abc.SchedulerBase):
            raise ArgumentError(
                f"scheduler is a scheduler of reactivex, got {scheduler!r}. "
                "Hint: leave it out; tests give a reactivex.testing.TestScheduler()."
            )
        self._scheduler = scheduler

    def elapsed(self) -> float:
        """Return the seconds since a fixed moment; on the machine's clock this is monotonic."""
        if self._scheduler is None:
            return time.monotonic()
        return _with_zone(self._scheduler.now).timestamp()

    def now(self) -> int:
        """Return the time in ticks."""
        scheduler = self._scheduler
        if scheduler is None:
            return time.time_ns() // NANOSECONDS_PER_TICK
        return ticks(_with_zone(scheduler.now))

    def schedule(self, seconds: float, action: Callable[[], object]) -> abc.DisposableBase:
        """Run an action after ``seconds``, unless the result is disposed before."""

        def run(scheduler: abc.SchedulerBase, state: object = None) -> None:
            action()

        scheduler = self._scheduler or TimeoutScheduler.singleton()
        return scheduler.schedule_relative(seconds, run)


def _with_zone(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class RepeatingTimer:
    """Timer whose action returns the seconds until its next call, or None to stop."""

    def __init__(self, clock: Clock, action: Callable[[], float | None]) -> None:
        self._clock = clock
        self._action = action
        self._next = SerialDisposable()

    def start(self, seconds: float) -> None:
        """Run the action for the first time after ``seconds``."""
        if not self._next.is_disposed:
            self._next.disposable = self._clock.schedule(seconds, self._act)

    def dispose(self) -> None:
        """Stop; an action that is running is not waited for."""
        self._next.dispose()

    def _act(self) -> None:
        seconds = None if self._next.is_disposed else self._action()
        if seconds is not None:
            self.start(seconds)
