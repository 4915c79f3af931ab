"""One source's line: what its door accepts goes in, what the query is given comes out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.errors import BindingError, RxTemporalError
from rxtemporal.ingress.packer import MOST_ROWS, Packer
from rxtemporal.ingress.settings import HandOff, HandOffDiagnostics, WhenFull
from rxtemporal.runtime.hand_off.buffer import Backlog, Taken

if TYPE_CHECKING:
    from rxtemporal.runtime.hand_off.consumer import Drain, Turn

# while the query is busy rows are made columns of so many at a time, CTIs or not
BUSY_ROWS = 1_024


class Into(Protocol):
    """Where a source enters a run."""

    def on_next(self, batch: EventBatch) -> None:
        """Push a batch."""

    def on_error(self, error: Exception) -> None:
        """Fail the source."""

    def on_completed(self) -> None:
        """End the source."""


class Line:
    """Stands between a source that is read and its subject in the plan.

    Whoever reads the source calls ``on_next``, ``on_error`` and ``on_completed`` under the drain's
    lock, as it would those of the subject; they are never called on the subject from here but by
    ``deliver``.
    """

    def __init__(self, drain: Drain, turn: Turn, entry: Into, settings: HandOff | None) -> None:
        self.turn = turn
        self.settings = settings
        # when what waits here began to wait
        self.since = 0
        self.batches = 0
        self.most_waiting = 0
        self.times_blocked = 0
        self.seconds_blocked = 0.0
        self._drain = drain
        self._entry = entry
        self._backlog = Backlog(settings)
        self._completed = False
        self._packer: Packer | None = None
        self._pusher: abc.ObserverBase[Any] | None = None
        self._least = 1

    def admit(self, pusher: abc.ObserverBase[Any], packer: Packer) -> abc.ObserverBase[Any]:
        """Return what takes the source's pushes: the pusher behind an entrance, if there is one."""
        if self.settings is None:
            return pusher
        self._pusher, self._packer = pusher, packer
        share = self._backlog.segment_rows if self.spills else self.settings.max_rows
        packer.most = min(MOST_ROWS, max(1, share))
        self._least = packer.least = min(packer.least, packer.most)
        return Entrance(self._drain, self, pusher, packer)

    @property
    def spills(self) -> bool:
        """Whether there is always room."""
        return self.settings is not None and self.settings.when_full is WhenFull.SPILL

    @property
    def waits(self) -> bool:
        """Whether there is something for the query."""
        return bool(self._backlog) or self._completed

    @property
    def rows(self) -> int:
        """The rows in memory that have been accepted and not been given to the query."""
        return self._backlog.rows + (0 if self._packer is None else self._packer.rows)

    @property
    def behind(self) -> bool:
        """Whether more waits than is given to the query as one batch."""
        return self._backlog.rows_on_disk > 0

    def room(self, rows: int) -> bool:
        """Whether so many more rows may come; always where nothing can be taken out."""
        if self.settings is None or self.spills or not self._backlog:
            return True
        return self.rows + rows <= self.settings.max_rows

    # What the source does, under the drain's lock -------------------------------------------------

    def on_next(self, batch: EventBatch) -> None:
        """Put an accepted batch at the end."""
        if not self._drain.refuses:
            self._put(batch)

    def _put(self, batch: EventBatch) -> None:
        waited = self.waits
        try:
            self._backlog.put(batch)
        except RxTemporalError as error:
            self._drain.fail(self, error)
        if self._packer is not None:
            self._packer.least = min(max(self._least, BUSY_ROWS), self._packer.most)
        self.most_waiting = max(self.most_waiting, self.rows)
        if not waited:
            self._drain.begins(self)

    def on_error(self, error: Exception) -> None:
        """The source has failed: that comes after everything that was accepted."""
        self._drain.fail(self, error)

    def on_completed(self) -> None:
        """The source has ended."""
        if not self._drain.refuses:
            waited = self.waits
            self._completed = True
            if not waited:
                self._drain.begins(self)

    def collect(self) -> None:
        """Put what a busy query has left in the packer at the end."""
        if self._packer is None or self._pusher is None:
            return
        self._packer.least = self._least
        try:
            batch = self._packer.due()
        except Exception as error:
            self._pusher.on_error(error)
            return
        if batch is not None:
            self._put(batch)

    # What the query is given ----------------------------------------------------------------------

    def take(self) -> Taken:
        """Return all that waits in memory, or a segment; under the drain's lock."""
        self.collect()
        taken = self._backlog.take()
        if not self._backlog:
            taken.completed, self._completed = self._completed, False
            if self._packer is not None:
                self._packer.least = self._least
        return taken

    def deliver(self, taken: Taken) -> None:
        """Give the query what was taken, as one batch."""
        try:
            batch = self._backlog.read(taken)
        except Exception as error:
            self._entry.on_error(error)
            return
        if batch is not None:
            self.batches += 1
            self._entry.on_next(batch)
        if taken.completed:
            self._entry.on_completed()

    def deliver_error(self, error: Exception) -> None:
        """Give the query the source's error."""
        self._entry.on_error(error)

    def close(self) -> None:
        """Delete what is on disk."""
        self._backlog.close()

    def diagnostics(self) -> HandOffDiagnostics | None:
        """Return what has been counted; None without a hand-off."""
        if self.settings is None:
            return None
        overflow = self._backlog.overflow
        with self._drain.lock:
            return HandOffDiagnostics(
                rows_waiting=self.rows + self._backlog.rows_on_disk,
                most_rows_waiting=self.most_waiting,
                rows_spilled=0 if overflow is None else overflow.rows_spilled,
                times_blocked=self.times_blocked,
                blocked=timedelta(seconds=self.seconds_blocked),
                batches=self.batches,
            )


class Entrance(abc.ObserverBase[Any]):
    """Where a producer waits for room, before the door judges what it brings."""

    def __init__(
        self, drain: Drain, line: Line, pusher: abc.ObserverBase[Any], packer: Packer
    ) -> None:
        self._drain = drain
        self._line = line
        self._pusher = pusher
        self._packer = packer

    def on_next(self, item: Any) -> None:
        """Push an event or a batch, when there is room for it."""
        line, drain = self._line, self._drain
        for part in self._parts(item):
            rows = _rows(part)
            with drain.turn:
                # what comes when it is over is not waited with, and nobody is told: as in any run
                if drain.open and not line.room(rows) and drain.may_wait:
                    self._wait(rows)
                if not drain.open:
                    return
                self._pusher.on_next(part)
                waiting = line.rows
                if waiting > line.most_waiting:
                    line.most_waiting = waiting

    def _wait(self, rows: int) -> None:
        line, drain = self._line, self._drain
        line.times_blocked += 1
        begun = time.monotonic()
        try:
            while not line.room(rows) and drain.open:
                drain.wait_for_room()
        finally:
            line.seconds_blocked += time.monotonic() - begun
        if drain.error is not None:
            raise BindingError(
                f"stream {self._packer.door.source!r} waited for room in its hand-off when the "
                f"query ended by {drain.error!r}; what it pushed was not accepted. "
                "Hint: wait() of the process, or on_error, tells what ended it."
            ) from drain.error

    def _parts(self, item: Any) -> Iterator[Any]:
        """Yield an item, or a batch that is larger than the line in pieces of its length."""
        most = self._line.settings.max_rows if self._line.settings is not None else 0
        if not isinstance(item, EventBatch) or len(item) <= most:
            yield item
            return
        # not what has been imported: that is no CTI of the source's own
        reached = max(self._packer.door.own, MIN_TIME)
        # with settings it is the door that judges
        promised = reached if self._packer.door.settings is None else MIN_TIME
        try:
            item.check(promised)
        except RxTemporalError:
            yield item  # refused as a whole, as without a hand-off
            return
        for begin in range(0, len(item), most):
            last = begin + most >= len(item)
            part = item.slice(begin, begin + most)
            yield part if last else part.replace(cti=reached)

    def on_error(self, error: Exception) -> None:
        """Fail the source."""
        with self._drain.turn:
            self._pusher.on_error(error)

    def on_completed(self) -> None:
        """End the source."""
        with self._drain.turn:
            self._pusher.on_completed()


def _rows(item: Any) -> int:
    if isinstance(item, EventBatch):
        return len(item)
    return 0 if isinstance(item, Cti) else 1
