"""Evaluation of one expression over the rows of a batch."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.columns import Column, Columns, make_column, make_series
from rxtemporal.engine.expressions.frame_query import FrameQuery
from rxtemporal.engine.expressions.program import Program, compile_expression


class Evaluator:
    """An expression of one output over rows of ``schema``: compiled, or else run by polars."""

    def __init__(self, expression: pl.Expr, schema: pl.Schema) -> None:
        program = compile_expression(expression, schema)
        self._run: Program | FrameQuery = program or FrameQuery([expression], schema)

    def __call__(self, columns: Columns) -> Column:
        """Return the result, with one entry for each row."""
        if isinstance(self._run, Program):
            return self._run(columns)
        (series,) = self._run(columns)
        return make_column(series)

    def make_series(self, columns: Columns) -> pl.Series:
        """Return the result as a series."""
        if isinstance(self._run, Program):
            return make_series("", self._run(columns), self._run.dtype)
        (series,) = self._run(columns)
        return series
