"""Filters and selections right after an input, computed by Spark itself.

Rows that a filter drops then need not come to Python, nor out of the files: a filter that keeps one
row in a hundred is eight times as fast. Only expressions with the same result in Spark are pushed
down: comparisons of integers, of doubles and of strings, with each other and with constants; ``&``,
``|`` and ``~``; ``is_null``; selected and renamed fields. Arithmetic is not (an overflow is an
error in Spark), nor are Python functions. Nothing is pushed below a door (``advance_time``), which
counts every row.
"""

from __future__ import annotations

import dataclasses
import json
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from rxtemporal.operators.operator import Operator
from rxtemporal.operators.plan import Node
from rxtemporal.spark.query.inputs import DataFrameInput
from rxtemporal.spark.schema import quote_name

_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
_LOGIC: dict[str, Callable[[Any, Any], Any]] = {"And": operator.and_, "Or": operator.or_}
_MOST = 2**63


class _UnsupportedError(Exception):
    """Spark may give another result."""


@dataclasses.dataclass(frozen=True)
class _Value:
    """A part of a predicate as a Spark column, with the kind of its values."""

    column: Any
    kind: str


def push_down(
    plan: Node, inputs: Mapping[str, DataFrameInput]
) -> tuple[Node, dict[str, DataFrameInput], dict[str, list[Node]]]:
    """Return the rest of the plan, the inputs with pushed-down operators, and these by input."""
    nodes = plan.list_nodes()
    uses = Counter(id(each) for node in nodes for each in node.inputs)
    after = {id(each): node for node in nodes for each in node.inputs if uses[id(each)] == 1}
    given, pushed, new = dict(inputs), {name: list[Node]() for name in inputs}, dict[int, Node]()
    for node in nodes:
        if node.source is None:
            continue
        name, last = node.source.name, node
        while (following := after.get(id(last))) is not None:
            done = _push_operator(following, given[name])
            if done is None:
                break
            given[name], last = done, following
            pushed[name].append(following)
        if last is not node:
            new[id(last)] = dataclasses.replace(node, schema=given[name].schema)
    return _rebuild(nodes, new)[id(plan)], given, pushed


def _rebuild(nodes: list[Node], new: dict[int, Node]) -> dict[int, Node]:
    made = dict(new)
    for node in nodes:
        if id(node) not in made:
            inputs = tuple(made[id(each)] for each in node.inputs)
            made[id(node)] = dataclasses.replace(node, inputs=inputs)
    return made


def _push_operator(node: Node, given: DataFrameInput) -> DataFrameInput | None:
    """Return the input after an operator that Spark computes, or None."""
    if given.advance_time is not None or node.keys:
        return None
    try:
        if node.operator is not None and (predicate := node.operator.row_filter) is not None:
            return _push_where(predicate, given)
        if isinstance(node.operator, Operator) and node.operator.projects:
            return _push_select(node.operator, given)
    except _UnsupportedError:
        pass
    return None


def _push_where(predicate: pl.Expr, given: DataFrameInput) -> DataFrameInput:
    from pyspark.sql import functions as sf

    tree = json.loads(predicate.meta.serialize(format="json"))
    wanted = _translate(tree, given.schema)
    if wanted.kind != "bool":
        raise _UnsupportedError
    keep = wanted.column
    if given.cti is not None:  # a CTI is no row
        keep = sf.col(quote_name(given.cti)).isNotNull() | keep
    return dataclasses.replace(given, frame=given.frame.where(keep))


def _push_select(select: Operator, given: DataFrameInput) -> DataFrameInput:
    from pyspark.sql import functions as sf

    schema = given.schema
    output = select.output(schema, ())
    stays = {name: fields[0] for name, fields in select.partition((schema,), ()).keeps}
    times = list(dict.fromkeys(filter(None, (given.start, given.end, given.cti))))
    names = [name.casefold() for name in [*times, *output]]
    if set(stays) != set(output) or len(set(names)) < len(names):
        raise _UnsupportedError
    fields = [sf.col(quote_name(stays[name] or name)).alias(name) for name in output]
    frame = given.frame.select(*(sf.col(quote_name(time)) for time in times), *fields)
    return dataclasses.replace(given, frame=frame)


# Predicates ---------------------------------------------------------------------------------------


def _translate(tree: Any, schema: pl.Schema) -> _Value:
    """Return a part of a predicate in Spark's form."""
    from pyspark.sql import functions as sf

    if not isinstance(tree, dict) or len(tree) != 1:
        raise _UnsupportedError
    ((what, inner),) = tree.items()
    if what == "Column":
        return _Value(sf.col(quote_name(inner)), _kind(schema[inner]))
    if what == "Literal":
        return _constant(inner)
    if what == "BinaryExpr":
        left, right = (_translate(inner[side], schema) for side in ("left", "right"))
        return _combine(inner["op"], left, right)
    if what == "Function":
        return _function(inner["function"], [_translate(each, schema) for each in inner["input"]])
    raise _UnsupportedError


def _kind(dtype: pl.DataType) -> str:
    if dtype.is_integer():
        return "int"
    # a Float32 compared with a constant is compared as one here, and as a double in Spark
    return {pl.Float64: "float", pl.String: "str", pl.Boolean: "bool"}.get(type(dtype), "other")


def _constant(given: Any) -> _Value:
    from pyspark.sql import functions as sf

    ((form, inner),) = given.items()
    if form not in ("Dyn", "Scalar") or not isinstance(inner, dict):
        raise _UnsupportedError
    ((name, value),) = inner.items()
    kinds = {"Int": int, "Float": float, "Str": str, "Bool": bool}
    for prefix, kind in kinds.items():
        if name.startswith(prefix) and type(value) is kind and name != "Float32":
            if isinstance(value, int) and not -_MOST <= value < _MOST:
                raise _UnsupportedError
            return _Value(sf.lit(value), kind.__name__)
    raise _UnsupportedError


def _combine(op: str, left: _Value, right: _Value) -> _Value:
    if left.kind != right.kind or left.kind == "other":
        raise _UnsupportedError
    if op in _LOGIC and left.kind == "bool":
        return _Value(_LOGIC[op](left.column, right.column), "bool")
    if op in _COMPARISONS:
        return _Value(_COMPARISONS[op](left.column, right.column), "bool")
    raise _UnsupportedError


def _function(named: Any, values: list[_Value]) -> _Value:
    if named == {"Boolean": "IsNull"}:
        return _Value(values[0].column.isNull(), "bool")
    if named == {"Boolean": "IsNotNull"}:
        return _Value(values[0].column.isNotNull(), "bool")
    if named == {"Boolean": "Not"} and values[0].kind == "bool":
        return _Value(~values[0].column, "bool")
    raise _UnsupportedError
