"""Wiring of a plan into observables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from reactivex import Observable
from reactivex.subject import Subject

from rxtemporal.core.batch import EventBatch
from rxtemporal.operators.plan import AnySource, Node, list_nodes
from rxtemporal.reactive.lift import Entry
from rxtemporal.reactive.meters import Gauge, Meter


class Wiring:
    """A plan as observables: a subject for each source, and one for each stream used twice.

    A plan may have several outputs; shared steps are computed once.
    """

    def __init__(
        self, *outputs: Node, others: Sequence[Node] = (), clock: Callable[[], float] = float
    ) -> None:
        # others are sources that no operator reads: only their CTIs matter
        nodes = list_nodes((*outputs, *others))
        uses = Counter(id(each) for node in nodes for each in node.inputs)
        uses.update(map(id, outputs))
        self.entries: list[tuple[AnySource, Entry]] = []
        self.paces = {node.pace for node in nodes if node.pace is not None}
        # counts of what passes each operator, inputs first
        self.gauges: dict[Node, Gauge] = {}
        # entries of the sources, by their nodes
        self.sources: dict[Node, Entry] = {}
        self._shared: list[tuple[Observable[EventBatch], Subject[EventBatch]]] = []
        streams: dict[int, Observable[EventBatch]] = {}
        for node in nodes:
            if node.source is not None:
                entry = Entry(clock)
                self.entries.append((node.source, entry))
                self.sources[node] = entry
                streams[id(node)] = entry
                continue
            assert node.operator is not None
            operate: Any = node.operator  # of one input or of two
            inputs = (streams[id(each)] for each in node.inputs)
            self.gauges[node] = Gauge((self.get_meter(each) for each in node.inputs), clock)
            known = tuple(each.schema for each in node.inputs)
            more = {"schemas": known} if len(known) > 1 else {}
            stream = operate(*inputs, self.gauges[node], **more)
            if uses[id(node)] > 1:
                twice: Subject[EventBatch] = Subject()
                self._shared.append((stream, twice))
                stream = twice
            streams[id(node)] = stream
        self.outputs = [streams[id(output)] for output in outputs]

    def get_meter(self, node: Node) -> Meter:
        """Return the meter of the batches that leave an operator, or enter from a source."""
        if node in self.gauges:
            return self.gauges[node].output
        return self.sources[node]

    @property
    def output(self) -> Observable[EventBatch]:
        """The output of a plan with one output."""
        (output,) = self.outputs
        return output

    def connect(self) -> list[object]:
        """Connect the streams that are used twice to their inputs; return the subscriptions."""
        return [stream.subscribe(twice) for stream, twice in reversed(self._shared)]
