"""Plans: graphs of operators and their inputs, down to the sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from rxtemporal.operators.operator import Keys, Operator, TwoInputs

if TYPE_CHECKING:
    from reactivex.scheduler import VirtualTimeScheduler

    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource

AnySource: TypeAlias = "StreamSource | SideSource"

# the operators that leave lifetimes as they are
_SAME_LIFETIMES = {"where", "select", "with_columns", "drop", "group_by", "ungroup", "union"}


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """A speed: seconds of application time in one of the clock's; None is the wall clock.

    >>> Pace(60.0).speed
    60.0
    """

    speed: float
    clock: VirtualTimeScheduler | None = None


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Node:
    """An operator of a plan with its inputs, or a source.

    A node that is used twice is one stream and is computed once.
    """

    schema: pl.Schema | None
    keys: Keys
    source: AnySource | None = None
    operator: Operator | TwoInputs | None = None
    inputs: tuple[Node, ...] = ()
    # only for a source that is replayed at a speed
    pace: Pace | None = None

    @property
    def cti_delay(self) -> int | None:
        """The ticks by which a source makes its CTIs behind its events; None if it makes none.

        Late events as a stream have those of the stream that they were late for.
        """
        settings = getattr(self.source, "settings", None)
        generation = None if settings is None else settings.generation
        return None if generation is None else int(generation.delay_ticks)

    def list_nodes(self) -> list[Node]:
        """Return this node and all nodes below it, each once, inputs first."""
        return list_nodes((self,))


def list_nodes(outputs: Sequence[Node]) -> list[Node]:
    """Return these nodes and all nodes below them, each once, inputs first."""
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


def list_direct_sources(output: Node) -> list[AnySource]:
    """Return the sources whose rows reach a stream with their own lifetimes."""
    found: dict[int, AnySource] = {}
    seen, stack = set[int](), [output]
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.source is not None:
            found[id(node.source)] = node.source
        elif node.operator is not None and node.operator.name in _SAME_LIFETIMES:
            stack += node.inputs
    return list(found.values())


def set_pace(output: Node, pace: Pace) -> Node:
    """Return the same plan over sources that are replayed at a pace."""
    made: dict[int, Node] = {}
    for node in output.list_nodes():
        inputs = tuple(made[id(each)] for each in node.inputs)
        changes = {"pace": pace} if node.source is not None else {"inputs": inputs}
        made[id(node)] = dataclasses.replace(node, **changes)
    return made[id(output)]
