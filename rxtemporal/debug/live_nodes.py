"""Nodes of a running plan with their newest rows, for the live page."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import polars as pl

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.debug.live_rows import encode_rows
from rxtemporal.debug.newest import NewestRows
from rxtemporal.debug.nodes import (
    describe_fields,
    describe_plan,
    encode_ctis,
    encode_held,
    find_lane_fields,
)
from rxtemporal.engine.driver import Entry
from rxtemporal.engine.stage import Meter, Stage
from rxtemporal.operators.plan import Node
from rxtemporal.runtime.execution import Execution
from rxtemporal.runtime.reader import Reader
from rxtemporal.runtime.stalls import format_time

NO_CAUSES = (
    "the live page has no causes: record the run, and open the recording with rxtemporal debug"
)


@dataclasses.dataclass(frozen=True, slots=True)
class News:
    """News of a node: batches and CTIs, each with its step."""

    rows: Sequence[tuple[int, EventBatch]]
    ctis: Sequence[tuple[int, int]]


class LiveNode:
    """One node of a running plan, and its newest rows while somebody looks."""

    def __init__(self, number: int, node: Node, name: str, place: Entry | Stage) -> None:
        self.number, self.node, self.name = number, node, name
        self.newest = NewestRows()
        self._place = place
        # of a source that is read or that pushes, None for a stream of its late events
        self.reader: Reader | None = None
        # the nodes of the plan, among which are those that read this one
        self.plan: Sequence[Node] = ()

    @property
    def schema(self) -> pl.Schema | None:
        """The fields; None as long as they are not known."""
        return self.node.schema or self.newest.schema

    @property
    def lanes(self) -> tuple[str, ...]:
        """The fields that lay rows out in lanes."""
        return find_lane_fields(self.node, self.plan, self.schema or ())

    def begin(self) -> None:
        """Keep the CTI that the node has reached."""
        if self._output.cti > MIN_TIME:
            self.newest.reach(0, self._output.cti)

    def watch(self, tap: Any) -> None:
        """Call a function with each batch that leaves the node; None: with none any more."""
        self._output.watch(tap)

    def describe(self, inputs: Sequence[int]) -> dict[str, Any]:
        """Return what does not change while it runs."""
        plan = describe_plan(self.number, self.node, self.name, inputs)
        fields = describe_fields(self.schema or pl.Schema())
        return {**plan, "fields": fields, "window": None, "causes": None, "causesNote": NO_CAUSES}

    def read(self, news: News, step: int, time: TimeForm) -> dict[str, Any]:
        """Return the counters, and what is new."""
        schema = self.schema or pl.Schema()
        steps, ctis = [step for step, _ in news.ctis], [cti for _, cti in news.ctis]
        return {
            "id": self.number,
            "rowsIn": self._count_in(),
            "rowsOut": self._output.rows,
            "cti": format_time(self._output.cti, time),
            "held": self._held,
            "seconds": None,
            "rows": encode_rows(news.rows, schema, self.lanes),
            "ctis": encode_ctis(steps, ctis),
            "heldCurve": encode_held([max(step, 0)], [self._held]),
        }

    @property
    def _output(self) -> Meter:
        return self._place.output if isinstance(self._place, Stage) else self._place

    @property
    def _held(self) -> int:
        if isinstance(self._place, Stage):
            return self._place.rows
        return 0 if self.reader is None else self.reader.packer.rows

    def _count_in(self) -> int:
        if isinstance(self._place, Stage):
            return sum(each.rows for each in self._place.inputs)
        return self._place.rows if self.reader is None else self.reader.door.events


def list_nodes(execution: Execution) -> list[LiveNode]:
    """Return the nodes of a running plan, sources first."""
    wiring = execution.wiring
    readers = {id(each.source): each for each in execution.readers}
    made: list[LiveNode] = []
    plan: list[tuple[Node, Entry | Stage]] = [*wiring.sources.items(), *wiring.stages.items()]
    for node, place in plan:
        reader = readers.get(id(node.source))
        live = LiveNode(len(made), node, _name(node, reader), place)
        live.reader, live.plan = reader, [each for each, _ in plan]
        made.append(live)
    return made


def _name(node: Node, reader: Reader | None) -> str:
    if reader is not None:
        return reader.name
    if node.operator is not None:
        return node.operator.name
    return "" if node.source is None else node.source.name
