"""At recorded speed: bounded sources that bring their events when a clock says that it is time."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add
from rxtemporal.operators.plan import Pace

# seconds between two looks at whether the run has ended
SLICE = 0.1


class Pacer:
    """A pace in one run: its time begins at the first event of all sources, when that is asked for.

    Not for two threads at once.
    """

    def __init__(self, pace: Pace, ended: Callable[[], bool]) -> None:
        self._pace = pace
        self._ended = ended
        self._origin: int | None = None
        self._began = 0.0

    def wait_for(self, place: int) -> int:
        """Wait until it is time for what lies at a place; return the place up to which it is.

        Returns at once where nothing has a time yet, at the end of time, and when the run has
        ended.
        """
        if place in (MIN_TIME, MAX_TIME):
            return place
        if self._origin is None:
            self._origin, self._began = place, self._now()
        due = (place - self._origin) / (self._pace.speed * 1_000_000)
        while (left := due - (self._now() - self._began)) > 0 and not self._ended():
            self._sleep(left)
        passed = timedelta(seconds=self._now() - self._began) / timedelta(microseconds=1)
        return max(place, add(self._origin, min(int(passed * self._pace.speed), MAX_TIME)))

    def _now(self) -> float:
        clock = self._pace.clock
        return time.monotonic() if clock is None else clock.to_seconds(clock.now)

    def _sleep(self, seconds: float) -> None:
        clock = self._pace.clock
        if clock is None:
            time.sleep(min(seconds, SLICE))
            return
        # what else is scheduled until then happens, unless the clock is running us
        until = self._now() + seconds
        clock.advance_to(until)
        if self._now() < until:
            clock.sleep(until - self._now())
