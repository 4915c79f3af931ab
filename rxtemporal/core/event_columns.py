"""Events made from columns of times and payloads that are known to be valid.

The constructors of events check their times and write frozen slots one by one; these make many at a
fifth of the cost. An event is filled as an object of a class with the same slots that is not
frozen, and then becomes one of its own class.

Times are given twice: as ticks, and in the form in which an event shows its start.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat, starmap
from typing import Any

from rxtemporal.core.events import EdgeEvent, EdgeType, IntervalEvent, PointEvent, RowEvent
from rxtemporal.core.ticks import TICK, Time

# fewer objects than these cause no collection of garbage
FEW_OBJECTS = 512


class _OpenEvent(RowEvent):
    """A point or an interval that can still be filled."""

    __slots__ = ()
    __setattr__ = object.__setattr__  # type: ignore[assignment]
    __delattr__ = object.__delattr__  # type: ignore[assignment]


class _OpenEdge(RowEvent):
    """An edge that can still be filled."""

    __slots__ = ("edge_type",)
    __setattr__ = object.__setattr__  # type: ignore[assignment]
    __delattr__ = object.__delattr__  # type: ignore[assignment]

    edge_type: EdgeType


def make_point(time: Time, start: int, payload: Any) -> PointEvent:
    """Return a point event."""
    event: Any = _OpenEvent()
    event.start_time = time
    event.start = start
    event.end = start + TICK
    event.payload = payload
    event.__class__ = PointEvent
    return event  # type: ignore[no-any-return]


def make_interval(time: Time, start: int, end: int, payload: Any) -> IntervalEvent:
    """Return an interval event."""
    event: Any = _OpenEvent()
    event.start_time = time
    event.start = start
    event.end = end
    event.payload = payload
    event.__class__ = IntervalEvent
    return event  # type: ignore[no-any-return]


def make_edge(kind: EdgeType, time: Time, start: int, end: int, payload: Any) -> EdgeEvent:
    """Return an edge event; the end of a start edge is ``MAX_TIME``."""
    event: Any = _OpenEdge()
    event.start_time = time
    event.start = start
    event.end = end
    event.payload = payload
    event.edge_type = kind
    event.__class__ = EdgeEvent
    return event  # type: ignore[no-any-return]


def make_events(
    kind: type[PointEvent] | type[IntervalEvent],
    times: Sequence[Time],
    starts: Sequence[int],
    ends: Sequence[int],
    payloads: Sequence[Any],
) -> list[PointEvent | IntervalEvent]:
    """Return points or intervals; the end of a point is its start and a tick."""
    # without a line of its own for each object: this runs once for each row that leaves a query
    events: list[Any] = list(starmap(_OpenEvent, repeat((), len(starts))))
    rows = zip(events, times, starts, ends, payloads, strict=True)
    for event, time, start, end, payload in rows:
        event.start_time = time
        event.start = start
        event.end = end
        event.payload = payload
        event.__class__ = kind
    return events


@contextmanager
def pause_collection() -> Iterator[None]:
    """Make many objects that all stay in use, without looking for garbage among them.

    The collector would go through the new objects, and through all others there are, many times:
    that takes twice as long as making them. It stays off if the program has turned it off.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
