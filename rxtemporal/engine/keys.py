"""Integer codes for group keys, the same in every batch of a stream."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.frames import stack, take_columns
from rxtemporal.errors import CheckpointError

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

# up to so many rows are looked up one by one, since a call of polars costs more than that;
# hashing and comparing values takes more calls than reading integers
FEW_ROWS, FEW_HASHED_ROWS = 64, 512
# gathering a row from one chunk and not from several saves what joining so many rows costs
JOINING_GAINS = 16
# codes of a column have at most so many bits, so that two of them make one integer
HALF = 32

Codes = npt.NDArray[np.int64]


class KeyCoder:
    """Numbers the distinct keys of a stream, 0, 1, 2 … in order of first appearance.

    Null equals null, NaN equals NaN and -0.0 equals 0.0. Holds every key seen. Each row of a batch
    costs a look-up in a hash table for each field, however many keys there are; each row of a small
    batch a look-up in a dict of the keys of small batches. Without fields all rows have one key.

    >>> coder = KeyCoder({"k": pl.String})
    >>> coder.encode(pl.DataFrame({"k": ["b", "a", "b"]})).tolist()
    [0, 1, 0]
    >>> coder.decode([1])["k"].to_list()
    ['a']
    """

    __slots__ = ("_columns", "_count", "_few", "_few_codes", "_keys", "_pairs", "names")

    def __init__(self, schema: pl.Schema | dict[str, pl.DataType]) -> None:
        # imported here so that importing the package does not load numba
        from rxtemporal.engine.kernels.hash_table import IntTable

        self.names = tuple(schema)
        self._columns = [_make_column(pl.Series(name, [], dtype)) for name, dtype in schema.items()]
        hashed = any(isinstance(column, _HashedColumn) for column in self._columns)
        self._few = FEW_HASHED_ROWS if hashed else FEW_ROWS
        self._pairs = [IntTable() for _ in self._columns[1:]]
        self._keys = _GrowingFrame(pl.DataFrame(schema=dict(schema)))
        self._count = 0 if self.names else 1
        self._few_codes: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return self._count

    def encode(self, frame: pl.DataFrame) -> Codes:
        """Return the code of each row's key, numbering those that are new."""
        if not self.names:
            return np.zeros(frame.height, np.int64)
        columns = [frame.get_column(name) for name in self.names]
        return self._encode_few(columns) if frame.height <= self._few else self._number(columns)

    def decode(self, codes: Codes | Sequence[int]) -> pl.DataFrame:
        """Return the keys with these codes, as a frame."""
        return pl.DataFrame(self.columns(codes), height=None if self.names else len(codes))

    def columns(self, codes: Codes | Sequence[int]) -> list[pl.Series]:
        """Return the keys with these codes, as columns."""
        return self._keys.gather(codes) if self.names else []

    def state(self) -> pl.DataFrame:
        """Return all keys in order of their codes, for ``restore``."""
        return self._keys.collect() if self.names else pl.DataFrame(height=1)

    @classmethod
    def restore(cls, state: pl.DataFrame) -> Self:
        """Return a coder in which the keys of a saved state have the codes that they had."""
        coder = cls(state.schema)
        coder.encode(state)
        if len(coder) != state.height:
            raise CheckpointError(
                f"the saved keys {list(state.columns)} are {state.height} rows, of which "
                f"{len(coder)} differ; each key must be there once"
            )
        return coder

    def _encode_few(self, columns: list[pl.Series]) -> Codes:
        """Return the codes of few rows."""
        lists = [_to_hashable(column) for column in columns]
        keys: list[Any] = lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
        asked = self._few_codes
        try:
            return np.array([asked[key] for key in keys], np.int64)
        except KeyError:
            codes = self._number(columns)
            asked.update(zip(keys, codes.tolist(), strict=True))
            return codes

    def _number(self, columns: list[pl.Series]) -> Codes:
        """Return the rows' codes; store the new keys.

        Numbers the first column, then each pair of the codes so far and those of the next column as
        one integer; after the last column the codes are those of the keys.
        """
        from rxtemporal.engine.kernels.hash_table import find_first_rows

        last = self._columns[0]
        codes = last.number(columns[0])
        count = last.next_code
        for column, values, table in zip(self._columns[1:], columns[1:], self._pairs, strict=True):
            codes <<= HALF
            codes |= column.number(values)
            codes = table.number(codes)
            count = table.next_code
        if count > self._count:
            rows = find_first_rows(codes, self._count, count)
            self._keys.append(pl.DataFrame([_copy_rows(column, rows) for column in columns]))
            self._count = count
        return codes


class _Column(Protocol):
    """Numbers the distinct values of one column in order of first appearance."""

    @property
    def next_code(self) -> int:
        """The number of distinct values."""

    def number(self, values: pl.Series) -> Codes:
        """Return the code of each value; null has a code of its own."""


class _IntegerColumn:
    """Numbers a column by the integers that stand for its values: their ticks, days or bits."""

    __slots__ = ("_table",)

    def __init__(self, table: IntTable) -> None:
        self._table = table

    @property
    def next_code(self) -> int:
        return self._table.next_code

    def number(self, values: pl.Series) -> Codes:
        floats = values.dtype.is_float()
        values = values.cast(pl.Float64 if floats else pl.Int64)
        valid = None
        if values.null_count():
            valid = values.is_not_null().to_numpy()
            values = values.fill_null(0)
        integers = values.to_numpy()
        return self._table.number(_to_bits(integers) if floats else integers, valid)


class _HashedColumn:
    """Numbers a column by 64-bit hashes; compares each value with the one stored under its code.

    Two values rarely have the same hash; if so, all values are looked up in a dict from then on.
    """

    __slots__ = ("_exact", "_table", "_values")

    def __init__(self, table: IntTable, empty: pl.Series) -> None:
        self._table = table
        self._values = _GrowingFrame(empty.to_frame())
        self._exact: dict[Hashable, int] | None = None

    @property
    def next_code(self) -> int:
        return self._table.next_code if self._exact is None else len(self._exact)

    def number(self, values: pl.Series) -> Codes:
        from rxtemporal.engine.kernels.hash_table import find_first_rows

        if self._exact is not None:
            return self._look_up(values)
        known = self._table.next_code
        codes = self._table.number(_hash_values(values))
        count = self._table.next_code
        fresh = _copy_rows(values, find_first_rows(codes, known, count)) if count > known else None
        if fresh is not None and len(fresh) == len(values):
            self._values.append(fresh.to_frame())
        elif not self._match_codes(values, codes, fresh):
            stored = self._values.collect().to_series().head(known).to_list()
            self._exact = {value: code for code, value in enumerate(stored)}
            return self._look_up(values)
        return codes

    def _match_codes(self, values: pl.Series, codes: Codes, fresh: pl.Series | None) -> bool:
        """Store the fresh values; return True if each value is the one stored under its code."""
        if fresh is not None:
            self._values.append(fresh.to_frame())
        return values.equals(self._values.gather(codes)[0], null_equal=True)

    def _look_up(self, values: pl.Series) -> Codes:
        exact = self._exact
        assert exact is not None
        return np.array([exact.setdefault(v, len(exact)) for v in values.to_list()], np.int64)


class _GrowingFrame:
    """A frame that grows by appending, at a cost that depends on what is appended.

    Each part is at least twice as long as the next, so there are few parts, and each row is copied
    only a few times. polars gathers much faster from one chunk than from several, so the parts are
    joined once enough rows have been gathered to make that worthwhile.
    """

    __slots__ = ("_gathered", "_parts", "_rows")

    def __init__(self, empty: pl.DataFrame) -> None:
        self._parts = [empty]
        self._rows = 0
        self._gathered = 0

    def append(self, frame: pl.DataFrame) -> None:
        """Add rows at the end."""
        parts = self._parts
        parts.append(frame)
        self._rows += frame.height
        first = len(parts) - 1
        size = frame.height
        while first > 0 and parts[first - 1].height < 2 * size:
            first -= 1
            size += parts[first].height
        self._join_from(first)

    def gather(self, rows: Codes | Sequence[int]) -> list[pl.Series]:
        """Return the columns of these rows."""
        if len(self._parts) > 1:
            self._gathered += JOINING_GAINS * len(rows)
            if self._gathered >= self._rows:
                self._join_from(0)
        return take_columns(stack(self._parts), rows)

    def collect(self) -> pl.DataFrame:
        """Return all rows."""
        self._join_from(0)
        return self._parts[0]

    def _join_from(self, first: int) -> None:
        if first < len(self._parts) - 1:
            self._parts[first:] = [pl.concat(self._parts[first:], rechunk=True)]
        if first == 0:
            self._gathered = 0


def _make_column(empty: pl.Series) -> _Column:
    """Return an empty numbering for a column of this type."""
    from rxtemporal.engine.kernels.hash_table import IntTable

    hashed = isinstance(empty.dtype, pl.String | pl.Binary | pl.Decimal)
    return _HashedColumn(IntTable(), empty) if hashed else _IntegerColumn(IntTable())


def _hash_values(values: pl.Series) -> Codes:
    return values.to_frame().hash_rows().to_numpy().view(np.int64)


def _to_bits(values: npt.NDArray[np.float64]) -> Codes:
    """Return the floats' bits, with one NaN and one zero."""
    values = values + 0.0
    values[np.isnan(values)] = np.nan
    return values.view(np.int64)


def _to_hashable(column: pl.Series) -> list[Any]:
    """Return a column's values as Python values that are equal exactly if the keys are.

    Times become integers: when clocks are set back, Python finds two aware datetimes equal that
    are an hour apart. NaN becomes a value that equals itself.
    """
    if column.dtype.is_temporal():
        return column.cast(pl.Int64).to_list()
    if column.dtype.is_float():
        return ["NaN" if value != value else value for value in column.to_list()]
    return column.to_list()


def _copy_rows(column: pl.Series, rows: Codes) -> pl.Series:
    """Return a copy of these rows that does not keep the others in memory.

    Rows that polars gathers from a column of strings share the bytes of the whole column.
    """
    picked = column[rows]
    if isinstance(column.dtype, pl.String | pl.Binary):
        return pl.Series(column.name, picked.to_list(), column.dtype)
    return picked
