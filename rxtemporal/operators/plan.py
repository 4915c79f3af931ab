"""Plans: which operator takes whose output, down to the sources."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from reactivex import Observable
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

from rxtemporal.core.batch import EventBatch
from rxtemporal.ingress.late_source import LateSource
from rxtemporal.ingress.sources import EventSource, FrameSource, ObservableSource
from rxtemporal.operators.operator import Keys, Operator, TwoInputs
from rxtemporal.reactive.lift import Entry
from rxtemporal.reactive.meters import Gauge, Meter
from rxtemporal.storage.event_log.source import RecordedSource

AnySource = FrameSource | EventSource | ObservableSource | RecordedSource | LateSource


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """How many seconds of application time pass in one of the clock's; None: the clock on the wall.

    >>> Pace(60.0).speed
    60.0
    """

    speed: float
    clock: VirtualTimeScheduler | None = None


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

    def __init__(
        self, *outputs: Node, others: Sequence[Node] = (), clock: Callable[[], float] = float
    ) -> None:
        # others are sources that nothing is computed from: their time alone counts
        nodes = _every((*outputs, *others))
        uses = Counter(id(each) for node in nodes for each in node.inputs)
        uses.update(map(id, outputs))
        self.entries: list[tuple[AnySource, Entry]] = []
        self.paces = {node.pace for node in nodes if node.pace is not None}
        # what passes by each operator, inputs first
        self.gauges: dict[Node, Gauge] = {}
        self._shared: list[tuple[Observable[EventBatch], Subject[EventBatch]]] = []
        streams: dict[int, Observable[EventBatch]] = {}
        for node in nodes:
            if node.source is not None:
                entry = Entry(Meter(clock))
                self.entries.append((node.source, entry))
                streams[id(node)] = entry
                continue
            assert node.operator is not None
            operate: Any = node.operator  # of one input or of two
            inputs = (streams[id(each)] for each in node.inputs)
            self.gauges[node] = Gauge(len(node.inputs), clock)
            stream = operate(*inputs, self.gauges[node])
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

    def connect(self) -> list[object]:
        """Join the streams that are used twice to their inputs; return the subscriptions."""
        return [stream.subscribe(twice) for stream, twice in reversed(self._shared)]
