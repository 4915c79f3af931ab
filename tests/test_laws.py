"""What holds of every operator, as properties over one table of operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import oracle
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, Row

from rxtemporal import agg
from rxtemporal import operators as ops

Tolerance = Callable[[list[Row]], Callable[[Row], float]]


def exactly(rows: list[Row]) -> Callable[[Row], float]:
    """No float comes from arithmetic."""
    return lambda row: 0.0


@dataclasses.dataclass(frozen=True)
class Case:
    """One operator: how the engine has it, what the oracle says, and the CTI rule."""

    engine: Callable[[], list[Any]]
    model: Callable[[list[Row]], list[Row]]
    cti: Callable[[int], int] = lambda t: t
    tolerance: Tolerance = exactly


AGGREGATES = {
    "n": (agg.count(), oracle.count()),
    "nx": (agg.count("x"), oracle.count("x")),
    "sx": (agg.sum("x"), oracle.sum_("x")),
    "sy": (agg.sum("y"), oracle.sum_("y")),
    "ay": (agg.avg("y"), oracle.avg("y")),
    "ax": (agg.avg("x"), oracle.avg("x")),
    "lx": (agg.min("x"), oracle.min_("x")),
    "ly": (agg.min("y"), oracle.min_("y")),
    "gx": (agg.max("x"), oracle.max_("x")),
    "gy": (agg.max("y"), oracle.max_("y")),
    "lk": (agg.min("k"), oracle.min_("k")),
}
OURS = {name: pair[0] for name, pair in AGGREGATES.items()}
MODEL = {name: pair[1] for name, pair in AGGREGATES.items()}


def sums(*key: str, snap: tuple[int, int, int] | None = None) -> Tolerance:
    """The bound that sums of x and y keep: x is as large as 1e9, y as 1e16."""

    def tolerance(rows: list[Row]) -> Callable[[Row], float]:
        rows = oracle.snap_to_window_intervals(rows, *snap) if snap else rows
        x, y = (oracle.sum_tolerance(rows, field, key) for field in "xy")
        return lambda row: max(x(row), y(row))

    return tolerance


def snapping(d: int, p: int, a: int) -> Case:
    """The lifetime half of a hopping window."""
    return Case(
        lambda: [ops.snap_to_window_intervals(d, p, a)],
        lambda rows: oracle.snap_to_window_intervals(rows, d, p, a),
        lambda t: oracle.snap_time(t, d, p, a),
    )


OPERATORS: dict[str, Case] = {
    "where": Case(
        lambda: [ops.where(pl.col("x") > 1)],
        lambda rows: oracle.where(rows, lambda p: p["x"] is not None and p["x"] > 1),
    ),
    "where, by function": Case(
        lambda: [ops.where(lambda row: row["k"] == "a")],
        lambda rows: oracle.where(rows, lambda p: p["k"] == "a"),
    ),
    "select": Case(
        lambda: [ops.select("k", twice=pl.col("x") * 2, one=1)],
        lambda rows: oracle.select(
            rows,
            lambda p: {"k": p["k"], "twice": None if p["x"] is None else p["x"] * 2, "one": 1},
        ),
    ),
    "with_columns": Case(
        lambda: [ops.with_columns(x=pl.col("x").is_null())],
        lambda rows: oracle.select(rows, lambda p: {**p, "x": p["x"] is None}),
    ),
    "drop": Case(
        lambda: [ops.drop("x", "y")],
        lambda rows: oracle.select(rows, lambda p: {"k": p["k"]}),
    ),
    "group_by": Case(lambda: [ops.group_by("k")], lambda rows: rows),
    "snap_to_window_intervals": snapping(5, 2, 0),
    "snap_to_window_intervals, tumbling": snapping(4, 4, 1),
    "snap_to_window_intervals, gaps": snapping(2, 5, 3),
    "snapshot_window": Case(
        lambda: [ops.snapshot_window().aggregate(**OURS)],
        lambda rows: oracle.snapshot_aggregate(rows, MODEL),
        tolerance=sums(),
    ),
    "snapshot_window, grouped": Case(
        lambda: [ops.group_by("k"), ops.snapshot_window().aggregate(**OURS)],
        lambda rows: oracle.snapshot_aggregate(rows, MODEL, ["k"]),
        tolerance=sums("k"),
    ),
    "snapshot_window, grouped by a float": Case(
        lambda: [ops.group_by("y"), ops.snapshot_window().aggregate(n=agg.count())],
        lambda rows: oracle.snapshot_aggregate(rows, {"n": oracle.count()}, ["y"]),
    ),
    "hopping_window2": Case(
        lambda: [ops.hopping_window2(5, 2, 1).aggregate(**OURS)],
        lambda rows: oracle.snapshot_aggregate(
            oracle.snap_to_window_intervals(rows, 5, 2, 1), MODEL
        ),
        lambda t: oracle.snap_time(t, 5, 2, 1),
        tolerance=sums(snap=(5, 2, 1)),
    ),
    "hopping_window2, gaps, grouped": Case(
        lambda: [ops.group_by("k", "x"), ops.hopping_window2(2, 5).aggregate(n=agg.count())],
        lambda rows: oracle.snapshot_aggregate(
            oracle.snap_to_window_intervals(rows, 2, 5), {"n": oracle.count()}, ["k", "x"]
        ),
        lambda t: oracle.snap_time(t, 2, 5),
    ),
}

every_operator = pytest.mark.parametrize("name", OPERATORS)


def each_alone(items: list[Any]) -> list[slice]:
    """Return the cut into single items."""
    return [slice(i, i + 1) for i in range(len(items))]


def finished(items: list[Any]) -> list[Any]:
    """Return the stream with its end of time."""
    return items if items and items[-1] == ("cti", MAX_TIME) else [*items, ("cti", MAX_TIME)]


def within_ctis(items: list[Any]) -> list[slice]:
    """Return the cut after every CTI."""
    ends = [i + 1 for i, item in enumerate(items) if item[0] == "cti"]
    return [slice(a, b) for a, b in zip([0, *ends], [*ends, len(items)], strict=True) if a < b]


def assert_same(case: Case, made: list[Row], expected: list[Row], given_rows: list[Row]) -> None:
    """Say that two histories are equal, sums within their bound."""
    if not oracle.equal_up_to(expected, made, tolerance=case.tolerance(given_rows)):
        assert oracle.history(made) == oracle.history(expected)


@every_operator
@given(data=st.data())
def test_oracle(name: str, data: st.DataObject) -> None:
    """At every instant the result is what the plain model gives on the rows alive then."""
    case = OPERATORS[name]
    items = finished(data.draw(strategies.streams()))
    made = physical.run(physical.batches(items, within_ctis(items)), *case.engine())
    canonical = oracle.canonical(items)
    assert_same(case, physical.rows(made), case.model(canonical), canonical)


@every_operator
@given(data=st.data())
def test_batch_invariance(name: str, data: st.DataObject) -> None:
    """However a stream is cut into batches, the history and the final CTI are the same."""
    case = OPERATORS[name]
    items = finished(data.draw(strategies.streams()))
    runs = data.draw(strategies.cuts(len(items)))
    canonical = oracle.canonical(items)
    cut = physical.run(physical.batches(items, runs), *case.engine())
    alone = physical.run(physical.batches(items, each_alone(items)), *case.engine())
    assert_same(case, physical.rows(cut), physical.rows(alone), canonical)
    assert cut[-1].cti == alone[-1].cti == MAX_TIME


@every_operator
@given(data=st.data())
def test_order_insensitivity(name: str, data: st.DataObject) -> None:
    """A reordering that no CTI forbids, starts before their ends, changes nothing."""
    case = OPERATORS[name]
    items = finished(data.draw(strategies.streams()))
    moved: list[Any] = []
    for run in within_ctis(items):
        some = items[run]
        promised = [item for item in some if item[0] == "cti"]
        inserts = data.draw(
            st.permutations([item for item in some if item[0] not in ("cti", "end")])
        )
        ends = data.draw(st.permutations([item for item in some if item[0] == "end"]))
        moved += [*inserts, *ends, *promised]
    canonical = oracle.canonical(items)
    one = physical.run(physical.batches(items, within_ctis(items)), *case.engine())
    other = physical.run(physical.batches(moved, within_ctis(moved)), *case.engine())
    assert_same(case, physical.rows(other), physical.rows(one), canonical)


@every_operator
@given(data=st.data())
def test_cti_soundness_and_liveliness(name: str, data: st.DataObject) -> None:
    """Each output CTI is the operator's rule for the input's, and all that it commits is there."""
    case = OPERATORS[name]
    items = finished(data.draw(strategies.streams()))
    made = physical.batches(items, each_alone(items))
    canonical = oracle.canonical(items)
    expected = case.model(canonical)
    tolerance = case.tolerance(canonical)
    out = physical.run(made, *case.engine())
    reached = [case.cti(batch.cti) for batch in made]
    assert {batch.cti for batch in out} <= set(reached)
    assert out[-1].cti == reached[-1]
    for upto, batch in enumerate(out, 1):
        so_far = physical.rows(out[:upto])
        assert oracle.equal_up_to(expected, so_far, batch.cti, tolerance=tolerance)


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "group_by"])
def test_bounded_state(name: str) -> None:
    """Ten times the data through the same operator holds no more rows at its peak."""
    peaks = [_peak(OPERATORS[name], count) for count in (60, 600)]
    assert peaks[1] <= peaks[0] + 5


def _peak(case: Case, count: int) -> int:
    items: list[Any] = []
    for time in range(count):
        payload = {"k": "abc"[time % 3], "x": time % 5, "y": float(time)}
        items += [("interval", time, time + 7, payload), ("start", time, payload)]
        if time >= 4:
            earlier = {"k": "abc"[(time - 4) % 3], "x": (time - 4) % 5, "y": float(time - 4)}
            items.append(("end", time - 4, time, earlier))
        items.append(("cti", time))
    made = physical.batches(items, within_ctis(items))
    operators = [
        operator
        for each in case.engine()
        for operator in (each.operators if hasattr(each, "operators") else (each,))
    ]
    schema, keys = made[0].schema, ()
    steps = []
    for operator in operators:
        steps.append(operator.make(schema, keys))
        schema, keys = operator.output(schema, keys), operator.keys_after(keys)
    peak = 0
    for batch in made:
        for step in steps:
            batch = step.on_batch(batch)
        peak = max(peak, sum(step.rows for step in steps))
    return peak
