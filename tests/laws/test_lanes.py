"""Devices with times of their own: results are those of each device's rows alone."""

from __future__ import annotations

from functools import cache
from random import Random

import numpy as np
import oracle
import physical
import polars as pl
import pytest
from arrangements import finish
from compositions import STREAM, expected
from compositions import plan as composed
from hypothesis import given
from hypothesis import strategies as st
from lagged_runs import LaggedRun, check_each_device, run_lagged
from law_streams import CASES, Expected, Sides, arranged, final_cti, plan
from oracle import Event
from split_runs import each_split, examples, find_names, split_compositions

import rxtemporal as rxt
from rxtemporal import EventBatch, agg
from rxtemporal.core.clocks import Clocks
from rxtemporal.core.columns import Columns

MINUTE, HOUR = 60, 3600


@cache
def with_windows(name: str) -> rxt.Streamable:
    """Return the query of a case, with windows by device behind it."""
    found = find_names(plan(name))
    assert found is not None
    (device,) = found[0].output
    rows = plan(name).ungroup().group_by(device)
    return rows.snapshot_window().aggregate(of_window=agg.count())


@pytest.mark.parametrize("restarts", [False, True])
def test_a_device_does_not_wait_for_one_that_is_an_hour_behind(restarts: bool) -> None:
    """Two devices, a row a minute for three hours: each window leaves at its device's own time.

    A restart just before the other device comes shows nowhere.
    """
    readings = rxt.from_events([], schema={"k": str, "x": int, "y": float}, name="left")
    counts = readings.group_by("k").tumbling_window(10 * MINUTE).aggregate(n=agg.count())
    run = LaggedRun(counts, spread=0, most=16)
    source = run.sources["left"]
    known = {"ahead": 0, "behind": 0}
    for now in range(0, 3 * HOUR, MINUTE):
        if restarts and now == HOUR:
            run.restart()
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
        (run.run.devices.list_members(number).tolist(), lane.ctis)
        for number, lane in run.run.lanes.items()
    ]
    assert found == [([0], [9, 1]), ([1], [1, 9])]


@each_split
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


@each_split
@examples
@given(data=st.data())
def test_results_leave_when_they_do_for_the_device_alone(name: str, data: st.DataObject) -> None:
    """No result waits for another device, whatever that holds."""
    sides, number = data.draw(arranged(name))
    check_each_device(plan(name), sides, Random(number))


def test_both_edges_of_a_row_at_once_are_so_for_the_device_alone() -> None:
    """The result of a row whose end is known when it begins does not wait for the end."""
    row = {"k": None, "x": 1, "y": 1.0}
    items = [("start", 26, row), ("cti", 31), ("end", 26, 32, row), ("cti", rxt.MAX_TIME)]
    # the seed with which both edges come in one batch
    check_each_device(plan("previous, third, grouped"), (items,), Random(7))


def test_a_row_without_an_end_leaves_when_no_window_is_left_for_the_device_alone() -> None:
    """Where an operator moves the CTI to the end of time, it is not kept for another device."""
    last = rxt.MAX_TIME - 5
    rows = {key: {"k": key, "x": 1, "y": 1.0} for key in ("a", "b", "c", None)}
    items: list[Event] = [("point", 0, rows[key]) for key in ("a", None, "c")]
    items += [("cti", 1), *[("point", last, rows[None])] * 9, ("start", last, rows["b"])]
    items += [("point", last, rows[None]), ("start", last, rows[None]), ("cti", last + 3)]
    # the seed with which the device is in a lane with those that are behind
    check_each_device(plan("snap_to_window_intervals, tumbling"), (items,), Random(4))


def _find_sessions(stream: rxt.Streamable) -> rxt.Streamable:
    return stream.group_by("k").session_window(4).aggregate(n=agg.count())


def _count(stream: rxt.Streamable) -> rxt.Streamable:
    return stream.group_by("k").tumbling_window(5).aggregate(m=agg.count())


def _find_pairs(stream: rxt.Streamable) -> rxt.Streamable:
    found = stream.group_by("k").detect("A B", within=9, A=pl.col("n") > 1, B=pl.col("n") > 0)
    return found.ungroup()


# queries in which an operator waits for the output CTI of another one that holds it
STAGES = {
    "windows of sessions": lambda left, right: _count(_find_sessions(left)),
    "windows of sessions of sessions": lambda left, right: _count(
        _find_sessions(_find_sessions(left))
    ),
    "windows of a line": lambda left, right: _count(
        left.select("k", y=pl.col("y").fill_nan(0)).to_signal("k", linear=["y"], max_gap=9)
    ),
    "windows of matches in sessions": lambda left, right: _count(_find_pairs(_find_sessions(left))),
    "windows of an outer join of sessions": lambda left, right: _count(
        _find_sessions(left).left_outer_join(_find_sessions(right), on="k", suffix="_r")
    ),
    "sessions joined with windows of them, and with their rows": lambda left, right: _count(
        _find_sessions(left)
        .join(_count(_find_sessions(left)), on="k")
        .join(left.to_point_events(), on="k")
    ),
    "windows of moved sessions": lambda left, right: _count(
        _find_sessions(left).shift_event_time(7)
    ),
    "windows of count windows of what is shorter": lambda left, right: _count(
        left.extend_lifetime(-2)
        .group_by("k")
        .count_window(2, output=rxt.WindowOutput.WINDOW)
        .aggregate(n=agg.count())
    ),
}


@cache
def in_stages(name: str) -> rxt.Streamable:
    """Return the plan of one of these queries."""
    return physical.planned(STAGES[name], 2)


@pytest.mark.parametrize("name", STAGES)
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_results_behind_what_is_held_leave_when_they_do_alone(
    name: str, sides: Sides, number: int
) -> None:
    """The same where another operator holds the CTI of some devices."""
    check_each_device(in_stages(name), sides, Random(number))


@each_split
@examples
@given(data=st.data())
def test_windows_behind_an_operator_wait_for_no_device(name: str, data: st.DataObject) -> None:
    """The same for windows of the operator's results, which wait for its output CTI."""
    sides, number = data.draw(arranged(name))
    check_each_device(with_windows(name), sides, Random(number))


@split_compositions
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_results_of_compositions_leave_when_they_do_alone(
    name: str, sides: Sides, number: int
) -> None:
    """The same for queries of several operators."""
    check_each_device(composed(name), sides, Random(number))


def test_a_row_that_is_open_holds_its_device_after_a_restart() -> None:
    """A shortened row that has left as a start edge still moves its device's time to earlier."""
    points: list[oracle.Event] = [("point", 0, {"k": None, "x": 1, "y": None})] * 7
    opened: list[oracle.Event] = [("start", time, {"k": "a", "x": 1, "y": None}) for time in (0, 5)]
    rest: list[oracle.Event] = [("point", time, {"k": None, "x": 1, "y": None}) for time in (6, 8)]
    items = finish([*points, *opened, rest[0], ("cti", 8), rest[1]])
    check_each_device(
        in_stages("windows of count windows of what is shorter"), (items, finish([])), Random(0)
    )
