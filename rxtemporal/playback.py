"""Several streams of one recording read in one run, in the order in which they were recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from rxtemporal.accepting import Asked
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.readings import Reading
from rxtemporal.storage.event_log.source import RecordedSource


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
