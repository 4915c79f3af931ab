"""What tells a query from any other, as text: each operator, its settings, and what it takes.

A saved state is gone on with by the query that saved it and by no other, so everything that decides
what the state means is in here; and it is the same in another process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from rxtemporal.ingress.late_source import LateSource
from rxtemporal.operators.plan import Node

_NONE: Mapping[int, str] = MappingProxyType({})


class Fingerprints:
    """The steps of a query, in the order in which they are saved, inputs first.

    A step's fingerprint says what it takes: sources by their names, steps by their numbers. So two
    inputs that change places are a change, though the steps by themselves are the same. ``names``
    are those of the sources in a run, by identity; others have the one they were made with.
    """

    def __init__(self, steps: Iterable[Node], names: Mapping[int, str] = _NONE) -> None:
        self._names = names
        self._steps: dict[int, str] = {}
        self.told: list[str] = []
        for node in steps:
            self.told.append(f"{_operator(node)}, of {' and '.join(map(self.place, node.inputs))}")
            assert node.operator is not None
            self._steps[id(node)] = f"{node.operator.name} (step {len(self.told)})"

    def place(self, node: Node) -> str:
        """Return which stream of the query this is."""
        source = node.source
        if source is None:
            return self._steps[id(node)]
        if isinstance(source, LateSource):
            return f"late events of {self._names.get(id(source.of), source.of.name)!r}"
        return repr(self._names.get(id(source), source.name))


def _operator(node: Node) -> str:
    """Return what tells an operator of a plan from any other, as far as the plan knows."""
    assert node.operator is not None
    schemas = tuple(each.schema for each in node.inputs if each.schema is not None)
    # where a source has not told its fields yet, the steps themselves say what they were made for
    known = schemas if len(schemas) == len(node.inputs) else ()
    return node.operator.fingerprint(known, node.inputs[0].keys)
