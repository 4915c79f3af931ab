"""Expressions that polars computes, over a frame of the columns that they read."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rxtemporal.core.columns import Columns


class FrameQuery:
    """Expressions over rows of ``schema`` that polars computes.

    Costs the frame and the query, some 50 microseconds and more, however few the rows.
    """

    def __init__(self, expressions: Sequence[pl.Expr], schema: pl.Schema) -> None:
        self._expressions = list(expressions)
        frame = pl.LazyFrame(schema=dict(schema))
        self.names = list(frame.select(self._expressions).collect_schema())
        read = {name for each in self._expressions for name in each.meta.root_names()}
        selects = any(each.meta.has_multiple_outputs() for each in self._expressions)
        self._reads = [name for name in schema if selects or name in read]

    def __call__(self, columns: Columns) -> list[pl.Series]:
        """Return each output, with one entry for each row."""
        if self._reads:
            frame = pl.DataFrame([columns.series(name) for name in self._reads])
        else:
            frame = pl.DataFrame(height=columns.height)
        # a select would give a literal only once
        frame = frame.with_columns(self._expressions)
        return [frame.get_column(name) for name in self.names]
