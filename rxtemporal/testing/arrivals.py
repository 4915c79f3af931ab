"""One stream, many arrivals: events in every order that is legal, cut into batches in any way."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, EdgeType, Event
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.open_rows import OpenRows
from rxtemporal.ingress.packer import Packer


class Input(NamedTuple):
    """One stream of a query: its name, its fields (None where no event tells them), its events."""

    name: str
    schema: pl.Schema | None
    events: list[Event]


class Arrival(NamedTuple):
    """An event and the number of the stream through which it comes."""

    stream: int
    event: Event


class Pushed(NamedTuple):
    """A batch of one stream, and how many arrivals have come with it."""

    position: int
    stream: int
    batch: EventBatch


def _ends(event: Event) -> bool:
    return isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END


def _judged(event: Event) -> int:
    """The time by which a CTI judges an event: the end of an end edge, the start of any other."""
    return event.end if _ends(event) else event.start  # type: ignore[union-attr]


def rows_of(events: Sequence[Event]) -> list[tuple[int, ...]]:
    """Return which events belong together, by number: a start edge and its end edge; any other."""
    found: list[list[int]] = []
    open_rows: OpenRows[list[int]] = OpenRows()
    for number, event in enumerate(events):
        if isinstance(event, EdgeEvent) and _ends(event):
            row = open_rows.close(event.start, event.payload)
            if row is not None:
                row.append(number)
                continue
        found.append([number])
        if isinstance(event, EdgeEvent) and not _ends(event):
            open_rows.open(event.start, event.payload, found[-1])
    return [tuple(row) for row in found]


def reordered(events: Sequence[Event], random: Random, *, more_ctis: bool = False) -> list[Event]:
    """Return the events in another order, which no CTI forbids; each end edge after its start.

    The CTIs stay in their order, and rows move among them as far as these allow. With ``more_ctis``
    further ones are put in where they are true.
    """
    ctis = [event for event in events if isinstance(event, Cti)]
    reached = [cti.start for cti in ctis if cti.start < MAX_TIME]
    before, placed = 0, []
    own = [before := before + isinstance(event, Cti) for event in events]
    for row in rows_of(events):
        place = (0, 0.0)
        for number in row:
            event = events[number]
            if not isinstance(event, Cti):
                last = bisect_right(reached, _judged(event))
                place = _place(place, own[number], last, random)
                placed.append((place, number))
    ordered = [(place, events[number]) for place, number in placed]
    # the n-th CTI stands between the places (n, …) and (n + 1, …)
    ordered += [((n, 1.0), cti) for n, cti in enumerate(ctis)]
    moved = [event for _, event in sorted(ordered, key=lambda pair: pair[0])]
    return _with_more_ctis(moved, random) if more_ctis else moved


def _place(after: tuple[int, float], own: int, last: int, random: Random) -> tuple[int, float]:
    """A place of a row's event: after so many CTIs, and where among the events there."""
    count = random.choice((own, random.randint(after[0], max(after[0], last))))
    count = min(max(count, after[0]), max(after[0], last))
    return (count, random.uniform(after[1] if count == after[0] else 0.0, 0.999))


def _with_more_ctis(events: Sequence[Event], random: Random) -> list[Event]:
    times = [event.start for event in events]
    cti, last = min(times, default=0) - 1, max(times, default=0) + 1
    promised = max((event.start for event in events if isinstance(event, Cti)), default=MIN_TIME)
    highest, so_far = [], min(promised, last)
    for event in reversed(events):
        highest.append(so_far)
        so_far = min(so_far, _judged(event))
    found: list[Event] = []
    for event, most in zip(events, reversed(highest), strict=True):
        found.append(event)
        cti = max(cti, event.start) if isinstance(event, Cti) else cti
        if cti < most and random.random() < 0.4:
            cti = random.choice((most, random.randint(cti + 1, most)))
            found.append(Cti(cti))
    return found


def interleaved(streams: Sequence[Sequence[Event]], random: Random | None) -> list[Arrival]:
    """Return the events of several streams as they might come; one stream after another if None."""
    arrivals = [[Arrival(n, event) for event in events] for n, events in enumerate(streams)]
    if random is None:
        return [arrival for each in arrivals for arrival in each]
    turns = [n for n, events in enumerate(streams) for _ in events]
    random.shuffle(turns)
    following = [iter(each) for each in arrivals]
    return [next(following[n]) for n in turns]


def cuts(count: int, random: Random) -> list[int]:
    """Return the ends of the runs into which so many arrivals are cut."""
    few = random.sample(range(1, count), random.randint(0, min(count - 1, 8))) if count > 1 else []
    return [*sorted(few), count]


def pushed(
    inputs: Sequence[Input], arrivals: Sequence[Arrival], ends: Iterable[int]
) -> Iterator[Pushed]:
    """Yield the batches into which arrivals are cut, one for each stream that a run has.

    Events go through the door as anywhere: what breaks a stream's own CTI is an error.
    """
    packers = [
        Packer(Door(None, each.name), PayloadReader(each.schema), sys.maxsize) for each in inputs
    ]
    begin = 0
    for end in ends:
        made: dict[int, list[EventBatch | None]] = {}
        for stream, event in arrivals[begin:end]:
            made.setdefault(stream, []).append(packers[stream].take(event))
        begin = end
        for stream, parts in made.items():
            batches = [part for part in (*parts, packers[stream].pack()) if part is not None]
            if batches:
                yield Pushed(end, stream, EventBatch.concat(batches))
