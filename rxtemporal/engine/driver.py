"""Driver of a run: takes the batches of its sources through the stages of a plan.

The only loop that runs a plan: live, in a replay, inside Spark, in tests, and behind each operator
in a pipe of Rx.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.stage import BatchReader, Meter, Run, Stage

OnNext: TypeAlias = Callable[[EventBatch], object]


def _ignore(batch: EventBatch) -> None:
    """Let results go that nobody reads."""


def _do_nothing() -> None:
    """Tell nobody of the end."""


class Leaf:
    """One output of a run: gives results to ``receive``, and reports the end once."""

    __slots__ = ("complete_run", "pending", "receive")

    def __init__(
        self, receive: OnNext = _ignore, complete_run: Callable[[], object] = _do_nothing
    ) -> None:
        self.receive, self.complete_run = receive, complete_run
        self.pending: deque[tuple[int, EventBatch | None]] = deque()

    def work(self, run: Run) -> None:
        """Give away the results that wait."""
        while self.pending and not run.ended:
            self.take(*self.pending.popleft(), run)

    def take(self, side: int, batch: EventBatch | None, run: Run) -> None:
        """Give a batch of results away, or report the end."""
        if batch is not None:
            self.receive(batch)
        elif not run.ended:
            self.complete_run()


class Entry(Meter):
    """Entry of the batches of one source into a run, and their meter: an observer."""

    __slots__ = ("_driver", "below", "readers", "then")

    def __init__(self, driver: Driver, clock: Callable[[], float] = float) -> None:
        super().__init__(clock)
        self._driver = driver
        self.readers: list[tuple[BatchReader, int]] = []
        # the only reader, if it reads nothing else: it takes batches at once
        self.then: BatchReader | None = None
        # the others that batches of this source reach, in the order of the plan
        self.below: tuple[Stage | Leaf, ...] = ()

    def on_next(self, batch: EventBatch) -> None:
        """Count a batch, and take it through the plan."""
        if not self._driver.ended:
            self.tally(batch)
            self._push(batch)

    def _push(self, batch: EventBatch | None) -> None:
        """Take a batch through the plan, or the end of the source."""
        driver = self._driver
        if self.then is not None:
            self.then.take(0, batch, driver)
        else:
            for reader, side in self.readers:
                reader.pending.append((side, batch))
        for stage in self.below:
            if stage.pending:
                stage.work(driver)

    def on_error(self, error: Exception) -> None:
        """End the run with an error of the source."""
        self._driver.fail(error)

    def on_completed(self) -> None:
        """End the source; outputs that read no other one complete."""
        if not self._driver.ended:
            self._push(None)


def _reads_one(reader: BatchReader) -> bool:
    """Return True if it reads one entry or stage alone."""
    return not isinstance(reader, Stage) or len(reader.inputs) == 1


class Driver:
    """Run of a plan's stages, inputs before those that read them.

    Each stage takes its batches in order of arrival: those of several readers and of operators with
    two inputs wait in front of them, others are taken at once. An exception in a step ends the run:
    ``on_error`` gets it with the place of the operator. One in a leaf goes to whoever pushes. After
    the end nothing is delivered. Not thread-safe: its owner serialises calls.
    """

    def __init__(self, on_error: Callable[[Exception], object] = lambda error: None) -> None:
        self.on_error = on_error
        self.ended = False
        # inputs first
        self._stages: list[Stage | Leaf] = []

    def add(self, reader: Stage | Leaf, *given: Entry | Stage) -> None:
        """Add a stage or a leaf behind the entries and stages that it reads."""
        for side, each in enumerate(given):
            each.readers.append((reader, side))
        self._stages.append(reader)

    def connect(self, entries: Sequence[Entry]) -> None:
        """Find what is below each entry; call when all stages and leaves have been added."""
        direct: set[int] = set()
        givers: list[Entry | Stage] = [*entries]
        givers += [stage for stage in self._stages if isinstance(stage, Stage)]
        for each in givers:
            if len(each.readers) == 1 and _reads_one(reader := each.readers[0][0]):
                each.then = reader
                direct.add(id(reader))
        for entry in entries:
            reached = {id(reader) for reader, _ in entry.readers}
            for stage in self._stages:
                if id(stage) in reached and isinstance(stage, Stage):
                    reached.update(id(reader) for reader, _ in stage.readers)
            queued = reached - direct
            entry.below = tuple(stage for stage in self._stages if id(stage) in queued)

    def fail(self, error: Exception) -> None:
        """End the run with an error."""
        if not self.ended:
            self.ended = True
            self.on_error(error)

    def stop(self) -> None:
        """Deliver nothing any more."""
        self.ended = True
