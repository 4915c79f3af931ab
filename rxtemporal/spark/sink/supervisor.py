"""Keeps Spark running: one life after the other, with pauses that grow while nothing gets done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from rxtemporal.core.log import get_logger
from rxtemporal.errors import JavaError
from rxtemporal.spark.sink.checkpoint import is_committed
from rxtemporal.spark.sink.worker import Ended, Life, Listener

log = get_logger(__name__)

# seconds before the next life: the first pause, and the longest one
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
# so many lives in a row without a micro-batch are enough
ATTEMPTS = 5
# micro-batches whose CTI is kept in memory
REMEMBERED = 1_000


class Supervisor:
    """Runs lives of Spark in a thread of its own and counts what they get done; a ``Listener``.

    A life that ends is followed by another one, unless it could only end in the same way, or has
    never got as far as a start. While Spark is away ``check`` finds nothing wrong: what comes waits
    in the spool. ``wait`` gives up after some lives in a row that got nothing done. Methods are for
    any thread.
    """

    def __init__(self, make: Callable[[Listener], Life], checkpoint: Path, published: int) -> None:
        self._make, self._checkpoint = make, checkpoint
        self._changed = threading.Condition()
        self._published, self._number = published, -1
        self._ctis: dict[int, int] = {}
        self._life: Life | None = None
        self._stopping = self._started = False
        self._fruitless = 0
        self._last_end: Ended | None = None
        self._hurried: BaseException | None = None
        self.failure: BaseException | None = None
        self.batches, self.restarts = 0, 0
        self.start_seconds, self.batch_seconds = 0.0, 0.0
        self._thread = threading.Thread(target=self._run, name="rxtemporal-spark", daemon=True)

    @property
    def last_error(self) -> str | None:
        """What ended the life before this one, None if nothing did."""
        return None if self._last_end is None else str(self._last_end.error)

    def start(self) -> None:
        """Begin in the background, unless that was done."""
        if not self._thread.ident:
            self._thread.start()

    def check(self) -> None:
        """Raise what no further life could mend, or what cancelled the run."""
        for error in (self.failure, self._hurried):
            if error is not None:
                raise error

    def cancel(self, error: BaseException) -> None:
        """Raise this error in whoever waits here."""
        with self._changed:
            self._hurried = error
            self._changed.notify_all()

    def in_callback(self) -> bool:
        """Whether a user's function is being called in this thread."""
        life = self._life
        return life is not None and life.in_callback()

    def cti(self, batch: int) -> int | None:
        """Return the CTI reached with a micro-batch of this run, None if it is none of it."""
        return self._ctis.get(batch)

    def wait(self, last: int) -> None:
        """Return when everything up to this segment is published and Spark has noted it."""
        self._until(lambda: self._published >= last, f"segment {last} is published")
        number = self._number
        if number >= 0:
            self._until(lambda: is_committed(self._checkpoint, number), "Spark has noted it")

    def stop(self) -> None:
        """End the life and the thread; of a micro-batch that runs, see ``Life.stop``."""
        with self._changed:
            self._stopping = True
            life = self._life
            self._changed.notify_all()
        if life is not None:
            life.stop()
        if self._thread.ident:
            self._thread.join()

    def started(self, seconds: float) -> None:
        """Note how long Spark took to start."""
        self._started, self.start_seconds = True, seconds

    def noted(self, last: int) -> None:
        """Note what an earlier life got done."""
        with self._changed:
            self._published = max(self._published, last)
            self._changed.notify_all()

    def planned(self, number: int, cti: int) -> None:
        """Note the CTI of a micro-batch."""
        self._ctis[number] = cti
        self._ctis.pop(number - REMEMBERED, None)

    def published(self, number: int, last: int, seconds: float) -> None:
        """Note that a micro-batch is in the target."""
        with self._changed:
            self._published, self._number = max(self._published, last), number
            self.batches += 1
            self.batch_seconds += seconds
            self._fruitless = 0
            self._changed.notify_all()
        log.debug("spark.batch", number=number, last_segment=last)

    def _until(self, done: Callable[[], bool], what: str) -> None:
        told = time.monotonic()
        with self._changed:
            while not done():
                self.check()
                if self._fruitless >= ATTEMPTS and self._last_end is not None:
                    raise self._last_end.error
                # short, for Spark's commit is a file and notifies nobody
                self._changed.wait(0.02)
                if time.monotonic() - told > 5:
                    told = time.monotonic()
                    log.info("spark.waiting", until=what, published=self._published)

    def _run(self) -> None:
        try:
            while (life := self._next()) is not None:
                ended = life.run()
                if ended is None or not self._goes_on(ended):
                    return
        except BaseException as error:
            # a thread that ended without a word would be waited for in vain
            with self._changed:
                self._last_end = Ended(error, "never")
                self.failure = None if self._stopping else error
                self._changed.notify_all()

    def _next(self) -> Life | None:
        life = self._make(self)
        with self._changed:
            self._life = None if self._stopping else life
            return self._life

    def _goes_on(self, ended: Ended) -> bool:
        """Note how a life has ended, and pause; whether there is to be another one."""
        with self._changed:
            self._last_end = ended
            self._fruitless += 1
            if not self._stopping and (ended.outlook == "never" or self._given_up(ended)):
                self.failure = ended.error
            self._changed.notify_all()
            if self._stopping or self.failure is not None:
                return False
            pause = _pause(self._fruitless)
            log.warning("spark.restarting", pause=pause, error=repr(ended.error))
            self._changed.wait_for(lambda: self._stopping, pause)
            self.restarts += 1
            return not self._stopping

    def _given_up(self, ended: Ended) -> bool:
        """Whether so many lives without a micro-batch are enough, though it may pass."""
        if ended.outlook == "again":
            # what does not start at all is wrong, what stops starting may only be ill
            return self._fruitless >= (ATTEMPTS if self._started else 1)
        # room and databases come back however long it takes; a process that has died each time
        # before it had started is told by now
        died = isinstance(ended.error, JavaError)
        return died and not self._started and self._fruitless >= ATTEMPTS


def _pause(fruitless: int) -> float:
    """Return the seconds before the next life, after so many in a row that got nothing done."""
    # bounded, for a float has an end, which a disk that is full over a night would reach
    doublings = min(fruitless - 1, 10)
    return min(FIRST_PAUSE * 2.0**doublings, LONGEST_PAUSE)
