"""where and select as users type them: predicates and projections sorted into operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Chain, Operator
from rxtemporal.operators.stateless import Select, SelectRow, Where, WhereRow, by_function
from rxtemporal.reactive.synchronize import composed_at

Predicate = pl.Expr | Callable[[dict[str, Any]], Any]


def where(*predicates: Predicate) -> Chain:
    """Keep the rows whose payload satisfies every predicate; null is false.

    A predicate is a polars expression computed row by row, or a Python function of the payload.
    """
    if not predicates:
        raise ArgumentError("where takes at least one predicate")
    line = composed_at()
    return Chain(tuple(_where(predicate, line) for predicate in predicates))


def _where(predicate: Predicate, line: str) -> Operator:
    if isinstance(predicate, pl.Expr):
        return Where(predicate=predicate, line=line)
    if callable(predicate):
        return WhereRow(predicate=predicate, line=line)
    raise ArgumentError(
        f"where takes polars expressions or functions of the row, got {predicate!r}"
    )


def select(*expressions: Any, **named: Any) -> Select | SelectRow:
    """Give every row a new payload: fields by name, polars expressions, ``name=expression``.

    Or a Python function of the payload, with the ``schema=`` of what it returns.
    """
    return by_function(expressions, named) or Select(
        expressions=_expressions(expressions, named), line=composed_at()
    )


def with_columns(*expressions: str | pl.Expr, **named: Any) -> Select:
    """Add fields to the payload, or replace some."""
    return Select(expressions=_expressions(expressions, named), adds=True, line=composed_at())


def drop(*fields: str) -> Select:
    """Take fields out of the payload."""
    if not fields:
        raise ArgumentError("drop takes at least one field")
    return Select(expressions=(), drops=fields, line=composed_at())


def _expressions(positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[pl.Expr, ...]:
    expressions = [pl.col(each) if isinstance(each, str) else each for each in positional]
    for name, value in named.items():
        if isinstance(value, str):
            value = pl.col(value)
        expressions.append((value if isinstance(value, pl.Expr) else pl.lit(value)).alias(name))
    return tuple(expressions)
