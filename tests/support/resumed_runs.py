"""A sink that several runs write into, one after the other."""

from __future__ import annotations

import threading
import time

import polars as pl

import rxtemporal as rxt
from rxtemporal import EventShape

# a machine that is busy takes long; a test that hangs fails here instead
SOON = 600


class Table:
    """A sink that several runs write into, one after the other; it stops its run at some batch.

    What came after the state from which a run goes on comes again, and is cut off before.
    """

    def __init__(self, shape: EventShape, batches: list[rxt.EventBatch], at: int, how: str) -> None:
        self.shape = shape
        self.batches = batches
        self._at, self._how = at, how
        self._goes_on = False
        self.reached = threading.Event()

    def open(self, name: str, schema: pl.Schema) -> None:
        """Forget what a run has left that has saved nothing."""
        if not self._goes_on:
            self.batches.clear()

    def write(self, batch: rxt.EventBatch) -> None:
        """Keep the batch, unless this is where it breaks."""
        self._at -= 1
        if self._at < 0:
            self.reached.set()
            if self._how == "breaks":
                raise OSError("the line is dead")
            time.sleep(0.005)  # so that whoever stops it comes in between
        self.batches.append(batch)

    def close(self, error: BaseException | None) -> None:
        """Be closed."""

    def save(self) -> bytes:
        """Return how many batches there are."""
        return str(len(self.batches)).encode()

    def load(self, state: bytes) -> None:
        """Forget later ones."""
        self._goes_on = True
        del self.batches[int(state) :]
