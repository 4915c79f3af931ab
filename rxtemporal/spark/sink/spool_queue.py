"""Batches on their way into the spool: those that arrive during a sync are one segment.

A segment costs three syncs, however few rows it has. So a thread writes the segments: while it
waits for the disk, batches gather, and the next segment has all of them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from rxtemporal.core.batch import EventBatch
from rxtemporal.errors import SpoolError

# batches with fewer rows together are one segment; a producer waits when so many rows wait
ROWS = 65_536
# seconds between two looks for the run's end, while a caller waits
_LOOK = 0.1


class SpoolQueue:
    """Queue of batches, which a thread appends to the spool in their order.

    ``append`` writes a batch, and may wait for room; ``check`` raises an error that ends the run.
    ``put`` and ``wait`` raise the error that has ended the thread.
    """

    def __init__(
        self, append: Callable[[EventBatch], None], check: Callable[[], None], name: str
    ) -> None:
        self._append, self._check_run, self._name = append, check, name
        self._changed = threading.Condition()
        self._waiting = deque[EventBatch]()
        self._rows = 0
        # batches put, and those of them on disk
        self.put_count = self._written = 0
        self._blocked = self._closing = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="rxtemporal-spool", daemon=True)
        self._thread.start()

    @property
    def is_closing(self) -> bool:
        """True if the thread is to end, and to wait for nothing."""
        return self._closing

    def put(self, batch: EventBatch) -> None:
        """Add a batch; wait while the spool has no room, or many rows wait."""
        with self._changed:
            self._waiting.append(batch)
            self._rows += len(batch)
            self.put_count += 1
            self._changed.notify_all()
            self._wait_until(lambda: not self._blocked and self._rows < ROWS)

    def wait(self, count: int | None = None) -> None:
        """Wait until so many batches, or all of them, are on disk."""
        with self._changed:
            wanted = self.put_count if count is None else count
            self._wait_until(lambda: self._written >= wanted)

    def set_blocked(self, blocked: bool) -> None:
        """Let producers wait as long as the thread waits for room."""
        with self._changed:
            self._blocked = blocked
            self._changed.notify_all()

    def close(self) -> None:
        """Write what waits, unless there is no room for it, and end the thread; idempotent."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    def _wait_until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self._failure is not None:
                raise self._failure
            if not self._thread.is_alive():
                raise SpoolError(
                    f"the spool {self._name} is not open for writing here: it was closed, or its "
                    "writer is the process that this one was forked from. Hint: open it in this "
                    "process."
                )
            self._check_run()
            self._changed.wait(_LOOK)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while batches := self._take():
                self._append(EventBatch.concat(batches))
                with self._changed:
                    self._written += len(batches)
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def _take(self) -> list[EventBatch]:
        """Return the batches of the next segment; none at the end."""
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            taken = list[EventBatch]()
            rows = 0
            while self._waiting and (not taken or rows + len(self._waiting[0]) <= ROWS):
                taken.append(self._waiting.popleft())
                rows += len(taken[-1])
            self._rows -= rows
            self._changed.notify_all()
            return taken
