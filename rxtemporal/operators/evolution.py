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
    """Operators of two plans that are the same; each saved one with state has one successor.

    Two are the same if their texts, their fields and all before them are, back to the sources.
    """

    def __init__(
        self,
        saved: Sequence[OperatorRecord],
        now: Sequence[OperatorRecord],
        fits: Callable[[int, int], bool],
    ) -> None:
        self._saved, self._now, self._fits = saved, now, fits
        self.found: list[int | None] = [None] * len(now)
        self._used: set[int] = set()
        # of each pair that is the same, the pairs before it
        self._before: dict[tuple[int, int], Sequence[tuple[Ref, Ref]]] = {}
        self._same: list[list[int]] = []
        by_text: dict[str, list[int]] = {}
        for old, record in enumerate(saved):
            by_text.setdefault(record.text, []).append(old)
        for number, record in enumerate(now):  # inputs first
            same = [old for old in by_text.get(record.text, ()) if self._compare(number, old)]
            self._same.append(same)

    def _compare(self, number: int, old: int) -> bool:
        record, other = self._now[number], self._saved[old]
        before = self._pair(record.inputs, other.inputs)
        if before is None and record.label is not None and record.label == other.label:
            before = self._pair(_find_bases(self._now, record), _find_bases(self._saved, other))
        if before is None or not self._fits(old, number):
            return False
        self._before[number, old] = before
        return True

    def _pair(self, refs: Sequence[Ref], olds: Sequence[Ref]) -> list[tuple[Ref, Ref]] | None:
        """Return the pairs of what two operators read; None if one is not the same."""
        pairs = [*zip(refs, olds, strict=False)]
        same = len(refs) == len(olds) and all(
            pair in self._before if isinstance(pair[0], int) else pair[0] == pair[1]
            for pair in pairs
        )
        return pairs if same else None

    def find(self, number: int) -> None:
        """Match an operator with the first saved one that is the same and has no successor."""
        for old in self._same[number]:
            if self.found[number] is None and old not in self._used:
                self.add(number, old)

    def add(self, number: int, old: int) -> None:
        """Match two operators, and all before them, if they are the same and not matched yet."""
        if (number, old) not in self._before:
            return
        pairs: dict[int, int] = {}
        seen = set[tuple[Ref, Ref]]()
        stack: list[tuple[Ref, Ref]] = [(number, old)]
        while stack:
            pair = stack.pop()
            new, each = pair
            if pair in seen or not isinstance(new, int) or not isinstance(each, int):
                continue
            seen.add(pair)
            known = pairs.get(new, self.found[new])
            is_free = known is None and each not in self._used and each not in pairs.values()
            # one that takes each row alone has no state, so any that is the same will do
            if known != each and not is_free and not self._now[new].passes:
                return
            pairs.setdefault(new, each)
            if known != each:
                stack += self._before[new, each]
        for new, each in pairs.items():
            if self.found[new] is None:
                self.found[new] = each
                self._used.add(each)


def _find_bases(records: Sequence[OperatorRecord], record: OperatorRecord) -> list[Ref]:
    """Return what gives an operator its rows, whatever takes each of them alone in between."""
    bases = []
    for each in record.inputs:
        while isinstance(each, int) and records[each].passes:
            (each,) = records[each].inputs
        bases.append(each)
    return bases
