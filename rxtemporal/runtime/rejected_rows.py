"""Rejected rows of one source in a run, for the stream of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.driver import Entry
from rxtemporal.ingress.reject_source import RejectSource
from rxtemporal.ingress.rejected import Rejected


class RejectedRows(abc.ObserverBase[EventBatch]):
    """Entry of a source into the query in front of the stream itself, beside its rejected rows.

    Rejected rows are points at the CTI that the stream had when they came, and go into the query
    before the batch that advances it. ``wake`` asks for a batch, if only an empty one, and returns
    False if the run has ended. They are neither logged nor saved.
    """

    def __init__(self, main: Entry, source: RejectSource, entry: Entry) -> None:
        super().__init__()
        self._main, self._source, self._entry = main, source, entry
        self._waiting: list[Rejected] = []
        self._lock = threading.Lock()
        self._cti = MIN_TIME
        self.wake: Callable[[], bool] = lambda: True
        source.listener = self

    def take(self, rejected: Sequence[Rejected]) -> None:
        """Take rejected rows, from any thread."""
        with self._lock:
            self._waiting += rejected
        if not self.wake():
            self._waiting = []  # the run has ended

    def on_next(self, batch: EventBatch) -> None:
        """Push the rejected rows and a batch."""
        is_empty = not len(batch) and batch.cti <= self._cti
        self._push_rejected(batch.cti)
        if not is_empty:
            self._main.on_next(batch)

    def _push_rejected(self, cti: int) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting and cti <= self._cti:
            return
        # before its first CTI the stream has no time but that of the batch
        start = cti if self._cti == MIN_TIME < cti < MAX_TIME else self._cti
        self._cti = max(self._cti, cti)
        if start == MAX_TIME:
            waiting = []  # no row can start there
        self._entry.on_next(self._source.batch(waiting, start, self._cti))

    def on_error(self, error: Exception) -> None:
        """Fail the stream and that of its rejected rows."""
        self._main.on_error(error)
        self._entry.on_error(error)

    def on_completed(self) -> None:
        """End the stream and that of its rejected rows."""
        self._push_rejected(self._cti)
        self._main.on_completed()
        self._entry.on_completed()
