"""Order in which the events of several streams are accepted: by their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import timedelta
from typing import Protocol

import polars as pl

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, add
from rxtemporal.errors import BindingError
from rxtemporal.ingress.batch_verdicts import judge_merged
from rxtemporal.ingress.built_in_sources import FrameCursor
from rxtemporal.operators.plan import Pace
from rxtemporal.run.reader import Reader
from rxtemporal.run.time_flow import TimeFlow
from rxtemporal.storage.event_log.cursors import RecordedSource

# seconds between two checks if the run has ended
SLICE = 0.1


class Pacer:
    """Pace of one run: its clock starts when the first event of all sources is requested.

    Not thread-safe.
    """

    def __init__(self, pace: Pace, ended: Callable[[], bool]) -> None:
        self._pace = pace
        self._ended = ended
        self._origin: int | None = None
        self._began = 0.0

    def wait_for(self, place: int) -> int:
        """Wait until an event at the time ``place`` is due; return the time up to which events are.

        Returns at once before the first event, at the end of time, and when the run has ended.
        """
        if place in (MIN_TIME, MAX_TIME):
            return place
        if self._origin is None:
            self._origin, self._began = place, self._now()
        due = (place - self._origin) / (self._pace.speed * 1_000_000)
        while (left := due - (self._now() - self._began)) > 0 and not self._ended():
            self._sleep(left)
        passed = timedelta(seconds=self._now() - self._began) / timedelta(microseconds=1)
        return max(place, add(self._origin, min(int(passed * self._pace.speed), MAX_TIME)))

    def _now(self) -> float:
        clock = self._pace.clock
        return time.monotonic() if clock is None else clock.to_seconds(clock.now)

    def _sleep(self, seconds: float) -> None:
        clock = self._pace.clock
        if clock is None:
            time.sleep(min(seconds, SLICE))
            return
        # a virtual clock runs other scheduled actions up to then, unless it is running this one
        until = self._now() + seconds
        clock.advance_to(until)
        if self._now() < until:
            clock.sleep(until - self._now())


def make_pacer(paces: Collection[Pace], ended: Callable[[], bool]) -> Pacer | None:
    """Return the pacer of a run; None without a pace, and an error if there are several paces."""
    pace = _find_pace(paces)
    return None if pace is None else Pacer(pace, ended)


def _find_pace(paces: Collection[Pace]) -> Pace | None:
    several = set(paces)
    if len(several) > 1:
        speeds = ", ".join(sorted(f"{pace.speed:g}" for pace in several))
        raise BindingError(
            f"the sources of one run are replayed at one speed, by one clock; got {speeds}. "
            "Hint: at_speed() of the whole query."
        )
    return next(iter(several), None)


class Readable(Protocol):
    """A source that is read, or several sources of one recording."""

    waits: bool

    @property
    def place(self) -> int:
        """The highest start of an item so far."""

    @property
    def unread(self) -> bool:
        """True if there may be more items."""

    def peek(self) -> int:
        """Return the time of the next item."""

    def read(self, until: int = MAX_TIME) -> None:
        """Accept the next items, up to a time."""

    def read_batch(self) -> None:
        """Accept the next items until a batch is pushed."""


def accept_next(waiting: Sequence[Readable], flow: TimeFlow, pacer: Pacer | None = None) -> None:
    """Accept the event with the lowest time of all streams; ties go by order of the streams.

    The events that follow it on its stream before any other stream's next event are accepted with
    it: no CTI from outside can come in between, so the verdicts are those of one event at a time.
    If all streams have rows of frames at hand, these are merged and judged at once, with the same
    verdicts. With a pace, waits for the event, and accepts only events that are due.
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
    """Accept the rows of all streams up to the first unread row, if all are frames.

    The stream whose current frame ends first limits this: its next row is not known yet.
    """
    readers = [each for each in waiting if isinstance(each, Reader)]
    frames = [cursor for each in readers if (cursor := _frames_at_hand(each, readers, flow))]
    if len(frames) < len(waiting):
        return False
    until, last = min((cursor.last, i) for i, cursor in enumerate(frames))
    cuts = [cursor.cut(until if i <= last else until - 1) for i, cursor in enumerate(frames)]
    numbers = {each: i for i, each in enumerate(readers)}
    importers = [
        [numbers[other] for other in flow.list_importers(each) if other in numbers]
        for each in readers
    ]
    verdicts = judge_merged(
        [rows for rows, _ in cuts],
        [places for _, places in cuts],
        [each.door.rules for each in readers],
        importers,
        [each.door.state for each in readers],
    )
    # all doors take over their verdicts before the first batch is pushed
    judged = list(zip(readers, cuts, verdicts, strict=True))
    batches = [each.door.take_verdicts(rows, verdict) for each, (rows, _), verdict in judged]
    for reader, batch in zip(readers, batches, strict=True):
        reader.push(batch)
    return True


def _frames_at_hand(
    reader: Reader, readers: Sequence[Reader], flow: TimeFlow
) -> FrameCursor | None:
    """Return a reader's cursor if its current rows may be judged at once with the others'.

    That is: they are rows of frames, no CTI reaches them from a stream outside ``readers``, the
    order of acceptance is neither recorded nor logged, and no clock is asked.
    """
    cursor, outside = reader.cursor, flow.imported_by(reader)
    if reader.queue is not None or reader.is_recorded or reader.guard is not None:
        return None
    if not isinstance(cursor, FrameCursor) or not cursor.at_hand:
        return None
    return cursor if outside is None or outside.ended or outside in readers else None


class Playback:
    """Reader of the streams of one recording, in the recorded order.

    ``exact``: records of the streams alternate exactly as recorded. Otherwise, when nothing depends
    on it, each stream is read in larger pieces. ``most`` limits how many records are read at once.
    """

    waits = False

    def __init__(self, readers: Sequence[Reader], exact: bool, most: int | None = None) -> None:
        self._readers = {_get_source(each).number: each for each in readers}
        self._exact, self._most = exact, most
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
        """Return the time of the next record: the highest start so far on any stream."""
        if self._run is None:
            self._run = next(self._runs, None)
        if self._run is None:
            return self.place
        return max(self.place, self._readers[self._run[0]].peek())

    def read(self, until: int = MAX_TIME) -> None:
        """Accept the next records of one stream, up to the time of another source's next event."""
        self.place = self.peek()
        if self._run is None:
            self._finish()
            return
        number, records = self._run
        reader = self._readers[number]
        if reader.ended:
            self._run = None
            return
        now = records if self._most is None else min(records, self._most)
        left = records - now + reader.read_records(now, until)
        self._run = (number, left) if left else None

    def read_batch(self) -> None:
        """Accept the next records of one stream."""
        self.read()

    def _finish(self) -> None:
        """End the streams whose end was not recorded."""
        self.unread = False
        for reader in self._readers.values():
            if not reader.ended:
                reader.read_records(0)


def group_recordings(
    readers: Sequence[Reader], exact: bool, most: int | None = None
) -> list[Readable]:
    """Return the sources to read: the readers, with one playback for those of a recording.

    ``most`` is how many records a playback reads at once; None: as many as it may.
    """
    recorded: dict[int, list[Reader]] = {}
    for reader in readers:
        if isinstance(reader.source, RecordedSource):
            recorded.setdefault(id(reader.source.recording), []).append(reader)
    asked: list[Readable] = []
    for reader in readers:
        if not isinstance(reader.source, RecordedSource):
            asked.append(reader)
        elif (group := recorded.pop(id(reader.source.recording), None)) is not None:
            # the error of one stream ends the run, so the records before it are replayed exactly
            fails = any(_get_source(each).records.facts.failed for each in group)
            for each in group if fails else ():
                each.answer_promptly()
            asked.append(Playback(group, exact or fails, most))
    return asked


def _get_source(reader: Reader) -> RecordedSource:
    assert isinstance(reader.source, RecordedSource)
    return reader.source
