"""The temporal operators as values for ``pipe``: ``batches.pipe(ops.where(…), …)``.

Each is described where a ``Streamable`` has it as a method. State is made for each subscription.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError
from rxtemporal.operators.grouping import GroupBy
from rxtemporal.operators.operator import Chain, Operator
from rxtemporal.operators.stateless import Select, Where, WhereRow
from rxtemporal.operators.windows import SnapToWindowIntervals, Window, snap_to
from rxtemporal.seam import composed_at
from rxtemporal.ticks import Span, Time

__all__ = [
    "drop",
    "group_by",
    "hopping_window2",
    "select",
    "snap_to_window_intervals",
    "snapshot_window",
    "where",
    "with_columns",
]

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


def select(*expressions: str | pl.Expr, **named: Any) -> Select:
    """Give every row a new payload: fields by name, polars expressions, ``name=expression``."""
    return Select(expressions=_expressions(expressions, named), line=composed_at())


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


def group_by(*keys: str) -> GroupBy:
    """Group the stream: everything after it is per key, until an aggregate ends the grouping."""
    return GroupBy(by=keys, line=composed_at())


def snap_to_window_intervals(
    duration: Span, period: Span, alignment: Time = 0
) -> SnapToWindowIntervals:
    """Alter lifetimes to cover the assigned interval of every hopping window they touch."""
    return snap_to(duration, period, alignment, composed_at())


def snapshot_window() -> Window:
    """One window for each maximal stretch of time in which the set of rows alive is the same."""
    return Window()


def hopping_window2(duration: Span, period: Span, alignment: Time = 0) -> Window:
    """Hopping windows that give output only where it changes: snapped lifetimes, then snapshots."""
    return Window((snap_to(duration, period, alignment, composed_at()),))
