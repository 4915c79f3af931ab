"""Rows of a frame by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["rows_of"]


def rows_of(frame: pl.DataFrame, numbers: npt.NDArray[Any] | Sequence[int]) -> pl.DataFrame:
    """Return these rows, in this order.

    A single one is cut out of the frame in 2 µs; polars' gather takes 60 and more, for it hands the
    columns out to its threads.
    """
    if len(numbers) == 1:
        return frame.slice(int(numbers[0]), 1)
    # in the type in which polars keeps row numbers: of any other it looks at the signs first
    return frame[pl.Series(np.asarray(numbers).astype(np.uint32, copy=False))]
