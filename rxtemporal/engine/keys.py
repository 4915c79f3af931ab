"""Integer codes for keys, the same in every batch of a stream."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import polars as pl

from rxtemporal.core.columns import Column, Columns
from rxtemporal.engine.kept_keys import KeptKeys
from rxtemporal.engine.key_columns import KeyColumn, find_first_rows, make_key_column, to_hashable
from rxtemporal.engine.key_store import GrowingColumn, KeyStore, make_growing
from rxtemporal.errors import CheckpointError

if TYPE_CHECKING:
    from rxtemporal.engine.kernels.hash_table import IntTable

# up to so many rows with strings are looked up one by one, since hashing and comparing costs more
FEW_ROWS = 512
# keys are forgotten when so many more are known than so many times those that are held
MANY_KEYS, TIMES_HELD = 1024, 2
# codes of a column have at most so many bits, so that two of them make one integer
HALF = 32

Codes = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class KeyCoder:
    """Numbers the distinct keys of a stream, 0, 1, 2 … in order of first appearance.

    Null equals null, NaN equals NaN and -0.0 equals 0.0. Without fields all rows have one key. Each
    row of a batch costs a look-up in a hash table for each field, however many keys there are; each
    row of a small batch with strings a look-up in a dict of the keys of small batches.

    >>> coder = KeyCoder({"k": pl.String()})
    >>> coder.encode(Columns.from_frame(pl.DataFrame({"k": ["b", "a", "b"]}))).tolist()
    [0, 1, 0]
    >>> coder.decode(np.array([1])).frame["k"].to_list()
    ['a']
    """

    __slots__ = (
        "_columns", "_count", "_few", "_few_codes", "_keys", "_limit", "_pairs", "_shared",
        "names", "schema",
    )  # fmt: skip

    _columns: list[KeyColumn]
    _pairs: list[IntTable]
    _few_codes: dict[Hashable, int]
    _shared: GrowingColumn | None

    def __init__(self, schema: Mapping[str, pl.DataType]) -> None:
        self.schema = pl.Schema(schema)
        self.names = tuple(self.schema)
        self._limit = MANY_KEYS
        self._clear()

    def _clear(self) -> None:
        # imported here so that importing the package does not load numba
        from rxtemporal.engine.kernels.hash_table import IntTable

        self._columns = [make_key_column(dtype) for dtype in self.schema.values()]
        self._pairs = [IntTable() for _ in self._columns[1:]]
        self._few = FEW_ROWS if any(column.hashed for column in self._columns) else 0
        # the values of a single column are the keys
        self._shared = self._columns[0].values if len(self._columns) == 1 else None
        fields = map(make_growing, self.schema.values())
        self._keys = KeyStore([self._shared] if self._shared is not None else list(fields))
        self._count = 0 if self.names else 1
        self._few_codes = {}

    def __len__(self) -> int:
        return self._count

    def encode(self, rows: Columns) -> Codes:
        """Return the code of each row's key, numbering those that are new."""
        if not self.names:
            return np.zeros(rows.height, np.int64)
        return self.encode_columns(self.select(rows))

    def select(self, rows: Columns) -> list[Column]:
        """Return the key's columns, in their order."""
        return [rows[name] for name in self.names]

    def encode_columns(self, columns: Sequence[Column]) -> Codes:
        """Return the code of each row's key, given the key's columns in their order."""
        if self._few and len(columns[0]) <= self._few:
            return self._encode_few(columns)
        return self._number(columns)

    def decode(self, codes: Codes) -> Columns:
        """Return the keys with these codes."""
        return Columns(self.schema, self.take(codes), len(codes))

    def take(self, codes: Codes) -> list[Column]:
        """Return the columns of the keys with these codes."""
        return self._keys.take(codes)

    def columns(self, codes: Codes) -> list[pl.Series]:
        """Return the keys with these codes, as series."""
        return list(self.decode(codes).list_series())

    def state(self) -> pl.DataFrame:
        """Return all keys in order of their codes, for ``restore``."""
        return self.decode(np.arange(self._count)).frame

    @classmethod
    def restore(cls, state: pl.DataFrame) -> Self:
        """Return a coder in which the keys of a saved state have the codes that they had."""
        coder = cls(state.schema)
        coder.encode(Columns.from_frame(state))
        if len(coder) != state.height:
            raise CheckpointError(
                f"the saved keys {list(state.columns)} are {state.height} rows, of which "
                f"{len(coder)} differ; each key must be there once"
            )
        return coder

    @property
    def is_full(self) -> bool:
        """True if so many keys are known that its owner should see which ones it holds."""
        return self._count > self._limit and bool(self.names)

    def forget(self, held: Bools) -> KeptKeys | None:
        """Forget the keys for which nothing is held, if those are most.

        ``held`` ``bool[keys]``, by code. Returns the codes kept, which are numbered anew in order;
        None if all stay. Is called when the coder is full, so each key is moved O(1) times.
        """
        old, count = np.flatnonzero(held), self._count
        self._limit = MANY_KEYS + TIMES_HELD * len(old)
        if count <= self._limit:
            return None
        kept = self.decode(old)
        self._clear()
        self.encode(kept)
        return KeptKeys(old, count)

    def _encode_few(self, columns: Sequence[Column]) -> Codes:
        """Return the codes of few rows."""
        lists = [
            to_hashable(column, dtype)
            for column, dtype in zip(columns, self.schema.values(), strict=True)
        ]
        keys: list[Any] = lists[0] if len(lists) == 1 else list(zip(*lists, strict=True))
        asked = self._few_codes
        try:
            return np.fromiter(map(asked.__getitem__, keys), np.int64, len(keys))
        except KeyError:
            codes = self._number(columns)
            asked.update(zip(keys, codes.tolist(), strict=True))
            return codes

    def _number(self, columns: Sequence[Column]) -> Codes:
        """Return the rows' codes; store the new keys.

        Numbers the first column, then each pair of the codes so far and those of the next column as
        one integer; after the last column the codes are those of the keys.
        """
        last = self._columns[0]
        codes = last.number(columns[0])
        count = last.next_code
        for i, table in enumerate(self._pairs, 1):
            codes <<= HALF
            codes |= self._columns[i].number(columns[i])
            codes = table.number(codes)
            count = table.next_code
        if count > self._count:
            if self._shared is None:
                self._keys.append(columns, find_first_rows(codes, self._count, count))
            self._count = count
        return codes
