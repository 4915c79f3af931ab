"""The way out: rows in the shape that the subscriber asked for."""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, TICK
from rxtemporal.steps.intervals import IntervalStep
from rxtemporal.steps.step import Stateless


class EdgeStep(Stateless):
    """Rows as they are: starts at once and ends when they are known. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the batch."""
        return batch


class PointStep(Stateless):
    """Starts only: each row as ``[start, start + 1 tick)``, when it begins. Holds nothing."""

    def on_batch(self, batch: EventBatch) -> EventBatch:
        """Return the rows that begin, as points."""
        begins = batch.take((batch.edge == 0) | (batch.end == MAX_TIME))
        return begins.replace(end=begins.start + TICK, edge=np.zeros(len(begins), np.int64))


def shaping(shape: EventShape) -> IntervalStep | EdgeStep | PointStep:
    """Return the step that gives rows this shape."""
    if shape is EventShape.INTERVAL:
        return IntervalStep()
    return EdgeStep() if shape is EventShape.EDGE else PointStep()
