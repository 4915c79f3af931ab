"""Evaluation of one expression over the rows of a batch."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.columns import Column, Columns, make_column, make_series
from rxtemporal.engine.expressions.frame_query import FrameQuery
from rxtemporal.engine.expressions.program import compile_expression


class Evaluator:
    """An expression of one output over rows of ``schema``: compiled, or else run by polars."""

    def __init__(self, expression: pl.Expr, schema: pl.Schema) -> None:
        self.program = compile_expression(expression, schema)
        self._query = None if self.program else FrameQuery([expression], schema)

    def __call__(self, columns: Columns) -> Column:
        """Return the result, with one entry for each row."""
        if self.program is not None:
            return self.program(columns)
        return make_column(self.make_series(columns))

    def make_series(self, columns: Columns) -> pl.Series:
        """Return the result as a series."""
        if self.program is not None:
            return make_series("", self.program(columns), self.program.dtype)
        assert self._query is not None
        (series,) = self._query(columns)
        return series
