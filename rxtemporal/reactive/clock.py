"""The clock on the wall, at which only heartbeats, idle time-outs and reports look.

No operator does: what a query computes hangs on application time alone.
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

# seconds by which a clock may be off when it says that the time has come
ALMOST = 1e-6


class Wall:
    """What time it is, how much of it has passed, and what is to be done later.

    ``scheduler`` stands in for the machine's clock; one of virtual time makes time pass as a test
    says. Actions run on the scheduler's threads, by default one for each that waits.
    """

    def __init__(self, scheduler: abc.SchedulerBase | None = None) -> None:
        if scheduler is not None and not isinstance(scheduler, abc.SchedulerBase):
            raise ArgumentError(
                f"scheduler is a scheduler of reactivex, got {scheduler!r}. "
                "Hint: leave it out; tests give a reactivex.testing.TestScheduler()."
            )
        self._scheduler = scheduler

    def elapsed(self) -> float:
        """Return seconds since some moment; they never go back on the machine's clock."""
        if self._scheduler is None:
            return time.monotonic()
        return _aware(self._scheduler.now).timestamp()

    def now(self) -> int:
        """Return the wall clock's time, in ticks."""
        scheduler = self._scheduler
        return ticks(datetime.now(UTC) if scheduler is None else _aware(scheduler.now))

    def after(self, seconds: float, action: Callable[[], object]) -> abc.DisposableBase:
        """Run an action in so many seconds, unless what is returned is disposed before."""

        def run(scheduler: abc.SchedulerBase, state: object = None) -> None:
            action()

        scheduler = self._scheduler or TimeoutScheduler.singleton()
        return scheduler.schedule_relative(seconds, run)


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class Recurring:
    """Something done again and again, each time saying in how many seconds, or None for never."""

    def __init__(self, wall: Wall, action: Callable[[], float | None]) -> None:
        self._wall = wall
        self._action = action
        self._next = SerialDisposable()

    def begin(self, seconds: float) -> None:
        """Do it for the first time in so many seconds."""
        if not self._next.is_disposed:
            self._next.disposable = self._wall.after(seconds, self._act)

    def dispose(self) -> None:
        """Do it no more; one that is under way is not waited for."""
        self._next.dispose()

    def _act(self) -> None:
        seconds = None if self._next.is_disposed else self._action()
        if seconds is not None:
            self.begin(seconds)
