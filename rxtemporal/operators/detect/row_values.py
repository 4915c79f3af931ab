"""Values of rows that a step holds: fields, starts, and those of rows that are not there."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Column, Nullable, SeriesColumn, get_valid, make_series
from rxtemporal.engine.records import RecordStore
from rxtemporal.operators.detect.functions import STARTS
from rxtemporal.operators.detect.layout import ROW_BEFORE, ROW_START


class RowValues:
    """Reader of rows in a store, by their numbers; ``time`` is the type of their starts."""

    __slots__ = ("rows", "schema", "time")

    def __init__(self, rows: RecordStore, schema: pl.Schema, time: pl.DataType) -> None:
        self.rows = rows
        self.schema = schema
        self.time = time

    def read(self, name: str, numbers: Int64s) -> Column:
        """Return a field of rows, or their starts; null where the number is negative.

        The name of the start means that, also where a field is called so.
        """
        there = numbers >= 0
        all_there = bool(there.all())
        at = numbers if all_there else np.where(there, numbers, 0)
        if name in STARTS:
            column: Column = self.rows.array[at, ROW_START]
        else:
            (column,) = self.rows.fields(at, [name])
        return column if all_there else _drop_values(column, there)

    def read_series(self, name: str, numbers: Int64s) -> pl.Series:
        """Return the same as a series."""
        dtype = self.time if name in STARTS else self.schema[name]
        return make_series(name, self.read(name, numbers), dtype)

    def read_fields(self, names: Iterable[str], numbers: Int64s) -> dict[str, pl.Series]:
        """Return fields of rows that are there, whatever their names are."""
        names = [*names]
        columns = zip(names, self.rows.fields(numbers, names), strict=True)
        return {name: make_series(name, column, self.schema[name]) for name, column in columns}

    def find_before(self, numbers: Int64s, n: int) -> Int64s:
        """Return the n-th row before each row in its key; -1 if there is none."""
        before = self.rows.array[:, ROW_BEFORE]
        for _ in range(n):
            numbers = np.where(numbers >= 0, before[numbers], -1)
        return numbers


def _drop_values(column: Column, there: np.ndarray) -> Column:
    """Return a column with null where a mask is False."""
    if isinstance(column, SeriesColumn):
        return SeriesColumn(column.series.set(pl.Series(~there), None))
    values = column.values if isinstance(column, Nullable) else column
    return Nullable(values, get_valid(column) & there)
