"""Small batches, whose rows are taken up together: a batch costs as much as some hundred rows."""

from __future__ import annotations

import itertools
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
# the starts of a batch, its ends (None: all rows are points), and True if it is in order
Times: TypeAlias = tuple[Int64s, Int64s | None, bool]


class SmallBatches:
    """Batches without edges whose rows wait, in the order in which they came.

    Of each it keeps the times, the columns of the keys, and the values that are read of each row.
    """

    __slots__ = ("_parts", "count")

    def __init__(self) -> None:
        self._parts: list[tuple[Times, Sequence[Column], Values]] = []
        # the number of rows
        self.count = 0

    @property
    def is_full(self) -> bool:
        """True if so many wait that more would make nothing cheaper."""
        return self.count >= ROWS or len(self._parts) >= BATCHES

    @property
    def earliest(self) -> EventBatch | None:
        """A point at the start of the earliest row, without fields; None if no row waits."""
        parts = [*self._parts]  # the step may be running
        starts = [int(start.min()) for (start, _, _), *_ in parts]
        return _make_batch(np.array([min(starts)]), None) if starts else None

    def add(self, batch: EventBatch, keys: Sequence[Column], values: Values) -> None:
        """Add the rows of a batch, of which there is one at least."""
        end = None if batch.are_points else batch.end
        self._parts.append(((batch.start, end, batch.in_order), keys, values))
        self.count += len(batch.start)

    def concat(self) -> tuple[EventBatch, list[Column], list[Any]]:
        """Return all rows as one batch without fields, their keys, and the values."""
        times, keys, values = zip(*self._parts, strict=True)
        return (
            _concat_times(times),
            [concat_columns(columns) for columns in zip(*keys, strict=True)],
            [_concat_values(columns, times) for columns in zip(*values, strict=True)],
        )

    def clear(self) -> None:
        """Drop all rows."""
        self._parts, self.count = [], 0


def _make_batch(start: Int64s, end: Int64s | None, *, in_order: bool = True) -> EventBatch:
    return EventBatch(start, end, None, Columns(NO_FIELDS, [], len(start)), 0, (), in_order)


def _concat_times(times: Sequence[Times]) -> EventBatch:
    """Return a batch of all rows, without fields."""
    starts = [start for start, _, _ in times]
    in_order = all(each for _, _, each in times) and all(
        after[0] >= before[-1] for before, after in itertools.pairwise(starts)
    )
    ends = None
    if any(end is not None for _, end, _ in times):
        ends = np.concatenate([start + TICK if end is None else end for start, end, _ in times])
    return _make_batch(np.concatenate(starts), ends, in_order=in_order)


def _concat_values(columns: Sequence[Any], times: Sequence[Times]) -> Any:
    """Return the values of all rows, in order; ``times`` says how many each batch has."""
    filled = [column is True for column in columns]
    if all(filled):
        return True
    if any(filled):
        each = zip(columns, times, strict=True)
        columns = [np.ones(len(t[0]), np.bool_) if values is True else values for values, t in each]
    return np.concatenate(columns)
