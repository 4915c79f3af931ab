"""Rows of a frame by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    return frame[numbers]
