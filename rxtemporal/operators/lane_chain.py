"""Chains of lanes: where an operator holds its output CTI, the operators behind it have own lanes.

The output CTI of some operators waits for rows of a key: a session that is open, a reading that
waits for the next one. One such key would hold back the results of all other devices in its lane,
as far as these wait for that CTI. So a plan is cut behind such an operator. Each part runs in lanes
of its own, whose sources are the streams at which it was cut, and gets for each device the output
CTI that the operator would have for that device alone. So a device is split off only behind an
operator that it holds back, and what comes before stays in one lane.

A run reads the results of its lanes by a ``LaneLeaf``, and counts the rows of an operator in all
lanes by a ``LanePart``.
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
from rxtemporal.engine.driver import Leaf
from rxtemporal.engine.holdings import Hold
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.rows import grow
from rxtemporal.engine.stage import Meter, Run, Stage, Tap
from rxtemporal.engine.state import make_version_error
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.errors import blame
from rxtemporal.operators.evolution import passes
from rxtemporal.operators.lanes import DeviceLane, LaneRun, PlanCopy, Receive
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition import TracedFields
from rxtemporal.operators.plan import Node, list_nodes


class LanePart(Stage):
    """The place of one operator in the lanes of a run: its counters over all lanes.

    Its state is that of the lanes, which the stage that reads their results saves.
    """

    __slots__ = ("_node", "_runs")

    def __init__(self, node: Node, inputs: Sequence[Meter]) -> None:
        self._node = node
        self._runs: list[LaneRun] = []
        assert node.operator is not None
        super().__init__(_make_nothing, node.operator.place, inputs)

    def add_run(self, run: LaneRun) -> None:
        """Count what a run of lanes does, in which the operator is."""
        self._runs.append(run)
        run.listeners.append(self._watch_lane)

    def watch(self, tap: Tap | None) -> None:
        """Call ``tap`` with each batch that leaves the operator, in any lane."""
        super().watch(tap)
        for each in self._list_stages():
            each.watch(tap)

    def _watch_lane(self, lane: DeviceLane) -> None:
        if self._tap is not None:
            lane.wiring.stages[self._node].watch(self._tap)

    def _list_stages(self) -> list[Stage]:
        # of several runs that compute the operator each for one output, the first one counts
        return [
            lane.wiring.stages[self._node] for run in self._runs[:1] for lane in run.list_lanes()
        ]

    @property
    def rows_out(self) -> int:
        """The number of rows that have left the operator, in all lanes."""
        return sum(each.rows_out for each in self._list_stages())

    @rows_out.setter
    def rows_out(self, rows: int) -> None:
        """Ignore the number: each lane has its own."""

    @property
    def cti(self) -> int:
        """The CTI of the lane that is furthest ahead."""
        return max((each.cti for each in self._list_stages()), default=MIN_TIME)

    @cti.setter
    def cti(self, cti: int) -> None:
        """Ignore the CTI: each lane has its own."""

    @property
    def rows(self) -> int:
        """The number of rows held, in all lanes."""
        return sum(each.rows for each in self._list_stages())

    @property
    def next_due(self) -> int | None:
        """The earliest time that a CTI has to pass for a row to leave; None for none."""
        return find_earliest_due(self._list_stages())

    @property
    def missing(self) -> int | None:
        """None: the fields of all inputs are known."""
        return None

    def capture(self) -> Captured:
        """Return nothing."""
        return Captured("operator", [])

    def load(self, data: Saved, *, is_copy: bool = False) -> None:
        """Do nothing."""


def _make_nothing(*first: EventBatch) -> Any:
    raise AssertionError("an operator in lanes has no step of its own")


class LaneLeaf(Leaf):
    """Output of a run whose devices each have their own time: it takes the results of lanes."""

    lanes: LaneRun | LaneChain
    _sources: Sequence[Node]
    _run: Run | None

    def feed(
        self, output: Meter, first: EventBatch, make: Callable[[Receive], LaneRun | LaneChain]
    ) -> None:
        """Make the lanes, whose results this stage takes: they have the fields of ``first``.

        ``output`` counts what leaves the last operator.
        """
        self.inputs = (output,)
        self._run = None
        self._seen = [None]
        self.begin(first)
        self.lanes = make(self._take_result)
        self._sources = self.lanes.sources
        self._open = set(range(len(self._sources)))

    def _take_result(self, batch: EventBatch) -> None:
        assert self._run is not None
        if not self._run.ended:
            super().take(0, batch, self._run)

    def take(self, side: int, batch: EventBatch | None, run: Run) -> None:
        """Take a batch of a source, or its end, through the lanes."""
        self._run = run
        try:
            if batch is not None:
                self.lanes.push(self._sources[side], batch)
                return
            self._open.discard(side)
            if not self._open:
                self.lanes.finish()
        except Exception as error:
            run.fail(blame(error, self.place))
        if not self._open:
            self._give(None, run)

    def release(self) -> None:
        """Drop the steps of all lanes with all that they hold, after the end of the run."""
        super().release()
        self.lanes.release()

    def find_wait(self) -> float | None:
        """Return the seconds until lanes should be given what waits; None if nothing does."""
        return self.lanes.find_wait()

    def capture(self) -> Captured:
        """Return the state of all lanes, and that of the stage itself."""
        return Captured("fed by lanes", [self.lanes.capture(), super().capture()])

    def load(self, data: Saved, *, is_copy: bool = False) -> None:
        """Resume from what ``capture`` of a stage of the same query returned, or its bytes."""
        lanes, own = loads("fed by lanes", data)
        self.lanes.load(loads("lanes", lanes), is_copy=is_copy)
        super().load(own, is_copy=is_copy)

    @property
    def floor(self) -> int:
        """The time below which all results have come, of the lane that is furthest behind."""
        return min(lane.leaf.floor for lane in self.lanes.list_lanes())

    def give_endless(self, run: Run) -> None:
        """Give the rows of all lanes of which no end is known; nothing more comes."""
        self._run = run
        for lane in self.lanes.list_lanes():
            lane.leaf.give_endless(lane.wiring.driver)

    @property
    def rows(self) -> int:
        """The number of rows that the shape of the results holds, in all lanes.

        And of those that the lanes have not taken yet.
        """
        held = sum(lane.leaf.rows for lane in self.lanes.list_lanes())
        return super().rows + self.lanes.rows_kept + held

    @property
    def next_due(self) -> int | None:
        """The earliest time that a CTI has to pass for one of these to leave; None for none."""
        return find_earliest_due([*(lane.leaf for lane in self.lanes.list_lanes())])


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
            if at_end:
                run.finish()
            if run.output is not None:
                self._feed(run, given)

    def _feed(self, run: Any, given: dict[Node, EventBatch]) -> None:
        """Note the results of lanes, for those that take them."""
        results = run.take_results()
        if results is not None:
            given[run.output] = results
        for each in self.runs:
            if run.output in each.sources:
                each.raise_floor(run.output, run.floor, run.devices.coder)

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
