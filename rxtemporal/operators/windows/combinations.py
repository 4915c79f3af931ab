"""Results that are computed from sums over a window and from its length, or from its bounds."""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Array, Bools, Column, Nullable, SeriesColumn, make_column
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import TICK, describe
from rxtemporal.errors import EventError, SchemaError
from rxtemporal.operators.windows.overlaps import AT, COVER, OVERLAP
from rxtemporal.operators.windows.rows import (
    ROW_END,
    ROW_START,
    WINDOW,
    Contents,
    ListedAggregate,
)


def divide(sums: Column, weights: Column) -> Column:
    """Return sums divided by weights, as floats; null where the weight is 0."""
    above, below = _get_values(sums), _get_values(weights)
    there = below > 0
    if there.all():
        return above / below
    return Nullable(above / np.where(there, below, 1), there)


def multiply(count: Int64s, length: Int64s) -> Int64s:
    """Return numbers of rows times lengths of time; raise if one is larger than time itself."""
    total = count * length
    if (count.astype(np.float64) * length > np.iinfo(np.int64).max).any():
        raise SchemaError(
            "agg.duration adds up to more than an Int64 holds: rows never end. Hint: "
            "to_signal(max_gap=…) or clip_event_duration(limit) ends them."
        )
    return total


def scale(sums: Column, times: Int64s | int, by: Int64s | int) -> Array:
    """Return ``sums * times / by`` as floats."""
    # one product of floats and one quotient: each is rounded once
    product: Array = _get_values(sums) * np.asarray(times, np.float64)
    return product / by


def _get_values(column: Column) -> Array:
    assert not isinstance(column, (Nullable, SeriesColumn))  # sums are there for all windows
    return column


def hide_rows(column: Column, shown: Bools) -> Column:
    """Return a column with null in place of the values that are not ``shown``."""
    if isinstance(column, SeriesColumn):
        series = column.series
        nulls = pl.Series([None], dtype=series.dtype).new_from_index(0, len(series))
        return SeriesColumn(series.zip_with(pl.Series(shown), nulls))
    if isinstance(column, Nullable):
        return Nullable(column.values, column.valid & shown)
    return Nullable(column, shown)


class Instant(ListedAggregate):
    """The value of the row that is alive at the start of a window, or one tick before its end.

    The rows of a window may be whole, or the pieces that windows cut out of them.
    """

    def __init__(self, reads: pl.Expr, dtype: pl.DataType, name: str, *, at_end: bool) -> None:
        self._reads = reads
        self._dtype = dtype
        self._name = name
        self._at_end = at_end

    def values(self, name: str, contents: Contents) -> Column:
        """Return one value for each window, null where no row is alive."""
        rows = contents.rows
        window: Int64s = rows[WINDOW].to_numpy()
        start, end = rows[ROW_START].to_numpy(), rows[ROW_END].to_numpy()
        at = (contents.ends - TICK if self._at_end else contents.starts)[window]
        alive = np.flatnonzero((start <= at) & (at < end))
        of = window[alive]
        twice = np.flatnonzero(of[1:] == of[:-1])
        if len(twice):
            self._refuse_two(rows, alive[twice[0] : twice[0] + 2], int(at[alive[twice[0]]]))
        row = np.full(len(contents), -1)
        row[of] = alive
        # of a line: at the end of a window its limit there
        bounds = (contents.ends if self._at_end else contents.starts)[window]
        series = rows.with_columns(pl.Series(AT, bounds)).select(self._reads).to_series()
        found = series[np.maximum(row, 0)] if len(series) else series
        there = pl.Series(row >= 0)
        nulls = pl.Series([None], dtype=found.dtype).new_from_index(0, len(found))
        return make_column(found.zip_with(there, nulls).cast(self._dtype))

    def _refuse_two(self, rows: pl.DataFrame, both: Int64s, at: int) -> NoReturn:
        starts, ends = (rows[name][both].to_list() for name in (ROW_START, ROW_END))
        first, second = (
            f"{brief(payload)} in [{describe(start)}, {describe(end)})"
            for start, end, payload in zip(
                starts, ends, _drop_added(rows)[both].to_dicts(), strict=True
            )
        )
        raise EventError(
            f"agg.{self._name} is about a signal, of which one row of a key is alive at a time; at "
            f"{describe(at)} there are {first} and {second}. Hint: to_signal lets each row end "
            "where the next one of its key begins, but two readings of a key at the same time both "
            "last, and so do those whose key is null: keep one of them, or group by what tells "
            "the two apart."
        )


class LineOfWindow(ListedAggregate):
    """The mean of a value by time over the rows of a window, or its integral.

    ``value`` reads when the overlap of a row begins, and its length. ``per``: the ticks of the unit
    of time of an integral; None for the mean.
    """

    finished = True

    def __init__(self, value: pl.Expr, per: int | None) -> None:
        self._value = value
        self._per = per

    def values(self, name: str, contents: Contents) -> Column:
        """Return one value for each window."""
        rows = contents.rows
        window: Int64s = rows[WINDOW].to_numpy()
        start = np.maximum(rows[ROW_START].to_numpy(), contents.starts[window])
        end = np.minimum(rows[ROW_END].to_numpy(), contents.ends[window])
        added = rows.with_columns(pl.Series(AT, start), pl.Series(OVERLAP, end - start))
        computed = added.select(self._value.alias("value"), OVERLAP)
        there = computed["value"].is_not_null().to_numpy()
        lengths = np.where(there, computed[OVERLAP].to_numpy(), 0)
        weighed = computed["value"].fill_null(0.0).to_numpy() * lengths
        count = len(contents)
        sums = np.bincount(window, weighed, count)
        if self._per is not None:
            integral: Array = sums / self._per
            return integral
        return divide(sums, np.bincount(window, lengths, count))


def _drop_added(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows without the fields that are not the user's."""
    return rows.drop(WINDOW, ROW_START, ROW_END, AT, OVERLAP, COVER, strict=False)
