"""Rows and events that wait until they are durable: in front of the query, or unacknowledged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxtemporal.core.batch import EventBatch
from rxtemporal.ingress.packer import Packer
from rxtemporal.reactive.subscriber import RunObserver
from rxtemporal.run.hand_off.bounded_queue import BUSY_ROWS, BatchObserver
from rxtemporal.run.run_end import Refusal, RunEnd, release
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
        if packer.cti > packer.sent and (batch := packer.due()) is not None:
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


class Acknowledger(RunObserver):
    """Observer whose ``on_next`` returns once the event is durable in the event log.

    Producers wait outside of the run's lock, so those of several streams share a commit. ``failed``
    is called with the error if an event cannot be logged; the producer gets it, too. ``safe`` is
    called when events have become durable. If ``subject`` is what producers push into, they get
    ``ProcessEndedError`` after the run's end, until another run subscribes to it.
    """

    def __init__(
        self,
        observer: abc.ObserverBase[Any],
        tape: Tape,
        failed: Callable[[BaseException], None],
        safe: Callable[[], object],
        run_end: RunEnd,
        subject: Any = None,
    ) -> None:
        self._observer = observer
        self._tape = tape
        self._failed = failed
        self._on_safe = safe
        self._subject = subject
        self._refusal = None if subject is None else Refusal(subject, tape.facts.name, run_end)

    def subscribe(
        self, connect: Callable[[Acknowledger], abc.DisposableBase]
    ) -> abc.DisposableBase:
        """Connect to the source; return the subscription, which refuses once it is disposed."""
        if self._subject is not None:
            release(self._subject)
        return CompositeDisposable(Disposable(self._refuse), connect(self))

    def _refuse(self) -> None:
        if self._refusal is not None:
            self._refusal.begin()

    def on_next(self, item: Any) -> None:
        """Push an event or a batch; it is durable afterwards, or else an error is raised."""
        try:
            # before any lock, which a thread of the parent may have held
            self._tape.refuse_fork()
            self._observer.on_next(item)
            self._make_durable()
        except BaseException:
            self._refuse()  # an observer that raises is detached
            raise

    def on_error(self, error: Exception) -> None:
        """Fail the source; this is not logged, since the source may work in the next run."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the source; its end is durable afterwards."""
        self._observer.on_completed()
        self._make_durable()

    def _make_durable(self) -> None:
        try:
            self._tape.flush()
            self._on_safe()
        except BaseException as error:
            self._failed(error)
            raise
