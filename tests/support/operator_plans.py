"""A plan for each operator."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

import rxtemporal as rxt
from rxtemporal import agg

Stream = rxt.Streamable


Compose = Callable[[Stream], Stream]


def with_clocks() -> Stream:
    """Return a stream in which each device has its own time."""
    fields = {"k": str, "x": int}
    return rxt.from_events([], schema=fields, advance_time=0, clock="k", name="readings")


PLANS: dict[str, Compose] = {
    "alter_event_duration": lambda s: s.alter_event_duration(1),
    "alter_event_lifetime": lambda s: s.alter_event_lifetime(start=lambda t: t, duration=1),
    "alter_event_start_time": lambda s: s.alter_event_start_time(lambda t: t),
    "chop": lambda s: s.chop(5),
    "clip_event_duration": lambda s: s.clip_event_duration(s, on="k"),
    "count_window": lambda s: s.count_window(2).aggregate(n=agg.count()),
    "cross_join": lambda s: s.cross_join(s, suffix="_2"),
    "deadband": lambda s: s.deadband("x", 1),
    "detect": lambda s: s.detect("A B", A=pl.col("x") > 1, within=5),
    "previous": lambda s: s.previous("x"),
    "distinct": lambda s: s.distinct("k"),
    "drop": lambda s: s.drop("x"),
    "explode": lambda s: s.select(many=pl.concat_list("x")).explode("many"),
    "extend_lifetime": lambda s: s.extend_lifetime(1),
    "full_outer_join": lambda s: s.full_outer_join(s, on="k", suffix="_2"),
    "group_by": lambda s: s.group_by("k"),
    "hopping_window": lambda s: s.hopping_window(5, 1).top_k(1, "x"),
    "hopping_window2": lambda s: s.hopping_window2(5, 1).aggregate(n=agg.count()),
    "join": lambda s: s.join(s, on="k", suffix="_2"),
    "left_anti_join": lambda s: s.left_anti_join(s, on="k"),
    "left_outer_join": lambda s: s.left_outer_join(s, on="k", suffix="_2"),
    "never_ends": lambda s: s.never_ends(),
    "point_at_end": lambda s: s.point_at_end(),
    "relate": lambda s: s.relate(s, "during", on="k", suffix="_2"),
    "sample": lambda s: s.sample(5),
    "scan": lambda s: s.scan(0, lambda state, start, row: (state, None), schema={"y": int}),
    "select": lambda s: s.select("x"),
    "session_lifetimes": lambda s: s.session_lifetimes(5),
    "session_window": lambda s: s.session_window(5).apply(list, schema={"y": int}),
    "shift_event_time": lambda s: s.shift_event_time(1),
    "snap_to_window_intervals": lambda s: s.snap_to_window_intervals(5, 1),
    "snapshot_window": lambda s: s.snapshot_window().aggregate(n=agg.first("x")),
    "stitch": lambda s: s.stitch(),
    "synchronize": lambda s: with_clocks().synchronize(5),
    "to_point_events": lambda s: s.to_point_events(),
    "to_signal": lambda s: s.to_signal("k"),
    "tumbling_window": lambda s: s.tumbling_window(5).aggregate(n=agg.max("x")),
    "whole_window": lambda s: s.whole_window().aggregate(n=agg.max("x")),
    "ungroup": lambda s: s.group_by("k").ungroup(),
    "union": lambda s: s.union(s),
    "where": lambda s: s.where(pl.col("x") > 1),
    "with_columns": lambda s: s.with_columns(y=1),
}
