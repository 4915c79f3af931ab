"""polars expressions that are computed row by row, checked when a query is composed.

A predicate or projection must give a row the same answer whatever batch it comes in. polars' own
``meta.is_row_separable`` does not suffice (it calls ``x > x.mean()`` and ``x.is_in(y)`` separable),
so the expression's tree is looked through as well.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.schema import carried

__all__ = ["field_type", "output_schema", "row_by_row"]

_NOT_ROW_BY_ROW = {
    "Agg", "AnonymousAgg", "AnonymousFunction", "Explode", "Filter", "Gather", "Len", "Over",
    "Rolling", "Slice", "Sort", "SortBy", "SubPlan", "Window",
}  # fmt: skip
_CHANGES_LENGTH = {"DropNans", "DropNulls", "Unique"}


def row_by_row(expression: Any, operator: str) -> pl.Expr:
    """Return the expression, if it computes each row from that row alone."""
    if not isinstance(expression, pl.Expr):
        raise ArgumentError(f"{operator} takes polars expressions, got {expression!r}")
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise ArgumentError(
            f"{operator} cannot look into {expression}. Hint: instead of map_elements or "
            "map_batches give where() a plain Python function of the row."
        ) from error
    names = set(_names(tree))
    culprit = names & (_NOT_ROW_BY_ROW | _CHANGES_LENGTH)
    if "IsIn" in names and _asks_a_column(tree):
        culprit.add("IsIn")
    if culprit or not _separable(expression, tree, names):
        kind = f" ({', '.join(sorted(culprit))})" if culprit else ""
        raise ArgumentError(
            f"{operator} computes row by row, and {expression} looks at other rows{kind}. "
            "Hint: over many rows compute with a window, for example "
            "snapshot_window().aggregate(…)."
        )
    return expression


def _names(tree: Any) -> Iterator[str]:
    """Yield every node and function name of a serialized expression."""
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, dict):
        for name, inner in tree.items():
            yield name
            # what is below these is the user's data or a name, not the tree's
            if name in ("Alias", "RenameAlias"):
                yield from _names(inner["expr"] if isinstance(inner, dict) else inner[0])
            elif name not in ("Literal", "Column", "Selector", "FieldByName"):
                yield from _names(inner)
    elif isinstance(tree, list):
        for inner in tree:
            yield from _names(inner)


def _asks_a_column(tree: Any) -> bool:
    """Whether some ``is_in`` looks among all values of a column, which polars calls separable."""
    if isinstance(tree, list):
        return any(map(_asks_a_column, tree))
    if not isinstance(tree, dict):
        return False
    function = tree.get("function")
    kind = function.get("Boolean") if isinstance(function, dict) else None
    if isinstance(kind, dict) and "IsIn" in kind and "Column" in _names(tree["input"][1]):
        return True
    return any(map(_asks_a_column, tree.values()))


def _separable(expression: pl.Expr, tree: Any, names: set[str]) -> bool:
    if "Selector" in names:  # polars wants it expanded; any one column stands for its columns
        one = json.dumps(_of_one_column(tree)).encode()
        expression = pl.Expr.deserialize(io.BytesIO(one), format="json")
    try:
        return bool(expression.meta.is_row_separable())
    except pl.exceptions.PolarsError:  # for a few functions polars would have to see the columns
        return False


def _of_one_column(tree: Any) -> Any:
    """Return a serialized expression with every selector replaced by a column."""
    if isinstance(tree, dict):
        if "Selector" in tree:
            return {"Column": ""}
        return {name: _of_one_column(inner) for name, inner in tree.items()}
    return [_of_one_column(inner) for inner in tree] if isinstance(tree, list) else tree


def output_schema(schema: pl.Schema, expressions: Iterable[pl.Expr], operator: str) -> pl.Schema:
    """Return the schema of the expressions' results over rows of ``schema``."""
    expressions = list(expressions)
    try:
        result = pl.LazyFrame(schema=dict(schema)).select(expressions).collect_schema()
    except pl.exceptions.ColumnNotFoundError as error:
        missing = str(error).split("\n")[0]
        raise SchemaError(f"{operator}: {missing}; there are {_listed(schema)}") from error
    except pl.exceptions.PolarsError as error:
        reason = str(error).split("\n")[0]
        raise SchemaError(f"{operator}: {reason}; there are {_listed(schema)}") from error
    return pl.Schema({name: carried(name, dtype) for name, dtype in result.items()})


def field_type(expression: pl.Expr, schema: pl.Schema) -> pl.DataType:
    """Return the type of one expression over rows of ``schema``."""
    types: Sequence[pl.DataType] = list(output_schema(schema, [expression], "aggregate").values())
    if len(types) != 1:
        raise SchemaError(f"{expression} gives {len(types)} fields where one is needed")
    return types[0]


def _listed(schema: pl.Schema) -> str:
    return "no fields" if not schema else ", ".join(f"{n}: {t}" for n, t in schema.items())
