"""In which order the events of several streams are accepted: as their times stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import polars as pl

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_door import admit_merged
from rxtemporal.runtime.pace import Pacing
from rxtemporal.runtime.reader import Reading
from rxtemporal.storage.event_log.source import RecordedSource


class Asked(Protocol):
    """What has to be asked for what comes next: one source, or several that stand together."""

    unread: bool
    place: int

    def next_place(self) -> int:
        """Return the place of the next event."""

    def step(self, until: int, inclusive: bool) -> None:
        """Accept what comes next, up to a place."""

    def advance(self) -> None:
        """Accept what comes next, as much as is at hand."""


def accept_next(waiting: Sequence[Asked], pacing: Pacing | None = None) -> None:
    """Accept the event with the lowest place of all streams next; ties go by order of the streams.

    What follows it on its own stream before any other stream's next event is accepted with it: no
    CTI comes to it from outside in between, so the verdicts are those of one event at a time. Where
    all have rows of frames at hand, these are merged and judged at once, with the same verdicts.
    With a pace it is waited for, and no more is accepted than it is time for.
    """
    places = [reading.next_place() for reading in waiting]
    if pacing is None and _accepted_at_once(waiting):
        return
    first = min(range(len(places)), key=lambda i: (places[i], i))
    others = [(place, i) for i, place in enumerate(places) if i != first]
    until, other = min(others, default=(MAX_TIME, len(places)))
    inclusive = first < other
    if pacing is not None and (due := pacing.wait_for(places[first])) < until:
        until, inclusive = due, True
    waiting[first].step(until, inclusive)


def _accepted_at_once(asked: Sequence[Asked]) -> bool:
    """Accept all rows that come before the first one that is not at hand yet, if all are frames.

    Of the stream whose rows at hand end first nobody knows what follows: so far and no farther.
    """
    waiting = [each for each in asked if isinstance(each, Reading)]
    frames = [steps for each in waiting if (steps := each.together_with(waiting))]
    if len(frames) < len(asked):
        return False
    until, last = min((steps.last, i) for i, steps in enumerate(frames))
    cuts = [steps.cut(until, i <= last) for i, steps in enumerate(frames)]
    numbers = {id(each): i for i, each in enumerate(waiting)}
    importers = [
        [numbers[id(other)] for other in each.importers if id(other) in numbers] for each in waiting
    ]
    doors = [steps.door for steps in frames]
    batches = admit_merged(doors, [rows for rows, _ in cuts], [at for _, at in cuts], importers)
    for reading, batch in zip(waiting, batches, strict=True):
        reading.push(batch)
    return True


class Playback:
    """Stands for the streams of one recording among the sources that have to be asked.

    ``exact``: their records alternate just as they were recorded. Where nothing depends on that,
    each stream brings what it has in larger pieces.
    """

    def __init__(self, readings: Sequence[Reading], exact: bool) -> None:
        self._readings = {_source(each).number: each for each in readings}
        self._exact = exact
        self._runs = self._order(_source(readings[0]))
        self._run: tuple[int, int] | None = None
        self._begun = False
        self.unread = True
        self.place = MIN_TIME

    def _order(self, source: RecordedSource) -> Iterator[tuple[int, int]]:
        for frame in source.recording.runs():
            runs = frame.filter(pl.col("stream").is_in(list(self._readings)))
            if not self._exact:
                runs = runs.group_by("stream", maintain_order=True).sum()
            yield from runs.iter_rows()

    def next_place(self) -> int:
        """Return the place of the next record: the highest start that any stream has shown."""
        if self._run is None:
            self._run = next(self._runs, None)
        if self._run is None:
            return self.place
        return max(self.place, self._readings[self._run[0]].next_place())

    def step(self, until: int, inclusive: bool) -> None:
        """Bring what comes next of one stream, up to the place of another source's next event."""
        self.place = self.next_place()
        if self._run is None:
            self._finish()
            return
        number, records = self._run
        reading = self._readings[number]
        if reading.ended:
            self._run = None
            return
        steps = reading.opened.steps  # type: ignore[union-attr]
        steps.allowed = records
        reading.step(until, inclusive)
        self._run = (number, steps.allowed) if steps.allowed else None

    def advance(self) -> None:
        """Bring what comes next of one stream."""
        self.step(MAX_TIME, True)

    def _finish(self) -> None:
        """The recording ends: a stream that had not ended goes no further."""
        self.unread = False
        for reading in self._readings.values():
            if not reading.ended:
                reading.next_place()
                reading.step(MAX_TIME, True)


def played_back(readings: Sequence[Reading], exact: bool) -> list[Asked]:
    """Return what has to be asked: the readings, with one playback for those of a recording."""
    recorded: dict[int, list[Reading]] = {}
    for reading in readings:
        if isinstance(reading.source, RecordedSource):
            recorded.setdefault(id(reading.source.recording), []).append(reading)
    asked: list[Asked] = []
    for reading in readings:
        if not isinstance(reading.source, RecordedSource):
            asked.append(reading)
        elif (group := recorded.pop(id(reading.source.recording), None)) is not None:
            # the error of one ends all: what they had given until then they give again
            fails = any(_source(each).records.facts.failed for each in group)
            for each in group if fails else ():
                each.answer_promptly()
            asked.append(Playback(group, exact or fails))
    return asked


def _source(reading: Reading) -> RecordedSource:
    assert isinstance(reading.source, RecordedSource)
    return reading.source
