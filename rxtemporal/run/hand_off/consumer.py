"""Consumer of a run's queues: the thread that delivers waiting rows to the query."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from types import TracebackType
from typing import Any

from rxtemporal.core.turns import take_lock
from rxtemporal.ingress.settings import HandOff
from rxtemporal.reactive.inbox import Inbox
from rxtemporal.run.hand_off.bounded_queue import BatchObserver, BoundedQueue
from rxtemporal.run.hand_off.gate import Gate, State, StreamLock
from rxtemporal.run.run_end import RunEnd


class Consumer:
    """Consumer that takes rows out of the queues of a run and delivers them, a batch a queue.

    Two locks: the gate, held briefly while batches are put in or taken out, and another one held
    while the query runs. A thread that holds the gate never acquires the second.
    """

    def __init__(self, run_end: RunEnd) -> None:
        self.gate = Gate(run_end)
        self._running = threading.RLock()
        self._queues: list[BoundedQueue] = []
        self._thread: threading.Thread | None = None

    def add_queue(self, entry: BatchObserver, settings: HandOff | None) -> BoundedQueue:
        """Return a queue for a source, to use in place of its entry into the plan."""
        lock: StreamLock = self.gate.lock if settings is not None else ServingLock(self)
        if settings is None:
            self.gate.serve_sources()
        queue = BoundedQueue(self.gate, lock, entry, settings)
        self._queues.append(queue)
        return queue

    def fetch_waiting(self) -> None:
        """Judge the events that wait in front of doors; takes the gate."""
        for inbox in self._inboxes():
            inbox.fetch()

    def close_inboxes(self) -> None:
        """Judge the events that wait in front of doors, and from now on each at once."""
        for inbox in self._inboxes():
            inbox.close()

    def _inboxes(self) -> list[Inbox]:
        return [queue.inbox for queue in self._queues if queue.inbox is not None]

    def start(self, on_error: Callable[[Any], None]) -> None:
        """Start the thread; ``on_error`` gets the errors that an observer raises."""
        self._thread = threading.Thread(
            target=self._run, args=(on_error,), name="rxtemporal hand-off", daemon=True
        )
        self._thread.start()

    def _run(self, on_error: Callable[[Any], None]) -> None:
        try:
            while self._wait_for_rows():
                self.serve()
        except BaseException as error:
            on_error(error)
        finally:
            self.close()
            with self._running:
                for queue in self._queues:
                    queue.close()

    def _wait_for_rows(self) -> bool:
        """Wait until there is something to deliver; return False once the run is closed."""
        with self.gate.lock:
            # a judgement may end the run, too
            while not (self._rest() or self._is_closed or self.gate.failure):
                self.gate.wait_for_rows()
            self._linger()
            return not self._is_closed

    def _linger(self) -> None:
        """Wait until the first queue's rows are due, or the run is ending."""
        while self.gate.state is State.OPEN:
            due = min((queue.due for queue in self._queues if queue.has_rows), default=0.0)
            if not due or (left := due - time.monotonic()) <= 0:
                return
            self.gate.wait_for_rows(left)

    @property
    def _is_closed(self) -> bool:
        return self.gate.state is State.CLOSED

    def _has_rows(self) -> bool:
        return any(queue.has_rows for queue in self._queues)

    def _rest(self) -> bool:
        """Judge the events in front of the doors if no row waits; return True if one does now."""
        if not self._has_rows():
            for queue in self._queues:
                queue.rest()
        return self._has_rows()

    def serve(self) -> None:
        """Deliver waiting rows, once from each queue; does nothing inside the query."""
        if self.gate.consumer == threading.get_ident():
            return
        with self._running:
            self.gate.enter_query()
            try:
                self._serve_once()
            finally:
                self.gate.leave_query()

    def _serve_once(self) -> None:
        gate, failure = self.gate, None
        with gate.lock:
            waiting = sorted((q for q in self._queues if q.has_rows), key=attrgetter("since"))
            chunks = [(queue, queue.take()) for queue in waiting]
            if chunks:
                gate.notify_room()
            else:
                failure = gate.take_failure()
        for queue, chunk in chunks:
            if self._is_closed:
                return
            queue.deliver(chunk)
        if failure is not None and not self._is_closed:
            deliver, error = failure
            deliver(error)

    @contextmanager
    def hold(self, timeout: float = -1) -> Iterator[bool]:
        """Deliver nothing inside the context; what is accepted waits.

        ``timeout`` is how many seconds to wait for the query's current batch; -1: without limit.
        Yields True on success: not from inside the query.
        """
        if self.inside or not take_lock(self._running, timeout=timeout):
            yield False
            return
        try:
            self.gate.enter_query()
            try:
                yield True
            finally:
                self.gate.leave_query()
        finally:
            self._running.release()

    @contextmanager
    def pause(self, timeout: float = -1) -> Iterator[bool]:
        """Deliver waiting rows, then accept and deliver nothing inside the context.

        ``timeout`` is that of ``hold``, and the limit for spilled rows while more may come. Yields
        True on success: not after a failure, nor from inside the query.
        """
        with self.hold(timeout) as held:
            # not under the gate, so that producers need not wait for all spilled rows
            if not held or not self._serve_spilled(timeout):
                yield False
                return
            with self.gate.lock:
                while not self._is_closed and self._rest():
                    self._serve_once()
                yield self.gate.accepts

    def _serve_spilled(self, timeout: float) -> bool:
        """Deliver the rows on disk; return False if producers are faster than the query."""
        last = time.monotonic() + timeout
        while self._has_spilled():
            if self.gate.run_end.accepts and timeout >= 0 and time.monotonic() > last:
                return False
            self._serve_once()
        return True

    def _has_spilled(self) -> bool:
        with self.gate.lock:
            return not self._is_closed and any(queue.has_spilled for queue in self._queues)

    @property
    def inside(self) -> bool:
        """True if this thread is running the query or a door, so it cannot wait for them."""
        return self.gate.inside

    def finish(self) -> None:
        """Accept nothing more, and deliver the accepted rows."""
        if self.inside:
            return
        self.gate.finish()
        self.serve()  # also what came from sources without a hand-off
        while not self._is_closed and any(q.has_rows for q in self._queues if q.settings):
            self.serve()

    def close(self, error: BaseException | None = None) -> None:
        """Release blocked producers now; queued rows are discarded. Idempotent."""
        self.gate.close(error)

    def join(self) -> None:
        """Wait until the thread has ended, unless that thread would wait for this one."""
        if self._thread is not None and self._thread.is_alive() and not self.inside:
            self._thread.join()


class ServingLock:
    """The gate for a source without a hand-off: the thread that leaves it delivers waiting rows."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self.bare = consumer.gate.lock

    def __enter__(self) -> None:
        take_lock(self.bare)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_outermost = self._consumer.gate.is_entered_once
        self.bare.release()
        if is_outermost:
            self._consumer.serve()
