"""What passes by the inputs and the output of each operator, counted a batch at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME

Clock = Callable[[], float]


class Waits(Protocol):
    """Something in which rows wait."""

    @property
    def rows(self) -> int:
        """How many."""

    @property
    def next_due(self) -> int | None:
        """The earliest time, in ticks, that waits for the CTI to pass it; None for nothing."""


class Holder(Waits, Protocol):
    """What holds the rows of an operator."""

    @property
    def missing(self) -> int | None:
        """The input (0 or 1) without whose fields nothing can begin; None where none is."""

    def save(self) -> bytes:
        """Return what is held, as bytes."""

    def load(self, data: bytes) -> None:
        """Go on from what ``save`` of what holds the same operator's rows returned."""


class Meter:
    """One place that batches pass by: how many rows did, the CTI, and when that last moved.

    ``moved`` is a reading of the clock in seconds: when the CTI last advanced, or, before the
    first, when the meter was made. Costs some 0.2 µs for each batch and nothing for each row.
    """

    __slots__ = ("_clock", "cti", "moved", "rows")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.rows = 0
        self.cti = MIN_TIME
        self.moved = clock()

    def passed(self, batch: EventBatch) -> None:
        """Count a batch."""
        self.rows += len(batch)
        if batch.cti > self.cti:
            self.cti = batch.cti
            self.moved = self._clock()


class Gauge:
    """The meters of one operator in one run, and what holds its rows once it has begun."""

    __slots__ = ("holder", "inputs", "output")

    def __init__(self, inputs: int, clock: Clock = float) -> None:
        self.inputs = tuple(Meter(clock) for _ in range(inputs))
        self.output = Meter(clock)
        self.holder: Holder | None = None

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return 0 if self.holder is None else self.holder.rows

    @property
    def next_due(self) -> int | None:
        """The earliest time that waits for the CTI to pass it; None where nothing does."""
        return None if self.holder is None else self.holder.next_due

    @property
    def missing(self) -> int | None:
        """The input (0 or 1) without whose fields the operator cannot begin; None for none."""
        return None if self.holder is None else self.holder.missing
