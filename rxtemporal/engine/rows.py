"""Store of rows, found by number until they are released."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core import columns as core
from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.holdings import OWNED
from rxtemporal.engine.kernels.rows import find_numbers, gather, move_rows
from rxtemporal.engine.key_store import KeptKeys
from rxtemporal.engine.state import Stateful, make_version_error

Column = npt.NDArray[Any]
# minimum capacity in rows, kept even when few are alive
LARGE = 1 << 18
# rows are not renumbered before so many numbers are in use
MANY = 2048
# so many rows at most are prepared ahead: more would touch memory that may never be used
AHEAD = 4096
# so many series may be short: of fewer rows than this
MOST_SHORT, SHORT = 32, 32


def grow(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Return the array, made longer along its last axis if it is shorter than ``size``.

    It doubles at least; the new elements are ``fill``, or any if that is None.
    """
    have = array.shape[-1]
    if have >= size:
        return array
    larger = np.empty((*array.shape[:-1], max(size, 2 * have, 64)), array.dtype)
    larger[..., :have] = array
    if fill is not None:
        larger[..., have:] = fill
    return larger


def grow_rows(array: npt.NDArray[Any], size: int, fill: Any = 0) -> npt.NDArray[Any]:
    """Return the array ``[n, columns]``, made longer along its first axis like ``grow``."""
    have = array.shape[0]
    if have >= size:
        return array
    larger = np.empty((max(size, 2 * have, 64), *array.shape[1:]), array.dtype)
    larger[:have], larger[have:] = array, fill
    return larger


def relink(new: Int64s, keys: Int64s, head: Int64s, *links: Int64s) -> None:
    """Update linked lists of rows to new row numbers.

    ``head`` ``int64[keys]``; ``keys`` and ``links`` are columns of the remaining rows. Only the
    heads of these keys are updated, since the list of any other key is empty. A negative key is
    none: its rows are in no list.
    """
    for link in links:
        link[link >= 0] = new[link[link >= 0]]
    keys = keys[keys >= 0]
    first = head[keys]
    head[keys] = np.where(first >= 0, new[first], first)


class _Values:
    """One field of numbers, bools or times: arrays with room for more."""

    __slots__ = ("_dtype", "_valid", "_values")

    def __init__(self, dtype: pl.DataType) -> None:
        self._dtype = dtype
        self._values = np.empty(0, core.physical_type(dtype))
        # made with the first null
        self._valid: npt.NDArray[np.bool_] | None = None

    def append(self, column: core.Column, height: int) -> None:
        """Add values up to ``height``, of the field's type or of one that is cast to it."""
        first = height - len(column)
        if height > len(self._values):
            self._make_room(first, height)
        if isinstance(column, np.ndarray):
            self._values[first:height] = column
            if self._valid is not None:
                self._valid[first:height] = True
            return
        if isinstance(column, core.SeriesColumn):
            column = core.cast_column(column, self._dtype)
        assert isinstance(column, core.Nullable)
        self._values[first:height] = column.values
        if self._valid is None:
            self._valid = np.ones(len(self._values), np.bool_)
        self._valid[first:height] = column.valid

    def _make_room(self, first: int, height: int) -> None:
        self._values = grow(self._values[:first], height, None)
        if self._valid is not None:
            self._valid = grow(self._valid[:first], len(self._values))

    def take(self, numbers: Int64s) -> core.Column:
        """Return the values of these rows."""
        values = gather(self._values, numbers)
        if self._valid is None:
            return values
        return core.Nullable(values, gather(self._valid, numbers))

    def keep(self, numbers: Int64s, room: int) -> None:
        """Drop the values of all other rows; keep room for this many."""
        count, valid = len(numbers), self._valid
        if len(self._values) > room:
            kept = self._values.take(numbers)
            self._values = np.empty(room, kept.dtype)
            self._values[:count] = kept
        else:
            move_rows(self._values, numbers)
        if valid is not None:
            flags = valid.take(numbers)
            self._valid = None if flags.all() else np.ones(len(self._values), np.bool_)
            if self._valid is not None:
                self._valid[:count] = flags

    def clear(self) -> None:
        """Drop all values."""
        self._valid = None
        if len(self._values) > LARGE:
            self._values = np.empty(0, self._values.dtype)


class _Texts:
    """One field that polars holds: a few series, each longer than the next, and some short ones."""

    __slots__ = ("_begins", "_dtype", "_parts")

    def __init__(self, dtype: pl.DataType) -> None:
        self._dtype = dtype
        self._parts: list[pl.Series] = []
        # the number of the first row of each
        self._begins: list[int] = []

    def append(self, column: core.Column, height: int) -> None:
        """Add values, of the field's type or of one that is cast to it."""
        column = core.cast_column(column, self._dtype)
        assert isinstance(column, core.SeriesColumn)
        parts, begins = self._parts, self._begins
        count = len(column)
        parts.append(column.series)
        begins.append(height - count)
        if len(parts) > (MOST_SHORT if count < SHORT else 2):
            self._merge(height)

    def _merge(self, height: int) -> None:
        """Merge the last series, so that each is at least twice as long as all that follow."""
        begins, at = self._begins, len(self._begins) - 1
        while at and begins[at] - begins[at - 1] < 2 * (height - begins[at]):
            at -= 1
        if at + 1 < len(begins):
            merged = pl.concat(self._parts[at:], rechunk=True)
            self._parts[at:] = [core.copy_values(merged)]
            del begins[at + 1 :]

    def take(self, numbers: Int64s) -> core.Column:
        """Return the values of these rows."""
        if len(numbers) == 1 and self._parts:
            row = int(numbers[0])
            at = bisect_right(self._begins, row) - 1
            return core.SeriesColumn(self._parts[at].slice(row - self._begins[at], 1))
        return core.SeriesColumn(self._gather(numbers))

    def _gather(self, numbers: Int64s) -> pl.Series:
        """Return the values of these rows as a series."""
        parts, begins = self._parts, self._begins
        if not len(numbers) or not parts:
            return pl.Series([], dtype=self._dtype)
        # most often the latest rows are taken, and fewer parts cost less
        first = bisect_right(begins, int(numbers.min())) - 1 if len(parts) > 1 else 0
        some = parts[first:]
        series = some[0] if len(some) == 1 else pl.concat(some, rechunk=False)
        series = core.join_chunks(series, len(numbers))
        if series.n_chunks() == 1:
            parts[first:] = [series]
            del begins[first + 1 :]
        if first:
            numbers = numbers - begins[first]
        return core.SeriesColumn(series)[numbers].series

    def keep(self, numbers: Int64s, room: int) -> None:
        """Drop the values of all other rows."""
        kept = core.copy_values(self._gather(numbers))
        self._parts, self._begins = ([kept], [0]) if len(numbers) else ([], [])

    def clear(self) -> None:
        """Drop all values."""
        self._parts, self._begins = [], []


class NumberedStore(Stateful):
    """Things with rising numbers, and the payload of each if a step needs it again.

    Released ones keep their numbers until most are released.
    """

    held = MappingProxyType(dict.fromkeys(("content", "payloads", "_released"), OWNED))
    next_due = None

    def __init__(self, payload: pl.Schema | None) -> None:
        self._schema = pl.Schema() if payload is None else payload
        self._fields = self._make_fields()
        # the number of payloads: that of the numbers, except while a state is loaded
        self._payloads = 0
        self._height = self._released = 0

    def _make_fields(self) -> dict[str, _Values | _Texts]:
        """Return the fields of the payload, without rows."""
        return {
            name: _Texts(dtype) if core.physical_type(dtype) is None else _Values(dtype)
            for name, dtype in self._schema.items()
        }

    def __len__(self) -> int:
        """Return the number of those that are not released."""
        return self._height - self._released

    @property
    def height(self) -> int:
        """The number of numbers in use."""
        return self._height

    @property
    def payloads(self) -> pl.DataFrame:
        """The payloads of all numbers, to be saved."""
        return self.payload(np.arange(self._payloads)).frame

    @payloads.setter
    def payloads(self, saved: pl.DataFrame) -> None:
        self._fields, self._payloads = self._make_fields(), 0
        if saved.height:
            self._add_payloads(Columns.from_frame(saved))

    def _add_payloads(self, payload: Columns) -> None:
        """Add the payloads of the last numbers; their types may be others that are cast."""
        self._payloads += payload.height
        for field, column in zip(self._fields.values(), payload.columns, strict=True):
            field.append(column, self._payloads)

    def _keep_payloads(self, numbers: Int64s, room: int) -> None:
        """Keep only the payloads of these, which get the numbers 0, 1, 2 …, and so much room."""
        self._payloads = len(numbers)
        for field in self._fields.values():
            field.keep(numbers, room)

    def payload(self, numbers: Int64s) -> Columns:
        """Return the payload of these numbers, which may repeat and be in any order."""
        taken = [field.take(numbers) for field in self._fields.values()]
        return Columns(self._schema, taken, len(numbers))

    def fields(self, numbers: Int64s, names: Sequence[str]) -> list[core.Column]:
        """Return these fields of the payload of these numbers."""
        return [self._fields[name].take(numbers) for name in names]


class RowStore(NumberedStore):
    """Numbered rows: columns as arrays, and the payload if a step needs it again.

    Rows get rising numbers. Released rows stay until most rows are released; then ``compact``
    renumbers the others, so that memory is a small multiple of the rows alive, and each row is
    moved O(1) times.

    The last columns may have ``fills``: their values in new rows, which are there already.
    """

    def __init__(
        self, dtypes: Sequence[Any], payload: pl.Schema | None = None, fills: Sequence[Any] = ()
    ) -> None:
        super().__init__(payload)
        self._columns: list[Column] = [np.empty(0, dtype) for dtype in dtypes]
        self._fills = [None] * (len(dtypes) - len(fills)) + list(fills)
        # from the height on as in new rows, up to the number of rows that are prepared
        self._alive = np.empty(0, np.bool_)
        self._ready = 0
        # room for the new numbers of rows: fresh memory costs more than filling it
        self._new = np.empty(0, np.int64)
        # the columns up to the height, until it changes
        self._views: list[Column] | None = None

    @property
    def columns(self) -> list[Column]:
        """The columns, ``[height]`` each, to be read and written by row number."""
        if self._views is None:
            self._views = [column[: self._height] for column in self._columns]
        return self._views

    @property
    def arrays(self) -> list[Column]:
        """The columns with room for more rows, for kernels, which look only at known numbers."""
        return self._columns

    @property
    def alive(self) -> npt.NDArray[np.bool_]:
        """The mask of the rows that are not released."""
        return self._alive[: self._height]

    @property
    def content(self) -> list[Column]:
        """The columns, and the mask of rows alive, to be saved."""
        return [*self.columns, self._alive[: self._height]]

    @content.setter
    def content(self, saved: list[Column]) -> None:
        *self._columns, self._alive = saved
        self._height = self._ready = len(self._alive)
        self._views = None

    def check_saved(self, held: Mapping[str, Any]) -> None:
        """Refuse rows of more or fewer columns."""
        if len(held["content"]) != len(self._columns) + 1:
            raise make_version_error("a set of rows")

    def append(
        self, columns: Sequence[Column | int], payload: Columns | pl.DataFrame | None = None
    ) -> Int64s:
        """Add rows as ``extend`` does, and return their numbers."""
        return np.arange(self.extend(columns, payload), self._height)

    def extend(
        self, columns: Sequence[Column | int], payload: Columns | pl.DataFrame | None = None
    ) -> int:
        """Add rows and return the number of the first, from which on they are numbered.

        ``columns`` are those without fills; an int stands for a column filled with it.
        """
        assert not isinstance(columns[0], int)
        n = len(columns[0])
        first, self._height, self._views = self._height, self._height + n, None
        if self._height > self._ready:
            self._make_room()
        rows = slice(first, self._height)
        for column, new in zip(self._columns, columns, strict=False):
            column[rows] = new
        if payload is not None and n:
            if isinstance(payload, pl.DataFrame):
                payload = Columns.from_frame(payload)
            self._add_payloads(payload)
        return first

    def _make_room(self) -> None:
        self._columns = [grow(column, self._height, None) for column in self._columns]
        self._alive = grow(self._alive, self._height, None)
        ready = min(len(self._alive), self._height + AHEAD)
        self._prepare(self._ready, ready)
        self._ready = ready

    def _prepare(self, begin: int, end: int) -> None:
        """Prepare row numbers for new rows."""
        self._alive[begin:end] = True
        for column, fill in zip(self._columns, self._fills, strict=True):
            if fill is not None:
                column[begin:end] = fill

    def release(self, numbers: Int64s) -> None:
        """Release these rows, each once; their numbers stay valid until ``compact``."""
        self._alive[numbers] = False
        self._released += len(numbers)

    def release_by(
        self, forget: Callable[[Int64s, npt.NDArray[np.bool_]], int], what: Int64s
    ) -> None:
        """Release the rows that ``forget(what, alive)`` sets to False in the mask of rows alive.

        ``forget`` returns their number.
        """
        self._released += forget(what, self._alive)

    def compact(self) -> Int64s | None:
        """Renumber the rows if most are released; return the new numbers (-1: gone), or None.

        They are valid until the next call.
        """
        is_empty = self._released == self._height
        if not is_empty and (2 * self._released <= self._height or self._height < MANY):
            return None
        self._new = grow(self._new, self._height, None)
        new = self._new[: self._height]
        if is_empty:
            new.fill(-1)
            self.clear()
            return new if len(new) else None
        numbers = find_numbers(self._alive[: self._height], new)
        room, height = len(self._alive), self._height
        self._height, self._released, self._views = len(numbers), 0, None
        if room > LARGE and 8 * len(numbers) < room:  # a burst is over
            room = len(numbers)
            self._columns = [column[numbers] for column in self._columns]
            self._alive = np.ones(room, np.bool_)
            self._ready = room
            self._new = np.empty(0, np.int64)
        else:
            for column in self._columns:
                move_rows(column, numbers)
            self._alive[: len(numbers)] = True
            self._prepare(len(numbers), height)
        self._keep_payloads(numbers, room)
        return new

    def select_rows(self, mask: npt.NDArray[np.bool_]) -> KeptKeys:
        """Keep these rows, ``bool[height]``, as far as they are alive; they are numbered anew."""
        height = self._height
        numbers = np.flatnonzero(self._alive[:height] & mask)
        self._columns = [column[numbers] for column in self.columns]
        self._alive = np.ones(len(numbers), np.bool_)
        self._ready = len(numbers)
        self._keep_payloads(numbers, len(numbers))
        self._height, self._released, self._views = len(numbers), 0, None
        return KeptKeys(numbers, height)

    def append_rows(self, other: RowStore) -> tuple[Int64s, int]:
        """Add the rows of an equal store that are alive.

        Returns the new numbers by those that they had, -1 for a row that is not alive, and how many
        numbers are in use then.
        """
        numbers = np.flatnonzero(other._alive[: other._height])
        columns = [column[numbers] for column in other.columns]
        has_payload = len(other._fields) > 0
        first = self.extend(columns, other.payload(numbers) if has_payload else None)
        for column, new in zip(self._columns, columns, strict=True):
            column[first : self._height] = new
        moved = np.full(other._height, -1)
        moved[numbers] = np.arange(first, self._height)
        return moved, self._height

    def mark_keys(self, column: int, held: npt.NDArray[np.bool_]) -> None:
        """Set ``held`` to True for the keys of the rows alive; ``column`` is that of their keys."""
        keys = self._columns[column][: self._height][self._alive[: self._height]]
        held[keys[keys >= 0]] = True

    def renumber_keys(self, column: int, kept: KeptKeys) -> None:
        """Give the rows the new codes of their keys."""
        keys = self._columns[column][: self._height]
        keys[:] = kept.renumber(keys)

    def clear(self) -> None:
        """Drop the row numbers, all of which are released, and after a burst its room."""
        room = len(self._alive)
        if not self._height and room <= LARGE:
            return
        self._payloads = 0
        for field in self._fields.values():
            field.clear()
        if room > LARGE and 8 * self._height < room:  # a burst is over
            self._columns = [np.empty(0, column.dtype) for column in self._columns]
            self._alive = np.empty(0, np.bool_)
            self._ready = 0
        else:
            self._prepare(0, self._height)
        self._height, self._released, self._views = 0, 0, None
