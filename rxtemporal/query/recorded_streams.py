"""Streams of a recording, as nodes of a plan."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import BindingError
from rxtemporal.ingress.side_source import SideSource, find_origin
from rxtemporal.operators.operator import TwoInputs
from rxtemporal.operators.plan import Node, number_names


def replace_sources(output: Node, named: Mapping[str, Node]) -> Node:
    """Return a plan with each source replaced by the stream of its name.

    Of several sources of one name the second is called ``name 2``, as in a recording.
    """
    nodes = output.list_nodes()
    found = _find_streams(nodes, named)
    made: dict[int, Node] = {}
    for node in nodes:
        source: Any = node.source
        if isinstance(source, SideSource):
            beside = source.copy_beside(found[id(source.origin)].source)
            made[id(node)] = Node(node.schema, (), source=beside)
        elif source is not None:
            there = found[id(source)]
            made[id(node)] = Node(there.schema or node.schema, (), source=there.source)
        else:
            made[id(node)] = _compose_again(node, tuple(made[id(each)] for each in node.inputs))
    return made[id(output)]


def _find_streams(nodes: list[Node], named: Mapping[str, Node]) -> dict[int, Node]:
    """Return the stream that replaces each source, by the id of the source."""
    found: dict[int, Node] = {}
    origins: dict[int, Any] = {}
    for node in nodes:
        if (source := find_origin(node.source)) is not None:
            origins[id(source)] = source
    names = number_names(each.name for each in origins.values())
    for key, name in zip(origins, names, strict=True):
        if name not in named:
            raise BindingError(
                f"the query reads a stream {name!r}, and there is no such stream; there are "
                f"{', '.join(map(repr, named)) or 'none'}. Hint: name= where a stream is made "
                "gives it its name; or give the query as a function of streams."
            )
        found[key] = named[name]
    return found


def _compose_again(node: Node, inputs: tuple[Node, ...]) -> Node:
    """Return an operator over other inputs, whose fields may be known now."""
    operator, schema = node.operator, None
    assert operator is not None
    first = inputs[0]
    if isinstance(operator, TwoInputs):
        second = inputs[1]
        if first.schema is not None and second.schema is not None:
            schema = operator.check(first.schema, second.schema, first.keys, second.keys)
    elif first.schema is not None:
        schema = operator.check(first.schema, first.keys)
    return Node(schema, operator.output_keys(first.keys), operator=operator, inputs=inputs)


_log = get_logger(__name__)


def open_recording(path: str | os.PathLike[str]) -> dict[str, Node]:
    """Return the streams of a recording by name, numbered by ``number_names``.

    There is a warning in the log if the recorded run has no end. ``SpoolError``: the recording is
    missing or damaged.
    """
    from rxtemporal.storage.event_log.cursors import RecordedSource
    from rxtemporal.storage.event_log.reader import Recording

    recording = Recording(path)
    if not recording.complete:
        _log.warning(
            "recording has no end (its run was killed or is still running); replaying its content",
            path=str(path),
            records=recording.count(),
        )
    nodes: dict[str, Node] = {}
    sources = [RecordedSource(recording, number) for number in range(len(recording.streams))]
    names = number_names(source.name for source in sources)
    for name, source in zip(names, sources, strict=True):
        source.read_with(nodes)
        nodes[name] = Node(source.schema, (), source=source)
    return nodes
