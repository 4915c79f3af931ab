"""Predicates over the rows of a batch."""

from __future__ import annotations

import numpy as np
import polars as pl

from rxtemporal.core.columns import Bools, Columns
from rxtemporal.engine.expressions.evaluator import Evaluator
from rxtemporal.engine.expressions.nulls import drop_nulls


class Predicate:
    """A predicate over rows of ``schema``: compiled, or else run by polars."""

    def __init__(self, expression: pl.Expr, schema: pl.Schema) -> None:
        # a predicate that is nothing but null has no type
        evaluator = Evaluator(expression.cast(pl.Boolean), schema)
        self._evaluate = evaluator.program or evaluator

    def __call__(self, columns: Columns) -> Bools:
        """Return which rows satisfy the predicate; null is false."""
        mask = self._evaluate(columns)
        return mask if type(mask) is np.ndarray else drop_nulls(mask)
