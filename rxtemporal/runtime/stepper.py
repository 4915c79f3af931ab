"""Stepper of a plan without Rx: the caller pushes batches, and can save the state."""

from __future__ import annotations

from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import Captured
from rxtemporal.errors import ArgumentError, CheckpointError, blame
from rxtemporal.operators.fingerprint import Fingerprints
from rxtemporal.operators.operator import TwoInputs
from rxtemporal.operators.plan import Node


class Stepwise:
    """Steps of one plan; the fields of its sources have to be known.

    ``push`` returns the plan's results in their internal form, with edges and CTIs. ``save``
    returns the state of the steps; steps of the same plan that ``load`` it continue as these would
    have. Not thread-safe: its owner serialises calls.
    """

    def __init__(self, output: Node) -> None:
        self._nodes = output.list_nodes()
        self._output = output
        self._steps = {id(n): _make_step(n) for n in self._nodes if n.operator is not None}
        self._ctis = dict.fromkeys((id(node) for node in self._nodes), MIN_TIME)

    @property
    def sources(self) -> list[str]:
        """The names of the plan's sources, in its order."""
        return [node.source.name for node in self._nodes if node.source is not None]

    @property
    def rows(self) -> int:
        """The number of rows that all steps hold."""
        return sum(step.rows for step in self._steps.values())

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprints of the steps: only the state of equal ones can be loaded."""
        return tuple(Fingerprints(n for n in self._nodes if n.operator is not None).lines)

    def push(self, source: str, batch: EventBatch) -> list[EventBatch]:
        """Take one batch of a source, and return the batches that result from it."""
        found = [n for n in self._nodes if n.source is not None and n.source.name == source]
        if len(found) != 1:
            raise ArgumentError(
                f"{len(found) or 'no'} sources of the query are called {source!r}; there are "
                f"{self.sources}. Hint: name= where a stream is made gives it its own name."
            )
        return self.through(found[0], batch)

    def through(self, source: Node, batch: EventBatch) -> list[EventBatch]:
        """Take one batch of a source's node, and return the batches that result from it."""
        # nodes are in order of their inputs, so all inputs of a step are ready before it runs
        made: dict[int, list[EventBatch]] = {id(source): [batch]}
        for node in self._nodes:
            if node.operator is None:
                continue
            results = [
                self._take(node, side, each)
                for side, given in enumerate(node.inputs)
                for each in made.get(id(given), ())
            ]
            made[id(node)] = [each for each in results if self._brings(node, each)]
        return made.get(id(self._output), [])

    def _take(self, node: Node, side: int, batch: EventBatch) -> EventBatch:
        step = self._steps[id(node)]
        assert node.operator is not None
        try:
            if len(node.inputs) == 1:
                return step.on_batch(batch)  # type: ignore[no-any-return]
            return step.on_right(batch) if side else step.on_left(batch)  # type: ignore[no-any-return]
        except Exception as error:
            blamed = blame(error, node.operator.place)
            raise blamed from blamed.__cause__

    def _brings(self, node: Node, batch: EventBatch) -> bool:
        """Return True if a batch brings rows or time; otherwise it is not passed on."""
        if not len(batch) and batch.cti <= self._ctis[id(node)]:
            return False
        self._ctis[id(node)] = batch.cti
        return True

    def capture(self) -> list[Captured]:
        """Return the state of each step, in the order of the plan, to be encoded later."""
        return [step.capture() for step in self._steps.values()]

    def save(self) -> list[bytes]:
        """Return the state of each step, in the order of the plan."""
        return [state.dumps() for state in self.capture()]

    def load(self, saved: list[bytes]) -> None:
        """Resume from the result of ``save`` of the steps of the same plan."""
        if len(saved) != len(self._steps):
            raise CheckpointError(
                f"the query has {len(self._steps)} steps, but {len(saved)} were saved"
            )
        for step, state in zip(self._steps.values(), saved, strict=True):
            step.load(state)


def _make_step(node: Node) -> Any:
    """Return a new step of a node's operator."""
    given = [each.schema for each in node.inputs]
    if any(schema is None for schema in given):
        raise ArgumentError(
            "steps are made before the first event here, but the fields of a stream are not yet "
            "known. Hint: give schema= where the stream is made."
        )
    keys = node.inputs[0].keys
    if isinstance(node.operator, TwoInputs):
        return node.operator.step(given[0], given[1], keys)  # type: ignore[arg-type]
    assert node.operator is not None
    return node.operator.step(given[0], keys)  # type: ignore[arg-type]
