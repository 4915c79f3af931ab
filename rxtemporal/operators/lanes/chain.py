"""Chains of lanes: where an operator holds its output CTI, the operators behind it have own lanes.

The output CTI of some operators waits for rows of a key: a session that is open, a reading that
waits for the next one. One such key would hold back the results of all other devices in its lane,
as far as these wait for that CTI. So a plan is cut behind such an operator. Each part runs in lanes
of its own, whose sources are the streams at which it was cut, and gets for each device the output
CTI that the operator would have for that device alone. So a device is split off only behind an
operator that it holds back, and what comes before stays in one lane.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, Int64s
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured, Saved, loads
from rxtemporal.engine.holdings import Hold
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.engine.state import make_version_error
from rxtemporal.operators.evolution import passes
from rxtemporal.operators.lanes.lane import DeviceLane, PlanCopy
from rxtemporal.operators.lanes.run import LaneRun, Receive
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition import TracedFields
from rxtemporal.operators.plan import Node, list_nodes

# a time that is below all
_UNKNOWN = MIN_TIME - 1


@dataclasses.dataclass(frozen=True, slots=True)
class PlanPart:
    """The operators of a plan up to a stream, from sources or from where the plan is cut."""

    output: Node
    given: tuple[Node, ...]

    @classmethod
    def find(cls, output: Node, cuts: set[Node]) -> PlanPart:
        """Return the part before a stream."""
        inner = list_nodes([output], cuts)
        others = cuts - {output}
        return cls(output, tuple(n for n in inner if n.source is not None or n in others))

    @property
    def operators(self) -> list[Node]:
        """The streams that it computes."""
        return [node for node in list_nodes([self.output], {*self.given}) if node not in self.given]


def cut_plan(output: Node) -> list[PlanPart]:
    """Return the parts of a plan, those that others read first; each operator is in one of them."""
    nodes = output.list_nodes()
    cuts = _find_holders(output, nodes)
    while True:
        parts = [PlanPart.find(node, cuts) for node in nodes if node in cuts or node is output]
        shared = _find_shared(parts)
        if not shared:
            return parts
        cuts |= shared


def _find_holders(output: Node, nodes: Sequence[Node]) -> set[Node]:
    """Return the streams whose CTI may be held, and behind which something waits for it."""
    waits: set[Node] = set()
    for node in reversed(nodes):
        if not passes(node) or node in waits:
            waits.update(node.inputs)
    return {
        node
        for node in nodes
        if node is not output and node.operator and node.operator.holds_time and node in waits
    }


def _find_shared(parts: Sequence[PlanPart]) -> set[Node]:
    """Return the streams that several parts would compute and whose readers differ in that."""
    places: dict[Node, set[Node]] = {}
    for part in parts:
        for node in part.operators:
            places.setdefault(node, set()).add(part.output)
    read_by_one = {
        given for node, each in places.items() if len(each) == 1 for given in node.inputs
    }
    several = {node for node, each in places.items() if len(each) > 1}
    return several & read_by_one or several


class FeedingLanes(LaneRun):
    """A run of lanes whose results others take, together with the output CTI of each device."""

    output: Node

    def __init__(
        self,
        output: Node,
        later: Sequence[LaneRun],
        make: Callable[[], PlanCopy],
        fields: Mapping[Node, Keys],
        names: TracedFields,
        coder: KeyCoder,
        **options: Any,
    ) -> None:
        self.output = self._stream = output
        self._later = later
        # the CTI that the others were told last, by device
        self._told = np.full(0, _UNKNOWN)
        self._results: list[EventBatch] = []
        # by lane: the coder of the keys that may hold it, its generation, and the devices by code
        self._of_keys: dict[int, tuple[Any, int, Any]] = {}
        # the numbers of the lanes that have taken something since then
        self._changed: set[int] = set()
        super().__init__(make, fields, names, coder, self._results.append, **options)
        # something may leave later lanes though nothing leaves these
        self._knows_due = False
        self._note_lanes()

    def take_results(self) -> EventBatch | None:
        """Return the results since the last call, with the CTIs of the devices that have advanced.

        None if there are none of both.
        """
        results, devices = [*self._results], self._list_advanced()
        self._results.clear()
        if not results and not len(devices):
            return None
        schema = self._stream.schema
        assert schema is not None
        none = EventBatch.empty(schema, MIN_TIME, self._stream.keys)
        coder = self.devices.coder
        ctis = np.maximum(self._told[devices], MIN_TIME)
        clocks = Clocks(partial(coder.decode, devices), ctis, devices, coder)
        return EventBatch.concat_rows([*results, none], MIN_TIME, clocks)

    def _list_advanced(self) -> Int64s:
        """Return the devices whose output CTI is higher than what was told, and note that."""
        found = [
            self._advance_told(self.lanes[number])
            for number in sorted(self._changed)
            if number in self.lanes
        ]
        self._changed.clear()
        return np.concatenate([np.zeros(0, np.int64), *found])

    def _advance_told(self, lane: DeviceLane) -> Int64s:
        """Note the output CTI of each device of a lane; return those that have advanced."""
        members = lane.members
        self._told = grow(self._told, len(self.devices.coder), _UNKNOWN)
        stage, operator = lane.wiring.stages[self._stream], self._stream.operator
        holds = operator is not None and operator.holds_time
        time = min(each.cti for each in stage.inputs) if holds else stage.cti
        reached = np.full(len(self._told), time)
        if holds and time < MAX_TIME:  # at the end of time nothing is open any more
            assert stage.step is not None
            for hold in stage.step.find_holds(time):
                np.minimum.at(reached, self._find_devices(lane, hold), hold.times)
        advanced = members[reached[members] > self._told[members]]
        self._told[advanced] = reached[advanced]
        return advanced

    def _find_devices(self, lane: DeviceLane, hold: Hold) -> Int64s:
        """Return the devices of the keys of a hold; those of numbered keys are found once."""
        (names, *_) = self._names.inputs[self._stream]
        keys: Any = hold.keys
        if hold.codes is None:
            return self.devices.encode_columns([keys[name] for name in names])
        coder, generation, known = self._of_keys.get(lane.number, (None, 0, None))
        if coder is not keys or generation != keys.generation:
            known = np.zeros(0, np.int64)
        if len(known) < len(keys):
            new = keys.decode(np.arange(len(known), len(keys)))
            known = np.append(known, self.devices.encode_columns([new[name] for name in names]))
            self._of_keys[lane.number] = keys, keys.generation, known
        found: Int64s = known[hold.codes]
        return found

    @property
    def floor(self) -> int:
        """The output CTI of a device that is not known yet."""
        reached = int(self.devices.floors.min())
        return reached if reached == MAX_TIME or not self._moves_time else MIN_TIME

    def has_due(self, time: int) -> bool:
        """Return True if something may leave by a time, here or later."""
        return super().has_due(time) or self._has_due_later(time)

    def _has_due_later(self, time: int) -> bool:
        """Return True if something may leave later lanes by a time, rows to come among it."""
        coming = any(each.lowest_start <= time for each in self._results)
        return coming or any(each.has_due(time) for each in self._later)

    def _holds_back(self, lane: DeviceLane, spread: int) -> bool:
        time = MAX_TIME if self._moves_time else max(lane.find_range()[1]) - spread
        return super()._holds_back(lane, spread) or self._has_due_later(time)

    def _give(self, lane: DeviceLane, batch: EventBatch) -> None:
        if len(batch):
            self._receive(batch)

    def _push(self, lane: DeviceLane, *args: Any) -> None:
        super()._push(lane, *args)
        self._changed.add(lane.number)

    def _merge(self, lane: DeviceLane, into: DeviceLane) -> list[int]:
        self._changed.add(into.number)
        self._of_keys.pop(lane.number, None)
        return super()._merge(lane, into)

    def load(self, state: Sequence[Any], *, is_copy: bool = False) -> None:
        """Continue from a state; the others are told all CTIs again, which changes nothing."""
        super().load(state, is_copy=is_copy)
        self._of_keys.clear()
        self._changed |= {*self.lanes}


class LaneChain:
    """Runs of lanes of which each takes the results of earlier ones; the last one gives results.

    It is used as one ``LaneRun``.
    """

    def __init__(self, runs: Sequence[LaneRun], sources: Sequence[Node]) -> None:
        self.runs = runs
        self.sources = [*sources]
        self._feeds = [each for each in runs if isinstance(each, FeedingLanes)]

    def push(self, source: Node, batch: EventBatch) -> None:
        """Take a batch of a source through all lanes."""
        self._pass_on({source: batch})

    def advance(self, source: Node, cti: int) -> None:
        """Advance all devices of a source to a time."""
        assert source.schema is not None
        self.push(source, EventBatch.empty(source.schema, cti))

    def finish(self) -> None:
        """Give out all that the devices' own times allow: nothing more will come."""
        self._pass_on({}, at_end=True)

    def _pass_on(self, given: dict[Node, EventBatch], *, at_end: bool = False) -> None:
        for run in self.runs:
            taken = [node for node in run.sources if node in given]
            for node in taken:
                run.push(node, given[node])
            if not taken and run.find_wait() == 0.0:
                run.push(node := run.sources[0], _make_none(node))
            # once the rows are in: before them, a CTI for devices that are not known passes them
            for each in self._feeds:
                if each.output in run.sources:
                    run.raise_floor(each.output, each.floor, each.devices.coder)
            if at_end:
                run.finish()
            if isinstance(run, FeedingLanes) and (results := run.take_results()) is not None:
                given[run.output] = results

    def find_run(self, node: Node) -> LaneRun:
        """Return the run of lanes in which an operator is."""
        return next(each for each in self.runs if node in each.list_lanes()[0].wiring.stages)

    def find_wait(self) -> float | None:
        """Return the seconds until an empty batch should come; None if nothing waits for one."""
        waits = [wait for each in self.runs if (wait := each.find_wait()) is not None]
        return min(waits, default=None)

    @property
    def rows_kept(self) -> int:
        """The number of rows that lanes have not taken yet."""
        return sum(each.rows_kept for each in self.runs)

    def list_lanes(self) -> list[DeviceLane]:
        """Return the lanes that give results."""
        return self.runs[-1].list_lanes()

    def release(self) -> None:
        """Drop all that the operators hold in any lane."""
        for run in self.runs:
            run.release()

    def capture(self) -> Captured:
        """Return the state of all lanes as it is now, to be encoded later."""
        return Captured("lanes", [each.capture() for each in self.runs])

    def load(self, state: Sequence[Any], *, is_copy: bool = False) -> None:
        """Continue from a state, before any batch."""
        if len(state) != len(self.runs) or not all(isinstance(each, Saved) for each in state):
            raise make_version_error("the state of the devices")
        for run, each in zip(self.runs, state, strict=True):
            run.load(loads("lanes", each), is_copy=is_copy)


def _make_none(node: Node) -> EventBatch:
    assert node.schema is not None
    return EventBatch.empty(node.schema, MIN_TIME, node.keys)


def make_lanes(
    output: Node,
    make: Callable[[Node, Sequence[Node]], PlanCopy],
    fields: Mapping[Node, Keys],
    names: TracedFields,
    devices: Mapping[str, pl.DataType],
    receive: Receive,
    **options: Any,
) -> LaneRun | LaneChain:
    """Return the lanes of a plan.

    ``make`` returns a new copy of the operators before a stream, over streams that are given, its
    steps made; of the last stream with the shape of the results. ``devices`` are the types of the
    fields that name a device. The other arguments are those of ``LaneRun``.
    """

    def make_options(part: PlanPart) -> dict[str, Any]:
        operators = [node.operator for node in part.operators if node.operator is not None]
        return {**options, "moves_time": any(each.moves_time for each in operators)}

    runs: list[LaneRun] = []
    for part in reversed(cut_plan(output)):
        given = {node: fields.get(node) or names.streams[node] for node in part.given}
        own = dataclasses.replace(names, output=names.streams[part.output])
        coder = KeyCoder(devices)
        common = partial(make, part.output, part.given), given, own, coder
        if part.output is output:
            runs.append(LaneRun(*common, receive, **make_options(part)))
        else:
            later = [each for each in runs if part.output in each.sources]
            runs.append(FeedingLanes(part.output, later, *common, **make_options(part)))
    runs.reverse()
    return LaneChain(runs, [*fields]) if len(runs) > 1 else runs[0]
