"""Running aggregates as objects: the state arrays of one aggregate and the kernel that moves them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.batch import Int64s
from rxtemporal.errors import SchemaError
from rxtemporal.kernels import running as kernels
from rxtemporal.steps.pending import Changes, Column

__all__ = ["Average", "Count", "Extreme", "FloatSum", "IntegerSum", "Running", "grown"]


def grown(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Return the array, doubled along its last axis until it holds ``size``, the rest ``fill``."""
    have = array.shape[-1]
    if have >= size:
        return array
    larger = np.full((*array.shape[:-1], max(size, 2 * have, 64)), fill, array.dtype)
    larger[..., :have] = array
    return larger


class Running(Protocol):
    """An aggregate over rows that come and go, for every key at once."""

    @property
    def width(self) -> int:
        """How many arrays ``columns`` returns."""

    def columns(self, field: pl.Series) -> list[Column]:
        """Return the arrays that travel with each change: what this aggregate reads of a row."""

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        """Apply the changes (``own``: this aggregate's columns of them) and return the samples."""


def _valid(field: pl.Series) -> Column:
    return np.asarray(field.is_not_null().to_numpy())


def _physical(field: pl.Series, dtype: Any) -> Column:
    values = field.to_physical().cast(dtype).fill_null(0)
    return np.ascontiguousarray(values.to_numpy())


class Count:
    """How many values are not null."""

    width = 1

    def __init__(self) -> None:
        self._n = np.zeros(0, np.int64)

    def columns(self, field: pl.Series) -> list[Column]:
        return [_valid(field)]

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        self._n = grown(self._n, keys)
        return pl.Series(kernels.count(changes.key, changes.sign, own[0], at, of, self._n))


class IntegerSum:
    """The exact sum of integers or bools; the sum of nothing is 0."""

    width = 2

    def __init__(self, name: str) -> None:
        self._name = name
        self._total = np.zeros(0, np.int64)
        self._rough = np.zeros(0, np.float64)

    def columns(self, field: pl.Series) -> list[Column]:
        return [_physical(field, pl.Int64), _valid(field)]

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        self._total, self._rough = grown(self._total, keys), grown(self._rough, keys)
        sums, overflow = kernels.integer_sum(
            changes.key, changes.sign, own[0], own[1], at, of, self._total, self._rough
        )
        if overflow >= 0:
            raise SchemaError(
                f"the sum {self._name!r} is larger than an Int64 holds. "
                "Hint: cast the field to Float64 before summing."
            )
        return pl.Series(sums)


class FloatSum:
    """The compensated sum of floats; the sum of nothing is 0."""

    width = 2

    def __init__(self) -> None:
        self._n = np.zeros(0, np.int64)
        self._total = np.zeros(0, np.float64)
        self._rest = np.zeros(0, np.float64)
        self._special = np.zeros((3, 0), np.int64)

    def columns(self, field: pl.Series) -> list[Column]:
        return [_physical(field, pl.Float64), _valid(field)]

    def _sums(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> Any:
        self._n, self._special = grown(self._n, keys), grown(self._special, keys)
        self._total, self._rest = grown(self._total, keys), grown(self._rest, keys)
        state = (self._n, self._total, self._rest, self._special)
        return kernels.float_sum(changes.key, changes.sign, own[0], own[1], at, of, *state)

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        return pl.Series(self._sums(changes, own, at, of, keys)[0])


class Average(FloatSum):
    """The mean of what is not null; null of nothing."""

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        sums, counts = self._sums(changes, own, at, of, keys)
        with np.errstate(divide="ignore", invalid="ignore"):
            means = pl.Series(sums / counts)
        return means.set(pl.Series(counts == 0), None) if len(means) else means


class Extreme:
    """The least or the greatest value; NaN only where there is nothing else, null of nothing."""

    def __init__(self, dtype: pl.DataType, *, greatest: bool) -> None:
        self._dtype = dtype
        self._greatest = greatest
        self.width = 3 if dtype.is_float() else 2
        number = np.float64 if dtype.is_float() else np.int64
        self._living = np.zeros(0, np.int64)
        self._removed = np.zeros(0, np.int64)
        self._sizes = np.zeros((2, 0), np.int64)
        self._nans = np.zeros(0, np.int64)
        self._value = np.zeros(0, number)
        self._left = np.zeros(0, np.int64)
        self._right = np.zeros(0, np.int64)
        self._free = np.zeros(1, np.int64)

    def columns(self, field: pl.Series) -> list[Column]:
        if self._dtype.is_float():
            values, valid = _physical(field, pl.Float64), _valid(field)
            nan = np.isnan(values)  # type: ignore[call-overload]
            return [self._turned(values), valid & ~nan, valid & nan]
        return [self._turned(_physical(field, pl.Int64)), _valid(field)]

    def _turned(self, values: Any) -> Any:
        # the kernel finds the least: turn the order round. ~x does it for every int64, -x does not
        if not self._greatest:
            return values
        return -values if self._dtype.is_float() else ~values

    def sweep(
        self, changes: Changes, own: tuple[Column, ...], at: Int64s, of: Int64s, keys: int
    ) -> pl.Series:
        self._living, self._removed = grown(self._living, keys, -1), grown(self._removed, keys, -1)
        self._sizes = grown(self._sizes, keys)
        self._make_room(len(changes))
        values, there = kernels.extreme(
            changes.key, changes.sign, own[0], own[1], at, of,
            self._living, self._removed, self._sizes,
            self._value, self._left, self._right, self._free,
        )  # fmt: skip
        there = pl.Series(there)
        result = pl.Series(self._turned(values)).set(~there, None) if len(values) else pl.Series(values)
        if self._dtype.is_float():
            self._nans = grown(self._nans, keys)
            nans = kernels.count(changes.key, changes.sign, own[2], at, of, self._nans)
            result = result.set(~there & (pl.Series(nans) > 0), float("nan"))
        return result

    def _make_room(self, more: int) -> None:
        short = more - int(self._free[0])
        if short <= 0:
            return
        have = len(self._value)
        self._value = grown(self._value, have + short)
        self._left, self._right = grown(self._left, have + short), grown(self._right, have + short)
        new = np.arange(have, len(self._value), dtype=np.int64)
        stack = np.empty(len(self._value) + 1, np.int64)
        used = int(self._free[0])
        stack[1 : used + 1] = self._free[1 : used + 1]
        stack[used + 1 : used + 1 + len(new)] = new
        stack[0] = used + len(new)
        self._free = stack
