"""The plan of a query function over streams whose fields are known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.schema import refuse_lists
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.operators.plan import Node
from rxtemporal.query.inputs import from_events
from rxtemporal.query.streamable import Streamable

Query = Callable[..., Streamable]


def compose_plan(query: Query, schemas: Mapping[str, pl.Schema]) -> Node:
    """Return the plan of a query over streams with these fields."""
    if not callable(query):
        raise ArgumentError(f"run takes a function from streams to a stream, got {query!r}")
    try:
        inspect.signature(query).bind(**dict(schemas))
    except TypeError as error:
        raise BindingError(
            f"the DataFrames do not match the query's parameters: {error}. Hint: pass each "
            "DataFrame under the name of a parameter."
        ) from error
    streams = {name: from_events([], schema=fields, name=name) for name, fields in schemas.items()}
    result = query(**streams)
    if not isinstance(result, Streamable):
        raise BindingError(f"a query returns a stream, got {result!r}")
    plan = result._node
    own = {id(each._node) for each in streams.values()}
    for node in plan.list_nodes():
        if node.source is not None and id(node) not in own:
            raise BindingError(
                f"the query reads {node.source.name!r}, which is not one of its parameters. "
                "Hint: in Spark every stream comes from a DataFrame; make it a parameter."
            )
    assert plan.schema is not None
    refuse_lists(plan.schema)
    if clash := {START, END} & set(plan.schema):
        raise SchemaError(
            f"the result has a field {min(clash)!r}, the name of a column for its lifetimes. "
            "Hint: rename it with select()."
        )
    return plan


def check_cti(name: Any, schema: pl.Schema) -> None:
    """Refuse a name for the column of CTIs that is no name or that a field has."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(
            f"cti is the name of a column for the result's CTIs, got {name!r}. Hint: a parameter "
            "of a query cannot be called cti or buckets here; those are run's own."
        )
    if name.casefold() in {each.casefold() for each in (START, END, *schema)}:
        raise SchemaError(
            f"the result has a column {name!r} already, so its CTIs need another: "
            f"it has {', '.join([START, END, *schema])}"
        )
