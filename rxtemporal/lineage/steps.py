"""Steps of a captured run, and what leaves each node in them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.stage import RowHolder

# is told the number of arrivals so far
Progress: TypeAlias = Callable[[int], object]
PROGRESS_EVERY = 1_000


class Steps:
    """The number of the current step: ``every`` arrivals, or whatever the run takes at once."""

    def __init__(self, every: int, progress: Progress | None = None) -> None:
        self.now = -1
        self._every, self._left = every, 0
        self._progress = progress
        self._taken = self._told = 0
        # the tape of the last arrivals
        self.tape: Any = None
        self._probes: list[Probe] = []
        self._clock = 0.0

    def watch(self, probe: Probe) -> None:
        """Look at the rows held behind a probe after each step."""
        self._probes.append(probe)

    def next(self, tape: Any, arrivals: int = 1) -> None:
        """Note that a tape gets arrivals; begin the next step if they do not fit into this one."""
        self.tape, self._clock = tape, time.perf_counter()
        if self._left < arrivals:
            self.finish()
            self.now, self._left = self.now + 1, self._every
        self._left -= arrivals
        self._taken += arrivals
        if self._progress is not None and self._taken >= self._told + PROGRESS_EVERY:
            self._told = self._taken
            self._progress(self._taken)

    def finish(self) -> None:
        """Note the rows held at the end of a step."""
        for probe in self._probes:
            probe.note_held(self.now)

    def lap(self) -> float:
        """Return the seconds since the last call, or since the step has begun."""
        before, self._clock = self._clock, time.perf_counter()
        return self._clock - before


class Probe:
    """Record of what has left one node: batches, each with its step; CTIs; rows held; time."""

    def __init__(self, steps: Steps, holder: RowHolder | None = None) -> None:
        self._steps, self._holder = steps, holder
        self.batches: list[tuple[int, EventBatch]] = []
        self.ctis: list[tuple[int, int]] = []
        self.held: list[tuple[int, int]] = []
        self.seconds = 0.0
        self._cti, self._rows = MIN_TIME, 0

    def note(self, batch: EventBatch) -> None:
        """Note a batch that leaves the node."""
        self.seconds += self._steps.lap()
        if len(batch):
            self.batches.append((self._steps.now, batch))
        if batch.cti > self._cti:
            self._cti = batch.cti
            self.ctis.append((self._steps.now, batch.cti))

    def note_held(self, step: int) -> None:
        """Note how many rows the node holds, if that has changed."""
        if self._holder is not None and (rows := self._holder.rows) != self._rows:
            self._rows = rows
            self.held.append((step, rows))
