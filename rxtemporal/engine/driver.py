"""Driver of a run: takes the batches of its sources through the stages of a plan.

The only loop that runs a plan: live, in a replay, inside Spark, in tests, and behind each operator
in a pipe of Rx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.stage import Feed, Stage


class Entry(Feed):
    """Entry of the batches of one source into a run: an observer.

    ``highest`` is the highest start of a row that has come.
    """

    __slots__ = ("_driver", "below", "highest")

    def __init__(self, driver: Driver, clock: Callable[[], float] = float) -> None:
        super().__init__(clock)
        self._driver = driver
        self.highest = MIN_TIME
        # the others that batches of this source reach, in the order of the plan
        self.below: tuple[Stage, ...] = ()

    def resume_at(self, highest: int) -> None:
        """Go on from the highest start that has come before."""
        self.highest = highest

    def on_next(self, batch: EventBatch) -> None:
        """Count a batch, and take it through the plan."""
        driver = self._driver
        if not driver.ended:
            self.tally(batch)
            if len(batch.start) and (highest := batch.highest_start) > self.highest:
                self.highest = highest
            self.then(0, batch, driver)
            if self.below:
                self._work_below()

    def _work_below(self) -> None:
        for stage in self.below:
            if stage.pending:
                stage.work(self._driver)

    def on_error(self, error: Exception) -> None:
        """End the run with an error of the source."""
        self._driver.fail(error)

    def on_completed(self) -> None:
        """End the source; outputs that read no other one complete."""
        if not self._driver.ended:
            self.then(0, None, self._driver)
            self._work_below()


class Driver:
    """Run of a plan's stages, inputs before those that read them.

    Each stage takes its batches in order of arrival: those of several readers and of operators with
    two inputs wait in front of them, others are taken at once. An exception in a step ends the run:
    ``on_error`` gets it with the place of the operator. An exception in whoever gets results is
    raised to the producer. After the end nothing is delivered. Not thread-safe: its owner
    serialises calls.
    """

    def __init__(self, on_error: Callable[[Exception], object] = lambda error: None) -> None:
        self.on_error = on_error
        self.ended = False
        # inputs first
        self._stages: list[Stage] = []
        # the ids of those that read one stream
        self._of_one: set[int] = set()

    def add(self, reader: Stage, *given: Entry | Stage) -> None:
        """Add a stage behind the entries and stages that it reads."""
        for side, each in enumerate(given):
            each.readers.append((reader, side))
        if len(given) == 1:
            self._of_one.add(id(reader))
        self._stages.append(reader)

    def connect(self, entries: Sequence[Entry]) -> None:
        """Find what is below each entry; call when all stages have been added."""
        direct: set[int] = set()
        givers: list[Entry | Stage] = [*entries, *self._stages]
        for each in givers:
            if len(each.readers) == 1 and id(reader := each.readers[0][0]) in self._of_one:
                each.then = reader.take
                direct.add(id(reader))
        for entry in entries:
            reached = {id(reader) for reader, _ in entry.readers}
            for stage in self._stages:
                if id(stage) in reached:
                    reached.update(id(reader) for reader, _ in stage.readers)
            queued = reached - direct
            entry.below = tuple(stage for stage in self._stages if id(stage) in queued)

    def report_to(self, on_error: Callable[[Exception], object]) -> None:
        """Call ``on_error`` with the error that ends the run."""
        self.on_error = on_error

    def fail(self, error: Exception) -> None:
        """End the run with an error."""
        if not self.ended:
            self.ended = True
            self.on_error(error)

    def stop(self) -> None:
        """Deliver nothing any more."""
        self.ended = True
