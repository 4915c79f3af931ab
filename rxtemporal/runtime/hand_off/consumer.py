"""The lines of one run, and the thread that gives what waits in them to the query."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rxtemporal.ingress.settings import HandOff
from rxtemporal.runtime.hand_off.bounded_queue import Into, Line


class Drain:
    """Takes what waits in the lines of a run, in turns, each line's rows as one batch.

    Two locks. ``lock`` is held while something is accepted or taken, and briefly; the other one
    while the query runs. Who holds the first never asks for the second.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.turn = Turn(self, serves=False)
        self.closed = self.settling = False
        # what ended the query, if an error did
        self.error: BaseException | None = None
        self.holder: int | None = None
        self._room = threading.Condition(self.lock)
        self._filled = threading.Condition(self.lock)
        self._running = threading.Lock()
        self._runner: int | None = None
        self._lines: list[Line] = []
        self._failure: tuple[Line, Exception] | None = None
        self._failed = False
        self._order = itertools.count(1)
        self._thread: threading.Thread | None = None

    def line(self, entry: Into, settings: HandOff | None) -> Line:
        """Return a line for a source, to be used in place of its subject in the plan.

        Its turn is held while the source is read; without a hand-off the reader then serves.
        """
        turn = self.turn if settings is not None else Turn(self, serves=True)
        line = Line(self, turn, entry, settings)
        self._lines.append(line)
        return line

    # Lines, under the lock ------------------------------------------------------------------------

    @property
    def refuses(self) -> bool:
        """Whether nothing is accepted any more."""
        return self.closed or self._failed

    @property
    def open(self) -> bool:
        """Whether it makes sense to wait for room."""
        return not (self.refuses or self.settling)

    @property
    def may_wait(self) -> bool:
        """Whether who asks may be made to wait: not the thread that others wait for."""
        return self._runner != threading.get_ident() and self.turn.outermost

    def wait_for_room(self) -> None:
        """Wait until something has been taken out, or everything is over."""
        holder, depth = self.holder, self.turn.depth
        self.holder, self.turn.depth = None, 0
        try:
            self._room.wait()
        finally:
            self.holder, self.turn.depth = holder, depth

    def begins(self, line: Line) -> None:
        """A line that was empty has something now."""
        line.since = next(self._order)
        self._filled.notify()

    def fail(self, line: Line, error: Exception) -> None:
        """A source has failed: nothing more is accepted, what was is delivered, then the error."""
        if self.refuses:
            return
        for each in self._lines:
            each.collect()
        if self._failed:
            return  # what was collected had failed before
        self._failed, self._failure, self.error = True, (line, error), error
        self._filled.notify()
        self._room.notify_all()

    # Serving --------------------------------------------------------------------------------------

    def start(self, on_error: Callable[[Any], None]) -> None:
        """Start the thread; ``on_error`` is told what an observer raises."""
        self._thread = threading.Thread(
            target=self._serve_all, args=(on_error,), name="rxtemporal hand-off", daemon=True
        )
        self._thread.start()

    def _serve_all(self, on_error: Callable[[Any], None]) -> None:
        try:
            while self._filled_or_closed():
                self.serve()
        except BaseException as error:
            on_error(error)
        finally:
            self.close()
            with self._running:
                for line in self._lines:
                    line.close()

    def _filled_or_closed(self) -> bool:
        with self.lock:
            while not (self.closed or self._failure or any(line.waits for line in self._lines)):
                self._filled.wait()
            return not self.closed

    def serve(self) -> None:
        """Give the query what waits now, once from each line; not from inside of the query."""
        me = threading.get_ident()
        if self._runner == me:
            return
        with self._running:
            self._runner = me
            try:
                self._serve_once()
            finally:
                self._runner = None

    def _serve_once(self) -> None:
        with self.lock:
            waiting = sorted((line for line in self._lines if line.waits), key=_since)
            taken = [(line, line.take()) for line in waiting]
            failure = None
            if taken:
                self._room.notify_all()
            else:
                failure, self._failure = self._failure, None
        for line, part in taken:
            if self.closed:
                return
            line.deliver(part)
        if failure is not None and not self.closed:
            line, error = failure
            line.deliver_error(error)

    @contextmanager
    def quiet(self, patience: float = -1) -> Iterator[bool]:
        """Give the query what waits, and have nothing accepted or delivered inside.

        ``patience`` is how many seconds the query may take for what it is at, -1: any. Yields
        whether it is so: not after a failure, and not for who is in the midst of the query already.
        """
        if self.inside or not self._running.acquire(timeout=patience):
            yield False
            return
        self._runner = threading.get_ident()
        try:
            while self._many_wait():
                self._serve_once()
            with self.turn:
                while not self.closed and any(line.waits for line in self._lines):
                    self._serve_once()
                yield not self.refuses
        finally:
            self._runner = None
            self._running.release()

    def _many_wait(self) -> bool:
        """Whether so much waits that producers should not be held up by it."""
        with self.lock:
            return not self.closed and any(line.behind for line in self._lines)

    # The end --------------------------------------------------------------------------------------

    @property
    def inside(self) -> bool:
        """Whether who asks is in the midst of the query or of a door: it cannot wait for them."""
        return threading.get_ident() in (self._runner, self.holder)

    def settle(self) -> None:
        """Accept nothing more, and give the query what has been accepted."""
        if self.inside:
            return
        with self.lock:
            self.settling = True
            self._room.notify_all()
        while not self.closed and any(line.waits for line in self._lines if line.settings):
            self.serve()

    def close(self, error: BaseException | None = None) -> None:
        """Let go of whoever waits, at once; what waits is not delivered. Twice does no harm."""
        with self.lock:
            if not self.closed:
                self.closed, self.error = True, error
                self._room.notify_all()
                self._filled.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended, unless it would have to wait for who asks."""
        if self._thread is not None and self._thread.is_alive() and not self.inside:
            self._thread.join()


class Turn:
    """Held while a source is read: the drain's lock, and afterwards what is to be done without it.

    ``depth`` counts how often the holder has it, through any turn of the drain.
    """

    def __init__(self, drain: Drain, *, serves: bool) -> None:
        self._drain = drain
        self._serves = serves
        self.depth = 0

    @property
    def outermost(self) -> bool:
        """Whether the holder has the lock once."""
        return self.depth == 1

    def __enter__(self) -> None:
        drain = self._drain
        drain.lock.acquire()
        drain.turn.depth += 1
        drain.holder = threading.get_ident()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        drain = self._drain
        drain.turn.depth -= 1
        left = not drain.turn.depth
        if left:
            drain.holder = None
        drain.lock.release()
        if left and self._serves:
            drain.serve()


def _since(line: Line) -> int:
    return line.since
