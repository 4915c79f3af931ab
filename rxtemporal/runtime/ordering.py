"""The order in which the events of several streams are accepted: that of their times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import polars as pl

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.ingress.batch_verdicts import judge_merged
from rxtemporal.ingress.sources import FrameCursor
from rxtemporal.runtime.pace import Pacer
from rxtemporal.runtime.reader import Reader
from rxtemporal.runtime.time_flow import TimeFlow
from rxtemporal.storage.event_log.source import RecordedSource


class Readable(Protocol):
    """A source that has to be asked for what comes next, or several that stand together."""

    place: int

    @property
    def unread(self) -> bool:
        """True if there may be more."""

    def peek(self) -> int:
        """Return the time of the next item."""

    def read(self, until: int = MAX_TIME) -> None:
        """Accept what comes next, up to a time."""

    def read_batch(self) -> None:
        """Accept what comes next until a batch goes on."""


def accept_next(waiting: Sequence[Readable], flow: TimeFlow, pacer: Pacer | None = None) -> None:
    """Accept the event with the lowest time of all streams next; ties go by order of the streams.

    What follows it on its own stream before any other stream's next event is accepted with it: no
    CTI comes to it from outside in between, so the verdicts are those of one event at a time. Where
    all have rows of frames at hand, these are merged and judged at once, with the same verdicts.
    With a pace it is waited for, and no more is accepted than it is time for.
    """
    places = [each.peek() for each in waiting]
    if pacer is None and _accept_at_once(waiting, flow):
        return
    first = min(range(len(places)), key=lambda i: (places[i], i))
    others = [(place, i) for i, place in enumerate(places) if i != first]
    until, other = min(others, default=(MAX_TIME, len(places)))
    if other < first:
        until -= 1  # at the same time the other one comes first
    if pacer is not None:
        until = min(until, pacer.wait_for(places[first]))
    waiting[first].read(until)


def _accept_at_once(waiting: Sequence[Readable], flow: TimeFlow) -> bool:
    """Accept all rows that come before the first one that is not at hand yet, if all are frames.

    Of the stream whose rows at hand end first nobody knows what follows: so far and no farther.
    """
    readers = [each for each in waiting if isinstance(each, Reader)]
    frames = [cursor for each in readers if (cursor := _frames_at_hand(each, readers, flow))]
    if len(frames) < len(waiting):
        return False
    until, last = min((cursor.last, i) for i, cursor in enumerate(frames))
    cuts = [cursor.cut(until if i <= last else until - 1) for i, cursor in enumerate(frames)]
    numbers = {each: i for i, each in enumerate(readers)}
    importers = [
        [numbers[other] for other in flow.importers_of(each) if other in numbers]
        for each in readers
    ]
    verdicts = judge_merged(
        [rows for rows, _ in cuts],
        [places for _, places in cuts],
        [each.door.rules for each in readers],
        importers,
        [each.door.state for each in readers],
    )
    # all doors go on before the first batch leaves
    judged = list(zip(readers, cuts, verdicts, strict=True))
    batches = [each.packer.take_verdicts(rows, verdict) for each, (rows, _), verdict in judged]
    for reader, batch in zip(readers, batches, strict=True):
        reader.push(batch)
    return True


def _frames_at_hand(
    reader: Reader, readers: Sequence[Reader], flow: TimeFlow
) -> FrameCursor | None:
    """Return a reader's cursor if its rows at hand may be judged with the others', many at once.

    That is: they are rows of frames, no CTI comes to them from what is not one of these, and
    nobody notes in which order they are accepted.
    """
    cursor, outside = reader.cursor, flow.imported_by(reader)
    if reader.queue is not None or reader.is_recorded:
        return None
    if not isinstance(cursor, FrameCursor) or not cursor.at_hand:
        return None
    return cursor if outside is None or outside.ended or outside in readers else None


class Playback:
    """The streams of one recording, read in the order in which they were recorded.

    ``exact``: their records alternate just as they were recorded. Where nothing depends on that,
    each stream brings what it has in larger pieces.
    """

    def __init__(self, readers: Sequence[Reader], exact: bool) -> None:
        self._readers = {_get_source(each).number: each for each in readers}
        self._exact = exact
        self._runs = self._order(_get_source(readers[0]))
        self._run: tuple[int, int] | None = None
        self.unread = True
        self.place = MIN_TIME

    def _order(self, source: RecordedSource) -> Iterator[tuple[int, int]]:
        for frame in source.recording.runs():
            runs = frame.filter(pl.col("stream").is_in(list(self._readers)))
            if not self._exact:
                runs = runs.group_by("stream", maintain_order=True).sum()
            yield from runs.iter_rows()

    def peek(self) -> int:
        """Return the time of the next record: the highest start that any stream has shown."""
        if self._run is None:
            self._run = next(self._runs, None)
        if self._run is None:
            return self.place
        return max(self.place, self._readers[self._run[0]].peek())

    def read(self, until: int = MAX_TIME) -> None:
        """Bring what comes next of one stream, up to the time of another source's next event."""
        self.place = self.peek()
        if self._run is None:
            self._finish()
            return
        number, records = self._run
        reader = self._readers[number]
        if reader.ended:
            self._run = None
            return
        left = reader.read_records(records, until)
        self._run = (number, left) if left else None

    def read_batch(self) -> None:
        """Bring what comes next of one stream."""
        self.read()

    def _finish(self) -> None:
        """End the streams that had not ended: the recording goes no further."""
        self.unread = False
        for reader in self._readers.values():
            if not reader.ended:
                reader.read_records(0)


def group_recordings(readers: Sequence[Reader], exact: bool) -> list[Readable]:
    """Return what has to be asked: the readers, with one playback for those of a recording."""
    recorded: dict[int, list[Reader]] = {}
    for reader in readers:
        if isinstance(reader.source, RecordedSource):
            recorded.setdefault(id(reader.source.recording), []).append(reader)
    asked: list[Readable] = []
    for reader in readers:
        if not isinstance(reader.source, RecordedSource):
            asked.append(reader)
        elif (group := recorded.pop(id(reader.source.recording), None)) is not None:
            # the error of one ends all: what they had given until then they give again
            fails = any(_get_source(each).records.facts.failed for each in group)
            for each in group if fails else ():
                each.answer_promptly()
            asked.append(Playback(group, exact or fails))
    return asked


def _get_source(reader: Reader) -> RecordedSource:
    assert isinstance(reader.source, RecordedSource)
    return reader.source
