"""Queries composed of several operators, with their models."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import arrangements
import oracle
import oracle_joins
import oracle_lifetimes
import oracle_windows
import physical
import polars as pl
import strategies
from oracle import Event, Row

import rxtemporal as rxt
from rxtemporal import agg

FIELDS = ("k", "x", "y")


Stream, Rows = rxt.Streamable, list[Row]


Sides = tuple[list[Event], list[Event]]


def same(fields: tuple[str, ...], group: tuple[str, ...] = ()) -> oracle_joins.Merge:
    """Return the model's merge of payloads that agree in some fields; right fields get a suffix."""
    pairs = [(name, name) for name in fields]
    return oracle_joins.merging(pairs, FIELDS, FIELDS, "_right", group)


def on(*fields: str) -> list[tuple[str, str]]:
    """Fields of one name on both sides, as the model has them."""
    return [(name, name) for name in fields]


def holding(rows: Rows, least: int) -> Rows:
    """The rows whose x is at least so much."""
    return oracle.where(rows, lambda p: p["x"] is not None and p["x"] >= least)


def with_left(stream: Stream) -> Stream:
    """Return the left fields of joined rows, and x of the right."""
    return stream.select("k", y="y", x="x_right")


def with_left_rows(rows: Rows) -> Rows:
    """Return the model of that."""
    return oracle.select(rows, lambda p: {"k": p["k"], "y": p["y"], "x": p["x_right"]})


def spread(stream: Any) -> Stream:
    """Return the count and the extremes over windows of any kind."""
    return stream.aggregate(n=agg.count(), least=agg.min("x"), most=agg.max("y"))


SPREAD = {"n": oracle.count(), "least": oracle.min_("x"), "most": oracle.max_("y")}


def stretches(rows: Rows, *key: str) -> Rows:
    """The same over snapshot windows."""
    return oracle.snapshot_aggregate(rows, SPREAD, key)


def numbered(state: int, start: int, payload: dict[str, Any]) -> tuple[int, Any]:
    """Count the rows of a key up to three; every third one has no result."""
    state = (state + 1) % 3
    return state, {"x": state, "y": payload["y"]} if state else None


NUMBERED = {"x": int, "y": float}


HOPS = (5, 2, 1)


def hops(rows: Rows) -> list[oracle.Window]:
    """Hopping windows with these numbers."""
    return oracle_windows.hopping_windows(rows, *HOPS)


def sessions(rows: Rows) -> list[oracle.Window]:
    """Return sessions that end after four ticks without a start."""
    return oracle_windows.session_windows(rows, 4)


def pairs_of_starts(rows: Rows) -> list[oracle.Window]:
    """Return windows of two consecutive starts."""
    return oracle_windows.count_windows(rows, 2)


@dataclasses.dataclass(frozen=True)
class Composition:
    """A query of two streams, and its model: a function of two histories."""

    query: physical.Query
    model: Any


def _snapshots_of_a_join(left: Stream, right: Stream) -> Stream:
    joined = left.join(right, on="k", suffix="_right")
    return spread(with_left(joined).group_by("k").snapshot_window())


def _snapshots_of_a_join_model(left: Rows, right: Rows) -> Rows:
    joined = oracle_joins.join(left, right, on("k"), same(("k",)))
    return stretches(with_left_rows(joined), "k")


def _beside_its_windows(left: Stream, right: Stream) -> Stream:
    counts = left.union(right).group_by("k").hopping_window2(*HOPS).aggregate(n=agg.count())
    return left.join(counts, on="k", where=pl.col("n") > 1)


def _beside_its_windows_model(left: Rows, right: Rows) -> Rows:
    snapped = oracle.snap_to_window_intervals([*left, *right], *HOPS)
    counts = oracle.snapshot_aggregate(snapped, {"n": oracle.count()}, ["k"])
    merge = oracle_joins.merging(on("k"), FIELDS, ("k", "n"))
    return oracle_joins.join(left, counts, on("k"), merge, lambda p: p["n"] > 1)


def _alone_after_stitching(left: Stream, right: Stream) -> Stream:
    return left.extend_lifetime(3).stitch().left_anti_join(right.stitch(), on=["k", "x"])


def _alone_after_stitching_model(left: Rows, right: Rows) -> Rows:
    chains = oracle_lifetimes.stitch(oracle_lifetimes.extend_lifetime(left, 3))
    return oracle_joins.left_anti_join(chains, oracle_lifetimes.stitch(right), on("k", "x"))


def _sessions_of_the_clipped(left: Stream, right: Stream) -> Stream:
    clipped = left.clip_event_duration(right, on="k").point_at_end()
    return spread(clipped.group_by("k").session_window(4))


def _sessions_of_the_clipped_model(left: Rows, right: Rows) -> Rows:
    clipped = oracle_joins.clip_event_duration(left, right, on("k"))
    points = oracle_lifetimes.point_at_end(clipped)
    return oracle_windows.window_aggregate(points, sessions, SPREAD, ["k"])


def _the_best_once(left: Stream, right: Stream) -> Stream:
    best = left.union(right).group_by("k").snapshot_window().top_k(1, "x")
    return best.distinct("k", "x")


def _the_best_once_model(left: Rows, right: Rows) -> Rows:
    best = oracle_windows.top_k([*left, *right], oracle.snapshot_windows, 1, "x", key=["k"])
    return oracle_lifetimes.distinct(best, ["k", "x"])


def _windows_of_a_scan(left: Stream, right: Stream) -> Stream:
    scanned = left.union(right).group_by("k").scan(0, numbered, schema=NUMBERED)
    return spread(scanned.clip_event_duration(20).hopping_window(*HOPS))


def _windows_of_a_scan_model(left: Rows, right: Rows) -> Rows:
    scanned = oracle_lifetimes.scan([*left, *right], 0, numbered, ["k"])
    limited = oracle_lifetimes.clip_to_limit(scanned, 20)
    return oracle_windows.window_aggregate(limited, hops, SPREAD, ["k"])


def _pieces_stitched_again(left: Stream, right: Stream) -> Stream:
    tamed = spread(left.union(right).clip_event_duration(30).hopping_window2(*HOPS))
    return tamed.chop(4, 1).stitch()


def _pieces_stitched_again_model(left: Rows, right: Rows) -> Rows:
    limited = oracle_lifetimes.clip_to_limit([*left, *right], 30)
    tamed = stretches(oracle.snap_to_window_intervals(limited, *HOPS))
    return oracle_lifetimes.stitch(oracle_lifetimes.chop(tamed, 4, 1))


def _branches_united(left: Stream, right: Stream) -> Stream:
    covered = left.join(right, on="k", suffix="_right").select("k", "x", "y")
    bare = left.left_anti_join(right, on="k")
    return covered.union(bare).distinct()


def _branches_united_model(left: Rows, right: Rows) -> Rows:
    joined = oracle_joins.join(left, right, on("k"), same(("k",)))
    covered = oracle.select(joined, lambda p: {name: p[name] for name in FIELDS})
    bare = oracle_joins.left_anti_join(left, right, on("k"))
    return oracle_lifetimes.distinct([*covered, *bare])


def _joined_by_group(left: Stream, right: Stream) -> Stream:
    def branch(group: Stream) -> Stream:
        joined = group.join(group.where(pl.col("x") >= 2), on="y", suffix="_right")
        return spread(joined.session_lifetimes(4).snapshot_window())

    return left.union(right).group_by("k").apply(branch)


def _joined_by_group_model(left: Rows, right: Rows) -> Rows:
    every = [*left, *right]
    merge = same(("y",), ("k",))
    joined = oracle_joins.join(every, holding(every, 2), on("y"), merge, group=("k",))
    return stretches(oracle_lifetimes.session_lifetimes(joined, 4, key=["k"]), "k")


def _a_signal_and_its_gaps(left: Stream, right: Stream) -> Stream:
    signal = left.to_point_events().to_signal("k").clip_event_duration(9)
    return right.left_outer_join(signal, on="k", where=pl.col("x") < pl.col("x_right"),
                                 suffix="_right")  # fmt: skip


def _a_signal_and_its_gaps_model(left: Rows, right: Rows) -> Rows:
    points = oracle_lifetimes.to_point_events(left)
    signal = oracle_lifetimes.clip_to_limit(oracle_lifetimes.to_signal(points, ["k"]), 9)
    return oracle_joins.left_outer_join(right, signal, on("k"), same(("k",)), less)


def less(p: dict[str, Any]) -> bool:
    """The smaller x on the left; null is false."""
    return None not in (p["x"], p["x_right"]) and p["x"] < p["x_right"]


def _windows_of_windows(left: Stream, right: Stream) -> Stream:
    outer = left.full_outer_join(right, on=["k", "x"], suffix="_right").select("k", "x", "y")
    inner = outer.group_by("k").count_window(2).aggregate(x=agg.last("x"), y=agg.first("y"))
    return spread(inner.session_window(4))


def _windows_of_windows_model(left: Rows, right: Rows) -> Rows:
    outer = oracle_joins.full_outer_join(left, right, on("k", "x"), same(("k", "x")))
    named = oracle.select(outer, lambda p: {name: p[name] for name in FIELDS})
    ends = {"x": oracle_windows.last("x"), "y": oracle_windows.first("y")}
    inner = oracle_windows.window_aggregate(named, pairs_of_starts, ends, ["k"], "point")
    return oracle_windows.window_aggregate(inner, sessions, SPREAD)


def _shortened_and_moved(left: Stream, right: Stream) -> Stream:
    short = left.left_anti_join(right, on="x").extend_lifetime(-2).shift_event_time(-3)
    return spread(short.stitch().group_by("k").snapshot_window())


def _shortened_and_moved_model(left: Rows, right: Rows) -> Rows:
    bare = oracle_joins.left_anti_join(left, right, on("x"))
    short = oracle.shift_event_time(oracle_lifetimes.extend_lifetime(bare, -2), -3)
    return stretches(oracle_lifetimes.stitch(short), "k")


def _events_of_windows(left: Stream, right: Stream) -> Stream:
    rest = left.snapshot_window().apply(
        after_first(rxt.IntervalEvent), schema={"x": int}, time_sensitive=True
    )
    return rest.join(right, on="x")


def _events_of_windows_model(left: Rows, right: Rows) -> Rows:
    windows = oracle.snapshot_windows
    rest = oracle_windows.window_apply(left, windows, after_first(Row), time_sensitive=True)
    merge = oracle_joins.merging(on("x"), ("x",), FIELDS)
    return oracle_joins.join(rest, right, on("x"), merge)


def after_first(make: Any) -> Any:
    """An operator of events: the window after its first tick, with the number of its rows."""

    def apply(events: list[Any], window: Any) -> list[Any]:
        begin = window.start + 1
        return [make(begin, window.end, {"x": len(events)})] if begin < window.end else []

    return apply


def _lists_after_a_join(left: Stream, right: Stream) -> Stream:
    joined = left.join(right, on="k", suffix="_right")
    listed = joined.select("k", "y", x=pl.concat_list("x", "x_right")).explode("x")
    return listed.group_by("x").distinct("k").ungroup().extend_lifetime(2).stitch()


def _lists_after_a_join_model(left: Rows, right: Rows) -> Rows:
    joined = oracle_joins.join(left, right, on("k"), same(("k",)))
    listed = oracle.select(joined, lambda p: p | {"x": [p["x"], p["x_right"]]})
    exploded = oracle_lifetimes.explode(listed, "x")
    found = oracle_lifetimes.distinct(exploded, ["x", "k"])
    return oracle_lifetimes.stitch(oracle_lifetimes.extend_lifetime(found, 2))


def _clipped_by_its_own(left: Stream, right: Stream) -> Stream:
    every = left.union(right)
    by_key = every.group_by("k")
    clipped = by_key.clip_event_duration(by_key.where(pl.col("x") >= 2))
    return spread(clipped.union(by_key.session_lifetimes(4)).snapshot_window())


def _clipped_by_its_own_model(left: Rows, right: Rows) -> Rows:
    every = [*left, *right]
    clipped = oracle_joins.clip_event_duration(every, holding(every, 2), (), ("k",))
    return stretches([*clipped, *oracle_lifetimes.session_lifetimes(every, 4, key=["k"])], "k")


COMPOSITIONS: dict[str, Composition] = {
    "snapshots of a join": Composition(_snapshots_of_a_join, _snapshots_of_a_join_model),
    "a stream beside windows of itself": Composition(
        _beside_its_windows, _beside_its_windows_model
    ),
    "anti join of stitched streams": Composition(
        _alone_after_stitching, _alone_after_stitching_model
    ),
    "sessions of what another stream clips": Composition(
        _sessions_of_the_clipped, _sessions_of_the_clipped_model
    ),
    "distinct best ranks": Composition(_the_best_once, _the_best_once_model),
    "hopping windows of a scan by group": Composition(_windows_of_a_scan, _windows_of_a_scan_model),
    "windows chopped and stitched": Composition(
        _pieces_stitched_again, _pieces_stitched_again_model
    ),
    "a join and an anti join united": Composition(_branches_united, _branches_united_model),
    "a group joined with itself": Composition(_joined_by_group, _joined_by_group_model),
    "outer join with a signal": Composition(_a_signal_and_its_gaps, _a_signal_and_its_gaps_model),
    "sessions of count windows of an outer join": Composition(
        _windows_of_windows, _windows_of_windows_model
    ),
    "what is bare, shortened and moved": Composition(
        _shortened_and_moved, _shortened_and_moved_model
    ),
    "a join with events made in windows": Composition(_events_of_windows, _events_of_windows_model),
    "lists of joined fields, exploded": Composition(_lists_after_a_join, _lists_after_a_join_model),
    "groups clipped by some of their own": Composition(
        _clipped_by_its_own, _clipped_by_its_own_model
    ),
}


STREAM = strategies.streams(
    max_size=14, extremes=False, payload=strategies.matching_payloads()
).map(arrangements.finish)


@cache
def plan(name: str) -> Stream:
    """A query's plan, one for all examples: state is in steps alone."""
    return physical.planned(COMPOSITIONS[name].query, 2)


def expected(name: str, sides: Sides) -> Rows:
    """Return the model's result for the histories of two streams."""
    left, right = (oracle.canonical(items) for items in sides)
    return list(COMPOSITIONS[name].model(left, right))
