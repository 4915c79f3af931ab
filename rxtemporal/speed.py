"""Replay at the speed of the events' times, or at a multiple of it."""

from __future__ import annotations

import math

from reactivex.scheduler import VirtualTimeScheduler

from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.sources import ObservableSource
from rxtemporal.operators.plan import Pace, paced
from rxtemporal.streamable import Streamable


def at_speed(
    stream: Streamable, speed: float = 1.0, *, clock: VirtualTimeScheduler | None = None
) -> Streamable:
    """Return a stream, or a query, whose sources bring their events at the speed of their times.

    ``speed`` is how many seconds of application time pass in a second: 1 as recorded, 60 a minute
    in a second, ``math.inf`` as fast as possible. An event comes when as much time has passed since
    the first one of the run, of all its sources, as lies between their starts; one out of order
    comes at once, so what is late stays late. Sources are then accepted merged by time. CTIs mean
    what they did: nothing but the moments at which results come is different. ``clock`` is a
    scheduler of virtual time, by default it is the clock on the wall.

    Threads: whoever reads the sources waits: the process's thread with ``run``, the caller with
    ``subscribe`` and ``to_polars``.

    >>> import rxtemporal as rxt
    >>> from reactivex.testing import TestScheduler
    >>> clock = TestScheduler()
    >>> minute = 60_000_000
    >>> readings = rxt.from_events([rxt.PointEvent(0, "a"), rxt.PointEvent(3 * minute, "b")])
    >>> len(rxt.at_speed(readings, 60, clock=clock).to_events()), clock.clock
    (2, 3.0)
    """
    if not isinstance(stream, Streamable):
        raise ArgumentError(
            f"at_speed takes a stream or a query, got {stream!r}. Hint: from_events(…) makes one."
        )
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not speed > 0:
        raise ArgumentError(f"speed must be a positive number, got {speed!r}")
    for node in stream._node.every():
        source = node.source.of if isinstance(node.source, LateSource) else node.source
        if isinstance(source, ObservableSource) or (source is not None and source.lively):
            raise ArgumentError(
                f"{source.name!r} pushes its events when it likes, and cannot be replayed at "
                "a speed. Hint: record it, and replay the recording."
            )
    if speed == math.inf:
        return stream
    return Streamable(paced(stream._node, Pace(float(speed), clock)))
