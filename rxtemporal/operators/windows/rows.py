"""Rows of each window, one by one, for expressions, ranks and users' own code."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import polars as pl

from rxtemporal.core.batch import Bools, Int64s
from rxtemporal.core.columns import Column, make_column
from rxtemporal.engine.state import Stateful

# columns beside the payload, under names that no payload is likely to have
WINDOW, ROW_START, ROW_END = "__window__", "__start__", "__end__"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Rows that windows hold, in order of window and then of (start, payload), nulls first.

    ``rows`` has the payload's fields, and ``__window__``, ``__start__``, ``__end__``: the number of
    the window and the row's lifetime. ``starts``, ``ends`` ``int64[w]``: the windows' own.
    """

    rows: pl.DataFrame
    starts: Int64s
    ends: Int64s

    @staticmethod
    def from_pairs(
        window: Int64s,
        payload: pl.DataFrame,
        start: Int64s,
        end: Int64s,
        starts: Int64s,
        ends: Int64s,
    ) -> Contents:
        """Return the contents for pairs of windows and rows, sorted."""
        # cut at the window's end: a later end may not be known yet
        end = np.minimum(end, ends[window])
        rows = payload.with_columns(
            pl.Series(WINDOW, window), pl.Series(ROW_START, start), pl.Series(ROW_END, end)
        )
        # the end comes last, so that the order never depends on arrival
        by = [WINDOW, ROW_START, *payload.columns, ROW_END]
        sortable = [name for name in by if not isinstance(rows.schema[name], pl.List)]
        return Contents(rows.sort(sortable, nulls_last=False, maintain_order=True), starts, ends)

    def __len__(self) -> int:
        """Return the number of windows."""
        return len(self.starts)

    def find_bounds(self, rows: pl.DataFrame) -> list[tuple[int, int, int]]:
        """Return each window that holds rows, in order, and from where to where it has ``rows``.

        These are some of its own rows, in their order; of a window there may be none.
        """
        numbers = self.rows[WINDOW].to_numpy()
        windows = numbers[np.flatnonzero(np.diff(numbers, prepend=-1))]
        held = rows[WINDOW].to_numpy()
        begins, ends = held.searchsorted(windows), held.searchsorted(windows, "right")
        return list(zip(windows.tolist(), begins.tolist(), ends.tolist(), strict=True))


def find_changes(rows: pl.DataFrame, names: Sequence[str]) -> Bools:
    """Return the mask of the rows that differ in these columns from the row before."""
    columns = [pl.col(name) for name in names]
    differs = pl.any_horizontal(each.ne_missing(each.shift(1)) for each in columns)
    changes: Bools = rows.select(differs).to_series().to_numpy().copy()
    changes[:1] = True
    return changes


class ListedAggregate(Stateful):
    """Aggregate computed from the rows of each window."""

    finished: ClassVar[bool] = False

    def values(self, name: str, contents: Contents) -> Column:
        """Return one value for each window, in order."""
        raise NotImplementedError


class ListedExpression(ListedAggregate):
    """A polars expression over the rows of each window."""

    def __init__(
        self, expression: pl.Expr, dtype: pl.DataType, where: pl.Expr | None = None
    ) -> None:
        self._expression = expression
        self._dtype = dtype
        self._where = where

    def values(self, name: str, contents: Contents) -> Column:
        """Return the expression's value for each window, of no rows if none counts."""
        rows, expression = contents.rows, self._expression.alias(name)
        if self._where is not None:
            rows = rows.filter(self._where)
        grouped = rows.group_by(WINDOW, maintain_order=True).agg(expression)
        found = grouped.get_column(name)
        if len(found) < len(contents):
            numbers = grouped[WINDOW].to_numpy()
            of_none = rows.clear().select(expression).to_series().cast(found.dtype)
            place = np.zeros(len(contents), np.int64)
            place[numbers] = np.arange(1, 1 + len(numbers))
            found = pl.concat([of_none, found])[place]
        return make_column(found.cast(self._dtype))
