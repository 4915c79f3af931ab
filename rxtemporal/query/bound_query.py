"""Binding of a query to streams: those of a recording, or others, by name."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.operators.plan import Node
from rxtemporal.query.recorded_streams import replace_sources
from rxtemporal.query.replay import replay
from rxtemporal.query.streamable import Streamable

Query: TypeAlias = Streamable | Callable[..., Streamable]
"""A query: a stream, or a function of the streams that its parameters name."""

Streams: TypeAlias = str | os.PathLike[str] | Mapping[str, Streamable] | None
"""The streams of a query: the folder of a recording, or streams by name."""


class BoundQuery(NamedTuple):
    """A query over its streams, and the streams by name."""

    stream: Streamable
    named: Mapping[str, Node]


def bind_query(query: Query, streams: Streams = None) -> BoundQuery:
    """Return a query over other streams: those of a recording, or of a mapping, by name.

    A function is called with the streams that its parameters name. In a ``Streamable`` each source
    is replaced by the stream of the same name; without streams it stays as it is. ``BindingError``:
    a stream of that name is missing.
    """
    if streams is None:
        if not isinstance(query, Streamable):
            raise BindingError(
                f"the query {_get_name(query)} is a function of streams, and there are none. "
                "Hint: recording=folder, or the stream that the function returns."
            )
        return BoundQuery(query, {})
    there = streams if isinstance(streams, Mapping) else replay(streams)
    named = {name: stream._node for name, stream in there.items()}
    if isinstance(query, Streamable):
        return BoundQuery(Streamable(replace_sources(query._node, named)), named)
    if not callable(query):
        raise ArgumentError(f"a query is a stream or a function of streams, got {query!r}")
    return BoundQuery(apply_query(query, there), named)


def apply_query(query: Callable[..., Any], streams: Mapping[str, Streamable]) -> Streamable:
    """Call the query with the streams that its parameters name, and return the result.

    In the name of a stream, characters that a Python name cannot have become ``_``. A query with
    one parameter takes a single stream whatever its name. A parameter with a default value needs
    no stream.
    """
    wanted = [
        each for each in inspect.signature(query).parameters.values()
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    ]  # fmt: skip
    needed = [each.name for each in wanted if each.default is each.empty]
    named = {re.sub(r"\W", "_", name): stream for name, stream in streams.items()}
    if len(needed) == len(streams) == 1 and needed[0] not in named:
        named = {needed[0]: next(iter(streams.values()))}
    missing = [name for name in needed if name not in named]
    if missing:
        raise BindingError(
            f"the query has parameters {', '.join(map(repr, missing))}, and no stream has that "
            f"name; the streams are {', '.join(map(repr, streams))}"
        )
    result = query(**{each.name: named[each.name] for each in wanted if each.name in named})
    if not isinstance(result, Streamable):
        raise BindingError(
            f"the query {_get_name(query)} has to return a stream, and returned {result!r}"
        )
    return result


def _get_name(query: Any) -> str:
    return str(getattr(query, "__name__", "") or type(query).__name__)
