"""Streams of events by every way into a query, and the events that a subscriber gets."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import polars as pl
import pytest
from reactivex.subject import Subject

import rxtemporal as rxt

# a test that hangs fails here instead
SOON = 60
FRAME = pl.DataFrame({"t": [1, 2, 3], "x": [1, 2, 3], "s": ["a", "b", "c"]})
BOTH_SUBJECTS = (rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate)
both_subjects = pytest.mark.parametrize("kind", BOTH_SUBJECTS)


def from_list(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return a stream of a list."""
    return rxt.from_events(events, **options)


def from_iterator(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return a stream of an iterator."""
    return rxt.from_events(iter(events), **options)


def from_pushes(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return a stream of an observable that pushes when it is subscribed to."""
    return rxt.from_observable(PushedEvents(events), **options)


def from_batched_pushes(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return the same with rows gathered into batches."""
    return from_pushes(events, batch_rows=100, **options)


def from_hand_off(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return the same with a hand-off of a few rows to another thread."""
    return from_pushes(events, hand_off=rxt.HandOff(3), **options)


def from_spilling_hand_off(events: list[Any], **options: Any) -> rxt.Streamable:
    """Return the same with a hand-off that spills further rows to disk."""
    return from_pushes(events, hand_off=rxt.HandOff(3, rxt.WhenFull.SPILL), **options)


class PushedEvents(Subject[Any]):
    """Observable that pushes all events to a subscriber; no error may reach the producer."""

    def __init__(self, events: list[Any]) -> None:
        super().__init__()
        self._events = events

    def subscribe(self, *arguments: Any, **options: Any) -> Any:
        """Subscribe, then push."""
        subscription = super().subscribe(*arguments, **options)
        for event in self._events:
            self.on_next(event)
        self.on_completed()
        return subscription


WAYS = [
    from_list,
    from_iterator,
    from_pushes,
    from_batched_pushes,
    from_hand_off,
    from_spilling_hand_off,
]
# the ways whose fields are known with the first event only
WAITING_WAYS = [way for way in WAYS if way is not from_list]
ways_in = pytest.mark.parametrize("stream_of", WAYS)


def parametrize_ways(
    names: str, cases: dict[str, tuple[Any, ...]], ways: Sequence[Any] = WAYS
) -> Any:
    """Parametrize a test with cases and ways: each case and each way once by default.

    `tox -e full` runs every case in every way.
    """
    pairs = [(number, way) for number in range(len(cases)) for way in range(len(ways))]
    some = [pair for pair in pairs if pair[1] == pair[0] % len(ways)]
    named = list(cases.items())
    return pytest.mark.parametrize(
        f"stream_of, {names}",
        [
            pytest.param(
                ways[way],
                *named[number][1],
                id=f"{named[number][0]}, {ways[way].__name__}",
                marks=[] if (number, way) in some else [pytest.mark.full],
            )
            for number, way in pairs
        ],
    )


def collect(stream: rxt.Streamable, **options: Any) -> tuple[list[Any], list[Any]]:
    """Return the events and the errors that a subscriber gets."""
    events: list[Any] = []
    errors: list[Any] = []
    completed: list[None] = []
    over = threading.Event()

    def note(where: list[Any], what: Any = None) -> None:
        where.append(what)
        over.set()

    stream.subscribe(events.append, partial(note, errors), partial(note, completed), **options)
    assert over.wait(SOON)
    assert bool(errors) != bool(completed)
    return events, errors


def place_pattern(operator: str, file: str) -> str:
    """Return a pattern for the end of a message: the operator and the line that composed it."""
    return rf"\(in {re.escape(operator)}, composed at {re.escape(file)}:\d+\)$"
