"""Partitions of plans: the buckets' results, united, are those of one run."""

from __future__ import annotations

from random import Random
from typing import Any

import oracle
import polars as pl
import pytest
from buckets import in_parts, split
from compositions import COMPOSITIONS, STREAM, expected
from compositions import plan as composed
from hypothesis import given, settings
from hypothesis import strategies as st
from law_streams import CASES, Sides, plan

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.operator import Operator, TwoInputs
from rxtemporal.operators.partition import find_partition

# each example is several runs, and there are many cases
examples = settings(max_examples=max(10, settings().max_examples // 6))


@pytest.mark.parametrize(
    "name", [name for name in COMPOSITIONS if split(composed(name))[0].reason is None]
)
@examples
@given(sides=st.tuples(STREAM, STREAM), number=st.integers(0, 2**20))
def test_buckets_of_compositions(name: str, sides: Sides, number: int) -> None:
    """Buckets of queries of several operators give together what the models say."""
    rows, cti = in_parts(composed(name), sides, Random(number))
    assert cti == oracle.MAX_TIME
    assert oracle.history(rows) == oracle.history(expected(name, sides))


def test_every_operator_says_how_it_splits() -> None:
    """Every operator of the table has its own rule of partition."""
    unsaid = {Operator, TwoInputs}
    found = {
        type(n.operator) for name in CASES for n in plan(name)._node.list_nodes() if n.operator
    }
    assert found
    for kind in found:
        says = next(each for each in kind.__mro__ if "partition" in vars(each))
        assert says.__module__ != Operator.__module__ or says.__name__ == "RowOperator", kind
    for kind in unsaid:
        with pytest.raises(NotImplementedError):
            kind.partition(None, (), ())  # type: ignore[arg-type]


def streams() -> tuple[rxt.Streamable, rxt.Streamable]:
    """Two streams to compose with."""
    flights = rxt.from_events([], schema={"origin": str, "dest": str, "n": int}, name="flights")
    weather = rxt.from_events([], schema={"station": str, "temp": float}, name="weather")
    return flights, weather


FOUND: dict[str, tuple[Any, dict[str, tuple[str, ...]] | str]] = {
    "two levels of groups": (
        lambda f, w: (
            f.group_by("origin", "dest").snapshot_window().aggregate(n=agg.count())
            .group_by("dest").snapshot_window().aggregate(most=agg.max("n"))
        ),
        {"flights": ("dest",)},
    ),
    "a renamed key": (
        lambda f, w: f.select("n", airport="origin").join(w, on={"airport": "station"}),
        {"flights": ("origin",), "weather": ("station",)},
    ),
    "a key under two names": (
        lambda f, w: f.with_columns(place="origin").group_by("place").stitch().distinct("n"),
        {"flights": ("origin", "n")},
    ),
    "the right's key afterwards": (
        lambda f, w: (
            f.join(w, on={"origin": "station"}).group_by("station").snapshot_window()
            .aggregate(n=agg.count())
        ),
        {"flights": ("origin",), "weather": ("station",)},
    ),
    "rows looked at one by one": (
        lambda f, w: f.where(pl.col("n") > 1).chop(5).select(n=pl.col("n") + 1),
        {"flights": ()},
    ),
    "one stream by two keys, each by itself": (
        lambda f, w: (
            f.distinct("origin").union(f.distinct("dest").select(origin="dest")).distinct()
        ),
        "the inputs of union share a source, and need it split by different fields",
    ),
    "joined with itself by another field": (
        lambda f, w: f.join(f, on={"origin": "dest"}, suffix="_then"),
        "join needs rows together that agree in origin = dest",
    ),
    "a computed key": (
        lambda f, w: (
            f.with_columns(origin=pl.col("origin").str.to_lowercase()).group_by("origin")
            .stitch().select("n").snapshot_window().aggregate(n=agg.count())
        ),
        "snapshot_window().aggregate needs rows together that agree in origin, and no field",
    ),
    "the right's key where the right comes alone": (
        lambda f, w: (
            f.select("origin").full_outer_join(w, on={"origin": "station"}).group_by("origin")
            .snapshot_window().aggregate(n=agg.count())
        ),
        "no field passes full_outer_join unchanged",
    ),
    "nothing to split by": (
        lambda f, w: f.snapshot_window().aggregate(n=agg.count()),
        "snapshot_window().aggregate of an ungrouped stream sees all rows",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_queries_are_split_by_these_fields(name: str) -> None:
    """Fields are traced through the plan, through renaming and joins; else there is a reason."""
    query, expected = FOUND[name]
    found, sources = split(query(*streams()))
    if isinstance(expected, str):
        assert found.reason is not None
        assert found.reason.startswith(expected)
    else:
        assert (found.reason, {n: found.get_fields(s) for n, s in sources.items()}) == (
            None,
            expected,
        )


def test_late_events_are_not_split() -> None:
    """The verdict on a row depends on all earlier rows."""
    events = [rxt.PointEvent(7, {"k": 1}), rxt.PointEvent(5, {"k": 2})]
    stream = rxt.from_events(events, schema={"k": int}, advance_time=rxt.INCREASING_START_TIME)
    told = "late events are judged by one door, in the order of all rows"
    late = stream.late_events()
    for query in late.distinct("k"), stream.union(late.select("k")):
        assert find_partition(query._node).reason == told
