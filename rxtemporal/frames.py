"""What steps do with frames often, at the cost of what there is to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["rows_of", "stacked", "typed"]


def rows_of(frame: pl.DataFrame, numbers: npt.NDArray[Any] | Sequence[int]) -> pl.DataFrame:
    """Return these rows, in this order.

    A single one is cut out of the frame in 2 µs; polars' gather takes 60 and more, for it hands the
    columns out to its threads.
    """
    if len(numbers) == 1:
        return frame.slice(int(numbers[0]), 1)
    # in the type in which polars keeps row numbers: of any other it looks at the signs first
    return frame[pl.Series(np.asarray(numbers).astype(np.uint32, copy=False))]


def stacked(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return frames of one schema, one or more, as one of as many chunks, copying nothing.

    A few microseconds, where polars' concat takes 30 and more.
    """
    every, *others = frames
    for frame in others:
        every = every.vstack(frame)
    return every


def typed(columns: Sequence[pl.Series], schema: pl.Schema) -> pl.DataFrame:
    """Return a frame of these columns in the types of the schema, whose order they have.

    Casts those that differ alone: polars casts a frame by way of a query.
    """
    return pl.DataFrame(
        [
            column if column.dtype == dtype else column.cast(dtype)
            for column, dtype in zip(columns, schema.values(), strict=True)
        ]
    )
