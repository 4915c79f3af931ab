"""A lane: a copy of the stages of a plan, for devices that are abreast."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

from rxtemporal.core.batch import Int64s
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.door_rules import NEVER
from rxtemporal.engine.driver import Driver, Entry
from rxtemporal.engine.shape import PromptIntervalStep
from rxtemporal.engine.stage import Stage
from rxtemporal.engine.state import IdCounter
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.operators.lanes.devices import DeviceTimes
from rxtemporal.operators.plan import Node

# with more devices than these the lowest time of a lane is looked for when such a part of them has
# advanced, or the highest time by such a part of the spread
_FEW_DEVICES, _PARTS = 20_000, 8
# a time that is below all
_UNKNOWN = MIN_TIME - 1
# one for each source: numpy takes longer for so few
Times = list[int]


class PlanCopy(Protocol):
    """A copy of the stages of a plan with one output, for one lane."""

    driver: Driver
    sources: dict[Node, Entry]
    stages: dict[Node, Stage]
    leaves: list[tuple[Node, Stage]]


class DeviceLane:
    """A copy of the stages of a plan; ``ctis`` has the CTI of each source in it.

    ``low`` and ``high``: for each source the lowest and the highest CTI of its devices; None if
    they are to be looked for.
    """

    def __init__(
        self,
        number: int,
        wiring: PlanCopy,
        devices: DeviceTimes,
        ctis: Times,
        output: Node | None = None,
    ) -> None:
        self.number = number
        self._devices = devices
        # the stream of its results, if each device has an output CTI of its own there
        self._output = output
        self.wiring = wiring
        self.ctis = ctis
        self.low: Times | None = None
        self.high: Times | None = None
        # the highest CTI when the lowest one was last looked for; how often a device has advanced
        # since then, and True if the lowest one has
        self.looked_at = ctis
        self.moves, self.has_moved = 0, False
        # its devices; None if they are to be looked for
        self._members: Int64s | None = None
        # the lane that it waits for, to be merged with it
        self.awaited: DeviceLane | None = None
        # the lane whose CTIs limit those of its stages
        self._limiting: DeviceLane | None = None
        # True if devices have left it: results may leave that their rows have held back
        self.has_lost = False
        # nothing leaves it with a CTI below this time
        self.due = _UNKNOWN
        # the lowest start of its rows that are kept
        self.kept = MAX_TIME

    @cached_property
    def leaf(self) -> Stage:
        """The stage that gives results their shape."""
        return self.wiring.leaves[0][1]

    @cached_property
    def counters(self) -> list[IdCounter]:
        """The places of the next edge ids, which are different in all lanes."""
        return [counter for stage in self.stages for counter in stage.list_counters()]

    @cached_property
    def stages(self) -> list[Stage]:
        """The stages, those that shape results among them."""
        return [*self.wiring.stages.values(), *(leaf for _, leaf in self.wiring.leaves)]

    @cached_property
    def paced(self) -> list[Stage]:
        """The stages in which all devices have the CTI of the lane."""
        if self._output is None:
            return self.stages
        return [each for node, each in self.wiring.stages.items() if node is not self._output]

    @property
    def members(self) -> Int64s:
        """Its devices."""
        if self._members is None:
            self._members = self._devices.list_members(self.number)
        return self._members

    @property
    def has_devices(self) -> bool:
        """True if a device is in it."""
        devices = self._devices
        return devices.placed > 0 if devices.are_together else len(self.members) > 0

    def get_device_ctis(self) -> Int64s:
        """Return the CTIs of its devices, ``int64[sources, n]``."""
        devices = self._devices
        if devices.are_together and devices.are_placed:
            return devices.ctis[:, : devices.placed]
        return devices.ctis[:, self.members]

    def find_range(self) -> tuple[Times, Times]:
        """Return for each source the lowest and the highest CTI of its devices."""
        if self.low is None or self.high is None:
            ctis = self.get_device_ctis()
            self.low, self.high = ctis.min(axis=1).tolist(), ctis.max(axis=1).tolist()
            self.looked_at = self.high.copy()
            self.moves, self.has_moved = 0, False
        return self.low, self.high

    def has_laggards(self, spread: int) -> bool:
        """Return True if a device is behind the most advanced one by more than the spread."""
        return self.has_devices and are_apart(*self.find_range(), spread)

    def set_time(self, time: int) -> None:
        """Let the rows leave that are complete and start before a time."""
        step = self.leaf.step
        if isinstance(step, PromptIntervalStep):
            step.pass_time(time)

    @property
    def is_leaf_due(self) -> bool:
        """True if complete rows have not left that start before the time."""
        step = self.leaf.step
        if not isinstance(step, PromptIntervalStep):
            return False
        due = step.next_due
        return due is not None and due < step.time

    def find_due(self) -> int:
        """Return a time below which no CTI lets anything leave; one below all if it is unknown."""
        due = find_earliest_due(self.stages)
        return _UNKNOWN if due is None else due

    def look_for_due(self) -> int:
        """Look for the time below which nothing leaves it, rows that are kept among it."""
        self.due = min(self.find_due(), self.kept)
        return self.due

    def note_start(self, lowest: int) -> None:
        """Note the lowest start of rows that it takes: none leaves before the CTI reached that."""
        if lowest < self.due:
            self.due = lowest

    def forget_due(self) -> None:
        """Note that something may leave it at any time."""
        self.due = _UNKNOWN

    def keep_from(self, lowest: int) -> None:
        """Note the lowest start of rows that are kept for it."""
        if lowest < self.kept:
            self.kept = lowest

    def drop_kept(self) -> None:
        """Note that no rows are kept for it."""
        self.kept = MAX_TIME

    def forget_devices(self) -> None:
        """Look for its devices and their times again, since they have changed."""
        self.low = self.high = self._members = None

    def forget_times(self) -> None:
        """Look for the times of its devices again."""
        self.low = self.high = None

    def forget_lowest(self) -> None:
        """Look for the lowest times of its devices again."""
        self.low = None

    def lose_devices(self) -> None:
        """Note that devices have left it: results may leave that their rows have held back."""
        self.forget_devices()
        self.has_lost = True

    def reach(self, ctis: Times) -> None:
        """Note the CTIs of the sources that its stages have taken."""
        self.ctis, self.has_lost = [*ctis], False

    def wait_for(self, other: DeviceLane | None) -> None:
        """Wait for another lane, to be merged with it; None: for none."""
        self.awaited = other

    def note_advance(
        self,
        source: int,
        count: int,
        lowest: int,
        highest: int,
        least: int,
        spread: int,
        devices: int,
    ) -> None:
        """Note that ``count`` of the ``devices`` have advanced in a source.

        Before, ``lowest`` was the lowest time of one; now ``highest`` is the highest, and ``least``
        the lowest time of all, if that is known. Otherwise it is looked for again once it has
        moved; where there are many devices, only when many have moved or the highest time has
        advanced by a part of the spread. Until then the old one still holds.
        """
        if self.high is None:
            return
        high = self.high[source] = max(self.high[source], highest)
        if self.low is None:
            return
        if least != NEVER:
            self.low[source], self.looked_at = least, self.high.copy()
            self.moves, self.has_moved = 0, False
            return
        self.has_moved = self.has_moved or lowest <= self.low[source]
        self.moves += count
        if self.has_moved and (
            devices <= _FEW_DEVICES
            or self.moves >= devices // _PARTS
            or high >= self.looked_at[source] + spread // _PARTS
        ):
            self.forget_lowest()

    def release(self) -> None:
        """Drop the steps with all that they hold; the lane is not used any more."""
        self.counters.clear()  # of the steps
        for stage in self.stages:
            stage.release()

    def limit_stages(self) -> None:
        """Let no stage give out a higher CTI than that of the lane that is awaited."""
        if self._limiting is self.awaited:
            return
        self._limiting = self.awaited
        limits = [None] * len(self.paced) if self.awaited is None else self.awaited.paced
        for stage, limit in zip(self.paced, limits, strict=True):
            stage.limit_to(limit)

    def is_abreast(self, other: DeviceLane) -> bool:
        """Return True if all stages have the same CTI as those of another lane."""
        each = zip(self.paced, other.paced, strict=True)
        return self.ctis == other.ctis and all(mine.cti == its.cti for mine, its in each)


def are_apart(low: Iterable[int], high: Iterable[int], spread: int) -> bool:
    """Return True if a time is further behind another one of its source than the spread."""
    return any(lowest < highest - spread for lowest, highest in zip(low, high, strict=True))
