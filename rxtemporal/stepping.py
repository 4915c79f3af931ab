"""Sources read a step at a time, so that several are accepted merged by time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from rxtemporal.batch import EventBatch
from rxtemporal.sources import OpenEvents, OpenFrames
from rxtemporal.ticks import MIN_TIME

__all__ = ["EventSteps", "FrameSteps", "Steps"]


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

    def __init__(self, opened: OpenFrames) -> None:
        self.ended = False
        self._door = opened.columns
        self._schema = opened.source.schema or pl.Schema()
        self._rows: Iterator[EventBatch] = opened.source.read()
        self._batch: EventBatch | None = None
        self._places: Any = None
        self._failed: Exception | None = None
        self._reached = MIN_TIME

    def place(self) -> int:
        """Return the place of the next row; reads its frame."""
        while self._batch is None and not self.ended and self._failed is None:
            try:
                batch = next(self._rows, None)
            except Exception as error:
                self._failed = error
                break
            if batch is None:
                break
            if len(batch):
                self._batch = batch
                places = np.maximum.accumulate(batch.start)
                self._places = np.maximum(places, self._reached)
        return self._reached if self._batch is None else int(self._places[0])

    def take(self, until: int, inclusive: bool) -> EventBatch | None:
        """Accept the rows up to a place, itself included or not; the first in any case."""
        if self._failed is not None:
            raise self._failed
        if self._batch is None:
            self.ended = True
            return EventBatch.empty(self._schema, self._door.finish())
        upto = np.searchsorted(self._places, until, side="right" if inclusive else "left")
        n = max(1, int(upto))
        rows, everything = self._batch, np.arange(len(self._batch))
        self._reached = int(self._places[n - 1])
        self._batch = rows.take(everything[n:]) if n < len(rows) else None
        self._places = self._places[n:]
        return self._door.admit(rows.take(everything[:n]))


Steps: TypeAlias = EventSteps | FrameSteps
