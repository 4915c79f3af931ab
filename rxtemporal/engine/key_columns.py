"""Numbering of the distinct values of one column."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.columns import Column, Nullable, SeriesColumn, make_column
from rxtemporal.engine.key_store import GrowingColumn, GrowingSeries

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

Codes = npt.NDArray[np.int64]
_INT64, _INT32 = np.dtype(np.int64), np.dtype(np.int32)


class KeyColumn(Protocol):
    """Numbers the distinct values of one column in order of first appearance."""

    @property
    def hashed(self) -> bool:
        """True if values are hashed and compared; otherwise they stand for integers."""

    @property
    def next_code(self) -> int:
        """The number of distinct values."""

    @property
    def values(self) -> GrowingColumn | None:
        """The distinct values by code, if they are stored."""

    def number(self, values: Column) -> Codes:
        """Return the code of each value; null has a code of its own."""


def make_key_column(dtype: pl.DataType) -> KeyColumn:
    """Return an empty numbering for a column of this type."""
    from rxtemporal.engine.kernels.hash_table import IntTable

    if isinstance(dtype, pl.String | pl.Binary | pl.Decimal):
        return _HashedColumn(IntTable(), pl.Series([], dtype=dtype))
    return _IntegerColumn(IntTable())


class _IntegerColumn:
    """Numbers a column by the integers that stand for its values: their ticks, days or bits."""

    __slots__ = ("_table",)

    hashed = False
    values = None

    def __init__(self, table: IntTable) -> None:
        self._table = table

    @property
    def next_code(self) -> int:
        return self._table.next_code

    def number(self, values: Column) -> Codes:
        if isinstance(values, SeriesColumn):
            values = make_column(values.series.cast(pl.Int64))
        if isinstance(values, np.ndarray):
            return self._table.number(_to_integers(values))
        assert isinstance(values, Nullable)
        return self._table.number(_to_integers(values.values), values.valid)


class _HashedColumn:
    """Numbers a column by 64-bit hashes; compares each value with the one stored under its code.

    Two values rarely have the same hash; if so, all values are looked up in a dict from then on.
    """

    __slots__ = ("_exact", "_table", "values")

    hashed = True

    def __init__(self, table: IntTable, empty: pl.Series) -> None:
        self._table = table
        self.values = GrowingSeries(empty)
        self._exact: dict[Hashable, int] | None = None

    @property
    def next_code(self) -> int:
        return self._table.next_code if self._exact is None else len(self._exact)

    def number(self, values: Column) -> Codes:
        assert isinstance(values, SeriesColumn)
        if self._exact is not None:
            return self._look_up(values)
        known = self._table.next_code
        codes = self._table.number(_hash_values(values.series))
        count = self._table.next_code
        if count > known:
            self.values.append(values[find_first_rows(codes, known, count)])
        if count - known == len(values) or self._match_codes(values.series, codes):
            return codes
        self.values.cut(known)
        stored = self.values.take(np.arange(known)).series.to_list()
        self._exact = {value: code for code, value in enumerate(stored)}
        return self._look_up(values)

    def _match_codes(self, values: pl.Series, codes: Codes) -> bool:
        """Return True if each value is the one stored under its code."""
        return values.equals(self.values.take(codes).series, null_equal=True)

    def _look_up(self, values: SeriesColumn) -> Codes:
        exact = self._exact
        assert exact is not None
        known, given = len(exact), values.series.to_list()
        codes = np.array([exact.setdefault(value, len(exact)) for value in given], np.int64)
        if len(exact) > known:
            self.values.append(values[find_first_rows(codes, known, len(exact))])
        return codes


def find_first_rows(codes: Codes, known: int, count: int) -> Codes:
    """Return for each of the codes ``known … count - 1``, which are new, the first row with it."""
    from rxtemporal.engine.kernels import hash_table

    return hash_table.find_first_rows(codes, known, count)


def to_hashable(column: Column, dtype: pl.DataType) -> list[Any]:
    """Return a column's values as Python values that are equal exactly if the keys are.

    Times are integers: when clocks are set back, Python finds two aware datetimes equal that are an
    hour apart. NaN becomes a value that equals itself.
    """
    if isinstance(column, SeriesColumn):
        return column.series.to_list()
    if isinstance(column, Nullable):
        values = to_hashable(column.values, dtype)
        return [v if there else None for v, there in zip(values, column.valid, strict=True)]
    values = column.tolist()
    return ["NaN" if v != v else v for v in values] if dtype.is_float() else values


def _hash_values(values: pl.Series) -> Codes:
    return values.to_frame().hash_rows().to_numpy().view(np.int64)


def _to_integers(values: npt.NDArray[Any]) -> Codes | npt.NDArray[np.int32]:
    """Return integers that are equal exactly if the values are; of floats the bits."""
    if values.dtype == _INT64 or values.dtype == _INT32:
        return values
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    floats = values.astype(np.float64) + 0.0  # one zero
    floats[np.isnan(floats)] = np.nan
    return floats.view(np.int64)
