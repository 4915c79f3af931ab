"""Pace of a replay: events of bounded sources are released by a clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from datetime import timedelta

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add
from rxtemporal.errors import BindingError
from rxtemporal.operators.plan import Pace

# seconds between two checks if the run has ended
SLICE = 0.1


class Pacer:
    """Pace of one run: its clock starts when the first event of all sources is requested.

    Not thread-safe.
    """

    def __init__(self, pace: Pace, ended: Callable[[], bool]) -> None:
        self._pace = pace
        self._ended = ended
        self._origin: int | None = None
        self._began = 0.0

    def wait_for(self, place: int) -> int:
        """Wait until an event at the time ``place`` is due; return the time up to which events are.

        Returns at once before the first event, at the end of time, and when the run has ended.
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
        # a virtual clock runs other scheduled actions up to then, unless it is running this one
        until = self._now() + seconds
        clock.advance_to(until)
        if self._now() < until:
            clock.sleep(until - self._now())


def make_pacer(paces: Collection[Pace], ended: Callable[[], bool]) -> Pacer | None:
    """Return the pacer of a run; None without a pace, and an error if there are several paces."""
    pace = _find_pace(paces)
    return None if pace is None else Pacer(pace, ended)


def _find_pace(paces: Collection[Pace]) -> Pace | None:
    several = set(paces)
    if len(several) > 1:
        speeds = ", ".join(sorted(f"{pace.speed:g}" for pace in several))
        raise BindingError(
            f"the sources of one run are replayed at one speed, by one clock; got {speeds}. "
            "Hint: at_speed() of the whole query."
        )
    return next(iter(several), None)
