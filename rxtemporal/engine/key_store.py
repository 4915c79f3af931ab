"""Store of keys by their codes, and new codes for those that are kept when others are forgotten."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.columns import Column, Nullable, SeriesColumn, copy_values, physical_type

Codes = npt.NDArray[np.int64]
Scalar = TypeVar("Scalar", bound=np.generic)
Value = TypeVar("Value")


def follow(new: Codes, numbers: Codes) -> Codes:
    """Return the new numbers of entries; a negative number, of no entry, stays.

    Where an array has room for a key or a row that is not in use, a number there may be any, and
    becomes any.
    """
    moved = numbers.astype(np.int64, order="C")
    follow_in_place(new, moved.reshape(-1, 1), [0])
    return moved


def follow_in_place(new: Codes, records: Codes, columns: Sequence[int]) -> None:
    """Replace the numbers in these columns of records, ``int64[n, columns]``, by the new ones."""
    # imported here so that importing the package does not load numba
    from rxtemporal.engine.kernels.compiled import freeze
    from rxtemporal.engine.kernels.rows import renumber_records

    renumber_records(records, freeze(np.array(columns)), freeze(new))


@dataclasses.dataclass(frozen=True, eq=False)
class KeptKeys:
    """Keys or rows that are kept: their former numbers, in order of the new ones, and the count.

    ``count`` is how many there were.
    """

    old: Codes
    count: int

    @functools.cached_property
    def new(self) -> Codes:
        """The new codes by the former ones; -1 for a key that is forgotten."""
        new = np.full(self.count, -1)
        new[self.old] = np.arange(len(self.old))
        return new

    @property
    def gone(self) -> Codes:
        """The former codes of the keys that are forgotten."""
        return np.flatnonzero(self.new < 0)

    def pick_entries(self, entries: Mapping[int, Value]) -> dict[int, Value]:
        """Return the entries of a mapping by key that belong to kept keys."""
        new = self.new.tolist()
        return {new[key]: value for key, value in entries.items() if new[key] >= 0}

    def renumber(self, codes: Codes) -> Codes:
        """Return the new codes of these keys; a negative code, of no key, stays."""
        return follow(self.new, codes)

    def pick(self, array: npt.NDArray[Scalar], axis: int = -1) -> npt.NDArray[Scalar]:
        """Return an array by key with the kept keys alone; this axis has the keys.

        An array that has no elements yet for the latest keys has none for them afterwards.
        """
        return array.take(self.old[: np.searchsorted(self.old, array.shape[axis])], axis=axis)


SMALLEST = 64
# gathering a row from one chunk and not from several saves what joining so many rows costs
JOINING_GAINS = 16


class KeyStore:
    """Columns of keys, by code. A key keeps its own values alone, not those of its batch."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Sequence[GrowingColumn]) -> None:
        self._fields = fields

    def append(self, columns: Sequence[Column], rows: Codes) -> None:
        """Add these rows of a batch's key columns at the end."""
        for field, column in zip(self._fields, columns, strict=True):
            field.append(column[rows])

    def take(self, codes: Codes) -> list[Column]:
        """Return the columns of the keys with these codes."""
        return [field.take(codes) for field in self._fields]


class GrowingColumn(Protocol):
    """Values of one column that grows by appending."""

    def append(self, column: Any) -> None:
        """Add values at the end."""

    def take(self, rows: Codes) -> Column:
        """Return the values of these rows."""


def make_growing(dtype: pl.DataType) -> GrowingColumn:
    """Return an empty column of this type."""
    physical = physical_type(dtype)
    if physical is None:
        return GrowingSeries(pl.Series([], dtype=dtype))
    return _GrowingArray(np.empty(SMALLEST, physical))


class _GrowingArray:
    """Values in an array, and once one was null the mask of those that are not."""

    __slots__ = ("_height", "_valid", "_values")

    def __init__(self, room: npt.NDArray[Any]) -> None:
        self._values = room
        self._valid: npt.NDArray[np.bool_] | None = None
        self._height = 0

    def append(self, column: Nullable | npt.NDArray[Any]) -> None:
        """Add values at the end."""
        begin, end = self._height, self._height + len(column)
        self._make_room(end)
        self._height = end
        if not isinstance(column, Nullable):
            self._values[begin:end] = column
            return
        self._values[begin:end] = column.values
        if self._valid is None:
            self._valid = np.ones(len(self._values), np.bool_)
        self._valid[begin:end] = column.valid

    def _make_room(self, height: int) -> None:
        if height <= len(self._values):
            return
        more = max(height, 2 * len(self._values)) - len(self._values)
        self._values = np.concatenate([self._values, np.empty(more, self._values.dtype)])
        if self._valid is not None:
            self._valid = np.concatenate([self._valid, np.ones(more, np.bool_)])

    def take(self, rows: Codes) -> Column:
        """Return the values of these rows."""
        values = self._values.take(rows)
        if self._valid is None:
            return values
        valid = self._valid.take(rows)
        return values if valid.all() else Nullable(values, valid)


class GrowingSeries:
    """A series that grows by appending, at a cost that depends on what is appended.

    Each part is at least twice as long as the next, so there are few parts, and each row is copied
    only a few times. polars gathers much faster from one chunk than from several, so the parts are
    joined once enough rows have been gathered to make that worthwhile.

    Any thread may take rows, and one append: the devices of a stream are named where its rows are
    computed, and in diagnostics, while others are added at its door.
    """

    __slots__ = ("_gathered", "_parts", "_rows", "_turn")

    def __init__(self, empty: pl.Series) -> None:
        self._parts = [empty]
        self._rows = 0
        self._gathered = 0
        self._turn = threading.Lock()

    def append(self, column: SeriesColumn) -> None:
        """Add copies of values at the end, which keep no others in memory."""
        series = copy_values(column.series)
        with self._turn:
            self._add(series)

    def _add(self, series: pl.Series) -> None:
        parts = self._parts
        parts.append(series)
        self._rows += len(series)
        first = len(parts) - 1
        size = len(series)
        while first > 0 and len(parts[first - 1]) < 2 * size:
            first -= 1
            size += len(parts[first])
        self._join_from(first)

    def cut(self, height: int) -> None:
        """Keep only so many values, from the first."""
        with self._turn:
            self._join_from(0)
            self._parts = [self._parts[0].head(height)]
            self._rows = height

    def take(self, rows: Codes) -> SeriesColumn:
        """Return the values of these rows."""
        with self._turn:
            values = self._join_some(len(rows))
        return SeriesColumn(values)[rows]

    def _join_some(self, rows: int) -> pl.Series:
        """Return all values, of which so many rows are gathered."""
        if len(self._parts) > 1:
            self._gathered += JOINING_GAINS * rows
            if self._gathered >= self._rows:
                self._join_from(0)
        first, *others = self._parts
        if others:
            first = first.clone()
            for part in others:
                first.append(part)
        return first

    def _join_from(self, first: int) -> None:
        if first < len(self._parts) - 1:
            self._parts[first:] = [pl.concat(self._parts[first:], rechunk=True)]
        if first == 0:
            self._gathered = 0
