"""Positions in the results of a query: how a sink knows which of them it has.

A position stands for exactly the results before it, in every life of a run. Where the stream has
one time it is a time: the results before it are those that start before it, however they are cut
into batches. Where each device has its own time, results leave in no order of theirs; then their
batches are numbered, and a position is the number of the next batch.
"""

from __future__ import annotations

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s


def find_position(batch: EventBatch) -> int:
    """Return the position after a batch of results."""
    return batch.cti if batch.number is None else batch.number + 1


def list_positions(batch: EventBatch) -> Int64s:
    """Return the position of each row: those that are not below a position come after it."""
    if batch.number is None:
        return batch.start
    return np.full(len(batch), batch.number)


def take_rest(batch: EventBatch, position: int) -> EventBatch:
    """Return the results of a batch that come after a position; one-time results are in order."""
    if find_position(batch) <= position:
        return batch.none(batch.cti)
    if batch.number is not None:
        return batch
    begin = int(np.searchsorted(batch.start, position))
    return batch.slice(begin, len(batch)) if begin else batch
