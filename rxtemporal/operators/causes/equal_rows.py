"""Equal rows of two histories, told apart by the order in which they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.operators.causes.history import History

# no field has these names: they begin with a null character
_START, _END, _ROW = "\0start", "\0end", "\0row"


def match_equal_rows(
    left: History, right: History, *, fields: Sequence[str] | None = None
) -> tuple[Int64s, Int64s]:
    """Return pairs of rows of two histories with the same lifetime and payload.

    Of several equal rows the first of one is that of the other, and so on; rows without a partner
    are in no pair. ``fields`` are the fields that are compared; None: all. Nulls are equal to each
    other, and so are NaNs.
    """
    names = list(left.payload.columns if fields is None else fields)
    return match_codes(*code_rows(*(_to_frame(each, names) for each in (left, right))))


def _to_frame(history: History, names: Sequence[str]) -> pl.DataFrame:
    times = [pl.Series(_START, history.start), pl.Series(_END, history.end)]
    return pl.DataFrame([*times, *(history.payload.get_column(name) for name in names)])


def code_fields(left: History, right: History, names: Sequence[str]) -> tuple[Int64s, Int64s]:
    """Return a number for each row of two histories, the same where these fields are equal."""
    if not names:  # a frame without columns has no rows
        return np.zeros(len(left), np.int64), np.zeros(len(right), np.int64)
    return code_rows(left.payload.select(names), right.payload.select(names))


def code_rows(left: pl.DataFrame, right: pl.DataFrame) -> tuple[Int64s, Int64s]:
    """Return a number for each row of two frames of the same columns, the same for equal rows."""
    both = pl.concat([left, right], how="vertical_relaxed")
    first = pl.col(_ROW).first().over(both.columns)
    codes = both.with_row_index(_ROW).select(first).to_series().to_numpy().astype(np.int64)
    return codes[: left.height], codes[left.height :]


def match_codes(left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
    """Return pairs of equal codes: the n-th of one value on the left with the n-th on the right."""
    pairs = pl.DataFrame({"code": left, "left": np.arange(len(left))}).with_columns(
        pl.int_range(pl.len()).over("code").alias("n")
    )
    others = pl.DataFrame({"code": right, "right": np.arange(len(right))}).with_columns(
        pl.int_range(pl.len()).over("code").alias("n")
    )
    found = pairs.join(others, on=["code", "n"], how="inner").sort("left")
    return found.get_column("left").to_numpy(), found.get_column("right").to_numpy()
