"""The form of times of each stream of a plan: streams that meet have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rxtemporal.ingress.side_source import SideSource
from rxtemporal.ingress.stream_time import StreamTime
from rxtemporal.operators.plan import Node, refuse_two_forms


class StreamTimes:
    """The form of times of each stream of a run.

    Streams meet in an operator, and where one imports the CTIs of another; all that meet, directly
    or not, have times of one form. ``names`` are the names of sources in the run, by their id.
    """

    def __init__(self, nodes: Sequence[Node], names: Mapping[int, str]) -> None:
        self._parents: dict[int, int] = {}
        for node in nodes:
            for each in node.inputs:
                self._join(id(node), id(each))
            if node.source is not None:
                self._join(id(node), id(_find_origin(node.source)))
        self._join_imports([_find_origin(each.source) for each in nodes if each.source], names)
        self._times: dict[int, StreamTime] = {}
        witnesses: dict[int, Node] = {}
        for node in nodes:
            group = self._find(id(node))
            times = self._times.setdefault(group, StreamTime())
            form = node.own_time
            if form is None:
                continue
            if times.form is None:
                times.form, times.because = form, node.describe_own_time()
                witnesses[group] = node
            elif times.form != form:
                refuse_two_forms(witnesses[group], node)

    def _join_imports(self, sources: Sequence[Any], names: Mapping[int, str]) -> None:
        by_name = {names.get(id(each), each.name): each for each in sources}
        for each in sources:
            imports = None if each.settings is None else each.settings.imports
            if imports is not None and imports.stream_name in by_name:
                self._join(id(each), id(by_name[imports.stream_name]))

    def _find(self, key: int) -> int:
        while (parent := self._parents.get(key, key)) != key:
            key = parent
        return key

    def _join(self, one: int, other: int) -> None:
        self._parents[self._find(one)] = self._find(other)

    def of(self, stream: Any) -> StreamTime:
        """Return the form of the times of a node, or of a source."""
        return self._times[self._find(id(stream))]


def _find_origin(source: Any) -> Any:
    return source.origin if isinstance(source, SideSource) else source
