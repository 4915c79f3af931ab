"""The wall clock, used only by heartbeats, time-outs of silence, clock guards and reports.

The machine's clock may be set while a service runs, and for a moment it may be wrong by years. A
heartbeat or a guard that believes it moves time for good. So it is held against a clock that nobody
sets, and a step counts once it has lasted.

No operator uses it: results depend on application time alone, and on what has come in by which CTI.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

from reactivex import abc
from reactivex.disposable import SerialDisposable
from reactivex.scheduler import TimeoutScheduler

from rxtemporal.core.log import get_logger
from rxtemporal.core.spans import describe_span
from rxtemporal.core.ticks import TICKS_PER_SECOND, ticks
from rxtemporal.errors import ArgumentError

NANOSECONDS_PER_TICK = 1_000
# seconds by which a timer may fire early
TOLERANCE = 1e-6


# the wall clock may differ by so much from what it was, in nanoseconds: it is slewed, not set
_SLEWED = 1_000_000_000
# nanoseconds until a step of the wall clock is believed
LASTING = 60_000_000_000

_log = get_logger(__name__)


def read_steady() -> int:
    """Return the nanoseconds since a fixed moment, those in which the machine sleeps included."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return time.monotonic_ns()


class LastingTime:
    """The wall clock's time, in which a step counts once it has lasted for a minute.

    Until then time continues as before the step. The first reading is believed. ``wall`` and
    ``steady`` return nanoseconds. Thread-safe.

    >>> readings = iter([100 * 10**9, 500 * 10**9, 500 * 10**9])
    >>> seconds = iter([0, 1 * 10**9, 62 * 10**9])
    >>> clock = LastingTime(lambda: next(readings), lambda: next(seconds))
    >>> clock.read() // 10**9, clock.read() // 10**9
    (100, 101)
    """

    def __init__(self, wall: Callable[[], int], steady: Callable[[], int]) -> None:
        self._wall, self._steady = wall, steady
        self._lock = threading.Lock()
        # wall clock less steady clock: as believed, and after a step that may not last
        self._offset: int | None = None
        self._stepped = 0
        self._since: int | None = None

    def read(self) -> int:
        """Return the time in nanoseconds."""
        wall, steady = self._wall(), self._steady()
        offset = wall - steady
        believed = self._offset
        if believed is None or abs(offset - believed) <= _SLEWED:
            self._offset, self._since = offset, None
            return wall
        with self._lock:
            return wall if self._has_lasted(offset, steady) else steady + believed

    def _has_lasted(self, offset: int, steady: int) -> bool:
        """Note a step; return True, and believe it, if it has lasted."""
        assert self._offset is not None
        step = offset - self._offset
        if self._since is None or abs(offset - self._stepped) > _SLEWED:
            self._since, self._stepped = steady, offset
            _log.warning(
                "the wall clock has been set; clock guards and heartbeats follow it after a minute",
                by=f"{'-' if step < 0 else ''}{describe_span(abs(step) // NANOSECONDS_PER_TICK)}",
            )
        elif steady - self._since >= LASTING:
            self._offset, self._since = offset, None
            return True
        return False


_MACHINE = LastingTime(time.time_ns, read_steady)


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
        # returns the seconds since a fixed moment; a run asks for them with each batch
        self.elapsed: Callable[[], float] = (
            time.monotonic if scheduler is None else lambda: _with_zone(scheduler.now).timestamp()
        )

    def now(self) -> int:
        """Return the time in ticks."""
        scheduler = self._scheduler
        if scheduler is None:
            return _MACHINE.read() // NANOSECONDS_PER_TICK
        return ticks(_with_zone(scheduler.now))

    def read_moment(self) -> int:
        """Return the ticks since a fixed moment; as ``elapsed``, it is not set."""
        return round(self.elapsed() * TICKS_PER_SECOND)

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
