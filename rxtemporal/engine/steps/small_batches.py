"""Small batches, whose rows are taken up together: a batch costs as much as some hundred rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.columns import NO_FIELDS, Column, Columns, concat_columns
from rxtemporal.core.ticks import TICK

# so many rows, or batches, are taken up at once
ROWS, BATCHES = 1024, 64

# the values that are read of each row; True stands for an array filled with it
Values: TypeAlias = Sequence[Any]


class SmallBatches:
    """Batches without edges whose rows wait, in the order in which they came.

    Of each it keeps the times, the columns of the keys, and the values that are read of each row.
    """

    __slots__ = ("_parts", "count")

    def __init__(self) -> None:
        self._parts: list[tuple[Int64s, Int64s, Sequence[Column], Values]] = []
        # the number of rows
        self.count = 0

    @property
    def is_full(self) -> bool:
        """True if so many wait that more would make nothing cheaper."""
        return self.count >= ROWS or len(self._parts) >= BATCHES

    @property
    def earliest(self) -> EventBatch | None:
        """A point at the start of the earliest row, without fields; None if no row waits."""
        starts = [int(part[0].min()) for part in [*self._parts]]  # the step may be running
        if not starts:
            return None
        start = np.array([min(starts)])
        return _make_batch(start, start + TICK)

    def add(self, batch: EventBatch, keys: Sequence[Column], values: Values) -> None:
        """Add the rows of a batch, of which there is one at least."""
        self._parts.append((batch.start, batch.end, keys, values))
        self.count += len(batch.start)

    def concat(self) -> tuple[EventBatch, list[Column], list[Any]]:
        """Return all rows as one batch without fields, their keys, and the values."""
        start, end, keys, values = zip(*self._parts, strict=True)
        return (
            _make_batch(np.concatenate(start), np.concatenate(end)),
            [concat_columns(columns) for columns in zip(*keys, strict=True)],
            [_concat_values(columns, start) for columns in zip(*values, strict=True)],
        )

    def clear(self) -> None:
        """Drop all rows."""
        self._parts, self.count = [], 0


def _make_batch(start: Int64s, end: Int64s) -> EventBatch:
    return EventBatch.of_rows(start, end, Columns(NO_FIELDS, [], len(start)), 0)


def _concat_values(columns: Sequence[Any], start: Sequence[Int64s]) -> Any:
    """Return values in order; ``start`` has as many elements as each of them."""
    filled = [column is True for column in columns]
    if all(filled):
        return True
    if any(filled):
        each = zip(columns, start, strict=True)
        columns = [np.ones(len(s), np.bool_) if values is True else values for values, s in each]
    return np.concatenate(columns)
