"""Stages of a run that stand for its lanes: one reads their results, one counts their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import Captured, Saved, loads
from rxtemporal.engine.stage import Meter, Run, Stage, Tap
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.errors import blame
from rxtemporal.operators.lanes.chain import LaneChain
from rxtemporal.operators.lanes.lane import DeviceLane
from rxtemporal.operators.lanes.run import LaneRun, Receive
from rxtemporal.operators.plan import Node


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
    def moved(self) -> float:
        """The moment at which the CTI of a lane last advanced, or a lane was made."""
        return max((each.moved for each in self._list_stages()), default=0.0)

    @moved.setter
    def moved(self, moved: float) -> None:
        """Ignore the moment: each lane has its own."""

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


class LaneLeaf(Stage):
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
            self.then(0, None, run)

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
