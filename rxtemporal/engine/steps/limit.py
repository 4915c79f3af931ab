"""Lifetimes that end at the latest a fixed span after their start."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.lifetimes import later
from rxtemporal.engine.steps.open_rows import WaitingRows
from rxtemporal.engine.steps.state import Stateful


class LimitStep(Stateful):
    """Ends each row at the latest ``limit`` ticks after its start. Keeps edge ids.

    A start edge leaves at once. Its row is closed by its own end edge, or as soon as the CTI has
    reached the limit; an end edge that comes after that has nothing left to say. Holds the open
    rows whose limit lies ahead of the CTI.
    """

    held = ("_open",)

    def __init__(self, limit: int, schema: pl.Schema) -> None:
        self._limit = limit
        self._open = WaitingRows(schema, own=1)

    @property
    def rows(self) -> int:
        """How many open rows have not reached their limit."""
        return len(self._open)

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows with their ends limited, and the CTI."""
        latest = later(batch.start, self._limit)
        opens = (batch.edge != 0) & (batch.end == MAX_TIME)
        closes = (batch.edge != 0) & ~opens
        limited = opens & (latest < MAX_TIME)
        self._open.add(batch.take(limited), latest[limited], latest[limited])
        over = np.zeros(len(batch), np.bool_)
        over[closes] = (self._open.close(batch.edge[closes]) < 0) & (latest[closes] < MAX_TIME)
        end = np.where(opens, MAX_TIME, np.minimum(batch.end, latest))
        result = [batch.replace(end=end).take(~over)]
        numbers = self._open.due(batch.cti + 1)
        if len(numbers):
            reached = self._open.batch(numbers, batch)
            result.append(reached.replace(end=self._open.own(0)[numbers]))
            self._open.let_go(numbers)
        self._open.compact()
        return EventBatch.concat(result)
