"""Projections of the rows of a batch to rows of other fields."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from rxtemporal.core.columns import Columns, make_column
from rxtemporal.engine.expressions.frame_query import FrameQuery
from rxtemporal.engine.expressions.program import Program, compile_outputs


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
