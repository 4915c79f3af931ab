"""where and select: the relational operators that see one row at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.expressions import output_schema, row_by_row
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.steps.stateless import SelectStep, WhereRowStep, WhereStep
from rxtemporal.steps.step import Step

__all__ = ["Select", "Where", "WhereRow"]


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Where(Operator):
    """Rows whose payload satisfies a polars predicate."""

    name = "where"
    predicate: pl.Expr

    def __post_init__(self) -> None:
        row_by_row(self.predicate, self.name)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema, if the predicate is a bool over it."""
        types = output_schema(schema, [self.predicate], self.name)
        if len(types) != 1:
            raise SchemaError(
                f"where takes predicates of one result, and {self.predicate} gives {len(types)}. "
                "Hint: combine them with pl.all_horizontal(…) or pl.any_horizontal(…)."
            )
        for dtype in types.values():
            if dtype not in (pl.Boolean, pl.Null):
                raise SchemaError(f"where takes a predicate, got {self.predicate} of type {dtype}")
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return WhereStep(self.predicate)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class WhereRow(Operator):
    """Rows for which a Python function of the payload is true."""

    name = "where"
    predicate: Callable[[dict[str, Any]], Any]

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the same schema."""
        return schema

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return WhereRowStep(self.predicate)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Select(Operator):
    """A new payload for every row; ``adds`` keeps the other fields, as ``with_columns`` does."""

    expressions: tuple[pl.Expr, ...]
    adds: bool = False
    drops: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for expression in self.expressions:
            row_by_row(expression, self.name)
        if not self.expressions and not self.drops:
            raise ArgumentError(f"{self.name} takes at least one field")

    @property
    def name(self) -> str:
        """The method that composed it."""
        return "drop" if self.drops else "with_columns" if self.adds else "select"

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the new schema; a grouped stream keeps its keys, first, as they are."""
        for field in self.drops:
            if field not in schema:
                raise SchemaError(f"drop: there is no field {field!r}; there are {list(schema)}")
        if lost := set(self.drops) & set(keys):
            raise SchemaError(f"drop: {min(lost)!r} is a group key, which a grouped stream keeps")
        new = output_schema(schema, self.expressions, self.name)
        computing = [e for e in self.expressions if not e.meta.is_column_selection()]
        computed = set(output_schema(schema, computing, self.name))
        if changed := set(keys) & set(new) & computed:
            raise SchemaError(
                f"{self.name}: {min(changed)!r} is a group key and cannot be changed. "
                "Hint: give the result another name, or compute it before group_by."
            )
        kept = schema if self.adds or self.drops else {key: schema[key] for key in keys}
        fields = {name: dtype for name, dtype in kept.items() if name not in self.drops}
        return pl.Schema({**fields, **new})

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        return SelectStep(self.expressions, self.output(schema, keys))
