"""Replay of recordings, and of any stream at the speed of its times."""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rxtemporal.core.events import Event
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.side_source import find_origin
from rxtemporal.operators.plan import Pace, set_pace
from rxtemporal.query.streamable import Streamable

if TYPE_CHECKING:
    from reactivex.scheduler import VirtualTimeScheduler

E = TypeVar("E", bound=Event)


class Streams(dict[str, Streamable]):
    """The streams of a recording by name."""

    def __init__(self, streams: Mapping[str, Streamable], path: Path) -> None:
        super().__init__(streams)
        self._path = path

    def __missing__(self, name: str) -> Streamable:
        raise BindingError(
            f"there is no stream {name!r} in the recording {self._path}; "
            f"there are {', '.join(map(repr, self)) or 'none'}"
        )


def replay(path: str | os.PathLike[str]) -> Streams:
    """Return the streams of a recording that ``run(sink, record=path)`` has written, by name.

    Each stream passes a door with its recorded settings, and a run reads the streams in the order
    in which they were recorded, so the same query gives the same results, late events included. A
    stream ends if its source had completed. If the recorded run was stopped or killed before, the
    stream stops there, and results that were not final then are not final now; for a killed run
    there is a warning in the log. If several streams have the same name, the second is called
    ``name 2``, and so on. A missing or damaged recording is a ``SpoolError``.

    >>> import tempfile
    >>> import rxtemporal as rxt
    >>> folder = tempfile.TemporaryDirectory()
    >>> readings = rxt.from_events([rxt.PointEvent(4, 20), rxt.PointEvent(7, 25)], name="readings")
    >>> with readings.run(rxt.Collect(), record=folder.name) as process:
    ...     pass
    >>> rxt.replay(folder.name)["readings"].where(lambda row: row["payload"] > 20).to_events()
    [IntervalEvent(7, 8, 25)]
    """
    # composing a query does not load what reads recordings
    from rxtemporal.query.recorded_streams import open_recording

    nodes = open_recording(path)
    return Streams({name: Streamable(node) for name, node in nodes.items()}, Path(path))


def merge_by_time(streams: Mapping[str, Iterable[E]]) -> Iterator[tuple[str, E]]:
    """Merge streams by time: yield ``(name, event)`` from the stream with the lowest place next.

    The place of a stream is the highest start among its events so far and its next one, so each
    stream keeps its own order. Ties go by the order of the mapping. The merged order is therefore
    the same at each replay. One event of each stream is read ahead.

    >>> from rxtemporal import PointEvent
    >>> a, b = [PointEvent(1, "a"), PointEvent(9, "a"), PointEvent(2, "a")], [PointEvent(5, "b")]
    >>> [(name, event.start) for name, event in merge_by_time({"a": a, "b": b})]
    [('a', 1), ('b', 5), ('a', 9), ('a', 2)]
    """
    iterators = {name: iter(events) for name, events in streams.items()}
    waiting: list[tuple[int, int, str, E]] = []
    for order, (name, events) in enumerate(iterators.items()):
        _place(waiting, MIN_TIME, order, name, events)
    while waiting:
        place, order, name, event = heapq.heappop(waiting)
        yield name, event
        _place(waiting, place, order, name, iterators[name])


def _place(
    waiting: list[tuple[int, int, str, E]], reached: int, order: int, name: str, events: Iterator[E]
) -> None:
    event = next(events, None)
    if event is not None:
        heapq.heappush(waiting, (max(reached, event.start), order, name, event))


def at_speed(
    stream: Streamable, speed: float = 1.0, *, clock: VirtualTimeScheduler | None = None
) -> Streamable:
    """Return a stream or query whose sources deliver events at the speed of their times.

    ``speed`` is the number of seconds of application time per second: 1 as recorded, 60 for a
    minute per second, ``math.inf`` as fast as possible. The time between the first event of a run,
    over all its sources, and each later event is the distance of their starts, divided by
    ``speed``; an event out of order is delivered at once, so late events stay late. Several sources
    are merged by time. Only the moments at which results come are different: CTIs and results stay
    the same. ``clock`` is a scheduler of virtual time, by default the wall clock.

    Threads: the thread that reads the sources waits: the process's thread with ``run``, the caller
    with ``subscribe`` and ``to_polars``.

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
    for node in stream._node.list_nodes():
        source = find_origin(node.source)
        if source is not None and source.pushes:
            raise ArgumentError(
                f"{source.name!r} pushes its events and cannot be replayed at a speed. "
                "Hint: record it, and replay the recording."
            )
    if speed == math.inf:
        return stream
    return Streamable(set_pace(stream._node, Pace(float(speed), clock)))
