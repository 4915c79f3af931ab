"""Changes of a query: which operators of a saved plan are operators of the present one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from rxtemporal.errors import BindingError
from rxtemporal.operators.fingerprint import Fingerprints
from rxtemporal.operators.operator import describe_settings
from rxtemporal.operators.plan import Node

# an input: the number of an operator, or the place of a source
Ref: TypeAlias = int | str


class OperatorRecord(NamedTuple):
    """Identity of an operator of a plan, without the fields of its inputs.

    ``passes``: each row leaves alone and with its own lifetime, so the operator has no state.
    """

    text: str
    inputs: list[Ref]
    label: str | None
    passes: bool


class Records:
    """The operators of a plan in the order in which they are saved, inputs first."""

    def __init__(self, steps: Iterable[Node], names: Mapping[int, str]) -> None:
        self.nodes = [*steps]
        self._places = Fingerprints(self.nodes, names)
        self._numbers = {id(node): number for number, node in enumerate(self.nodes)}
        self.operators = [self._record(node) for node in self.nodes]

    def find(self, node: Node) -> Ref:
        """Return the number of an operator, or the place of a source."""
        return self._places.place(node) if node.source is not None else self._numbers[id(node)]

    def _record(self, node: Node) -> OperatorRecord:
        operator = node.operator
        assert operator is not None
        text = f"{operator.name}({describe_settings(operator)}) by {list(node.inputs[0].keys)}"
        inputs = [self.find(each) for each in node.inputs]
        return OperatorRecord(text, inputs, operator.label, passes(node))


def passes(node: Node) -> bool:
    """Return True if each row leaves an operator alone, and with its own lifetime."""
    return node.operator is not None and node.operator.passes_rows


def name_operator(node: Node, label: str) -> Node:
    """Return a plan whose last operator with state has a name; without one, the last operator."""
    chain, holder = [node], node
    while passes(holder):
        (holder,) = holder.inputs
        chain.append(holder)
    if holder.operator is None:
        chain, holder = [node], node
    if holder.operator is None:
        raise BindingError(
            "a source has no operator to be named. Hint: a source has a name of its own, name=."
        )
    made = dataclasses.replace(holder, operator=dataclasses.replace(holder.operator, label=label))
    for each in reversed(chain[:-1]):
        made = dataclasses.replace(each, inputs=(made,))
    return made


def match_operators(
    saved: Sequence[OperatorRecord], now: Sequence[OperatorRecord], fits: Any
) -> list[int | None]:
    """Return the number of each present operator in the saved plan; None if it begins.

    An operator is kept if it and all before it are the same. One with a label is also kept if it is
    the same but has been moved: operators that take each row alone have come before it, or gone.
    ``fits(old, new)`` says whether the fields of two operators fit. Inputs come first in both.
    """
    found: list[int | None] = []
    used: set[int] = set()

    def translate(ref: Ref) -> Ref | None:
        return found[ref] if isinstance(ref, int) else ref

    for number, record in enumerate(now):
        inputs = [translate(each) for each in record.inputs]
        bases = [translate(each) for each in _find_bases(now, record)]
        match = None
        for old, other in enumerate(saved):
            if old in used or other.text != record.text or not fits(old, number):
                continue
            if other.inputs == inputs:
                match = old
                break
            is_moved = record.label is not None and record.label == other.label
            if is_moved and match is None and None not in bases:
                match = old if _find_bases(saved, other) == bases else None
        found.append(match)
        if match is not None:
            used.add(match)
    return found


def _find_bases(records: Sequence[OperatorRecord], record: OperatorRecord) -> list[Ref]:
    """Return what gives an operator its rows, whatever takes each of them alone in between."""
    bases = []
    for each in record.inputs:
        while isinstance(each, int) and records[each].passes:
            (each,) = records[each].inputs
        bases.append(each)
    return bases
