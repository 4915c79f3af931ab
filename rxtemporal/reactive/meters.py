"""Counters at the inputs and the output of each operator, advanced a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import Captured

Tap: TypeAlias = Callable[[EventBatch], object]


class RowHolder(Protocol):
    """Something that holds rows until their time has come."""

    @property
    def rows(self) -> int:
        """The number of rows held."""

    @property
    def next_due(self) -> int | None:
        """The earliest time, in ticks, that the CTI has to pass for a row to leave; None: none."""


class RunningStep(RowHolder, Protocol):
    """The step of one operator in one run."""

    @property
    def missing(self) -> int | None:
        """The input (0 or 1) whose fields have to be known before it can begin; None for none."""

    def capture(self) -> Captured:
        """Return the state as it is now, to be encoded later."""

    def load(self, data: bytes) -> None:
        """Resume from the bytes of what ``capture`` of the same operator's step returned."""

    def watch(self, tap: Tap | None) -> None:
        """Call ``tap`` with each batch that leaves the operator; None: nobody looks any more."""


class Meter:
    """Counter of the rows that pass one place, with the CTI and when that last advanced.

    ``moved`` is a reading of the clock in seconds: when the CTI last advanced, or, before the
    first, when the meter was made. A batch costs some 0.2 µs, whatever its rows.
    """

    __slots__ = ("_clock", "cti", "moved", "rows")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.rows = 0
        self.cti = MIN_TIME
        self.moved = clock()

    def tally(self, batch: EventBatch) -> None:
        """Count a batch."""
        self.rows += len(batch.start)  # without a call of the batch
        if batch.cti > self.cti:
            self.cti = batch.cti
            self.moved = self._clock()

    def tap(self, tap: Tap | None) -> Tap:
        """Return ``tally``, or a function that counts a batch and then gives it to ``tap``."""
        if tap is None:
            return self.tally

        def count(batch: EventBatch) -> None:
            self.tally(batch)
            tap(batch)

        return count


class Gauge:
    """The meters of one operator in one run, and its step once there is one."""

    __slots__ = ("inputs", "output", "step")

    def __init__(self, inputs: Iterable[Meter] = (), clock: Callable[[], float] = float) -> None:
        # each input is metered at the output of the preceding operator or source
        self.inputs = tuple(inputs)
        self.output = Meter(clock)
        self.step: RunningStep | None = None

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return 0 if self.step is None else self.step.rows

    @property
    def next_due(self) -> int | None:
        """The earliest time that the CTI has to pass for a row to leave; None for none."""
        return None if self.step is None else self.step.next_due

    @property
    def missing(self) -> int | None:
        """The input (0 or 1) whose fields have to be known before it can begin; None for none."""
        return None if self.step is None else self.step.missing
