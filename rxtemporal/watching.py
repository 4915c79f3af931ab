"""What happens when a source has been silent for a while: its heartbeat, and becoming idle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND, span
from rxtemporal.idling import Idling
from rxtemporal.reactive.clock import ALMOST, Recurring, Wall
from rxtemporal.readings import Reading


def watched(
    reading: Reading, idling: Idling, wall: Wall, lock: AbstractContextManager[object]
) -> list[Recurring]:
    """Watch a source as it has asked for; return what ends that."""
    asked = reading.source.lively
    if asked is None:
        return []
    watches: list[_Silence] = []
    if asked.heartbeat is not None:
        beat = _Beat(reading, span(asked.heartbeat.delay, "delay"), wall)
        watches.append(_Silence(reading, span(asked.heartbeat.every, "every"), beat, wall, lock))
    if asked.idle_after is not None:
        watches.append(
            _Silence(reading, asked.idle_after, lambda: idling.rest(reading), wall, lock)
        )
    heard = [watch.heard for watch in watches]

    def hear() -> None:
        for each in heard:
            each()

    reading.hear = heard[0] if len(heard) == 1 else hear
    return [watch.begin() for watch in watches]


class _Beat:
    """One stream's heartbeat: the wall clock's time less a delay."""

    def __init__(self, reading: Reading, delay: int, wall: Wall) -> None:
        self._reading = reading
        self._delay = delay
        self._wall = wall

    def __call__(self) -> None:
        if self._reading.advanced_to(max(self._wall.now() - self._delay, MIN_TIME)):
            self._reading.followed_up()


class _Silence:
    """Does something each time that a source has been silent for a span."""

    def __init__(
        self,
        reading: Reading,
        length: int,
        act: Callable[[], object],
        wall: Wall,
        lock: AbstractContextManager[object],
    ) -> None:
        self._reading = reading
        self._seconds = length / TICKS_PER_SECOND
        self._act = act
        self._wall = wall
        self._lock = lock
        self._since = wall.elapsed()
        self._timer = Recurring(wall, self._look)

    def begin(self) -> Recurring:
        """Begin to wait; what is returned ends it."""
        self._timer.begin(self._seconds)
        return self._timer

    def heard(self) -> None:
        """Note that the source has sent something."""
        self._since = self._wall.elapsed()

    def _look(self) -> float | None:
        with self._lock:
            if self._reading.ended:
                return None
            left = self._since + self._seconds - self._wall.elapsed()
            if left > ALMOST:
                return left
            self._since = self._wall.elapsed()
            self._act()
            return self._seconds
