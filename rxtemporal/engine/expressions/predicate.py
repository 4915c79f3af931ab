"""Predicates over the rows of a batch."""

from __future__ import annotations

import polars as pl

from rxtemporal.core.columns import Bools, Columns
from rxtemporal.engine.expressions.evaluator import Evaluator
from rxtemporal.engine.expressions.nulls import drop_nulls


class Predicate:
    """A predicate over rows of ``schema``: compiled, or else run by polars."""

    def __init__(self, expression: pl.Expr, schema: pl.Schema) -> None:
        # a predicate that is nothing but null has no type
        self._evaluate = Evaluator(expression.cast(pl.Boolean), schema)

    def __call__(self, columns: Columns) -> Bools:
        """Return which rows satisfy the predicate; null is false."""
        return drop_nulls(self._evaluate(columns))
