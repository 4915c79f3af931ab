"""Values that aggregates read, and columns in the type of a result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.columns import (
    Column,
    Columns,
    Nullable,
    SeriesColumn,
    get_valid,
    make_column,
    physical_type,
)
from rxtemporal.engine.kernels.compiled import freeze

Array = npt.NDArray[Any]

# the start of it stands for arrays up to this length that are filled with True
_TRUE = freeze(np.ones(65_536, np.bool_))


def read_integers(field: Column) -> Array:
    """Return the values of a field of integers, bools or times, to be held as int64.

    A value under a null is arbitrary. An unsigned number that is too large is an error of polars.
    """
    if isinstance(field, SeriesColumn):
        return _read_series(field.series, pl.Int64())
    values = field.values if isinstance(field, Nullable) else field
    if values.dtype == np.uint64:
        return _read_series(pl.Series(np.where(get_valid(field), values, 0)), pl.Int64())
    return values


def read_floats(field: Column) -> Array:
    """Return the values of a field of numbers or bools, to be held as float64.

    A value under a null is arbitrary.
    """
    if isinstance(field, SeriesColumn):
        return _read_series(field.series, pl.Float64())
    values = field.values if isinstance(field, Nullable) else field
    return values if values.dtype == np.float64 else values.astype(np.float64)


def _read_series(series: pl.Series, dtype: pl.DataType) -> Array:
    return np.ascontiguousarray(series.cast(dtype).fill_null(0).to_numpy())


def read_valid(field: Column) -> Array | bool:
    """Return the mask of the values that are not null; True if none can be."""
    return True if type(field) is np.ndarray else get_valid(field)


def read_objects(field: Column) -> Array:
    """Return the values of a field as Python objects, null as None."""
    assert isinstance(field, SeriesColumn)
    values = np.empty(len(field), object)
    values[:] = field.series.to_list()
    return values


def make_arrays(columns: Sequence[Array | bool], dtypes: Sequence[Any], size: int) -> list[Array]:
    """Return columns as arrays of these types and this size; True fills one.

    They are read-only, since they may be the columns themselves or shared by all callers.
    """
    return [
        _fill_true(size)
        if isinstance(column, bool)
        else freeze(column if column.dtype == dtype else column.astype(dtype))
        for column, dtype in zip(columns, dtypes, strict=True)
    ]


def _fill_true(size: int) -> Array:
    return _TRUE[:size] if size <= len(_TRUE) else freeze(np.ones(size, np.bool_))


class ResultTypes:
    """Types of a result's fields, to which columns are cast."""

    __slots__ = ("_types", "empty", "schema")

    def __init__(self, schema: pl.Schema) -> None:
        self.schema = schema
        self.empty = Columns.empty(schema)
        physical = map(physical_type, schema.values())
        types = [None if each is None else np.dtype(each) for each in physical]
        self._types = list(zip(types, schema.values(), strict=True))

    def cast(self, columns: Sequence[Column], height: int) -> Columns:
        """Return columns, which are in the order of the schema, in its types."""
        made = [
            column
            if type(column) is np.ndarray and column.dtype == physical
            else _cast_column(column, dtype)
            for column, (physical, dtype) in zip(columns, self._types, strict=True)
        ]
        return Columns(self.schema, made, height)


def _cast_column(column: Column, dtype: pl.DataType) -> Column:
    """Return a column of values that are of this type or were computed for it.

    Those of numbers, bools and times are changed only in width.
    """
    physical = physical_type(dtype)
    if isinstance(column, SeriesColumn):
        series = column.series
        series = series if series.dtype == dtype else series.cast(dtype)
        return SeriesColumn(series) if physical is None else make_column(series)
    if physical is None:
        return _cast_to_series(column, dtype)
    if isinstance(column, Nullable):
        if column.values.dtype == physical:
            return column
        return Nullable(column.values.astype(physical), column.valid)
    return column if column.dtype == physical else column.astype(physical)


def _cast_to_series(column: Nullable | Array, dtype: pl.DataType) -> SeriesColumn:
    """Return numbers as a column of a type that polars holds; without values its nulls."""
    if not get_valid(column).any():
        return SeriesColumn(pl.Series([None] * len(column), dtype=dtype))
    assert not isinstance(column, Nullable)
    return SeriesColumn(pl.Series(column).cast(dtype))
