"""Arrivals of a stream: its events in any legal order, cut into batches in any way."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, Event, ends_row, get_judged_time
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.packer import Packer


class TrialInput(NamedTuple):
    """Stream of a trial: its name, its fields (None if no event shows them) and its events."""

    name: str
    schema: pl.Schema | None
    events: list[Event]


class Arrival(NamedTuple):
    """Event, with the number of its stream."""

    stream: int
    event: Event


class ArrivedBatch(NamedTuple):
    """Batch of one stream, with the number of arrivals up to and including it."""

    position: int
    stream: int
    batch: EventBatch


def group_rows(events: Sequence[Event]) -> list[tuple[int, ...]]:
    """Return the numbers of each row's events: a start edge with its end edge, or one event."""
    found: list[list[int]] = []
    open_rows: OpenRows[list[int]] = OpenRows()
    for number, event in enumerate(events):
        if ends_row(event):
            row = open_rows.close(event.start, event.payload)
            if row is not None:
                row.append(number)
                continue
        found.append([number])
        if isinstance(event, EdgeEvent) and not ends_row(event):
            open_rows.open(event.start, event.payload, found[-1])
    return [tuple(row) for row in found]


def reorder(events: Sequence[Event], random: Random, *, more_ctis: bool = False) -> list[Event]:
    """Return the events in another order that no CTI forbids; each end edge follows its start.

    The CTIs keep their order, and rows move among them as far as the CTIs allow. With ``more_ctis``
    additional CTIs are inserted where they are true.
    """
    ctis = [event for event in events if isinstance(event, Cti)]
    reached = [cti.start for cti in ctis if cti.start < MAX_TIME]
    before, placed = 0, []
    own = [before := before + isinstance(event, Cti) for event in events]
    for row in group_rows(events):
        place = (0, 0.0)
        for number in row:
            event = events[number]
            if not isinstance(event, Cti):
                last = bisect_right(reached, get_judged_time(event))
                place = _draw_place(place, own[number], last, random)
                placed.append((place, number))
    ordered = [(place, events[number]) for place, number in placed]
    # the n-th CTI stands between the places (n, …) and (n + 1, …)
    ordered += [((n, 1.0), cti) for n, cti in enumerate(ctis)]
    moved = [event for _, event in sorted(ordered, key=lambda pair: pair[0])]
    return _add_ctis(moved, random) if more_ctis else moved


def _draw_place(after: tuple[int, float], own: int, last: int, random: Random) -> tuple[int, float]:
    """Draw a place for an event: the number of CTIs before it, and a rank among its neighbours."""
    count = random.choice((own, random.randint(after[0], max(after[0], last))))
    count = min(max(count, after[0]), max(after[0], last))
    return (count, random.uniform(after[1] if count == after[0] else 0.0, 0.999))


def _add_ctis(events: Sequence[Event], random: Random) -> list[Event]:
    times = [event.start for event in events]
    cti, last = min(times, default=0) - 1, max(times, default=0) + 1
    promised = max((event.start for event in events if isinstance(event, Cti)), default=MIN_TIME)
    highest, so_far = [], min(promised, last)
    for event in reversed(events):
        highest.append(so_far)
        so_far = min(so_far, get_judged_time(event))
    found: list[Event] = []
    for event, most in zip(events, reversed(highest), strict=True):
        found.append(event)
        cti = max(cti, event.start) if isinstance(event, Cti) else cti
        if cti < most and random.random() < 0.4:
            cti = random.choice((most, random.randint(cti + 1, most)))
            found.append(Cti(cti))
    return found


def interleave(streams: Sequence[Sequence[Event]], random: Random | None) -> list[Arrival]:
    """Interleave the events of streams at random; without ``random``, stream after stream."""
    arrivals = [[Arrival(n, event) for event in events] for n, events in enumerate(streams)]
    if random is None:
        return [arrival for each in arrivals for arrival in each]
    turns = [n for n, events in enumerate(streams) for _ in events]
    random.shuffle(turns)
    following = [iter(each) for each in arrivals]
    return [next(following[n]) for n in turns]


def draw_cuts(count: int, random: Random) -> list[int]:
    """Draw the ends of the runs into which this number of arrivals is cut."""
    few = random.sample(range(1, count), random.randint(0, min(count - 1, 8))) if count > 1 else []
    return [*sorted(few), count]


def cut_batches(
    inputs: Sequence[TrialInput], arrivals: Sequence[Arrival], ends: Iterable[int]
) -> Iterator[ArrivedBatch]:
    """Yield the batches into which arrivals are cut, one for each stream in a run.

    Events pass through a door as in any query: breaking a CTI of its own stream is an error.
    """
    packers = [Packer(None, each.name, PayloadReader(each.schema), sys.maxsize) for each in inputs]
    begin = 0
    for end in ends:
        made: dict[int, list[EventBatch | None]] = {}
        for stream, event in arrivals[begin:end]:
            made.setdefault(stream, []).append(packers[stream].take(event))
        begin = end
        for stream, parts in made.items():
            batches = [part for part in (*parts, packers[stream].pack()) if part is not None]
            if batches:
                yield ArrivedBatch(end, stream, EventBatch.concat(batches))
