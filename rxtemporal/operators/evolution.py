"""Changes of a query: which operators of a saved plan are operators of the present one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

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
    saved: Sequence[OperatorRecord],
    now: Sequence[OperatorRecord],
    fits: Callable[[int, int], bool],
    outputs: Iterable[tuple[Ref, Ref]] = (),
) -> list[int | None]:
    """Return the number of each present operator in the saved plan; None if it begins.

    An operator is kept if it and all before it are the same. One with a label is also kept if it is
    the same but has been moved: operators that take each row alone have come before it, or gone.
    ``fits(old, new)`` says whether the fields of two operators fit. Inputs come first in both.

    Of several equal ones an operator continues that whose results went where its results go:
    ``outputs`` are the present and the saved operators, or sources, of outputs of one name.
    """
    matches = _Matches(saved, now, fits)
    for ref, old in outputs:
        if isinstance(ref, int) and isinstance(old, int):
            matches.add(ref, old)
    # those that have readers come with these
    for number in reversed(range(len(now))):
        matches.find(number)
    return matches.found


class _Matches:
    """Operators of two plans that are the same; each saved one with state has one successor."""

    def __init__(
        self,
        saved: Sequence[OperatorRecord],
        now: Sequence[OperatorRecord],
        fits: Callable[[int, int], bool],
    ) -> None:
        self._saved, self._now, self._fits = saved, now, fits
        self.found: list[int | None] = [None] * len(now)
        self._used: set[int] = set()

    def find(self, number: int) -> None:
        """Match an operator with the first saved one that is the same and has no successor."""
        for old in range(len(self._saved)):
            if self.found[number] is None and old not in self._used:
                self.add(number, old)

    def add(self, number: int, old: int) -> None:
        """Match two operators, and all before them, if they are the same."""
        pairs: dict[int, int] = {}
        if self._match(number, old, pairs):
            for new, each in pairs.items():
                if self.found[new] is None:
                    self.found[new] = each
                    self._used.add(each)

    def _match(self, number: Ref, old: Ref, pairs: dict[int, int]) -> bool:
        """Return True if operators, or sources, are the same; ``pairs`` are those found so far."""
        if not isinstance(number, int) or not isinstance(old, int):
            return number == old
        known = pairs.get(number, self.found[number])
        if known == old:
            return True
        record, other = self._now[number], self._saved[old]
        if record.text != other.text or not self._fits(old, number):
            return False
        if not record.passes:  # others have no state, so any that is equal is the same
            is_taken = old in self._used or old in pairs.values()
            if known is not None or is_taken:
                return False
        if not self._match_all(record.inputs, other.inputs, pairs):
            is_moved = record.label is not None and record.label == other.label
            bases = _find_bases(self._now, record), _find_bases(self._saved, other)
            if not is_moved or not self._match_all(*bases, pairs):
                return False
        pairs.setdefault(number, old)
        return True

    def _match_all(self, refs: Sequence[Ref], olds: Sequence[Ref], pairs: dict[int, int]) -> bool:
        if len(refs) != len(olds):
            return False
        found = dict(pairs)
        if not all(self._match(*each, found) for each in zip(refs, olds, strict=True)):
            return False
        pairs.update(found)
        return True


def _find_bases(records: Sequence[OperatorRecord], record: OperatorRecord) -> list[Ref]:
    """Return what gives an operator its rows, whatever takes each of them alone in between."""
    bases = []
    for each in record.inputs:
        while isinstance(each, int) and records[each].passes:
            (each,) = records[each].inputs
        bases.append(each)
    return bases
