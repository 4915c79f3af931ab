"""A query run by hand, step by step, so that it can be stopped, saved and gone on with."""

from __future__ import annotations

from typing import Any

from rxtemporal.batch import EventBatch
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.late import LateSource
from rxtemporal.operators.operator import TwoInputs
from rxtemporal.plan import Node
from rxtemporal.sources import ObservableSource
from rxtemporal.streamable import Streamable
from rxtemporal.ticks import MIN_TIME

__all__ = ["Stepper"]


class Stepper:
    """The steps of one query, with batches pushed through them by hand and without Rx.

    Its sources are named as the query's streams are (``name=`` where they were made), and their
    fields have to be known (``schema=``). What comes out is what the query gives in its own form:
    edges and CTIs included. ``save`` returns what the steps hold; the stepper of the same query
    that loads it goes on as this one would have.

    Not thread-safe: whoever drives it serialises.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> def occupied(visits):
    ...     return visits.snapshot_window().aggregate(n=agg.count())
    >>> visits = rxt.from_events([], schema={"room": str}, name="visits")
    >>> before = Stepper(occupied(visits))
    >>> _ = before.push("visits", rxt.EventBatch.from_dicts(
    ...     [{"start_time": 0, "end_time": 9, "room": "lab"}], cti=5))
    >>> after = Stepper(occupied(visits))
    >>> after.load(before.save())
    >>> [(out.end.tolist(), out.cti) for out in after.push("visits", rxt.EventBatch.empty(
    ...     {"room": str}, 10))]
    [([9], 10)]
    """

    def __init__(self, query: Streamable) -> None:
        if not isinstance(query, Streamable):
            raise ArgumentError(f"a Stepper takes a Streamable, got {query!r}")
        self._nodes = query._node.every()
        self._output = query._node
        self._steps = {id(n): _made(n) for n in self._nodes if n.operator is not None}
        self._ctis = dict.fromkeys((id(node) for node in self._nodes), MIN_TIME)

    @property
    def sources(self) -> list[str]:
        """The names of the query's sources, in the order of its plan."""
        return [node.source.name for node in self._nodes if node.source is not None]

    @property
    def rows(self) -> int:
        """How many rows all steps hold."""
        return sum(step.rows for step in self._steps.values())

    def push(self, source: str, batch: EventBatch) -> list[EventBatch]:
        """Take one batch of a source, and return the batches that come out for it."""
        found = [n for n in self._nodes if n.source is not None and n.source.name == source]
        if len(found) != 1:
            raise ArgumentError(
                f"{len(found) or 'no'} sources of the query are called {source!r}; there are "
                f"{self.sources}. Hint: name= where a stream is made gives it a name of its own."
            )
        return self._through(found[0], batch)

    def drain(self) -> list[EventBatch]:
        """Read the sources that have to be asked to their ends; return what comes out."""
        out = []
        for node in self._nodes:
            if isinstance(node.source, LateSource):
                raise ArgumentError(
                    f"nothing is late in a stepper, which has no doors: {node.source.name!r}. "
                    "Hint: run the query, or push batches of this source."
                )
            if node.source is not None and not isinstance(node.source, ObservableSource):
                for batch in node.source.open():
                    out += self._through(node, batch)
        return out

    def _through(self, source: Node, batch: EventBatch) -> list[EventBatch]:
        # inputs come before what they feed, so each step has all that comes when its turn comes
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
        if len(node.inputs) == 1:
            return step.on_batch(batch)  # type: ignore[no-any-return]
        return step.on_right(batch) if side else step.on_left(batch)  # type: ignore[no-any-return]

    def _brings(self, node: Node, batch: EventBatch) -> bool:
        """Whether a batch brings rows or time; one that brings neither is not passed on."""
        if not len(batch) and batch.cti <= self._ctis[id(node)]:
            return False
        self._ctis[id(node)] = batch.cti
        return True

    def save(self) -> list[bytes]:
        """Return what each step holds, in the order of the plan."""
        return [step.save() for step in self._steps.values()]

    def load(self, saved: list[bytes]) -> None:
        """Go on from what ``save`` of a stepper of the same query returned."""
        if len(saved) != len(self._steps):
            raise CheckpointError(
                f"the query has {len(self._steps)} steps, and {len(saved)} were saved"
            )
        for step, state in zip(self._steps.values(), saved, strict=True):
            step.load(state)


def _made(node: Node) -> Any:
    """Return a new step of a node's operator."""
    given = [each.schema for each in node.inputs]
    if any(schema is None for schema in given):
        raise ArgumentError(
            "a Stepper makes its steps before the first event, and the fields of a stream are not "
            "known by then. Hint: give schema= where the stream is made."
        )
    keys = node.inputs[0].keys
    if isinstance(node.operator, TwoInputs):
        return node.operator.step(given[0], given[1], keys)  # type: ignore[arg-type]
    assert node.operator is not None
    return node.operator.step(given[0], keys)  # type: ignore[arg-type]
