"""Typed trees of expressions, as polars itself resolves them.

polars decides in which type operands meet, what a literal becomes and which constants fold. These
rules are not written twice: the tree read here is the one that polars would run, with every cast.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import polars as pl

from rxtemporal.core.schema import make_query

# the version of the form in which polars shows a resolved plan
_VERSION = 16
_CAST_MODES = ("strict", "lenient", "wrap")


class UnknownExpressionError(Exception):
    """An expression or a part of it that is left to polars."""


@dataclasses.dataclass(frozen=True, slots=True)
class Term:
    """One term of a resolved expression.

    ``name`` is Column, Literal, Cast, Ternary, an operator or a function; ``options`` has the
    column's name, the literal's value, the mode of the cast, or the function's own options.
    """

    name: str
    dtype: pl.DataType
    inputs: tuple[Term, ...] = ()
    options: tuple[Any, ...] = ()


def resolve(expression: pl.Expr, schema: pl.Schema) -> dict[str, Term]:
    """Return the tree of each output of an expression over rows of ``schema``, by its name.

    Raises ``UnknownExpressionError`` for what polars does not show.
    """
    frame = make_query(schema)
    if expression.meta.is_column_selection():
        fields = frame.select(expression).collect_schema().items()
        return {name: Term("Column", dtype, (), (name,)) for name, dtype in fields}
    try:
        return _resolve(frame.select(expression), expression)
    except (AttributeError, NotImplementedError) as error:
        raise UnknownExpressionError("an expression that polars does not show") from error


def _resolve(query: pl.LazyFrame, expression: pl.Expr) -> dict[str, Term]:
    flags = pl.QueryOptFlags._eager()  # those with which polars computes a frame
    plan: Any = query._ldf.with_optimizations(flags._pyoptflags).visit()
    root: Any = plan.view_current_node()
    if plan.version()[0] != _VERSION:
        raise UnknownExpressionError(f"plans of version {plan.version()}")
    if type(root).__name__ != "Select":  # polars has computed it already, as it reads no column
        return _read_constants(expression)
    plan.set_node(plan.get_inputs()[0])  # types are those over its input
    return {each.output_name: _read(plan, each.node) for each in root.expr}


def _read_constants(expression: pl.Expr) -> dict[str, Term]:
    if expression.meta.root_names() or expression.meta.has_multiple_outputs():
        raise UnknownExpressionError("an expression without a plan")
    series = pl.select(expression).to_series()
    if len(series) != 1:
        raise UnknownExpressionError("a constant of several values")
    return {series.name: Term("Literal", series.dtype, (), (series.item(),))}


def _read(plan: Any, number: int) -> Term:
    """Return the term with this number in a plan."""
    shown = plan.view_expression(number)
    kind, dtype = type(shown).__name__, plan.get_dtype(number)
    if kind == "Column":
        return Term(kind, dtype, (), (shown.name,))
    if kind == "Literal":
        return Term(kind, dtype, (), (shown.value,))
    if kind == "Cast":
        mode = _CAST_MODES[shown.options]
        return Term(kind, dtype, (_read(plan, shown.expr),), (mode,))
    if kind == "BinaryExpr":
        operator = str(shown.op).removeprefix("Operator.")
        return Term(operator, dtype, (_read(plan, shown.left), _read(plan, shown.right)))
    if kind == "Ternary":
        parts = (shown.predicate, shown.truthy, shown.falsy)
        return Term(kind, dtype, tuple(_read(plan, part) for part in parts))
    if kind == "Function":
        name, *options = shown.function_data
        if name == "repeat":
            return _read(plan, shown.input[0])
        inputs = tuple(_read(plan, part) for part in shown.input)
        return Term(str(name), dtype, inputs, tuple(options))
    raise UnknownExpressionError(kind)


def walk(term: Term) -> Iterator[Term]:
    """Yield a term and all below it."""
    yield term
    for each in term.inputs:
        yield from walk(each)


def identify(expression: pl.Expr) -> bytes:
    """Return bytes that are the same for equal expressions alone.

    To ``meta.eq`` the constants 0.0 and -0.0 are equal, which divide otherwise.
    """
    return expression.meta.serialize()
