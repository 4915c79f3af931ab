"""Stepper of a plan without Rx: the caller pushes batches, and can save the state."""

from __future__ import annotations

from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.codec import Captured
from rxtemporal.engine.stage import AnyStep, Stage
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.operators.fingerprint import Fingerprints
from rxtemporal.operators.plan import Node
from rxtemporal.operators.wiring import Shape, Wiring


class Stepwise:
    """Steps of one plan; the fields of its sources have to be known.

    ``push`` returns the plan's results in their internal form, with edges and CTIs. ``save``
    returns the state of the steps; steps of the same plan that ``load`` it continue as these would
    have. Not thread-safe: its owner serialises calls.

    Where each device has its own time, all steps are in lanes, which are saved as one, and results
    of each lane have the ``shape``.
    """

    def __init__(self, output: Node, shape: Shape | None = None) -> None:
        self._nodes = output.list_nodes()
        self._wiring = Wiring([output], [None if output.clock is None else shape])
        steps = self._wiring.begin()
        ((_, leaf),) = self._wiring.leaves
        self._steps: list[AnyStep | Stage] = [leaf] if output.clock is not None else [*steps]
        self._results: list[EventBatch] = []
        self._errors: list[Exception] = []
        leaf.deliver_to(self._results.append)
        self._wiring.driver.report_to(self._errors.append)

    @property
    def sources(self) -> list[str]:
        """The names of the plan's sources, in its order."""
        return [node.source.name for node in self._nodes if node.source is not None]

    @property
    def rows(self) -> int:
        """The number of rows that all steps hold."""
        in_lanes = [stage for stage in self._wiring.stages.values() if stage.step is None]
        return sum(each.rows for each in [*self._steps, *in_lanes])

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """The fingerprints of the steps: only the state of equal ones can be loaded."""
        return tuple(Fingerprints(self._wiring.stages).lines)

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
        self._results.clear()
        self._wiring.sources[source].on_next(batch)
        if self._errors:
            raise self._errors[0] from self._errors[0].__cause__
        return self._results.copy()

    def complete(self) -> list[EventBatch]:
        """End all sources, and return the batches that result from it."""
        self._results.clear()
        for entry in self._wiring.sources.values():
            entry.on_completed()
        if self._errors:
            raise self._errors[0] from self._errors[0].__cause__
        return self._results.copy()

    def capture(self) -> list[Captured]:
        """Return the state of each step, in the order of the plan, to be encoded later."""
        return [step.capture() for step in self._steps]

    def save(self) -> list[bytes]:
        """Return the state of each step, in the order of the plan."""
        return [state.dumps() for state in self.capture()]

    def load(self, saved: list[bytes]) -> None:
        """Resume from the result of ``save`` of the steps of the same plan."""
        if len(saved) != len(self._steps):
            raise CheckpointError(
                f"the query has {len(self._steps)} steps, but {len(saved)} were saved"
            )
        for step, state in zip(self._steps, saved, strict=True):
            step.load(state)
