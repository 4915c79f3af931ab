"""Checks of polars expressions when a query is composed: each row must be computed on its own.

A predicate or projection must give the same result for a row in every batch. polars' own
``meta.is_row_separable`` is not enough: it checks only the outermost node (and so calls
``x.cum_sum() > 1`` separable), and it calls ``x.is_in(y)`` separable too. So these functions walk
the expression's tree and ask polars about each function in it.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import polars as pl

from rxtemporal.core.schema import make_query, payload_type
from rxtemporal.errors import ArgumentError, SchemaError

# nodes of an expression's tree whose result depends on other rows
_NODES = {
    "Agg", "AnonymousAgg", "AnonymousFunction", "Explode", "Filter", "Gather", "Len", "Over",
    "Rolling", "Slice", "Sort", "SortBy", "SubPlan", "Window",
}  # fmt: skip
# functions that drop rows, which polars calls separable
_CHANGES_LENGTH = {"DropNans", "DropNulls", "Unique"}
# functions for which a literal series is a set of constants, not one value for each row
_TAKES_A_SET = {"IsIn", "Business", "Replace", "ReplaceStrict"}

# plugins, and functions whose results are random
_FOREIGN = ('"FfiPlugin"', '"Random"')

Tree = Any

# types of results that have been inferred, by the fields and the trees of the expressions: a query
# is checked when it is composed, and again when it runs
_INFERRED: dict[tuple[object, ...], tuple[tuple[str, pl.DataType], ...]] = {}
# how many are kept, and the length of the trees of those
_MOST_INFERRED, _SHORT = 1_024, 10_000


def describe(expression: pl.Expr) -> str:
    """Return a text that identifies an expression and is the same in every process.

    polars' own text omits options and the middle of lists, so a checksum of the tree is added. A
    Python function in the expression is left out, since its position in its file may change.
    """
    tree = _serialize(expression)
    return str(expression) if tree is None else f"{expression} #{zlib.crc32(tree.encode()):08x}"


def has_function(expression: pl.Expr) -> bool:
    """Return True if an expression calls foreign code, or draws random numbers."""
    tree = _serialize(expression)
    return tree is None or any(name in tree for name in _FOREIGN)


def _serialize(expression: pl.Expr) -> str | None:
    """Return the tree of an expression as JSON; None if there is a Python function in it."""
    try:
        tree = expression.meta.serialize(format="json")
    except (pl.exceptions.PolarsError, ValueError):
        return None
    return None if '"Anonymous' in tree else tree


def check_row_by_row(expression: Any, operator: str) -> pl.Expr:
    """Return the expression; raise if it does not compute each row from that row alone."""
    if not isinstance(expression, pl.Expr):
        hint = _hint_expression(expression)
        raise ArgumentError(f"{operator} takes polars expressions, got {expression!r}. {hint}")
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except (pl.exceptions.PolarsError, ValueError) as error:
        raise ArgumentError(
            f"{operator} cannot inspect {expression}. Hint: instead of map_elements or "
            "map_batches pass a plain Python function of the row to where()."
        ) from error
    culprits = sorted(set(_find_culprits(tree)))
    if culprits:
        raise ArgumentError(
            f"{operator} computes row by row, and {expression} looks at other rows "
            f"({', '.join(culprits)}). Hint: over many rows compute with a window, for example "
            "snapshot_window().aggregate(…)."
        )
    return expression


def _hint_expression(given: Any) -> str:
    if isinstance(given, list | tuple):
        return "Hint: without the brackets; select(*names) takes a list apart."
    return "Hint: pl.col('x') is the field x, pl.lit(value) a constant."


def _find_culprits(tree: Tree) -> Iterator[str]:
    """Yield the name of each part of a serialized expression that looks at other rows."""
    if isinstance(tree, str):
        yield from {tree} & _NODES
    elif isinstance(tree, list):
        for inner in tree:
            yield from _find_culprits(inner)
    elif isinstance(tree, dict):
        for name, inner in tree.items():
            yield from {name} & _NODES
            # all else comes from the user: names, constants, types
            if name == "Function":
                yield from _check_function(inner)
            elif name == "Literal":
                yield from {"Series"} & set(inner)
            elif name == "Alias":
                yield from _find_culprits(inner[0])
            elif name == "RenameAlias":
                yield from _find_culprits(inner["expr"])
            elif name == "Eval":  # of each list by itself, or of all rows so far
                yield from set() if inner["variant"] in ("List", "Array") else {name}
                yield from _find_culprits(inner["expr"])
            elif name not in ("Column", "Selector", "dtype"):
                yield from _find_culprits(inner)


def _check_function(node: Tree) -> Iterator[str]:
    names = list(_function_names(node["function"]))
    inputs = node["input"]
    if not _CHANGES_LENGTH.isdisjoint(names[:1]) or not _is_separable(node):
        yield names[0]
    if _TAKES_A_SET.isdisjoint(names):
        yield from _find_culprits(inputs)
        return
    if "IsIn" in names and _has_column(inputs[1]):
        yield "IsIn"  # it compares with all values of a column, yet polars calls it separable
    yield from _find_culprits(inputs[0])
    yield from (name for name in _find_culprits(inputs[1:]) if name != "Series")


def _function_names(function: Tree) -> Iterator[str]:
    """Yield the name of a function and of its kinds, from the outermost."""
    while isinstance(function, dict) and function:
        name, function = next(iter(function.items()))
        yield name
    if isinstance(function, str):
        yield function


def _has_column(tree: Tree) -> bool:
    if isinstance(tree, dict):
        return bool({"Column", "Selector"} & set(tree)) or any(map(_has_column, tree.values()))
    return isinstance(tree, list) and any(map(_has_column, tree))


def _is_separable(node: Tree) -> bool:
    """Return True if polars calls a function separable, regardless of its inputs."""
    function = {"Function": {**node, "input": [{"Column": ""}] * len(node["input"])}}
    try:
        expression = pl.Expr.deserialize(io.BytesIO(json.dumps(function).encode()), format="json")
        return bool(expression.meta.is_row_separable())
    except pl.exceptions.PolarsError:  # for a few functions it would have to see the columns
        return False


def infer_schema(schema: pl.Schema, expressions: Iterable[pl.Expr], operator: str) -> pl.Schema:
    """Return the schema of the results of expressions over rows of ``schema``."""
    expressions = list(expressions)
    fields = [each.meta.output_name() for each in expressions if each.meta.is_column()]
    if len({*fields} & {*schema}) == len(expressions):  # polars takes fifty times as long
        return pl.Schema({name: payload_type(name, schema[name], lists=True) for name in fields})
    trees = [_serialize(each) for each in expressions]
    known = (*schema.items(), *trees)
    # another thread may drop all of them at any time
    if (types := _INFERRED.get(known)) is not None:
        return pl.Schema(types)
    try:
        frame = make_query(schema).select(expressions)
        result = frame.collect_schema()
        frame.collect()  # some types are checked only when an expression is computed
    except pl.exceptions.ColumnNotFoundError as error:
        missing = str(error).split("\n")[0].partition(";")[0]
        named = missing.partition('"')[2].partition('"')[0]
        from rxtemporal.core.safe_text import hint_field

        raise SchemaError(
            f"{operator}: {missing}; there are {_list_fields(schema)}{hint_field(named, schema)}"
        ) from error
    except pl.exceptions.PolarsError as error:
        raise _make_polars_error(operator, error, schema) from error
    inferred = pl.Schema(
        {name: payload_type(name, dtype, lists=True) for name, dtype in result.items()}
    )
    _keep_inferred(known, inferred.items(), trees)
    return inferred


def _keep_inferred(
    known: tuple[object, ...],
    types: Iterable[tuple[str, pl.DataType]],
    trees: Sequence[str | None],
) -> None:
    """Keep types that have been inferred, unless the trees of their expressions are long."""
    if sum(_SHORT + 1 if tree is None else len(tree) for tree in trees) <= _SHORT:
        if len(_INFERRED) >= _MOST_INFERRED:
            _INFERRED.clear()
        _INFERRED[known] = tuple(types)


def infer_field_type(
    expression: pl.Expr, schema: pl.Schema, operator: str = "aggregate"
) -> pl.DataType:
    """Return the type of one expression over rows of ``schema``."""
    meta = expression.meta
    if meta.is_column() and meta.output_name() in schema:  # a schema costs more than a look-up
        return payload_type(meta.output_name(), schema[meta.output_name()])
    fields = infer_schema(schema, [expression], operator)
    if len(fields) != 1:
        raise SchemaError(f"{expression} gives {len(fields)} fields where one is needed")
    ((name, dtype),) = fields.items()
    return payload_type(name, dtype)  # nothing is computed over lists


def check_predicate(predicate: pl.Expr, schema: pl.Schema, who: str) -> None:
    """Raise if an expression is not one bool over rows of ``schema``."""
    types = infer_schema(schema, [predicate], who)
    if len(types) != 1:
        raise SchemaError(
            f"{who} takes predicates of one result, and {predicate} gives {len(types)}. "
            "Hint: combine them with pl.all_horizontal(…) or pl.any_horizontal(…)."
        )
    for dtype in types.values():
        if dtype not in (pl.Boolean, pl.Null):
            raise SchemaError(
                f"{who} takes a predicate, got {predicate} of type {dtype}. "
                "Hint: compare it with a value, as in pl.col('x') > 1."
            )


def infer_number_type(expression: pl.Expr, schema: pl.Schema, who: str) -> pl.DataType:
    """Return the type of an expression that ``who`` computes with; raise if it is no number."""
    dtype = infer_field_type(expression, schema)
    # no decimals: they would have to be added exactly
    if dtype.is_float() or dtype.is_integer() or dtype in (pl.Boolean, pl.Null):
        return dtype
    units = "convert it to a number first, for example with .dt.total_seconds()"
    advice = units if dtype.is_temporal() else "cast it to Float64"
    raise SchemaError(f"{who} of type {dtype} is not defined. Hint: {advice}.")


def infer_aggregate_type(expression: pl.Expr, schema: pl.Schema, what: str) -> pl.DataType:
    """Return the type of an expression that reduces rows of ``schema`` to one value."""
    tree = _serialize(expression)
    known = ("one value", *schema.items(), tree)
    if (inferred := _INFERRED.get(known)) is not None:
        return inferred[0][1]
    group = make_query(schema).group_by(pl.lit(0).alias("__group__"))
    try:
        frame = group.agg(expression)
        types = dict(frame.collect_schema())
        frame.collect()
    except pl.exceptions.PolarsError as error:
        raise _make_polars_error(what, error, schema) from error
    types.pop("__group__")
    if len(types) != 1:
        raise SchemaError(f"{what} gives {len(types)} fields where one is needed")
    ((name, dtype),) = types.items()
    if isinstance(dtype, pl.List):
        raise SchemaError(
            f"{what} gives one value for each row, and one for all rows is needed. "
            "Hint: end it with an aggregation such as .sum() or .first()."
        )
    found = payload_type(name, dtype)
    _keep_inferred(known, [(name, found)], [tree])
    return found


def _make_polars_error(what: str, error: Exception, schema: pl.Schema) -> SchemaError:
    """Return the error for an expression that polars refuses over these fields."""
    from rxtemporal.core.safe_text import hint_polars

    reason, hint = hint_polars(str(error).split("\n")[0])
    return SchemaError(f"{what}: {reason}; there are {_list_fields(schema)}{hint}")


def _list_fields(schema: pl.Schema) -> str:
    return "no fields" if not schema else ", ".join(f"{n}: {t}" for n, t in schema.items())
