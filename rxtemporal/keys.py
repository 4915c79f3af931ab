"""Group keys as integer codes, given once and kept across batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Groups", "KeyCoder"]

_CODE, _ROW = "__code__", "__row__"


class KeyCoder:
    """Numbers the distinct keys of a stream, 0, 1, 2 … in order of first appearance.

    Null equals null, NaN equals NaN and -0.0 equals 0.0. Holds every key it has seen. A batch
    costs one hash join with the keys known so far.

    >>> coder = KeyCoder({"k": pl.String})
    >>> coder.encode(pl.DataFrame({"k": ["b", "a", "b"]})).tolist()
    [0, 1, 0]
    >>> coder.decode([1])["k"].to_list()
    ['a']
    """

    __slots__ = ("_codes", "_values", "names")

    def __init__(self, schema: pl.Schema | dict[str, pl.DataType]) -> None:
        self.names = tuple(schema)
        self._values = pl.DataFrame(schema=dict(schema))
        keys = [_joinable(column) for column in self._values.get_columns()]
        self._codes = pl.DataFrame([*keys, pl.Series(_CODE, [], dtype=pl.Int64)])

    def __len__(self) -> int:
        return self._values.height

    def encode(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the code of each row's key, numbering those that are new."""
        keys = pl.DataFrame([_joinable(frame[name]) for name in self.names])
        codes = self._look_up(keys)
        if codes.null_count():
            rows = pl.Series(_ROW, range(keys.height), dtype=pl.Int64)
            new = keys.with_columns(rows).filter(codes.is_null())
            new = new.unique(list(self.names), keep="first", maintain_order=True)
            self._number(frame, new)
            codes = self._look_up(keys)
        return np.ascontiguousarray(codes.to_numpy())

    def _number(self, frame: pl.DataFrame, new: pl.DataFrame) -> None:
        values = frame.select(self.names)[new[_ROW].to_numpy()]
        numbers = pl.Series(_CODE, range(len(self), len(self) + new.height), dtype=pl.Int64)
        self._values = pl.concat([self._values, values])
        self._codes = pl.concat([self._codes, new.drop(_ROW).with_columns(numbers)])

    def _look_up(self, keys: pl.DataFrame) -> pl.Series:
        joined = keys.join(
            self._codes, on=list(self.names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[_CODE]

    def decode(self, codes: npt.NDArray[np.int64] | Sequence[int]) -> pl.DataFrame:
        """Return the keys with these codes, as columns."""
        return self._values[codes]


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
