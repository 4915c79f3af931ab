"""Row events into event batches: the door judges each, columns are made at the commit."""

from __future__ import annotations

from typing import Any

import numpy as np

from rxtemporal.advance_time import Door
from rxtemporal.batch import EventBatch, TimeForm
from rxtemporal.errors import AdvanceTimeError
from rxtemporal.events import Event
from rxtemporal.payloads import BadPayloadError, PayloadReader
from rxtemporal.ticks import MIN_TIME

__all__ = ["Packer"]

# rows that wait for a CTI leave anyway when there are so many
MOST_ROWS = 65_536
# so many events may pass before a field that has always been null is taken to be of type null
UNSETTLED_ROWS = 1_024


class Packer:
    """Collects one stream's row events until a CTI, and gives them out as a batch.

    ``least_rows``: how many rows have to wait before a CTI sends them on; 1 answers every CTI at
    once, more makes larger batches out of a stream with many CTIs. Holds the rows that wait.
    """

    def __init__(self, door: Door, payloads: PayloadReader, least_rows: int = 1) -> None:
        self.door = door
        self.time: TimeForm | None = None
        self._payloads = payloads
        self._least = least_rows
        self._sent = MIN_TIME
        self._clear()

    def _clear(self) -> None:
        self._start: list[int] = []
        self._end: list[int] = []
        self._edge: list[int] = []
        self._payload: list[Any] = []

    def take(self, event: Event) -> EventBatch | None:
        """Take one event; return a batch if it is time for one."""
        kept, row = self.door.accept(event)
        if kept is not None:
            if self.time is None:
                self.time = "ticks" if isinstance(kept.start_time, int) else "datetime"
            self._start.append(kept.start)
            self._end.append(kept.end)
            self._edge.append(row)
            self._payload.append(kept.payload)
        waiting = len(self._start)
        if self.door.cti > self._sent:
            # without rows there is nothing to merge, and somebody may wait for the time
            return self._pack_settled() if waiting >= self._least or not waiting else None
        return self._pack_settled() if waiting >= MOST_ROWS else None

    def take_batch(self, batch: EventBatch) -> EventBatch:
        """Take a whole batch as it is, if it keeps the promises made so far.

        A stream is either of events or of batches, whose CTIs are the stream's own.
        """
        if self.door.settings is not None:
            raise AdvanceTimeError(
                "a stream of batches brings its own CTIs. Hint: leave advance_time= out, or make "
                "the stream with from_polars."
            )
        if len(batch) and self.time is None:
            self.time = "ticks"
        batch.check(self._sent)
        self._sent = self.door.cti = batch.cti
        return batch

    def finish(self) -> EventBatch | None:
        """The source has completed; return what waits."""
        self.door.finish()
        return self.pack()

    def _pack_settled(self) -> EventBatch | None:
        if not self._payloads.settled:
            self._payloads.learn(self._payload)
            if not self._payloads.settled and len(self._start) < UNSETTLED_ROWS:
                return None
        return self.pack()

    def pack(self) -> EventBatch | None:
        """Return what waits as a batch; None where neither rows nor time have come."""
        cti = max(self.door.cti, self._sent)
        if not self._start and cti == self._sent:
            return None
        payload = self._payloads.frame(self._payload)
        batch = EventBatch(
            np.array(self._start, np.int64),
            np.array(self._end, np.int64),
            np.array(self._edge, np.int64),
            payload,
            cti,
        )
        self._sent = cti
        self._clear()
        return batch

    def before(self, bad: BadPayloadError) -> EventBatch | None:
        """Return the rows that were accepted before the one that does not fit."""
        for column in (self._start, self._end, self._edge, self._payload):
            del column[bad.row :]
        self.door.cti = self._sent
        return self.pack()
