"""Plans: graphs of operators and their inputs, down to the sources."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, TypeAlias

import polars as pl

from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.operator import Keys, Operator, TwoInputs

if TYPE_CHECKING:
    from reactivex.scheduler import VirtualTimeScheduler

    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource

AnySource: TypeAlias = "StreamSource | SideSource"


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
    # the form of its times, as far as the plan knows it
    time: TimeForm | None = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        """Find the form of the times; ``ArgumentError`` if streams of both forms meet here."""
        form, witness = self.own_time, self
        for each in self.inputs:
            if form is None:
                form, witness = each.time, each
            elif each.time not in (None, form):
                refuse_two_forms(witness, each)
        object.__setattr__(self, "time", form)

    @property
    def own_time(self) -> TimeForm | None:
        """The form that the source declares, or the spans of the operator have."""
        if self.source is not None:
            return self.source.declared_time
        return None if self.operator is None else self.operator.time

    def describe_own_time(self) -> str:
        """Return what says the form of the times, for a message."""
        if self.operator is not None:
            takes = "spans in ticks" if self.own_time == "ticks" else "spans with units"
            return f"{self.operator.name}, composed at {self.operator.line}, takes {takes}"
        assert self.source is not None
        return self.source.describe_time()

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


def refuse_two_forms(*nodes: Node) -> NoReturn:
    """Raise the error for streams or spans of both forms that meet."""
    said = {str(node.time or node.own_time): _find_witness(node) for node in nodes}
    raise ArgumentError(
        "streams in ticks and streams of datetimes do not meet: "
        f"{said['ticks'].describe_own_time()}, and {said['datetime'].describe_own_time()}. Hint: "
        "unit= where a stream is made says what its numbers count, for example unit='s', and a "
        "span over datetimes has a unit, as '5m' or a timedelta; over ticks it is a number."
    )


def _find_witness(node: Node) -> Node:
    """Return the last source or operator below a node that says the form of its times."""
    return next(each for each in reversed(list_nodes((node,))) if each.own_time is not None)


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
        elif node.operator is not None and node.operator.keeps_lifetimes:
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
