"""The operators as a whole: each is a method and a value, is described, and explains itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal import operators as ops
from rxtemporal.operators.windows import Window
from rxtemporal.query.fluent.windows import Windowed

Stream = rxt.Streamable
Compose = Callable[[Stream], Stream]

PAGE = Path(__file__).parents[2] / "docs" / "algebra.md"

# methods of a stream that make no stream: what it is, and how its results are had
NO_OPERATORS = {
    "explain",
    "keys",
    "late_events",
    "run",
    "schema",
    "subscribe",
    "to_async",
    "to_batches",
    "to_events",
    "to_observable",
    "to_polars",
}
# these take a stream to a stream by operators that the function given to them composes
OF_OTHERS = {"apply", "multicast"}

PLANS: dict[str, Compose] = {
    "alter_event_duration": lambda s: s.alter_event_duration(1),
    "alter_event_lifetime": lambda s: s.alter_event_lifetime(start=lambda t: t, duration=1),
    "alter_event_start_time": lambda s: s.alter_event_start_time(lambda t: t),
    "chop": lambda s: s.chop(5),
    "clip_event_duration": lambda s: s.clip_event_duration(s, on="k"),
    "count_window": lambda s: s.count_window(2).aggregate(n=agg.count()),
    "cross_join": lambda s: s.cross_join(s, suffix="_2"),
    "distinct": lambda s: s.distinct("k"),
    "drop": lambda s: s.drop("x"),
    "explode": lambda s: s.select(many=pl.concat_list("x")).explode("many"),
    "extend_lifetime": lambda s: s.extend_lifetime(-1),
    "full_outer_join": lambda s: s.full_outer_join(s, on="k", suffix="_2"),
    "group_by": lambda s: s.group_by("k"),
    "hopping_window": lambda s: s.hopping_window(5, 1).top_k(1, "x"),
    "hopping_window2": lambda s: s.hopping_window2(5, 1).aggregate(n=agg.count()),
    "join": lambda s: s.join(s, on="k", suffix="_2"),
    "left_anti_join": lambda s: s.left_anti_join(s, on="k"),
    "left_outer_join": lambda s: s.left_outer_join(s, on="k", suffix="_2"),
    "point_at_end": lambda s: s.point_at_end(),
    "scan": lambda s: s.scan(0, lambda state, start, row: (state, None), schema={"y": int}),
    "select": lambda s: s.select("x"),
    "session_lifetimes": lambda s: s.session_lifetimes(5),
    "session_window": lambda s: s.session_window(5).apply(list, schema={"y": int}),
    "shift_event_time": lambda s: s.shift_event_time(1),
    "snap_to_window_intervals": lambda s: s.snap_to_window_intervals(5, 1),
    "snapshot_window": lambda s: s.snapshot_window().aggregate(n=agg.first("x")),
    "stitch": lambda s: s.stitch(),
    "to_point_events": lambda s: s.to_point_events(),
    "to_signal": lambda s: s.to_signal("k"),
    "tumbling_window": lambda s: s.tumbling_window(5).aggregate(n=agg.max("x")),
    "ungroup": lambda s: s.group_by("k").ungroup(),
    "union": lambda s: s.union(s),
    "where": lambda s: s.where(pl.col("x") > 1),
    "with_columns": lambda s: s.with_columns(y=1),
}


def parameters(function: Any) -> list[tuple[str, Any]]:
    """The names and defaults of what a function takes, but for what it is a method of."""
    taken = inspect.signature(function).parameters.values()
    return [(each.name, each.default) for each in taken if each.name != "self"]


def public(cls: type) -> set[str]:
    """The public names of a class."""
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_operator_is_a_method_and_every_method_an_operator() -> None:
    """What works in a pipe works fluently and the other way round."""
    assert public(rxt.Streamable) - NO_OPERATORS == set(ops.__all__)
    assert public(Windowed) == public(Window) - {"over", "before"}


@pytest.mark.parametrize("name", sorted(set(ops.__all__)))
def test_a_method_takes_what_its_operator_takes(name: str) -> None:
    """Names, order and defaults of arguments are the same."""
    assert parameters(getattr(rxt.Streamable, name)) == parameters(getattr(ops, name))


def test_a_windows_methods_take_what_its_operators_take() -> None:
    """Names, order and defaults of arguments are the same."""
    for name in public(Windowed):
        assert parameters(getattr(Windowed, name)) == parameters(getattr(Window, name)), name


@pytest.mark.parametrize("name", sorted(set(ops.__all__)))
def test_an_operator_says_what_becomes_of_ctis(name: str) -> None:
    """The docstring of each method tells of the output CTI; that of the value is there."""
    assert "CTI" in (inspect.getdoc(getattr(rxt.Streamable, name)) or "")
    assert inspect.getdoc(getattr(ops, name))


def test_every_operator_is_explained_here() -> None:
    """The table of plans knows every operator that is one of its own."""
    assert set(PLANS) == set(ops.__all__) - OF_OTHERS


@pytest.mark.parametrize("known", [True, False], ids=["known fields", "unknown fields"])
@pytest.mark.parametrize("name", PLANS)
def test_an_operator_explains_itself(name: str, known: bool) -> None:
    """The plan names the operator, then its CTI rule and what it holds, and ends at the source."""
    schema = {"k": str, "x": int} if known else None
    plan = PLANS[name](rxt.from_events([], schema=schema, name="readings")).explain()
    operator, rule, *_ = plan.split("\n")
    assert operator.split(":")[0].split(",")[0].partition("()")[0] == name
    assert rule.startswith("  | CTI: ")
    assert "; holds " in rule
    assert "source 'readings': " in plan
    assert "object at" not in plan


def test_composing_and_explaining_load_no_kernels() -> None:
    """What compiles is loaded when a query runs: who only composes never waits for it."""
    code = (
        "import sys, rxtemporal as rxt, test_algebra as here\n"
        "schema = {'k': str, 'x': int}\n"
        "for plan in here.PLANS.values():\n"
        "    plan(rxt.from_events([], schema=schema)).explain()\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[1] / "support",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_the_page_of_the_algebra_has_them_all() -> None:
    """Each operator, and what a window takes, has its row in docs/algebra.md."""
    rows = [line for line in PAGE.read_text("utf-8").split("\n") if line.startswith("| `")]
    for name in {*ops.__all__, *public(Windowed)} - {"multicast"}:
        assert any(f"`{name}(" in row.split(" | ")[0] for row in rows), name
