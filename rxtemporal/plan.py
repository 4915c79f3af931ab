"""Plans: which operator takes whose output, down to the sources."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import polars as pl
from reactivex import Observable
from reactivex.subject import Subject

from rxtemporal.batch import EventBatch
from rxtemporal.operators.operator import Keys, Operator, TwoInputs
from rxtemporal.pacing import Pace
from rxtemporal.recorded import RecordedSource
from rxtemporal.sources import EventSource, FrameSource, ObservableSource
from rxtemporal.steps.step import Held

__all__ = ["AnySource", "Node", "Wiring", "explained", "paced"]

AnySource = FrameSource | EventSource | ObservableSource | RecordedSource


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One operator of a plan and where its inputs come from; or a source, which has none.

    A node that is used twice is one stream, computed once.
    """

    schema: pl.Schema | None
    keys: Keys
    source: AnySource | None = None
    operator: Operator | TwoInputs | None = None
    inputs: tuple[Node, ...] = ()
    # of a source that is replayed at a speed
    pace: Pace | None = None

    def every(self) -> list[Node]:
        """Return the nodes that this one stands on and itself, each once, inputs first."""
        return _every((self,))


def _every(outputs: Sequence[Node]) -> list[Node]:
    found: dict[int, Node] = {}
    stack = [(output, False) for output in reversed(outputs)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            found.setdefault(id(node), node)
        elif id(node) not in found:
            stack.append((node, True))
            stack += [(each, False) for each in reversed(node.inputs)]
    return list(found.values())


def paced(output: Node, pace: Pace) -> Node:
    """Return the same plan over sources that are replayed at a pace."""
    made: dict[int, Node] = {}
    for node in output.every():
        inputs = tuple(made[id(each)] for each in node.inputs)
        changes = {"pace": pace} if node.source is not None else {"inputs": inputs}
        made[id(node)] = dataclasses.replace(node, **changes)
    return made[id(output)]


class Wiring:
    """A plan as observables: a subject for each source, and one for each stream used twice.

    A plan may have several outputs; what they have in common is computed once.
    """

    def __init__(self, *outputs: Node, others: Sequence[Node] = ()) -> None:
        # others are sources that nothing is computed from: their time alone counts
        nodes = _every((*outputs, *others))
        uses = Counter(id(each) for node in nodes for each in node.inputs)
        uses.update(map(id, outputs))
        self.entries: list[tuple[AnySource, Subject[EventBatch]]] = []
        self.paces = {node.pace for node in nodes if node.pace is not None}
        # the steps of this run, each made when its first batch comes
        self.steps: list[tuple[Operator | TwoInputs, Held]] = []
        self._shared: list[tuple[Observable[EventBatch], Subject[EventBatch]]] = []
        streams: dict[int, Observable[EventBatch]] = {}
        for node in nodes:
            if node.source is not None:
                entry: Subject[EventBatch] = Subject()
                self.entries.append((node.source, entry))
                streams[id(node)] = entry
                continue
            assert node.operator is not None
            operate: Any = node.operator  # of one input or of two
            inputs = (streams[id(each)] for each in node.inputs)
            stream = operate(*inputs, made=partial(self._made, node.operator))
            if uses[id(node)] > 1:
                twice: Subject[EventBatch] = Subject()
                self._shared.append((stream, twice))
                stream = twice
            streams[id(node)] = stream
        self.outputs = [streams[id(output)] for output in outputs]

    @property
    def output(self) -> Observable[EventBatch]:
        """The output of a plan that has one."""
        (output,) = self.outputs
        return output

    def _made(self, operator: Operator | TwoInputs, step: Held) -> None:
        self.steps.append((operator, step))

    def connect(self) -> list[object]:
        """Join the streams that are used twice to their inputs; return the subscriptions."""
        return [stream.subscribe(twice) for stream, twice in reversed(self._shared)]


def explained(output: Node) -> str:
    """Return the plan as text: each operator under what it feeds, its CTI rule and its state."""
    names: dict[int, str] = {}
    shared = {each for each, n in _uses(output).items() if n > 1}
    return "\n".join(_lines(output, 0, shared, names))


def _uses(output: Node) -> Counter[int]:
    return Counter(id(each) for node in output.every() for each in node.inputs)


def _lines(node: Node, depth: int, shared: set[int], names: dict[int, str]) -> Iterator[str]:
    indent = "  " * depth
    if id(node) in names:
        yield f"{indent}{names[id(node)]}, as above"
        return
    label = ""
    if id(node) in shared:
        names[id(node)] = f"stream {len(names) + 1}"
        label = f"{names[id(node)]}: "
    if node.operator is None:
        assert node.source is not None
        yield f"{indent}{label}source {node.source.name!r}: {_fields(node)}"
        return
    operator = node.operator
    grouped = f", by {', '.join(node.inputs[0].keys)}" if node.inputs[0].keys else ""
    yield f"{indent}{label}{operator.name}{grouped}: {_fields(node)}"
    yield f"{indent}  | CTI: {operator.cti_rule}; holds {operator.holds}"
    for each in node.inputs:
        yield from _lines(each, depth + 1, shared, names)


def _fields(node: Node) -> str:
    if node.schema is None:
        return "fields known from its first event"
    return ", ".join(f"{name} {dtype}" for name, dtype in node.schema.items()) or "no fields"
