"""Rows of a key in order, each with its differences from the row before."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.engine.expressions.evaluator import Evaluator
from rxtemporal.engine.holdings import BY_KEY
from rxtemporal.operators.scan.ordered_step import OrderedStep

_VALUE, _BEFORE = pl.col("value"), pl.col("before")
_ZERO, _ONE = pl.lit(0, pl.Int64), pl.lit(1, pl.Int64)
# after a fall a counter has begun at zero
_INCREASE = pl.when(_VALUE >= _BEFORE).then(_VALUE - _BEFORE).otherwise(_VALUE)
# with a reading before, and else null
_KINDS = {
    "increase": _INCREASE,
    "resets": pl.when(_VALUE < _BEFORE).then(_ONE).otherwise(_ZERO),
    "changes": pl.when(_VALUE != _BEFORE).then(_ONE).otherwise(_ZERO),
}


class DifferencesStep(OrderedStep):
    """Adds to each row its differences from the row before of its key.

    A null is no reading: its difference is null, and the next reading is compared with the one
    before it. So is NaN for a counter, but its own increase is NaN. ``differences`` are the kind of
    each, what it reads, and its field. Holds the last values of each key, too.
    """

    held = MappingProxyType({**OrderedStep.held, "_last": BY_KEY})

    def __init__(
        self,
        differences: Sequence[tuple[str, pl.Expr, str]],
        output: pl.Schema,
        schema: pl.Schema,
        keys: tuple[str, ...],
    ) -> None:
        super().__init__(output, schema, keys)
        self._differences = [
            (kind, Evaluator(reads, schema), field) for kind, reads, field in differences
        ]
        # by key: for each difference the last value, None before the first
        self._last: dict[int, list[Any]] = {}

    def compute(
        self, key: Int64s, start: Int64s, payload: pl.DataFrame
    ) -> tuple[Int64s, pl.DataFrame]:
        """Return the rows with their differences."""
        found, of = np.unique(key, return_inverse=True)
        keys, columns = found.tolist(), Columns.from_frame(payload)
        states = [self._last.setdefault(each, [None] * len(self._differences)) for each in keys]
        made = []
        for number, (kind, reads, field) in enumerate(self._differences):
            values = reads.make_series(columns)
            if kind != "changes":
                values = values.cast(pl.Float64 if values.dtype.is_float() else pl.Int64)
            last = pl.Series([state[number] for state in states], dtype=values.dtype)
            series, last = _compare(kind, of, values, last)
            made.append(series.cast(self._output[field]).alias(field))
            for state, value in zip(states, last.to_list(), strict=True):
                state[number] = value
        return np.arange(len(key)), payload.with_columns(made)

    def mark_states(self, held: Bools, cti: int) -> None:
        """Set ``held`` to True for the keys of which a row has come."""
        held[[*self._last]] = True


def _compare(
    kind: str, of: Int64s, values: pl.Series, last: pl.Series
) -> tuple[pl.Series, pl.Series]:
    """Return the difference of each value from the one before, and the last value of each key.

    ``of`` is the place of each value's key in ``last``, the values of before; null is none.
    """
    keys = pl.Series("key", np.concatenate([np.arange(len(last)), of]))
    frame = pl.DataFrame([keys, pl.concat([last, values], rechunk=False).alias("value")])
    known = _VALUE
    if kind != "changes" and values.dtype.is_float():
        known = _VALUE.fill_nan(None)
    frame = frame.with_columns(known=known.forward_fill().over("key"))
    frame = frame.with_columns(before=pl.col("known").shift().over("key"))
    there = _VALUE.is_not_null() & _BEFORE.is_not_null()
    made = frame.select(pl.when(there).then(_KINDS[kind])).to_series()
    latest = frame.group_by("key", maintain_order=True).agg(pl.col("known").last())
    return made.slice(len(last)), latest["known"]
