"""Runs in which each device has a time of its own, and is behind others by any lag."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import arrangements
import numpy as np
import oracle
import physical
import polars as pl
from buckets import split
from law_streams import Sides
from oracle import MAX_TIME, MIN_TIME, Row
from physical import SIDES
from split_runs import find_names

import rxtemporal as rxt
from rxtemporal import EventBatch
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns
from rxtemporal.engine.codec import loads
from rxtemporal.engine.keys import KeyCoder
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.operators.lanes.chain import LaneChain, make_lanes
from rxtemporal.operators.lanes.run import LaneRun
from rxtemporal.operators.plan import Node
from rxtemporal.operators.wiring import Wiring

# a batch of one device's rows in one source
Arrival = tuple[int, EventBatch, Columns]


class LaggedRun:
    """A run of a query whose devices are the values of a field.

    ``cut``: in lanes of their own behind operators that hold the CTI, as in every run.
    """

    def __init__(
        self,
        query: rxt.Streamable,
        spread: int,
        most: int,
        shape: rxt.EventShape | None = None,
        *,
        cut: bool = True,
    ) -> None:
        found = find_names(query)
        assert found is not None
        self.names, self.by = found
        _, self.sources = split(query)
        (dtype, *_) = [node.schema[self.by[name]] for name, node in self.sources.items()]
        self.spread = spread
        self.out: list[EventBatch] = []
        # the CTI that has been given for each device
        self.ctis: dict[Any, int] = {}
        make = None if shape is None else lambda _: make_shape_step(shape, by_device=True)
        fields = {node: (self.by[name],) for name, node in self.sources.items()}
        options = {"spread": spread, "most": most}
        self.run: LaneRun | LaneChain

        def begin(node: Node, given: Sequence[Node]) -> Wiring:
            shapes = [make if node is query._node else None]
            wiring = Wiring([node], shapes, in_lane=True, given=given)
            wiring.begin()
            return wiring

        self._make = partial(
            make_lanes, query._node, begin, fields, self.names, {"device": dtype}, self._receive,
            **options,
        )  # fmt: skip
        if cut:
            self.run = self._make()
        else:
            operators = [node.operator for node in query._node.list_nodes()]
            self.run = LaneRun(
                lambda: begin(query._node, ()), fields, self.names, KeyCoder({"device": dtype}),
                self._receive, moves_time=any(e.moves_time for e in operators if e), **options,
            )  # fmt: skip

    @property
    def runs(self) -> list[LaneRun]:
        """The runs of the parts of the plan."""
        return list(getattr(self.run, "runs", [self.run]))

    def restart(self) -> None:
        """Go on with new lanes from the state of these."""
        saved = self.run.capture().dumps()
        self.run = self._make()
        self.run.load(loads("lanes", saved))

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

    def describe(self) -> list[Any]:
        """Return the lanes, each with its devices, the CTIs of its sources and of its stages."""
        return [
            (each.number, run.devices.list_members(each.number).tolist(), each.ctis,
             [stage.cti for stage in each.stages])
            for run in self.runs
            for each in run.lanes.values()
        ]  # fmt: skip

    def _check_times(self) -> None:
        """Fail unless each lane is at the time of its last device, or waits for another one.

        A lane that nothing would leave then need not be told.
        """
        for run in self.runs:
            self._check_lanes(run)

    def _check_lanes(self, run: LaneRun) -> None:
        devices = run.devices
        for lane in run.lanes.values():
            members = devices.list_members(lane.number)
            if len(members) and lane.awaited is None:
                low = devices.ctis[:, members].min(axis=1)
                assert (lane.ctis <= low).all(), (lane.number, members, low, lane.low)
                # with a larger spread the lowest one is looked for now and then
                if self.spread < 8 and (len(low) > 1 or lane.find_due() <= low):
                    assert lane.ctis == low.tolist(), (lane.number, members, low)


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
    return run.out, {lane.number: lane.ctis for lane in run.run.list_lanes()}


def check_each_device(query: rxt.Streamable, sides: Sides, random: Random) -> None:
    """Fail unless results for a device leave when they do in a run over its rows alone.

    Whatever holds the other devices, and also over restarts from a saved state.
    """
    shape = rxt.EventShape.INTERVAL
    run = LaggedRun(query, 0, 64, shape)
    alone: dict[Any, LaggedRun] = {}
    arrivals = [
        # the end of time comes for all devices at once
        (side, batch if batch.cti < MAX_TIME else batch.replace(cti=MIN_TIME), device)
        for side, batch, device in list_arrivals(sides, run.by, random)
    ]
    while arrivals:
        side, *_ = arrivals[0]
        together = [arrivals.pop(0)[1:]]
        while arrivals and arrivals[0][0] == side and random.random() < 0.3:
            together.append(arrivals.pop(0)[1:])
        run.push(side, together)
        if random.random() < 0.1:
            run.restart()
        # rows that come at once come so to the device alone, too: edges of one batch meet there
        mine: dict[Any, list[tuple[EventBatch, Columns]]] = {}
        for batch, device in together:
            mine.setdefault(_name_devices(device.frame)[0], []).append((batch, device))
        for name, batches in mine.items():
            if name not in alone:
                alone[name] = LaggedRun(query, 0, 1, shape, cut=False)
            alone[name].push(side, batches)
        _compare(run, alone)
    for name in run.sources:
        last = max(item[1] for item in sides[SIDES.index(name)] if item[0] == "cti")
        for each in (run, *alone.values()):
            each.run.advance(each.sources[name], last)
    _compare(run, alone)


def _compare(run: LaggedRun, alone: dict[Any, LaggedRun]) -> None:
    """Fail unless each device has the results that it has alone."""
    (field,) = run.names.output
    found: dict[Any, list[Row]] = {}
    for row in physical.rows(run.out):
        (name,) = _name_devices(pl.DataFrame({"device": [row.payload[field]]}))
        found.setdefault(name, []).append(row)
    wanted = {name: physical.rows(each.out) for name, each in alone.items()}
    for name, rows in wanted.items():
        assert oracle.history(found.pop(name, [])) == oracle.history(rows), (name, run.describe())
    assert not found


def _name_devices(devices: pl.DataFrame) -> list[str]:
    """Return names that are equal for equal keys."""
    (values,) = (each.to_list() for each in devices.iter_columns())
    return ["nan" if v != v else repr(v + 0.0 if isinstance(v, float) else v) for v in values]
