"""Wiring of a plan: a driver with an entry for each source, and a stage for each operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.driver import Driver, Entry
from rxtemporal.engine.stage import AnyStep, Meter, Stage
from rxtemporal.engine.step import Step
from rxtemporal.errors import ArgumentError
from rxtemporal.operators.partition import trace_fields
from rxtemporal.operators.plan import AnySource, Node, list_nodes

if TYPE_CHECKING:
    from rxtemporal.operators.lanes.stages import LaneLeaf

# makes the step that gives results their shape, from the first batch of them
Shape = Callable[[EventBatch], Step]


class Wiring:
    """A plan ready to run. It may have several outputs; shared operators are computed once.

    ``shapes`` has the shape of each output, or None for results as they leave the plan. Others are
    sources that no operator reads: only their CTIs matter. Operators in which each device has its
    own time run in lanes; with ``in_lane`` this is one of these. Streams that are ``given`` are
    sources, whatever they are made of.
    """

    def __init__(
        self,
        outputs: Sequence[Node],
        shapes: Sequence[Shape | None] | None = None,
        others: Sequence[Node] = (),
        clock: Callable[[], float] = float,
        *,
        in_lane: bool = False,
        given: Sequence[Node] = (),
    ) -> None:
        nodes = list_nodes((*outputs, *others), given)
        # the streams that are computed with one time for all rows
        self._of_one_time = set(nodes) if in_lane else _list_of_one_time((*outputs, *others))
        self.driver = Driver()
        self.paces = {node.pace for node in nodes if node.pace is not None}
        # by their nodes, inputs first
        self.sources: dict[Node, Entry] = {}
        self.stages: dict[Node, Stage] = {}
        # the stream of each output, and the stage that its results leave
        self.leaves: list[tuple[Node, Stage]] = []
        shaped = list(zip(outputs, shapes or [None] * len(outputs), strict=True))
        for node in nodes:
            if node.source is not None or node in given:
                self.sources[node] = Entry(self.driver, clock)
            elif node not in self._of_one_time:
                # imported here and below: only such a query loads lanes, and compiled code
                from rxtemporal.operators.lanes.stages import LanePart

                self.stages[node] = LanePart(node, [self._find(each) for each in node.inputs])
            else:
                self._add_stage(node, clock)
        for node, shape in shaped:
            self._add_leaf(node, shape, clock)
        self.driver.connect([*self.sources.values()])

    def begin(self) -> list[AnyStep]:
        """Make all steps before any batch; return those of operators, in the order of the plan.

        The fields of all sources have to be known.
        """
        steps = [
            stage.begin(*map(_make_empty, node.inputs))
            for node, stage in self.stages.items()
            if node in self._of_one_time
        ]
        for node, leaf in self.leaves:
            if node in self._of_one_time:
                leaf.begin(_make_empty(node))
        return steps

    def release(self) -> None:
        """Drop all that the operators hold, after the end of the run.

        The parts of a run know each other. Without this, their arrays would wait until Python's
        collector finds the circle.
        """
        for stage in (*self.stages.values(), *(leaf for _, leaf in self.leaves)):
            stage.release()

    def _add_stage(self, node: Node, clock: Callable[[], float]) -> None:
        operator = node.operator
        assert operator is not None
        inputs = [self._find(each) for each in node.inputs]
        known = tuple(each.schema for each in node.inputs)
        stage = self.stages[node] = operator.make_stage(inputs, known, clock)
        self.driver.add(stage, *inputs)

    def _add_leaf(self, node: Node, shape: Shape | None, clock: Callable[[], float]) -> None:
        if node not in self._of_one_time:
            from rxtemporal.operators.lanes.stages import LaneLeaf

            fed = LaneLeaf.of_output(Meter(clock), clock=clock)
            self._feed(fed, node, shape, clock)
            self.leaves.append((node, fed))
            return
        last = self._find(node)
        leaf = Stage.of_output(last, shape, clock)
        self.driver.add(leaf, last)
        self.leaves.append((node, leaf))

    def _feed(
        self,
        stage: LaneLeaf,
        output: Node,
        shape: Shape | None,
        clock: Callable[[], float],
    ) -> None:
        """Feed a stage with the results of lanes for a stream."""
        from rxtemporal.operators.lanes.chain import make_lanes
        from rxtemporal.operators.lanes.stages import LanePart

        inner = output.list_nodes()
        given = [node for node in inner if node.source is not None]
        fields = {node: output.device_sources[node] for node in given}
        names = trace_fields(output, fields)
        if isinstance(names, str):
            known = " and ".join(dict.fromkeys(each for of in fields.values() for each in of))
            raise ArgumentError(
                f"each device has its own time in this stream, and {names} {known}. Hint: keep it "
                "in select(), or .synchronize('1h') before makes one time of those of the devices."
            )
        schema = given[0].schema
        assert schema is not None
        devices = {name: schema[name] for name in fields[given[0]]}

        def make(node: Node, given: Sequence[Node]) -> Wiring:
            shapes = [shape if node is output else None]
            wiring = Wiring([node], shapes, clock=clock, in_lane=True, given=given)
            wiring.begin()
            return wiring

        sources = [node.source for node in given]
        spread = max(each.clock.spread for each in sources if each and each.clock)
        stage.feed(
            self._find(output),
            _make_empty(output),
            lambda receive: make_lanes(
                output, make, fields, names, devices, receive, spread=spread, clock=clock
            ),
        )
        for node in inner:
            if node.operator is not None:
                part = self.stages[node]
                if isinstance(part, LanePart):
                    part.add_run(stage.lanes.find_run(node))
        entries = [self.sources[node] for node in given]
        self.driver.add(stage, *entries)

    def _find(self, node: Node) -> Entry | Stage:
        return self.stages[node] if node in self.stages else self.sources[node]

    @property
    def entries(self) -> list[tuple[AnySource, Entry]]:
        """The sources with their entries."""
        return [(node.source, entry) for node, entry in self.sources.items() if node.source]


def _list_of_one_time(outputs: Sequence[Node]) -> set[Node]:
    """Return the streams of a plan that are computed with one time for all their rows."""
    found: set[Node] = set()
    stack = [*outputs]
    while stack:
        node = stack.pop()
        if node in found or node.clock is not None:
            continue
        found.add(node)
        stack += node.inputs
    return found


def _make_empty(node: Node) -> EventBatch:
    """Return a batch of a stream without rows, before any time."""
    if node.schema is None:
        raise ArgumentError(
            "steps are made before the first event here, but the fields of a stream are not yet "
            "known. Hint: give schema= where the stream is made."
        )
    return EventBatch.empty(node.schema, MIN_TIME, node.keys)
