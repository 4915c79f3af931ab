"""Runs in which each device has a time of its own, and is behind others by any lag."""

from __future__ import annotations

from random import Random
from typing import Any

import arrangements
import numpy as np
import physical
from buckets import split
from law_streams import Sides
from physical import SIDES
from split_runs import find_names

import rxtemporal as rxt
from rxtemporal import EventBatch
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.operators.lanes import LaneRun
from rxtemporal.operators.wiring import Wiring

# a batch of one device's rows in one source
Arrival = tuple[int, EventBatch, Columns]


class LaggedRun:
    """A run of a query whose devices are the values of a field."""

    def __init__(self, query: rxt.Streamable, spread: int, most: int) -> None:
        found = find_names(query)
        assert found is not None
        self.names, self.by = found
        _, self.sources = split(query)
        (dtype, *_) = [node.schema[self.by[name]] for name, node in self.sources.items()]
        self.spread = spread
        self.out: list[EventBatch] = []
        # the CTI that has been given for each device
        self.ctis: dict[Any, int] = {}
        self.run = LaneRun(
            lambda: _begin(query),
            {node: (self.by[name],) for name, node in self.sources.items()},
            self.names,
            KeyCoder({"device": dtype}),
            self._receive,
            spread=spread,
            most=most,
        )

    def _receive(self, batch: EventBatch) -> None:
        devices = batch.devices
        assert devices is not None
        batch.check(min((self.ctis.get(each, rxt.MIN_TIME) for each in devices), default=0))
        for each in devices:
            self.ctis[each] = max(self.ctis.get(each, rxt.MIN_TIME), batch.cti)
        self.out.append(batch)

    def push(self, side: int, arrivals: list[tuple[EventBatch, Columns]]) -> None:
        """Take batches of several devices of one source at once."""
        batch = EventBatch.concat([each for each, _ in arrivals]).replace(cti=rxt.MIN_TIME)
        ctis = np.array([each.cti for each, _ in arrivals])
        batch.clocks = Clocks(Columns.concat([device for _, device in arrivals]), ctis)
        self.run.push(self.sources[SIDES[side]], batch)
        self._check_times()

    def _check_times(self) -> None:
        """Fail unless each lane is at the time of its last device, or waits for another one.

        A lane that nothing would leave then need not be told.
        """
        devices = self.run.devices
        for lane in self.run.lanes.values():
            members = devices.list_members(lane.number)
            if len(members) and lane.awaited is None:
                low = devices.ctis[:, members].min(axis=1)
                assert (lane.ctis <= low).all(), (lane.number, members, low, lane.low)
                # with a larger spread the lowest one is looked for now and then
                if self.spread < 8 and (len(low) > 1 or lane.find_due() <= low):
                    assert lane.ctis.tolist() == low.tolist(), (lane.number, members, low)


def _begin(query: rxt.Streamable) -> Wiring:
    wiring = Wiring([query._node], in_lane=True)
    wiring.begin()
    return wiring


def list_arrivals(sides: Sides, by: dict[str, str], random: Random) -> list[Arrival]:
    """Return the batches of each device, in its own order and with all CTIs, interleaved."""
    queues: list[list[Arrival]] = []
    for side, items in enumerate(sides):
        field = by.get(SIDES[side])
        if field is None:
            continue
        batches = physical.batches(items, arrangements.cut(items, random))
        every = EventBatch.concat(batches).columns.select({field: batches[0].schema[field]})
        coder = KeyCoder(every.schema)
        coder.encode(every)
        for code in range(len(coder)):
            device = coder.decode(np.array([code]))
            mine = [
                (side, each.take(coder.encode(each.columns) == code), device) for each in batches
            ]
            queues.append(mine)
    arrivals: list[Arrival] = []
    while queues:
        queue = random.choice(queues)
        for _ in range(min(len(queue), random.choice((1, 1, 2, 5)))):
            arrivals.append(queue.pop(0))
        queues = [each for each in queues if each]
    return arrivals


def run_lagged(
    query: rxt.Streamable, sides: Sides, random: Random
) -> tuple[list[EventBatch], dict[Any, int]]:
    """Return what comes out if devices come with any lags, and the CTIs of the lanes."""
    run = LaggedRun(query, random.choice((0, 3, 20, 10**18)), random.choice((1, 2, 4, 16)))
    arrivals = list_arrivals(sides, run.by, random)
    while arrivals:
        side, *_ = arrivals[0]
        together = [arrivals.pop(0)[1:]]
        while arrivals and arrivals[0][0] == side and random.random() < 0.5:
            together.append(arrivals.pop(0)[1:])
        run.push(side, together)
    # no device is left that has nothing to say
    for name, source in run.sources.items():
        last = max(item[1] for item in sides[SIDES.index(name)] if item[0] == "cti")
        run.run.advance(source, last)
    return run.out, {number: lane.ctis for number, lane in run.run.lanes.items()}
