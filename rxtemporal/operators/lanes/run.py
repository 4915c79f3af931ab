"""Run of a plan in lanes: takes rows through them, splits off devices, and merges lanes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, pairwise
from typing import Any

import numpy as np

from rxtemporal.core.batch import Bools, EventBatch, Int64s
from rxtemporal.core.clocks import Clocks, RowClocks
from rxtemporal.core.columns import Coded, Column
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured
from rxtemporal.engine.door_rules import NEVER
from rxtemporal.engine.holdings import Moves, Selection
from rxtemporal.engine.kernels.door import (
    find_lowest_starts,
    group_by_lane,
    lower_times,
    raise_ctis,
    raise_ctis_in_order,
    raise_ctis_of_lanes,
)
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.shape import PromptIntervalStep
from rxtemporal.engine.step import find_earliest_due
from rxtemporal.operators.lanes.devices import DeviceTimes
from rxtemporal.operators.lanes.lane import DeviceLane, PlanCopy, Times, are_apart
from rxtemporal.operators.lanes.pace import LanePace
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.partition import TracedFields
from rxtemporal.operators.plan import Node

# so many batches advance their devices together, or more, until these are numbered; with larger
# ones this saves nothing
_BATCHES, _MOST_BATCHES, _LARGE = 256, 512, 4_096
# rows are kept until there are so many, and go through the plan as one batch
_ROWS = 16_384
# above all times
_NO_TIME = np.iinfo(np.int64).max
# takes a batch of results, with the devices of the lane that it comes from as its clocks
Receive = Callable[[EventBatch], object]


class LaneRun:
    """A run of a plan in which each device has its own time.

    ``fields`` are the names of the device's fields in the rows of each source, ``names`` those in
    all streams. ``make`` returns a new copy of the plan, its steps made. ``spread`` is how far the
    most advanced device of a lane may be ahead of the others, in ticks; ``most`` is the number of
    lanes from which on none is split, so that results come later. ``clock`` returns seconds; it
    says only how often lanes are split, and how soon what waits is taken and told. ``moves_time``:
    an operator may give out a CTI above that of its input. Not thread-safe: its owner serialises
    calls.
    """

    # the stream of the results, if others take them with an output CTI for each device
    output: Node | None = None

    def __init__(
        self,
        make: Callable[[], PlanCopy],
        fields: Mapping[Node, Keys],
        names: TracedFields,
        coder: KeyCoder,
        receive: Receive,
        *,
        spread: int,
        most: int = 16,
        clock: Callable[[], float] = float,
        moves_time: bool = False,
    ) -> None:
        self._make = make
        self._names = names
        self._fields = fields
        self._sources = {node: number for number, node in enumerate(fields)}
        self._receive = receive
        self._spread = spread
        self._most = most
        self._pace = LanePace(clock)
        self._moves_time = moves_time
        # True if what a lane holds tells when something leaves it: with one source, and if no
        # operator moves time
        self._knows_due = len(fields) == 1 and not moves_time
        self._numbers = count()
        self.devices = DeviceTimes(coder, len(fields))
        # by their numbers
        self.lanes: dict[int, DeviceLane] = {}
        # called with each lane that is made
        self.listeners: list[Callable[[DeviceLane], object]] = []
        # rows by the numbers of the lanes that have not taken them yet
        self._coming: dict[int, EventBatch] = {}
        # of rows of the only lane: the clocks that have not advanced their devices yet
        self._waiting: list[RowClocks] = []
        # batches of the only source that lanes have not taken yet, and the number of their rows
        self._kept: list[EventBatch] = []
        self.rows_kept = 0
        # the only lane, if what it holds tells when something leaves
        self._only: DeviceLane | None = None
        self._add_lane([MIN_TIME] * len(fields))
        # the lane that has given out the last edge ids
        self._last = self.lanes[0]
        # True if no result leaves before a CTI has passed its start; then rows may be kept
        self._waits_for_time = isinstance(self._last.leaf.step, PromptIntervalStep)

    def push(self, source: Node, batch: EventBatch) -> None:
        """Take rows of a source, and then the time of the devices that its clocks tell.

        These are all that have advanced, and all that are new. The CTI of the batch holds for all
        devices, also for those that have not come yet. As long as nothing would leave, lanes are
        not told how far their devices are, and small batches are taken together. A batch without
        rows and clocks gives out what has waited for long enough; see ``find_wait``.
        """
        clocks = batch.clocks
        if type(clocks) is RowClocks and self._may_wait(clocks, batch.cti):
            self._keep(batch)
            return
        self._settle()
        if clocks is not None or len(batch):
            self._push_rows(source, batch, clocks)
        elif self._have_waited(0):
            self._tell(source, batch)
        self.advance(source, batch.cti)

    def _keep(self, batch: EventBatch) -> None:
        """Keep a batch until there are many rows, or something may leave.

        Lanes take it at once if results do not wait for time.
        """
        self._kept.append(batch)
        self.rows_kept += len(batch.start)
        are_many = self.rows_kept >= _ROWS or len(self._kept) >= _BATCHES
        if are_many or not self._waits_for_time:
            self._take_kept()

    def _take_kept(self) -> None:
        """Have the lanes take the rows that have been kept, and nothing else."""
        if self._kept:
            (source,) = self._sources
            for number, rows in self._split_kept(source).items():
                lane = self.lanes[number]
                self._push(lane, source, lane.ctis, rows)

    def _split_kept(self, source: Node, *more: EventBatch) -> dict[int, EventBatch]:
        """Return the rows that have been kept, and more, by the numbers of their lanes."""
        kept = [*self._kept, *more]
        self._kept, self.rows_kept = [], 0
        for lane in self.lanes.values():
            lane.drop_kept()
        # the CTI and the clocks of a single batch stay with it, until it is pushed
        batch = kept[0] if len(kept) == 1 else EventBatch.concat_rows(kept, MIN_TIME)
        if not len(batch.start):
            return {}
        if len(self.lanes) == 1:
            return dict.fromkeys(self.lanes, batch)
        lanes = self.devices.lanes[self._encode_rows(source, batch)]
        rows, begins = group_by_lane(lanes, np.array([*self.lanes]))
        parts = {}
        for number, part in zip(self.lanes, np.split(rows, begins[1:-1]), strict=True):
            if len(part):
                parts[number] = batch.take(part).replace(in_order=batch.in_order)
        return parts

    def _bring_up(self) -> None:
        """Take the rows that have been kept, and advance their devices."""
        self._take_kept()
        self._settle()

    def find_wait(self) -> float | None:
        """Return the seconds until an empty batch should come; None if nothing waits for one.

        Lanes have not been told their times, or could not be split yet. Any thread may call it.
        """
        return self._pace.find_wait()

    def _may_wait(self, clocks: RowClocks, cti: int) -> bool:
        """Return True if rows may be kept, and advance their devices later.

        That is if nothing would leave yet, and all devices are in one lane.
        """
        lane, rows = self._only, len(clocks.start)
        if lane is None or cti > self.devices.floors[0] or rows > _LARGE or lane.has_lost:
            return False
        pace = self._pace
        if self._may_leave(lane, clocks.highest, clocks.lowest) or pace.count_rows(rows):
            return False
        lane.keep_from(clocks.lowest)
        pace.note_stale((lane.number,))
        self._waiting.append(clocks)
        if len(self._waiting) >= _BATCHES:
            self._settle(_MOST_BATCHES)
        return True

    def _may_leave(self, lane: DeviceLane, time: int, lowest: int) -> bool:
        """Return True if something may leave a lane at a time, after it has taken rows.

        ``lowest`` is the lowest start of the rows, which the lane notes. If those that are kept may
        be among what leaves, the lanes take them, to know.
        """
        if time >= lane.due:
            if time >= lane.kept:
                self._take_kept()
            if time >= lane.look_for_due():
                return True
        lane.note_start(lowest)
        return time >= lowest

    def _settle(self, most: int = 0) -> None:
        """Advance the devices of the rows that the only lane has taken.

        With ``most``, up to so many batches are left whose devices have not been numbered.
        """
        waiting = RowClocks.take_some(self._waiting, most)
        if not waiting:
            return
        devices = self.devices
        moved = devices.translate(*(each.coded for each in waiting))
        if not devices.are_placed and len(new := devices.find_new(moved)):
            (lane,) = self.lanes.values()
            devices.place(new, lane.number)
            lane.forget_devices()
        start, in_order = RowClocks.concat_starts(waiting), RowClocks.are_in_order(waiting)
        self._raise_ctis(0, moved, start, waiting[0].delay, in_order=in_order)

    def _push_rows(self, source: Node, batch: EventBatch, clocks: Clocks | None) -> None:
        """Take rows, then the CTIs of devices that the clocks tell."""
        devices, at, own = self.devices, self._sources[source], None
        delay, in_order = 0, False
        if type(clocks) is RowClocks:
            moved = own = devices.translate(clocks.coded)
            times, delay, in_order = clocks.start, clocks.delay, clocks.in_order
        elif clocks is not None:
            moved, times = devices.number(clocks), clocks.ctis
        else:
            moved = own = self._encode_rows(source, batch)
            times = np.full(len(batch), MIN_TIME)
        if not devices.are_placed:
            own = self._encode_rows(source, batch) if own is None else own
            self._place_new(at, own, batch.start, moved, np.maximum(times - delay, MIN_TIME))
        advanced = self._raise_ctis(at, moved, times, delay, in_order=in_order)
        self._pace.note_stale(advanced)
        if self._may_keep(source, batch, own, advanced):
            self._keep(batch)
        else:
            self._tell(source, batch)

    def _may_keep(
        self, source: Node, batch: EventBatch, own: Int64s | None, advanced: Iterable[int]
    ) -> bool:
        """Return True if nothing would leave now; note the starts of rows, which may be kept then.

        ``own`` are the devices of the rows, if they are known, and ``advanced`` the lanes of those
        that have advanced.
        """
        # an end edge may let something leave, or the last row that is held
        if self._have_waited(len(batch)) or batch.has_edges:
            return False
        lowest = self._find_lowest(source, batch, own)
        for number in {*advanced, *lowest}:
            if self._has_news(self.lanes[number], lowest.get(number, MAX_TIME)):
                return False
        for number, start in lowest.items():
            self.lanes[number].keep_from(start)
        return True

    def _find_lowest(self, source: Node, batch: EventBatch, own: Int64s | None) -> dict[int, int]:
        """Return the lowest start of rows, by the numbers of their lanes."""
        if not len(batch):
            return {}
        if len(self.lanes) == 1:
            return dict.fromkeys(self.lanes, batch.lowest_start)
        lanes = self.devices.lanes[self._encode_rows(source, batch) if own is None else own]
        starts = find_lowest_starts(lanes, batch.start, np.array([*self.lanes]))
        found = zip(self.lanes, starts.tolist(), strict=True)
        return {number: start for number, start in found if start < MAX_TIME}

    def _tell(self, source: Node, batch: EventBatch) -> None:
        """Have lanes take all rows and their times, and split off devices that are far behind."""
        # rows come with the next time of their lane, which may come with that of another
        self._coming = self._split_kept(source, batch)
        parts = self._tell_times()
        self._advance_all(source, sorted(parts))
        self._push_coming(source)
        self._advance_all(source, sorted(self._expel_all(parts)))
        self._push_coming(source)

    def _tell_times(self) -> set[int]:
        """Note that all lanes are told their times now; return those that had not been."""
        for lane in self.lanes.values():
            lane.forget_due()
        return self._pace.tell()

    def _push_coming(self, source: Node) -> None:
        """Have the lanes take the rows that are still to come."""
        for number in [*self._coming]:
            lane = self.lanes[number]
            self._push(lane, source, lane.ctis)

    def _have_waited(self, rows: int) -> bool:
        """Return True if lanes have to be told their times, though nothing may leave them."""
        pace = self._pace
        if not self._knows_due or (pace.postponed and pace.may_split()):
            return True
        return pace.count_rows(rows)

    def _has_news(self, lane: DeviceLane, lowest: int) -> bool:
        """Return True if something may leave a lane, now or once it has been split.

        ``lowest`` is the lowest start of rows that it takes before.
        """
        if lane.has_lost or lane.awaited is not None or not len(lane.members):
            return True
        low, high = lane.find_range()
        if self._may_leave(lane, low[0], lowest):
            return True
        time = high[0] - self._spread
        if time < lane.due or len(self.lanes) >= self._most:
            return False
        if self._pace.may_split():
            return self._may_leave(lane, time, lowest)
        self._pace.postpone(lane.number)
        return False

    def _raise_ctis(
        self, at: int, moved: Int64s, times: Int64s, delay: int = 0, *, in_order: bool = False
    ) -> list[int]:
        """Raise the CTIs of devices in a source to times less a delay.

        Returns the numbers of their lanes. ``in_order``: the times never fall.
        """
        if not len(moved):
            return []
        devices, ctis, least = self.devices, self.devices.ctis[at], NEVER
        known = len(devices.coder)
        if len(self.lanes) == 1:
            if in_order:
                low, high, least = raise_ctis_in_order(moved, times, delay, ctis[:known])
            else:
                low, high = raise_ctis(moved, times, delay, ctis)
            found = [(len(moved), low, high)]
        else:
            numbers = np.array([*self.lanes])
            each = raise_ctis_of_lanes(moved, times, delay, ctis, devices.lanes, numbers)
            found = [*zip(*(column.tolist() for column in each), strict=True)]
        advanced = []
        for lane, (times_of_it, low, high) in zip(self.lanes.values(), found, strict=True):
            if times_of_it:
                lane.note_advance(at, times_of_it, low, high, least, self._spread, known)
                advanced.append(lane.number)
        return advanced

    def _expel_all(self, numbers: set[int]) -> set[int]:
        """Split these lanes, and those that could not be split before.

        Returns the lanes that can go on now, none if none was split: of two that were one, each may
        go on to the time of its own last device.
        """
        lane, pace = self._only, self._pace
        if lane is not None and not pace.postponed and not lane.has_laggards(self._spread):
            return set()  # nearly always
        known, waiting = {*self.lanes}, numbers | pace.take_postponed()
        if len(known) >= self._most:
            return set()
        for number in sorted(waiting & known):
            self._expel_laggards(self.lanes[number])
        new = {*self.lanes} - known
        return waiting | new if new else set()

    def _encode_rows(self, source: Node, batch: EventBatch) -> Int64s:
        """Return the number of each row's device."""
        return self.devices.encode(batch.columns, self._fields[source])

    def advance(self, source: Node, cti: int) -> None:
        """Advance all devices of a source, also those that are not known yet, to a time."""
        devices, at = self.devices, self._sources[source]
        if cti <= devices.floors[at]:
            return
        self._bring_up()
        devices.floors[at] = cti
        np.maximum(devices.ctis[at], cti, out=devices.ctis[at])
        self._follow(source)

    def raise_floor(self, source: Node, cti: int, known: KeyCoder) -> None:
        """Advance all devices of a source that are not among the known ones, also those to come."""
        devices, at = self.devices, self._sources[source]
        if cti <= devices.floors[at]:
            return
        self._bring_up()
        devices.floors[at] = cti
        told = devices.translate(Coded((), known, np.arange(len(known))))
        is_unknown = np.ones(devices.ctis.shape[1], np.bool_)
        is_unknown[told] = False
        behind = np.flatnonzero(is_unknown & (devices.ctis[at] < cti))
        devices.ctis[at, behind] = cti
        self._follow(source)

    def _follow(self, source: Node) -> None:
        """Advance all lanes to the times of their devices, which have been raised together."""
        self._tell_times()
        for lane in self.lanes.values():
            lane.forget_times()
        self._advance_all(source, [*self.lanes])
        self._advance_empty(source)

    def has_due(self, time: int) -> bool:
        """Return True if something may leave by a time."""
        for lane in self.lanes.values():
            due = find_earliest_due(lane.stages)
            if lane.kept <= time or (due is not None and (self._moves_time or due <= time)):
                return True
        return False

    def finish(self) -> None:
        """Give out all that the devices' own times allow: nothing more will come.

        If a lane holds results back for those of other devices, it is split until it does not. A
        stream that ends at the end of time holds none back.
        """
        self._bring_up()
        queue = [*self.lanes.values()] if self.devices.placed else []
        while queue:
            lane = queue.pop()
            lane.forget_lowest()
            lane.wait_for(None)
            lane.forget_due()
            low, high = lane.find_range()
            if low != high and self._holds_back(lane, 0):
                ctis = self.devices.ctis[:, lane.members]
                most = ctis[:, ctis.sum(axis=0).argmax()]
                queue += [lane, self._split_off(lane, (ctis != most[:, np.newaxis]).any(axis=0))]
                continue
            self._push(lane, self.sources[0], [*map(max, low, lane.ctis)])

    def _advance_empty(self, source: Node) -> None:
        """Advance the only lane if there is no device yet: somebody may wait for the time."""
        if not self.devices.placed:
            (lane,) = self.lanes.values()
            self._push(lane, source, self.devices.floors.tolist())

    def _add_lane(self, ctis: Times) -> DeviceLane:
        number = next(self._numbers)
        wiring = self._make()
        lane = self.lanes[number] = DeviceLane(number, wiring, self.devices, ctis, self.output)
        ((_, leaf),) = wiring.leaves
        leaf.deliver_to(partial(self._give, lane))
        wiring.driver.report_to(_fail)
        for listener in self.listeners:
            listener(lane)
        self._note_lanes()
        return lane

    def _note_lanes(self) -> None:
        """Note whether there is only one lane."""
        (lane, *others) = self.lanes.values()
        self._only = lane if self._knows_due and not others else None
        self.devices.note_lanes(len(self.lanes))

    def _give(self, lane: DeviceLane, batch: EventBatch) -> None:
        """Give results of a lane out, with its devices."""
        decode = partial(self.devices.coder.decode, lane.members)
        self._receive(batch.replace(clocks=Clocks(decode, batch.cti)))

    def _place_new(self, at: int, own: Int64s, start: Int64s, moved: Int64s, ctis: Int64s) -> None:
        """Put devices that have no lane into one that none of their rows is behind.

        A device that has sent nothing to a source may begin there at any time.
        """
        devices = self.devices
        earliest = np.full(len(devices.lanes), _NO_TIME)
        for each, times in ((own, start), (moved, ctis)):
            lower_times(each, times, devices.lanes, earliest)
        new = np.flatnonzero(earliest < _NO_TIME)
        if not len(new):
            return
        floors = devices.ctis[:, new].copy()
        floors[at] = np.maximum(earliest[new], floors[at])
        for lane in sorted(self.lanes.values(), key=lambda lane: sum(lane.ctis), reverse=True):
            fits = (np.array(lane.ctis)[:, np.newaxis] <= floors).all(axis=0)
            devices.place(new[fits], lane.number)
            lane.forget_devices()
            new, floors = new[~fits], floors[:, ~fits]
        if len(new):
            lane = self._add_lane([MIN_TIME] * len(devices.ctis))
            devices.place(new, lane.number)

    def _expel_laggards(self, lane: DeviceLane) -> None:
        """Split off the devices that are further behind the most advanced one than they may be."""
        if len(self.lanes) >= self._most or not lane.has_laggards(self._spread):
            return
        if not self._pace.may_split():
            self._pace.postpone(lane.number)
            return
        with self._pace.split() as note_split:
            lane.forget_lowest()  # it may have been looked for some time ago
            other = None
            if lane.has_laggards(self._spread) and self._holds_back(lane, self._spread):
                other = self._split(lane)
                note_split()
        if other is not None:
            self._expel_laggards(other)

    def _holds_back(self, lane: DeviceLane, spread: int) -> bool:
        """Return True if something could leave a lane if it were not for those behind."""
        due = find_earliest_due(lane.stages)
        return due is not None and (self._moves_time or due <= max(lane.find_range()[1]) - spread)

    def _split(self, lane: DeviceLane) -> DeviceLane | None:
        """Split off the devices that are too far behind the most advanced one, if any are."""
        behind = self._find_laggards(self.devices.ctis[:, lane.members])
        return self._split_off(lane, behind) if behind.any() else None

    def _split_off(self, lane: DeviceLane, mask: Bools) -> DeviceLane:
        """Split off these of the devices of a lane, by their places in it; return their lane."""
        members = lane.members
        other = self._add_lane(lane.ctis)
        for mine, its in zip(lane.stages, other.stages, strict=True):
            its.copy_from(mine)
        for entry, its_entry in zip(
            lane.wiring.sources.values(), other.wiring.sources.values(), strict=True
        ):
            its_entry.resume(0, entry.cti)
        self.devices.lanes[members[mask]] = other.number
        for each in lane, other:
            each.lose_devices()
            self._keep_members(each)
        return other

    def _find_laggards(self, ctis: Int64s) -> Bools:
        """Return the mask of the devices that are too far behind the most advanced of them.

        That is one of them, also where each is ahead of the others in another source.
        """
        first = int(ctis.sum(axis=0).argmax())
        # no time is below the first one
        limit = np.maximum(ctis[:, first : first + 1], MIN_TIME + self._spread) - self._spread
        return np.asarray((ctis < limit).any(axis=0))

    def _keep_members(self, lane: DeviceLane) -> None:
        """Drop from the stages of a lane what belongs to the devices of others."""

        def contains(columns: Sequence[Column]) -> Bools:
            mask: Bools = self.devices.lanes[self.devices.encode_columns(columns)] == lane.number
            return mask

        for node, stage in lane.wiring.stages.items():
            stage.keep_selected(Selection(contains, self._names.inputs[node]))
        for _, leaf in lane.wiring.leaves:
            leaf.keep_selected(Selection(contains, [self._names.output]))

    def _advance_all(self, source: Node, numbers: Iterable[int]) -> None:
        """Advance lanes to the times of their last devices, and those that wait for them."""
        queue = deque(numbers)
        while queue:
            lane = self.lanes.get(queue.popleft())
            if lane is not None and lane.has_devices:
                queue.extend(self._advance(lane, source))

    def _advance(self, lane: DeviceLane, source: Node) -> list[int]:
        """Advance a lane to the time of its last device; return the lanes that can go on now.

        A lane that comes up to another stops there, and is merged with it if all of their stages
        have the same CTI; of some that depends on the rows. Otherwise the smaller of two waits for
        the larger, unless that is too far behind its devices.
        """
        before = lane.ctis
        low, _ = lane.find_range()
        if len(self.lanes) == 1:
            lane.wait_for(None)
            self._push(lane, source, [*map(max, low, before)])
            return []
        above = self._find_above(lane, low)
        lane.wait_for(above)
        if above is not None:
            self._push(lane, source, above.ctis)
            if lane.is_abreast(above):
                return [*self._merge(lane, above), above.number]
            if self._is_larger(lane, above) or are_apart(above.ctis, low, self._spread):
                above = None
                lane.wait_for(None)
        if above is None:
            self._push(lane, source, low)
        return [] if lane.ctis == before else self._list_waiting(lane)

    def _is_larger(self, lane: DeviceLane, other: DeviceLane) -> bool:
        """Return True if a lane has more devices than another one, or as many and is older."""
        sizes = [len(each.members) for each in (lane, other)]
        return sizes[0] > sizes[1] or (sizes[0] == sizes[1] and lane.number < other.number)

    def _list_waiting(self, lane: DeviceLane) -> list[int]:
        """Return the numbers of the lanes that wait for another one."""
        return [each.number for each in self.lanes.values() if each.awaited is lane]

    def _find_above(self, lane: DeviceLane, low: Times) -> DeviceLane | None:
        """Return the lowest lane above this one, but not above its devices.

        Lanes that would be split again, or have no devices, are passed.
        """
        found = [
            each
            for each in self.lanes.values()
            if each is not lane and _are_in_order(lane.ctis, each.ctis, low)
            if len(each.members) and not self._would_split(lane, each)
        ]
        return min(found, key=lambda each: sum(each.ctis), default=None)

    def _would_split(self, *lanes: DeviceLane) -> bool:
        """Return True if the devices of lanes are further from each other than the spread."""
        lows, highs = zip(*(lane.find_range() for lane in lanes), strict=True)
        lowest, highest = map(min, *lows), map(max, *highs)
        return are_apart(lowest, highest, self._spread)

    def _push(
        self, lane: DeviceLane, source: Node, ctis: Times, batch: EventBatch | None = None
    ) -> None:
        """Take rows of a source through the stages of a lane, and advance it to these CTIs.

        If rows of the lane are still to come, it takes those. If it waits for another lane, no
        stage gives out a CTI above that lane's, so that both can be merged.
        """
        batch = self._coming.pop(lane.number, batch)
        lane.limit_stages()
        if not self._moves_time:
            lane.set_time(min(ctis))
        if self._last is not lane:
            for mine, its in zip(lane.counters, self._last.counters, strict=True):
                mine.go_on(its)
            self._last = lane
        for node, entry in lane.wiring.sources.items():
            at = self._sources[node]
            assert node.schema is not None
            with_rows = batch is not None and node is source
            given = batch if with_rows else EventBatch.empty(node.schema, MIN_TIME, node.keys)
            if with_rows or ctis[at] > lane.ctis[at]:
                assert given is not None
                # of a lane the clocks say nothing
                entry.on_next(given.replace(cti=ctis[at], clocks=None))
        has_lost, leaf = lane.has_lost, lane.leaf
        for stage in lane.stages:
            anyway = has_lost or (stage is leaf and lane.is_leaf_due)
            if anyway or stage.is_limited or stage.pending:
                stage.retry_time(lane.wiring.driver, anyway=anyway)
        lane.reach(ctis)

    def _merge(self, lane: DeviceLane, into: DeviceLane) -> list[int]:
        """Merge a lane into another one; return the lanes that have waited for it."""
        # its steps may know the keys of other devices, by the numbers that they were given
        self._keep_members(lane)
        for mine, its in zip(into.stages, lane.stages, strict=True):
            mine.merge_from(its, Moves())
        if self._last is lane:
            self._last = into
        self.devices.lanes[self.devices.lanes == lane.number] = into.number
        into.forget_devices()
        del self.lanes[lane.number]
        lane.release()
        self._pace.forget(lane.number)
        self._note_lanes()
        waiting = self._list_waiting(lane)
        for number in waiting:
            self.lanes[number].wait_for(None)
        return waiting

    def find_run(self, node: Node) -> LaneRun:
        """Return the run of lanes that has an operator, here always this one."""
        return self

    @property
    def sources(self) -> list[Node]:
        """The sources, in the order in which the plan names them."""
        return [*self._sources]

    def list_lanes(self) -> list[DeviceLane]:
        """Return the lanes, for any thread."""
        return [*self.lanes.values()]

    def release(self) -> None:
        """Drop all that the operators hold in any lane."""
        for lane in self.list_lanes():
            lane.release()

    # State ----------------------------------------------------------------------------------------

    def capture(self) -> Captured:
        """Return the state of the devices and of all lanes as it is now, to be encoded later."""
        self._bring_up()
        devices, known = self.devices, len(self.devices.coder)
        lanes = [
            [
                lane.number, np.array(lane.ctis),
                [each.cti for each in lane.wiring.sources.values()],
                [[each.cti, each.rows_out, each.is_limited] for each in lane.stages],
                [each.capture() for each in lane.stages],
            ]
            for lane in self.lanes.values()
        ]  # fmt: skip
        times = devices.ctis[:, :known].copy(), devices.lanes[:known].copy()
        state = [devices.coder, *times, devices.floors.copy(), lanes, self._last.number]
        return Captured("lanes", state)

    def load(self, state: Sequence[Any], *, is_copy: bool = False) -> None:
        """Continue from a state, before any batch; ``state`` is what has been captured.

        ``is_copy`` is as for ``Stage.load``.
        """
        coder, ctis, lanes, floors, saved, last = state
        self.devices = DeviceTimes(coder, len(floors))
        self.devices.load(ctis, lanes, floors)
        self.lanes.clear()
        for number, reached, entries, meters, held in saved:
            self._numbers = count(number)
            lane = self._add_lane(reached.tolist())
            for entry, cti in zip(lane.wiring.sources.values(), entries, strict=True):
                entry.resume(0, cti)
            for stage, (cti, rows, limited), each in zip(lane.stages, meters, held, strict=True):
                stage.load(each, is_copy=is_copy)
                stage.resume(rows, cti)
                stage.resume_limit(is_limited=limited)
        self._numbers = count(1 + max(self.lanes))
        self._last = self.lanes[last]
        # they may have waited for their times, to be split, or for each other
        self._pace.begin_with(self.lanes)


def _are_in_order(*times: Times) -> bool:
    """Return True if no time is above that of the same source in the list behind it."""
    return all(mine <= its for pair in pairwise(times) for mine, its in zip(*pair, strict=True))


def _fail(error: Exception) -> None:
    """Raise an error of an operator to the producer."""
    raise error
