"""States split by keys: two parts, and what they are merged into, continue as the whole would."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import oracle
import physical
import pytest
from compositions import STREAM, expected
from compositions import plan as composed
from hypothesis import given
from hypothesis import strategies as st
from law_streams import CASES, Expected, Sides, arranged, in_runs, plan
from split_runs import (
    SplitRun,
    examples,
    find_part,
    run_split,
    some_split,
    split_compositions,
)

import rxtemporal as rxt
from rxtemporal import agg


@some_split
@examples
@given(data=st.data())
def test_split_states_of_operators(name: str, data: st.DataObject) -> None:
    """Parts that have gone on at different paces give, merged again, what the model says."""
    sides, number = data.draw(arranged(name))
    random = Random(number)
    out, cti = run_split(plan(name), in_runs(sides, random), random)
    Expected(CASES[name], sides).check(out, cti)


@split_compositions
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_split_states_of_compositions(name: str, sides: Sides, number: int) -> None:
    """The same for queries of several operators."""
    random = Random(number)
    out, cti = run_split(composed(name), in_runs(sides, random), random)
    assert cti == oracle.MAX_TIME
    assert oracle.history(physical.rows(out)) == oracle.history(expected(name, sides))


def test_rings_of_sums_are_merged_in_step() -> None:
    """One part had no window for a while, so its ring of sums is turned less than the other's."""
    readings = rxt.from_events([], schema=physical.SCHEMA, name="left")
    windows = readings.group_by("k").hopping_window(6, 2)
    sums = windows.aggregate(n=agg.count(), x=agg.sum("x"), y=agg.sum("y"), m=agg.mean("y"))
    key = {find_part(each): each for each in "abcdef"}
    rows = [(t, key[0]) for t in range(40)] + [(t, key[1]) for t in (*range(3), *range(31, 40))]
    run, out = SplitRun(sums), []
    for t in range(42):
        mine = [{"start_time": s, "k": k, "x": s, "y": s + 0.1} for s, k in rows if s == t]
        batch = rxt.EventBatch.from_dicts(mine, schema=physical.SCHEMA, cti=t + 1)
        if t == 2:
            run.split()
        if t == 33:
            assert run.are_abreast
            run.merge()
        for part in (0, 1) if 2 <= t < 33 else (0,):
            out += run.push(0, batch, part)
    found = sorted(map(tuple, (row.values() for each in out for row in each.to_dicts())))
    wanted = []
    for begin in range(-4, 36, 2):
        for k in sorted({k for _, k in rows}):
            held = [s for s, its in rows if its == k and begin <= s < begin + 6]
            if held:
                total = math.fsum(s + 0.1 for s in held)
                wanted.append((begin, begin + 6, k, len(held), sum(held), total, total / len(held)))
    assert [row for row in found if row[1] <= 40] == sorted(wanted)


def test_exact_sums_are_merged_exactly() -> None:
    """Values of very different sizes leave no trace once they have ended."""
    readings = rxt.from_events([], schema=physical.SCHEMA, name="left")
    sums = readings.group_by("k").snapshot_window().aggregate(y=agg.sum("y"), v=agg.var("y"))
    key = {find_part(each): each for each in "abcdef"}
    lives = [(0, 9, 1e300), (0, 8, 1e-300), (0, 7, 1.0), (0, 20, 0.1), (0, 20, 0.2)]
    rows = [
        {"start_time": s, "end_time": e, "k": k, "x": 0, "y": y}
        for k in key.values() for s, e, y in lives
    ]  # fmt: skip
    run = SplitRun(sums)
    out = run.push(0, rxt.EventBatch.from_dicts(rows, schema=physical.SCHEMA, cti=2))
    run.split()
    nothing = rxt.EventBatch.empty(physical.SCHEMA, 3)
    out += run.push(0, nothing, 0) + run.push(0, nothing, 1)
    run.merge()
    out += run.push(0, rxt.EventBatch.empty(physical.SCHEMA, rxt.MAX_TIME))
    last = [row for each in out for row in each.to_dicts() if row["start_time"] == 9]
    assert {row["k"] for row in last} == {*key.values()}
    assert all(row["y"] == math.fsum((0.1, 0.2)) for row in last)
    assert all(row["v"] == pytest.approx(0.005, rel=1e-12) for row in last)


def test_sums_of_open_sessions_are_merged() -> None:
    """Sums with digits beyond their floats, extremes and counts; one part has ended sessions."""
    readings = rxt.from_events([], schema=physical.SCHEMA, name="left")
    # points, which do not hold back the CTI of one part
    sessions = readings.group_by("k").session_window(10, output=rxt.WindowOutput.POINT_AT_END)
    sums = sessions.aggregate(
        n=agg.count(), y=agg.sum("y"), v=agg.std("y"), lk=agg.min("k"), gy=agg.max("y")
    )  # fmt: skip
    part = {find_part(each): each for each in "abcdef"}
    values = [1e300, 1e-300, 1.0, -1e300, 0.1, 0.2]

    def make_batch(times: range, cti: int, only: int | None = None) -> rxt.EventBatch:
        rows = [
            {"start_time": t, "k": k, "x": t, "y": values[t % 6]}
            for t in times for number, k in part.items() if only in (None, number)
        ]  # fmt: skip
        return rxt.EventBatch.from_dicts(rows, schema=physical.SCHEMA, cti=cti)

    run, out = SplitRun(sums), []
    out += run.push(0, make_batch(range(3), 3))
    run.split()
    # one part falls silent, so its session ends and another one begins
    out += run.push(0, make_batch(range(3, 12), 14, 0), 0)
    out += run.push(0, make_batch(range(13, 14), 14, 1), 1)
    assert run.are_abreast
    run.merge()
    out += run.push(0, make_batch(range(14, 18), 18))
    out += run.push(0, rxt.EventBatch.empty(physical.SCHEMA, rxt.MAX_TIME))
    found = {(row["k"], row["start_time"]): row for each in out for row in each.to_dicts()}
    expected = {
        (part[0], 27): [*range(12), *range(14, 18)],
        (part[1], 12): [*range(3)],
        (part[1], 27): [*range(13, 18)],
    }
    assert found.keys() == expected.keys()
    for key, times in expected.items():
        held, row = [values[t % 6] for t in times], found[key]
        assert (row["n"], row["lk"], row["gy"]) == (len(held), key[0], max(held))
        assert row["y"] == float(sum(map(Fraction, held)))
        exact = list(map(Fraction, held))
        squares = sum((x - sum(exact) / len(exact)) ** 2 for x in exact) / (len(exact) - 1)
        assert row["v"] == pytest.approx(float(squares / 10**600) ** 0.5 * 1e300, rel=1e-9)
