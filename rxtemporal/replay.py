"""Replaying recorded streams: several of them accepted as one process, in a fixed order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from rxtemporal.events import Event
from rxtemporal.ticks import MIN_TIME

__all__ = ["merged_by_time"]

E = TypeVar("E", bound=Event)


def merged_by_time(streams: Mapping[str, Iterable[E]]) -> Iterator[tuple[str, E]]:
    """Yield ``(name, event)`` from all streams, the one with the lowest place next.

    Within a stream the recorded order stays: its place is the highest start that it has shown,
    its next event included. Ties go by the order of the mapping. So the order in which the events
    of several recorded streams are accepted is the same at each replay. Reads one event ahead of
    each stream.

    >>> from rxtemporal import PointEvent
    >>> a, b = [PointEvent(1, "a"), PointEvent(9, "a"), PointEvent(2, "a")], [PointEvent(5, "b")]
    >>> [(name, event.start) for name, event in merged_by_time({"a": a, "b": b})]
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
