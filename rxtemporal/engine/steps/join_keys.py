"""Integer codes of the keys by which rows of two streams match."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import (
    Column,
    Columns,
    Nullable,
    SeriesColumn,
    get_valid,
    make_column,
    make_series,
    physical_type,
)
from rxtemporal.engine.kept_keys import KeptKeys
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.steps.state import Stateful


class KeyMatcher(Stateful):
    """Codes of the fields by which rows of two streams match.

    A row with null in a field of ``on`` matches nothing and has code -1; in a group key, null
    equals null. Holds the keys of rows that are held, and up to as many more.
    """

    held = ("_coder",)

    def __init__(
        self, group: Sequence[str], on: Sequence[tuple[str, str]], types: Sequence[pl.DataType]
    ) -> None:
        pairs = [*((name, name) for name in group), *on]
        self._fields = tuple(zip(*pairs, strict=True)) if pairs else ((), ())
        self._on = len(on)
        self._types = list(types)
        self._coder = KeyCoder({str(i): dtype for i, dtype in enumerate(types)})

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self._coder)

    @property
    def is_full(self) -> bool:
        """True if so many keys are known that its owner should see which ones it holds."""
        return self._coder.is_full

    def forget(self, held: npt.NDArray[np.bool_]) -> KeptKeys | None:
        """Forget keys as ``KeyCoder.forget`` does."""
        return self._coder.forget(held)

    def encode(self, side: int, rows: Columns) -> Int64s:
        """Return each row's key."""
        fields = self._fields[side]
        if not fields:
            return self._coder.encode(rows)
        columns = [
            _cast(rows[name], dtype) for name, dtype in zip(fields, self._types, strict=True)
        ]
        codes = self._coder.encode_columns(columns)
        for column in columns[len(columns) - self._on :]:
            if not isinstance(column, np.ndarray):
                codes[~get_valid(column)] = -1
        return codes


def _cast(column: Column, dtype: pl.DataType) -> Column:
    """Return a column in the type in which keys are compared."""
    if isinstance(column, SeriesColumn):
        series = column.series
        return column if series.dtype == dtype else make_column(series.cast(dtype))
    physical = physical_type(dtype)
    values = column.values if isinstance(column, Nullable) else column
    if values.dtype == physical:
        return column
    if values.dtype == np.uint64:  # polars refuses what does not fit
        return make_column(make_series("", column, pl.UInt64()).cast(dtype))
    values = values.astype(physical)
    return Nullable(values, column.valid) if isinstance(column, Nullable) else values
