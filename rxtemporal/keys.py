"""Group keys as integer codes, given once and kept across batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Groups", "KeyCoder"]

_CODE, _ROW = "__code__", "__row__"
# so many rows are looked up one by one; to make more of them distinct first costs less
FEW_ROWS = 2_048
# a gather from a frame of more chunks than this is slow
MOST_CHUNKS = 64


class KeyCoder:
    """Numbers the distinct keys of a stream, 0, 1, 2 … in order of first appearance.

    Null equals null, NaN equals NaN and -0.0 equals 0.0. Holds every key it has seen. A batch costs
    a hash join with its own distinct keys and a look-up for each of them, however many keys there
    are.

    >>> coder = KeyCoder({"k": pl.String})
    >>> coder.encode(pl.DataFrame({"k": ["b", "a", "b"]})).tolist()
    [0, 1, 0]
    >>> coder.decode([1])["k"].to_list()
    ['a']
    """

    __slots__ = ("_codes", "_values", "names")

    def __init__(self, schema: pl.Schema | dict[str, pl.DataType]) -> None:
        self.names = tuple(schema)
        self._codes: dict[Hashable, int] = {}
        self._values = pl.DataFrame(schema=dict(schema))

    def __len__(self) -> int:
        return len(self._codes)

    def encode(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the code of each row's key, numbering those that are new."""
        values = frame.select(self.names)
        keys = pl.DataFrame([_joinable(column) for column in values.get_columns()])
        if keys.height <= FEW_ROWS:
            return self._number(keys, values)
        # look up each distinct key of the batch once, then give every row its key's code
        rows = pl.Series(_ROW, range(keys.height), dtype=pl.Int64)
        distinct = keys.with_columns(rows).unique(
            list(self.names), keep="first", maintain_order=True
        )
        first = distinct[_ROW].to_numpy()
        codes = pl.Series(_CODE, self._number(distinct.drop(_ROW), values[first]))
        joined = keys.join(
            distinct.drop(_ROW).with_columns(codes),
            on=list(self.names), how="left", nulls_equal=True, maintain_order="left",
        )  # fmt: skip
        return np.ascontiguousarray(joined[_CODE].to_numpy())

    def _number(self, keys: pl.DataFrame, values: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return each row's code by looking it up; new keys get the next numbers."""
        known, codes = len(self._codes), self._codes
        found = [codes.setdefault(key, len(codes)) for key in keys.rows()]
        if len(codes) > known:
            new = [row for row, code in enumerate(found) if code >= known]
            # equal new keys in one batch: the first one's values stand for all
            fresh = values[new][_first_of_each([found[row] for row in new])]
            self._values = pl.concat([self._values, fresh], rechunk=False)
            if self._values.n_chunks() > MOST_CHUNKS:
                self._values = self._values.rechunk()
        return np.array(found, np.int64)

    def decode(self, codes: npt.NDArray[np.int64] | Sequence[int]) -> pl.DataFrame:
        """Return the keys with these codes, as columns."""
        return self._values[codes]


def _first_of_each(codes: list[int]) -> list[int]:
    seen: dict[int, int] = {}
    for row, code in enumerate(codes):
        seen.setdefault(code, row)
    return list(seen.values())


def _joinable(column: pl.Series) -> pl.Series:
    """Return a key column with floats as their bits, one NaN and one zero.

    polars' join finds NaN in a frame of several rows and misses it in a frame of one.
    """
    if not column.dtype.is_float():
        return column
    values = column.cast(pl.Float64).fill_null(0.0).to_numpy() + 0.0
    bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
    return (
        pl.Series(column.name, bits).set(column.is_null(), None)
        if len(bits)
        else column.cast(pl.Int64)
    )


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """To which group each row of a batch belongs: its code, and what the codes mean."""

    codes: npt.NDArray[np.int64]
    coder: KeyCoder
