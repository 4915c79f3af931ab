"""Accepted rows that are held in front of the query until they are durable."""

from __future__ import annotations

from rxtemporal.core.batch import EventBatch
from rxtemporal.ingress.packer import Packer
from rxtemporal.runtime.hand_off.bounded_queue import BUSY_ROWS, BatchObserver
from rxtemporal.storage.event_log.log import Tape


class HeldRows:
    """Entry of one stream into the query that holds its rows until they are durable.

    No result leaves the query before its events are durable. If the rows went on at once, each push
    would wait for the disk under the stream's lock, and nobody could share its write. So whoever
    pushes calls ``hold``, has the rows judged, calls ``cut``, leaves the lock, flushes the log, and
    then calls ``release``, which gives on what is durable. A batch that comes otherwise, by time
    from outside, is made durable and given on at once.

    Callers hold the stream's lock.
    """

    def __init__(self, entry: BatchObserver, packer: Packer, tape: Tape) -> None:
        self._entry = entry
        self._packer = packer
        self._tape = tape
        self._least = packer.least
        self._is_judging = False
        # each with the number of records that have to be durable before
        self._batches: list[tuple[int, EventBatch]] = []

    def hold(self) -> None:
        """Hold the rows that are judged next."""
        self._is_judging = True
        self._packer.set_bounds(max(self._least, BUSY_ROWS))

    def cut(self) -> None:
        """Make a batch of the rows that wait for a CTI, if it has come."""
        self._is_judging = False
        packer = self._packer
        packer.set_bounds(self._least)
        if packer.door.cti > packer.sent and (batch := packer.due()) is not None:
            self._batches.append((self._tape.noted, batch))

    def release(self) -> None:
        """Give on the rows that are durable."""
        durable, batches = self._tape.durable, self._batches
        count = sum(number <= durable for number, _ in batches)
        if count:
            self._batches = batches[count:]
            try:
                self._entry.on_next(EventBatch.concat([batch for _, batch in batches[:count]]))
            except BaseException as error:
                # a batch is lost, whoever lost it: the run ends, and the log still has the rows
                self._entry.on_error(error)  # type: ignore[arg-type]
                raise

    def drain(self) -> None:
        """Make all rows durable, and give them on."""
        self.cut()
        self._flush()

    def _flush(self) -> None:
        try:
            self._tape.flush()
        except Exception as error:
            self._entry.on_error(error)
        self.release()

    def on_next(self, batch: EventBatch) -> None:
        """Hold a batch; give it on if nobody comes back for it."""
        self._batches.append((self._tape.noted, batch))
        if not self._is_judging:
            self._flush()

    def on_error(self, error: Exception) -> None:
        """Fail the stream, after the rows that were accepted before."""
        self._flush()
        self._entry.on_error(error)

    def on_completed(self) -> None:
        """End the stream, after its rows."""
        self._flush()
        self._entry.on_completed()
