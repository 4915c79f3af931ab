"""Times of arrival as the starts of rows: ``start=rxt.ARRIVAL``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from enum import Enum
from typing import Any, Final, Protocol, TypeVar, overload

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.event_columns import make_point
from rxtemporal.core.events import Cti, PointEvent, find_late_bound
from rxtemporal.core.ticks import TICK, to_datetime
from rxtemporal.errors import ArgumentError

T = TypeVar("T")


class ArrivalTime(Enum):
    """The type of ``rxt.ARRIVAL``."""

    ARRIVAL = "arrival"

    def __repr__(self) -> str:
        return "rxt.ARRIVAL"

    __str__ = __repr__


ARRIVAL: Final = ArrivalTime.ARRIVAL
"""As ``start=`` of an input: a row starts when it arrives.

Its start is the time of the wall clock at which the door of the run accepts it, and a point; the
rows have no field for it. Starts never decrease within a stream: while the clock is behind an
earlier start, or behind the CTI, the later one of these is the start. So no row is late. The start
is written to recording and event log, and a replay or a run that resumes has the same ones.
"""

# the start of a row until the door stamps it
UNSTAMPED: datetime = to_datetime(0)


class Reached(Protocol):
    """The times that a door has reached."""

    cti: int
    high: int


class ArrivalClock:
    """Clock that stamps the rows of one stream; its owner holds the stream's lock.

    >>> from types import SimpleNamespace
    >>> times = iter([7, 5])
    >>> arrivals = ArrivalClock(lambda: next(times), SimpleNamespace(cti=0, high=0))
    >>> [arrivals.stamp(PointEvent(0, "a")).start for _ in range(2)]
    [7, 7]
    """

    __slots__ = ("_door", "_last", "_now")

    def __init__(self, now: Callable[[], int], door: Reached) -> None:
        self._now, self._door = now, door
        self._last = min(door.cti, door.high)

    def _read(self) -> int:
        door = self._door
        self._last = max(self._last, self._now(), door.high, find_late_bound(door.cti))
        return self._last

    @overload
    def stamp(self, item: EventBatch) -> EventBatch: ...
    @overload
    def stamp(self, item: T) -> T: ...
    def stamp(self, item: Any) -> Any:
        """Return a row, or a batch of rows, that starts now; a CTI as it is."""
        kind = type(item)
        if kind is PointEvent:
            now = self._read()
            return make_point(to_datetime(now), now, item.payload)
        if kind is EventBatch and len(item):
            start = np.full(len(item), self._read())
            return item.replace(start=start, end=start + TICK)
        assert kind is EventBatch or kind is Cti, f"{item!r} names its own start"
        return item


def refuse_arrival(start: object, input_: str, hint: str) -> None:
    """Raise if ``start`` is ``ARRIVAL``, in an input whose rows may be read again."""
    if start is ARRIVAL:
        raise ArgumentError(
            f"{input_} reads rows that are there already, and would give each of them another "
            f"start whenever it reads them: start=rxt.ARRIVAL is for rows that are pushed. "
            f"Hint: {hint}"
        )


HINT_ARRIVAL = "start= names the column of the times; pl.lit(time) in a column gives all rows one."


def check_arrival(**given: Any) -> None:
    """Raise if an argument is given that has no meaning with ``start=rxt.ARRIVAL``."""
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"start=rxt.ARRIVAL and {name}= cannot be combined: {_WHY[name]}")


_OWN_CLOCK = (
    "all rows have the time of one clock, that of this process. Hint: leave {0}= out; a heartbeat= "
    "advances the stream while nothing comes."
)
_WHY = {
    "end": "rows that start when they arrive are points. Hint: .alter_event_duration(…) of the "
    "stream gives them longer lifetimes.",
    "shape": "rows that start when they arrive are points. Hint: .alter_event_duration(…) of the "
    "stream gives them longer lifetimes.",
    "ahead": _OWN_CLOCK.format("ahead"),
    "clock": _OWN_CLOCK.format("clock"),
}
