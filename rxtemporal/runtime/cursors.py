"""Sources read a step at a time, so that several are accepted merged by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.ingress.sources import OpenEvents, OpenFrames
from rxtemporal.storage.event_log.cursors import BatchSteps as RecordedBatches
from rxtemporal.storage.event_log.cursors import EventSteps as RecordedEvents
from rxtemporal.storage.event_log.cursors import RowSteps as RecordedRows
from rxtemporal.storage.event_log.source import OpenRecorded


class EventSteps:
    """Events one at a time, with one read ahead."""

    def __init__(self, opened: OpenEvents) -> None:
        self.ended = False
        self._opened = opened
        self._next: Any = None
        self._failed: Exception | None = None
        self._read = False
        self._reached = MIN_TIME

    def place(self) -> int:
        """Return the place of the next event; reads it."""
        if not self._read:
            self._read = True
            try:
                self._next = next(self._opened.events, None)
            except Exception as error:
                self._failed = error
            start = getattr(self._next, "start", MIN_TIME)
            # of a batch, and of what is no event at all, no single start is asked
            self._reached = max(self._reached, start if isinstance(start, int) else MIN_TIME)
        return self._reached

    def take(self, until: int, inclusive: bool) -> EventBatch | None:
        """Accept the event that has been read; the end of the source ends the stream."""
        self._read = False
        if self._failed is not None:
            raise self._failed
        event, packer = self._next, self._opened.packer
        if event is None:
            self.ended = True
            return packer.finish()
        return packer.take_any(event)


class FrameSteps:
    """Rows of frames, cut where another stream's next event lies between them."""

    def __init__(self, opened: OpenFrames, reached: int) -> None:
        self.ended = False
        self.door = opened.columns
        self._schema = opened.source.schema or pl.Schema()
        self._rows: Iterator[EventBatch] = opened.source.from_row(opened.door.events)
        # the frame at hand, the places of its rows, and how many of them have been taken
        self._batch = EventBatch.empty(self._schema, MIN_TIME)
        self._places: Int64s = self._batch.start
        self._taken = 0
        self._failed: Exception | None = None
        # the place of the last row taken
        self.reached = reached

    @property
    def at_hand(self) -> bool:
        """Whether there are rows at hand, once the next place has been asked for."""
        return self._taken < len(self._batch)

    @property
    def last(self) -> int:
        """The place of the last row at hand."""
        return int(self._places[-1])

    def place(self) -> int:
        """Return the place of the next row; reads its frame."""
        while not (self.at_hand or self.ended or self._failed is not None):
            try:
                batch = next(self._rows, None)
            except Exception as error:
                self._failed = error
                break
            if batch is None:
                break
            self._batch, self._taken = batch, 0
            self._places = np.maximum(np.maximum.accumulate(batch.start), self.reached)
        return int(self._places[self._taken]) if self.at_hand else self.reached

    def cut(self, until: int, inclusive: bool, least: int = 0) -> tuple[EventBatch, Int64s]:
        """Take the rows at hand up to a place, itself included or not; return their places, too."""
        begin, side = self._taken, "right" if inclusive else "left"
        upto = int(np.searchsorted(self._places, until, side=side))  # type: ignore[call-overload]
        end = self._taken = max(begin + least, upto)
        if end > begin:
            self.reached = int(self._places[end - 1])
        return self._batch.slice(begin, end), self._places[begin:end]

    def take(self, until: int, inclusive: bool) -> EventBatch | None:
        """Accept the rows up to a place, itself included or not; the first in any case."""
        if self._failed is not None:
            raise self._failed
        if not self.at_hand:
            self.ended = True
            return EventBatch.empty(self._schema, self.door.finish())
        return self.door.admit(self.cut(until, inclusive, least=1)[0])


Steps: TypeAlias = EventSteps | FrameSteps | RecordedBatches | RecordedEvents | RecordedRows


def steps_of(opened: OpenEvents | OpenFrames | OpenRecorded, reached: int) -> Steps:
    """Return what reads an open source a step at a time, from a place that was reached."""
    if isinstance(opened, OpenRecorded):
        return opened.steps
    return EventSteps(opened) if isinstance(opened, OpenEvents) else FrameSteps(opened, reached)
