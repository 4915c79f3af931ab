"""Devices with times of their own: results are those of each device's rows alone."""

from __future__ import annotations

from random import Random

import numpy as np
import oracle
import physical
import polars as pl
from compositions import STREAM, expected
from compositions import plan as composed
from hypothesis import given
from hypothesis import strategies as st
from lagged_runs import LaggedRun, run_lagged
from law_streams import CASES, Expected, Sides, arranged, final_cti, plan
from split_runs import examples, some_split, split_compositions

import rxtemporal as rxt
from rxtemporal import EventBatch, agg
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns

MINUTE, HOUR = 60, 3600


def test_a_device_does_not_wait_for_one_that_is_an_hour_behind() -> None:
    """Two devices, a row a minute for three hours: each window leaves at its device's own time."""
    readings = rxt.from_events([], schema={"k": str, "x": int, "y": float}, name="left")
    counts = readings.group_by("k").tumbling_window(10 * MINUTE).aggregate(n=agg.count())
    run = LaggedRun(counts, spread=0, most=16)
    source = run.sources["left"]
    known = {"ahead": 0, "behind": 0}
    for now in range(0, 3 * HOUR, MINUTE):
        times = {"ahead": now} | ({"behind": now - HOUR} if now >= HOUR else {})
        payload = pl.DataFrame({"k": [*times], "x": 1, "y": 0.5}, schema=source.schema)
        start = np.array([*times.values()])
        batch = rxt.EventBatch.of_rows(start, start + 1, payload, rxt.MIN_TIME)
        batch.clocks = Clocks(batch.columns.select(pl.Schema({"k": pl.String})), start)
        run.run.push(source, batch)
        for device, time in times.items():
            rows = [row for each in run.out for row in each.to_dicts() if row["k"] == device]
            known[device] = len(rows)
            assert len(rows) == time // (10 * MINUTE)
            assert all(row["n"] == 10 for row in rows)
    run.run.advance(source, rxt.MAX_TIME)
    assert sum(map(len, run.out)) == 18 + 12
    assert known == {"ahead": 17, "behind": 11}
    assert [len(run.run.devices.list_members(number)) for number in run.run.lanes] == [2]


def test_devices_that_are_ahead_in_different_sources_are_parted() -> None:
    """No lane is left without devices: it would count as a lane, and never be merged."""
    schema = {"k": str, "x": int}
    left, right = (rxt.from_events([], schema=schema, name=name) for name in ("left", "right"))
    run = LaggedRun(left.left_outer_join(right, on="k", suffix="_r"), spread=0, most=16)
    devices = Columns.from_frame(pl.DataFrame({"k": ["a", "b"]}))
    waiting = pl.DataFrame({"k": ["a", "b"], "x": 0})
    for source, rows, ctis in (
        (0, waiting[:0], [1, 1]), (1, waiting[:0], [1, 1]), (0, waiting[:0], [9, 1]),
        (1, waiting[:0], [1, 9]), (0, waiting, [9, 1]),
    ):  # fmt: skip
        start = np.array([10, 3][: len(rows)], np.int64)
        batch = EventBatch.of_rows(start, None, rows, rxt.MIN_TIME)
        batch.clocks = Clocks(devices, np.array(ctis))
        run.run.push(run.run.sources[source], batch)
    found = [
        (run.run.devices.list_members(number).tolist(), lane.ctis.tolist())
        for number, lane in run.run.lanes.items()
    ]
    assert found == [([0], [9, 1]), ([1], [1, 9])]


@some_split
@examples
@given(data=st.data())
def test_operators_do_not_wait_for_devices_that_are_behind(name: str, data: st.DataObject) -> None:
    """Whatever the lags and however lanes are split and merged, the history is the model's."""
    sides, number = data.draw(arranged(name))
    out, lanes = run_lagged(plan(name), sides, Random(number))
    Expected(CASES[name], sides).check(out, final_cti(CASES[name], sides))
    assert len(lanes) <= 2  # that of devices at the end, and the first one if no device was in it


@split_compositions
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_compositions_do_not_wait_for_devices_that_are_behind(
    name: str, sides: Sides, number: int
) -> None:
    """The same for queries of several operators."""
    out, _ = run_lagged(composed(name), sides, Random(number))
    assert oracle.history(physical.rows(out)) == oracle.history(expected(name, sides))
