"""The plan of a query function over streams whose fields are known."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import polars as pl

from rxtemporal.core.batch import END, START
from rxtemporal.core.schema import refuse_lists
from rxtemporal.errors import ArgumentError, BindingError, SchemaError
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.plan import AnySource, Node
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
            _refuse_late_rows(node.source, streams)
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


def _refuse_late_rows(source: AnySource, streams: Mapping[str, Streamable]) -> None:
    """Refuse a query that asks for late rows of an input, or for another time of it."""
    name = source.origin.name if isinstance(source, SideSource) else source.name
    if name in streams:
        raise BindingError(
            f"the query needs the late rows of {name!r}, which are dropped in Spark before it. "
            "Hint: leave follows= of reference() out, since all rows of a DataFrame without "
            "advance_time= are in time; or run the query in this process, over "
            f"spark.from_dataframe(…, name={name!r})."
        )


def check_reference(plan: Node, judged: Collection[str]) -> None:
    """Refuse reference data over inputs that drop late rows: these would never be valid."""
    for node in plan.list_nodes():
        if node.operator is None or not node.operator.takes_late_rows:
            continue
        for each in node.list_nodes():
            if each.source is not None and each.source.name in judged:
                raise BindingError(
                    f"reference takes late rows, too, and Spark drops those of "
                    f"{each.source.name!r} before the query, since this input has advance_time=. "
                    "Hint: leave it out, if the DataFrame is complete; or run the query in this "
                    "process, over spark.from_dataframe(…)."
                )


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
