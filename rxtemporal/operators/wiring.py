"""Wiring of a plan: a driver with an entry for each source, and a stage for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.driver import Driver, Entry, Leaf
from rxtemporal.engine.stage import AnyStep, Stage
from rxtemporal.engine.step import Step
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.plan import AnySource, Node, list_nodes

# makes the step that gives results their shape, from the first batch of them
Shape = Callable[[EventBatch], Step]


class Wiring:
    """A plan ready to run. It may have several outputs; shared operators are computed once.

    ``shapes`` has the shape of each output, or None for results as they leave the plan. Others are
    sources that no operator reads: only their CTIs matter.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        shapes: Sequence[Shape | None] | None = None,
        others: Sequence[Node] = (),
        clock: Callable[[], float] = float,
    ) -> None:
        nodes = list_nodes((*outputs, *others))
        self.driver = Driver()
        self.paces = {node.pace for node in nodes if node.pace is not None}
        # by their nodes, inputs first
        self.sources: dict[Node, Entry] = {}
        self.stages: dict[Node, Stage] = {}
        # the stream of each output, and the stage that its results leave
        self.leaves: list[tuple[Node, Leaf]] = []
        shaped = list(zip(outputs, shapes or [None] * len(outputs), strict=True))
        for node in nodes:
            if node.source is not None:
                self.sources[node] = Entry(self.driver, clock)
            else:
                self._add_stage(node, clock)
        for node, shape in shaped:
            self._add_leaf(node, shape, clock)
        self.driver.connect([*self.sources.values()])

    def begin(self) -> list[AnyStep]:
        """Make all steps before any batch; return those of operators, in the order of the plan.

        The fields of all sources have to be known.
        """
        steps = [stage.begin(*map(_make_empty, node.inputs)) for node, stage in self.stages.items()]
        for node, leaf in self.leaves:
            leaf.begin(_make_empty(node))
        return steps

    def _add_stage(self, node: Node, clock: Callable[[], float]) -> None:
        assert node.operator is not None
        inputs = [self._find(each) for each in node.inputs]
        known = tuple(each.schema for each in node.inputs)
        stage = self.stages[node] = node.operator.make_stage(inputs, known, clock)
        self.driver.add(stage, *inputs)

    def _add_leaf(self, node: Node, shape: Shape | None, clock: Callable[[], float]) -> None:
        last = self._find(node)
        leaf = Leaf(last, shape, clock=clock)
        self.driver.add(leaf, last)
        self.leaves.append((node, leaf))

    def _find(self, node: Node) -> Entry | Stage:
        return self.sources[node] if node.source is not None else self.stages[node]

    @property
    def entries(self) -> list[tuple[AnySource, Entry]]:
        """The sources with their entries."""
        return [(node.source, entry) for node, entry in self.sources.items() if node.source]


def _make_empty(node: Node) -> EventBatch:
    """Return a batch of a stream without rows, before any time."""
    if node.schema is None:
        raise ArgumentError(
            "steps are made before the first event here, but the fields of a stream are not yet "
            "known. Hint: give schema= where the stream is made."
        )
    return EventBatch.empty(node.schema, MIN_TIME, node.keys)
