"""Evaluation of expressions over the rows of a batch: one value, a predicate, a projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rxtemporal.core.columns import (
    Bools,
    Column,
    Columns,
    RepeatingColumns,
    make_column,
    make_series,
)
from rxtemporal.engine.expressions.logic import drop_nulls
from rxtemporal.engine.expressions.program import (
    FrameQuery,
    Program,
    compile_expression,
    compile_outputs,
)
from rxtemporal.engine.expressions.tree import identify


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


class Expressions:
    """Evaluators and predicates over rows of ``schema``: the same one for equal expressions."""

    def __init__(self, schema: pl.Schema) -> None:
        self._schema = schema
        self._evaluators: dict[bytes, Evaluator] = {}
        self._predicates: dict[bytes, Predicate] = {}

    def find(self, expression: pl.Expr) -> Evaluator:
        """Return the evaluator of an expression."""
        key = identify(expression)
        if key not in self._evaluators:
            self._evaluators[key] = Evaluator(expression, self._schema)
        return self._evaluators[key]

    def find_predicate(self, where: pl.Expr | None) -> Predicate | None:
        """Return the predicate of an expression; None for none."""
        if where is None:
            return None
        key = identify(where)
        if key not in self._predicates:
            self._predicates[key] = Predicate(where, self._schema)
        return self._predicates[key]


class Projection:
    """Expressions over rows of ``schema``, each compiled or else run by polars.

    ``fields`` are those of the result: outputs of the expressions, and fields that stay.
    """

    def __init__(
        self, expressions: Sequence[pl.Expr], schema: pl.Schema, fields: pl.Schema
    ) -> None:
        self._names = list(schema)
        self._schema = schema
        self._fields = fields
        programs: dict[str, Program] = {}
        others = []
        for expression in expressions:
            made = compile_outputs(expression, schema, fields)
            others += [expression] if made is None else []
            programs |= made or {}
        self._query = FrameQuery(others, schema) if others else None
        self._positions = {name: number for number, name in enumerate(fields)}
        self._sources = [self._find_source(name, programs.get(name)) for name in fields]

    def _find_source(self, name: str, program: Program | None) -> int | Program | None:
        """Return a field's program, or the number of the column that it is.

        None if polars computes it.
        """
        if self._query is not None and name in self._query.names:
            return None
        if program is None:
            return self._names.index(name)
        return program if program.position is None else program.position

    def __call__(self, columns: Columns) -> Columns:
        """Return the fields of each row; fields that stay are not copied."""
        if columns.schema is not self._schema:
            columns = self._arrange(columns)
        have = columns.columns
        if type(have) is RepeatingColumns and self._query is None:
            sources = [
                source(columns) if isinstance(source, Program) else source or 0
                for source in self._sources
            ]
            return Columns(self._fields, have.project(sources), columns.height)
        made = [
            source(columns) if isinstance(source, Program) else have[source or 0]
            for source in self._sources
        ]
        if self._query is not None:
            for series in self._query(columns):
                number = self._positions[series.name]
                made[number] = make_column(series.cast(self._fields[series.name]))
        return Columns(self._fields, made, columns.height)

    def _arrange(self, columns: Columns) -> Columns:
        """Return the columns in the order of the schema for which this was made."""
        if list(columns.schema) == self._names:
            self._schema = columns.schema
            return columns
        return Columns(self._schema, [columns[name] for name in self._names], columns.height)
