"""Streams of a recording, as nodes of a plan."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.side_source import SideSource, find_origin
from rxtemporal.operators.operator import TwoInputs
from rxtemporal.operators.plan import Node


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
    seen: dict[str, int] = {}
    for node in nodes:
        source: Any = node.source
        source = find_origin(source)
        if source is None or id(source) in found:
            continue
        seen[source.name] = seen.get(source.name, 0) + 1
        name = source.name if seen[source.name] == 1 else f"{source.name} {seen[source.name]}"
        if name not in named:
            raise BindingError(
                f"the query reads a stream {name!r}, and there is no such stream; there are "
                f"{', '.join(map(repr, named)) or 'none'}. Hint: name= where a stream is made "
                "gives it its name; or give the query as a function of streams."
            )
        found[id(source)] = named[name]
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
    """Return the streams of a recording by name; the second of one name is called ``name 2``.

    There is a warning in the log if the recorded run has no end. ``SpoolError``: the recording is
    missing or damaged.
    """
    from rxtemporal.storage.event_log.cursors import RecordedSource
    from rxtemporal.storage.event_log.reader import Recording

    if not isinstance(path, (str, os.PathLike)):
        raise ArgumentError(f"replay takes the path of a recording's folder, got {path!r}")
    recording = Recording(path)
    if not recording.complete:
        _log.warning(
            "recording has no end (its run was killed or is still running); replaying its content",
            path=str(path),
            records=recording.count(),
        )
    nodes: dict[str, Node] = {}
    seen: Counter[str] = Counter()
    for number in range(len(recording.streams)):
        source = RecordedSource(recording, number)
        seen[source.name] += 1
        again = f" {seen[source.name]}" if seen[source.name] > 1 else ""
        source.read_with(nodes)
        nodes[source.name + again] = Node(source.schema, (), source=source)
    return nodes
