"""Fingerprints of a query as text: each operator, its settings, and its inputs.

Only the query that saved a state can resume from it. So the text includes everything that the
meaning of the state depends on, and it is the same in another process.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from rxtemporal.errors import CheckpointError
from rxtemporal.ingress.side_source import SideSource
from rxtemporal.operators.plan import Node

_NONE: Mapping[int, str] = MappingProxyType({})


class Fingerprints:
    """The steps of a query, in the order in which they are saved, inputs first.

    A step's fingerprint names its inputs: sources by their names, steps by their numbers. So
    exchanging two inputs is a change, though the steps themselves are the same. ``names`` are the
    names of sources in a run, by their id; other sources keep their own names.
    """

    def __init__(self, steps: Iterable[Node], names: Mapping[int, str] = _NONE) -> None:
        self._names = names
        self._steps: dict[int, str] = {}
        self.lines: list[str] = []
        for node in steps:
            self.lines.append(f"{_operator(node)}, of {' and '.join(map(self.place, node.inputs))}")
            assert node.operator is not None
            self._steps[id(node)] = f"{node.operator.name} (step {len(self.lines)})"

    def place(self, node: Node) -> str:
        """Return the name of a node: a source by its name, a step by its number."""
        source = node.source
        if source is None:
            return self._steps[id(node)]
        if isinstance(source, SideSource):
            return f"{source.what} of {self._names.get(id(source.origin), source.origin.name)!r}"
        return repr(self._names.get(id(source), source.name))


def refuse_changes(
    steps: tuple[Sequence[str], Sequence[str]],
    inputs: tuple[Mapping[str, str], Mapping[str, str]],
    since: str,
    otherwise: str,
) -> None:
    """Raise an error that says what has changed if a saved state is from another query.

    Each pair is the saved fingerprints and the present ones; ``since`` says when the state was
    begun, and ``otherwise`` how to start again.
    """
    before, after = inputs
    # a renamed source changes the steps that read it, so report the source first
    renamed = itertools.zip_longest(
        _inputs(before.keys() - after.keys()),
        _inputs(after.keys() - before.keys()),
        fillvalue="nothing",
    )
    changed = [
        (f"input {name!r} ({before[name]})", f"input {name!r} ({after[name]})")
        for name in sorted(before.keys() & after.keys())
    ]
    for was, now in [*renamed, *itertools.zip_longest(*steps, fillvalue="nothing"), *changed]:
        if was != now:
            raise CheckpointError(
                f"cannot resume: the query has changed since {since}. Saved: {was}. Now: {now}. "
                f"Hint: resume with the query as it was, {otherwise}."
            )


def _inputs(names: Iterable[str]) -> list[str]:
    return [f"input {name!r}" for name in sorted(names)]


def _operator(node: Node) -> str:
    """Return the fingerprint of an operator of a plan, with its fields if the plan knows them."""
    assert node.operator is not None
    schemas = tuple(each.schema for each in node.inputs if each.schema is not None)
    # while a source's fields are unknown, the steps themselves record their schemas
    known = schemas if len(schemas) == len(node.inputs) else ()
    return node.operator.fingerprint(known, node.inputs[0].keys)
