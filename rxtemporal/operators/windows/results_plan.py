"""Descriptions of the results of windows: aggregates, ranks, user-defined operators."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.schema import payload_schema
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators.expressions import check_row_by_row, infer_field_type
from rxtemporal.operators.operator import Keys, RowExpression
from rxtemporal.operators.windows.aggregates_plan import Aggregate, TimeSensitiveAggregate

if TYPE_CHECKING:
    from rxtemporal.operators.causes.fate import Fate
    from rxtemporal.operators.causes.lost_row import LostRow
    from rxtemporal.operators.windows.members import WindowRows
    from rxtemporal.operators.windows.results import WindowResults

RANK = "rank"


class ResultSpec:
    """A way to compute result rows from the rows of a window, validated when composed."""

    name: str
    finished = False
    """True if a window's end has to be known before there is a result."""

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the schema of the results: the keys first."""
        raise NotImplementedError

    def make(self, schema: pl.Schema, keys: Keys) -> WindowResults:
        """Return a new state."""
        raise NotImplementedError

    def list_expressions(self, schema: pl.Schema) -> Sequence[RowExpression]:
        """Return the expressions that are computed for each row, before the results."""
        return ()

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return why no result stands on a row of a finished window."""
        return lost.tell_end()


def _guess_aggregate(given: Any) -> str:
    """Return what somebody meant who gave this value as an aggregate."""
    if isinstance(given, pl.Expr):
        return "agg.expr(…) with this expression, or agg.sum('field')"
    name = given if isinstance(given, str) else getattr(given, "__name__", "count")
    if name == "count" or name not in ("sum", "avg", "mean", "min", "max", "std", "var"):
        return "agg.count()"
    return f"agg.{name}('field')"


@dataclasses.dataclass(frozen=True, eq=False)
class Aggregates(ResultSpec):
    """One row for each window."""

    aggregates: tuple[tuple[str, Aggregate], ...]
    name = "aggregate"

    def __post_init__(self) -> None:
        if not self.aggregates:
            raise ArgumentError(
                "aggregate takes at least one name=aggregate, such as n=agg.count()"
            )
        for name, aggregate in self.aggregates:
            if not isinstance(aggregate, Aggregate):
                raise ArgumentError(
                    f"aggregate {name!r} is {aggregate!r}; it has to come from rxtemporal.agg, "
                    f"such as {_guess_aggregate(aggregate)}"
                )
            aggregate.check()

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if one of the aggregates is time-sensitive."""
        return any(isinstance(each, TimeSensitiveAggregate) for _, each in self.aggregates)

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the aggregates."""
        fields = {key: schema[key] for key in keys}
        for name, aggregate in self.aggregates:
            if name in fields:
                raise SchemaError(f"aggregate {name!r} has the name of a group key")
            fields[name] = aggregate.dtype(schema)
        return pl.Schema(fields)

    def make(self, schema: pl.Schema, keys: Keys) -> WindowResults:
        """Return new aggregates."""
        from rxtemporal.engine.expressions.evaluator import Evaluator
        from rxtemporal.operators.windows.results import AggregateResults, Output
        from rxtemporal.operators.windows.rows import ListedAggregate

        outputs = []
        for name, aggregate in self.aggregates:
            by = aggregate.make(name, schema)
            # an aggregate without a field reads whole rows, as structs
            reads = aggregate.reads if aggregate.reads is not None else pl.struct(pl.all())
            is_running = by is not None and not isinstance(by, ListedAggregate)
            outputs.append(Output(name, Evaluator(reads, schema) if is_running else None, by))
        return AggregateResults(outputs)

    def list_expressions(self, schema: pl.Schema) -> Sequence[RowExpression]:
        """Return what the aggregates read."""
        return [
            RowExpression(name, aggregate.reads, schema)
            for name, aggregate in self.aggregates
            if aggregate.reads is not None
        ]


@dataclasses.dataclass(frozen=True, eq=False)
class TopK(ResultSpec):
    """The rows with the best ranks."""

    k: int
    by: str | pl.Expr
    descending: bool
    name = "top_k"

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ArgumentError(f"top_k takes a number of ranks, at least 1, got {self.k!r}")
        if not isinstance(self.by, (str, pl.Expr)):
            raise ArgumentError(
                f"top_k takes a field's name or a polars expression to rank by, got {self.by!r}"
            )
        if isinstance(self.by, pl.Expr):
            check_row_by_row(self.by, "top_k")

    @property
    def expression(self) -> pl.Expr:
        """The expression to rank by."""
        return pl.col(self.by) if isinstance(self.by, str) else self.by

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, the other fields, and the rank."""
        infer_field_type(self.expression, schema, "top_k")
        if RANK in schema:
            raise SchemaError(
                "top_k adds the field 'rank', which exists already. "
                "Hint: rename it first with select()."
            )
        others = {name: dtype for name, dtype in schema.items() if name not in keys}
        return pl.Schema({**{key: schema[key] for key in keys}, **others, RANK: pl.Int64()})

    def make(self, schema: pl.Schema, keys: Keys) -> WindowResults:
        """Return a new ranking."""
        from rxtemporal.operators.windows.top_k import TopKResults

        fields = [name for name in schema if name not in keys]
        return TopKResults(self.k, self.expression, fields, descending=self.descending)

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return the rows of its windows that ranked before it."""
        from rxtemporal.operators.windows.members import explain_rank

        return explain_rank(self, lost, windows)


@dataclasses.dataclass(frozen=True, eq=False)
class Apply(ResultSpec):
    """The results of a user function for the rows of a window."""

    function: Callable[..., Iterable[Any]]
    schema: Any
    time_sensitive: bool
    name = "apply"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(f"apply takes a function of a window's rows, got {self.function!r}")
        # what annotations name is not there any more in a process that this is sent to
        object.__setattr__(self, "schema", self._fields())

    @property
    def finished(self) -> bool:  # type: ignore[override]
        """True if the function sees lifetimes."""
        return self.time_sensitive

    def _fields(self) -> pl.Schema:
        if self.schema is not None:
            return payload_schema(self.schema)
        try:
            returned = typing.get_type_hints(self.function).get("return")
        except (NameError, TypeError):  # an annotation that names what is not there, or none
            returned = None
        inner = typing.get_args(returned)
        if inner and (hasattr(inner[0], "__dataclass_fields__") or hasattr(inner[0], "_fields")):
            return payload_schema(inner[0])
        raise SchemaError(
            "apply has to know the fields of its function's results. Hint: give "
            'schema={"name": type, …}, or annotate that it returns list[SomeDataclass].'
        )

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the keys, then the declared fields."""
        fields = self._fields()
        if clash := set(keys) & set(fields):
            raise SchemaError(
                f"apply: {min(clash)!r} is a group key, which is added automatically. "
                "Hint: leave it out of the function's results."
            )
        return pl.Schema({**{key: schema[key] for key in keys}, **fields})

    def make(self, schema: pl.Schema, keys: Keys) -> WindowResults:
        """Return a new state."""
        from rxtemporal.operators.windows.user_functions import ApplyResults

        return ApplyResults(self.function, self._fields(), sensitive=self.time_sensitive)

    def explain_loss(self, lost: LostRow, windows: WindowRows) -> Fate:
        """Return that the function gave nothing for the row's window."""
        name = getattr(self.function, "__name__", "the function")
        return lost.tell("dropped", f"{name} of {lost.place} returned nothing for its window")
