"""Group keys as integer codes, given once and kept across batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Groups", "KeyCoder"]

_CODE = "__code__"


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

    __slots__ = ("_known", "names")

    def __init__(self, schema: pl.Schema | dict[str, pl.DataType]) -> None:
        self.names = tuple(schema)
        self._known = pl.DataFrame(schema=dict(schema)).with_columns(
            pl.lit(None, dtype=pl.Int64).alias(_CODE)
        )

    def __len__(self) -> int:
        return self._known.height

    def encode(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """Return the code of each row's key, numbering those that are new."""
        keys = frame.select(self.names)
        codes = self._look_up(keys)
        if codes.null_count():
            new = keys.filter(codes.is_null()).unique(maintain_order=True)
            numbers = pl.Series(_CODE, range(len(self), len(self) + new.height), dtype=pl.Int64)
            self._known = pl.concat([self._known, new.with_columns(numbers)])
            codes = self._look_up(keys)
        return np.ascontiguousarray(codes.to_numpy())

    def _look_up(self, keys: pl.DataFrame) -> pl.Series:
        joined = keys.join(
            self._known, on=list(self.names), how="left", nulls_equal=True, maintain_order="left"
        )
        return joined[_CODE]

    def decode(self, codes: npt.NDArray[np.int64] | Sequence[int]) -> pl.DataFrame:
        """Return the keys with these codes, as columns."""
        return self._known.select(self.names)[codes]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """To which group each row of a batch belongs: its code, and what the codes mean."""

    codes: npt.NDArray[np.int64]
    coder: KeyCoder
