"""top_k: the rows of the best ranks in each window."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.columns import Columns
from rxtemporal.operators.windows.results import ListedResults, ResultRows, Swept
from rxtemporal.operators.windows.rows import WINDOW, Contents

RANK = "rank"


class TopKResults(ListedResults):
    """Rows of rank ``k`` or better: ties share a rank, and nulls come last."""

    def __init__(self, k: int, by: pl.Expr, fields: list[str], *, descending: bool) -> None:
        value = pl.col(RANK)
        rank = value.rank("min", descending=descending).over(WINDOW)
        last = value.count().over(WINDOW) + 1
        self._by = by.alias(RANK)
        self._rank = pl.coalesce(rank, last).cast(pl.Int64).alias(RANK)
        self._k = k
        self._fields = fields

    def compute(self, swept: Swept, contents: Contents | None) -> ResultRows:
        """Return the rows of the best ranks, in order of window and rank."""
        assert contents is not None
        by = contents.rows.select(self._by).to_series()
        if by.dtype.is_float():
            by = by + 0.0  # -0.0 ties with 0.0
        ranked = contents.rows.with_columns(by.alias(RANK)).with_columns(self._rank)
        best = ranked.filter(pl.col(RANK) <= self._k).sort(WINDOW, RANK, maintain_order=True)
        of: Int64s = best[WINDOW].to_numpy()
        return ResultRows(Columns.from_frame(best.select(*self._fields, RANK)).columns, of)
