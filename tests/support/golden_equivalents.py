"""Other queries for the cases with known answers: they mean the same and have the same results."""

from __future__ import annotations

from collections.abc import Callable

import golden_samples as samples
import polars as pl
from golden_cases import Case, Given
from golden_queries import NESTED, Query, rows, sides

import rxtemporal as rxt
from rxtemporal import agg

__all__ = ["equivalent"]


def alter_both(given: Given) -> rxt.Streamable:
    """A duration set by altering both ends, the start to what it is."""
    (duration,) = given.spans("duration")
    return rows(given).alter_event_lifetime(start=lambda t: t, duration=duration)


def shift_starts(given: Given) -> rxt.Streamable:
    """Lifetimes moved by altering their starts alone, which keeps durations."""
    (by,) = given.spans("by")
    return rows(given).alter_event_start_time(lambda t: t + by)


def sliding_points(given: Given) -> rxt.Streamable:
    """A fixed duration as a point that is extended."""
    (duration,) = given.spans("duration")
    altered = given.stream().to_point_events().extend_lifetime(duration - rxt.TICK)
    return altered.snapshot_window().aggregate(v=agg.sum("v"))


def clip_by_duration(given: Given) -> rxt.Streamable:
    """A limit on lifetimes as an expression over both ends."""
    (limit,) = given.spans("limit")
    length = pl.col("end") - pl.col("start")
    return given.stream().alter_event_duration(pl.min_horizontal(length, pl.lit(limit)))


def quantize_both_ends(given: Given) -> rxt.Streamable:
    """Lifetimes widened to whole windows by functions of both ends."""
    (size,) = given.spans("size")

    def length(row: rxt.IntervalEvent) -> int:
        return -(-row.end // size) * size - row.start // size * size

    return given.stream().alter_event_lifetime(start=lambda t: t // size * size, duration=length)


def signal_by_clipping(given: Given) -> rxt.Streamable:
    """A signal as rows that never end, clipped by themselves."""
    endless = samples.infinite(rows(given))
    return endless.clip_event_duration(endless, on=given.params["on"])


def distinct_by_counting(given: Given) -> rxt.Streamable:
    """The stretches in which a value is alive, as snapshots of each value put together."""
    counted = given.stream().group_by("k", "v").snapshot_window().aggregate(n=agg.count())
    return counted.drop("n").stitch()


def apply_by_key(given: Given) -> rxt.Streamable:
    """A whole branch for each key."""
    return (
        given.stream()
        .group_by("k")
        .apply(lambda group: group.snapshot_window().aggregate(v=agg.sum("v")))
    )


def tumbling_as_hopping(given: Given) -> rxt.Streamable:
    """Tumbling windows as hopping ones; the other engine's as its quantized starts."""
    (size,) = given.spans("size")
    if "output" in given.params:
        window = given.stream().hopping_window(size, size, given.alignment, output=given.output)
    else:
        window = samples.reporting(given.stream().to_point_events(), size, size).snapshot_window()
    return window.aggregate(n=agg.count())


def join_where(given: Given) -> rxt.Streamable:
    """A join on a key as one by a predicate."""
    left, right = sides(given)
    return left.join(right, where=pl.col("k") == pl.col("rk")).select(**NESTED)


def left_anti_join_where(given: Given) -> rxt.Streamable:
    """An anti join on a key as one by a predicate."""
    left, right = sides(given)
    return left.left_anti_join(right, where=pl.col("k") == pl.col("rk"))


def theta_cross_join(given: Given) -> rxt.Streamable:
    """A join by a predicate as a cross join with one."""
    more = pl.col("VehicleCount") > pl.col("VehicleCount_2")
    return samples.booths(given, lambda one, two: one.cross_join(two, where=more, suffix="_2"))


def outer_as_union(given: Given) -> rxt.Streamable:
    """An outer join as the join, united with the anti join."""
    left, right = samples.vehicles_and_payments(given)
    alone = left.left_anti_join(right, on="LicensePlate")
    unpaid = {"Toll": pl.lit(None, pl.Float64), "TollId": pl.lit(None, pl.String)}
    return left.join(right, on="LicensePlate").union(alone.with_columns(**unpaid))


def share_as_expression(given: Given) -> rxt.Streamable:
    """The user-defined share as a polars expression."""
    window = samples.tolls(given).tumbling_window(*given.spans("size"), output=given.output)
    share = agg.expr((pl.col("State") != "NY").mean())
    return window.aggregate(share=share).select(pl.col("share").round(6))


def moving_average_at_once(given: Given) -> rxt.Streamable:
    """The moving average by the aggregate of that name."""
    extended = samples.tolls(given).group_by("TollId").extend_lifetime(samples.MINUTE)
    averages = extended.snapshot_window().aggregate(AverageToll=agg.avg("Toll"))
    return averages.to_point_events()


def counted(altered: Callable[[Given], rxt.Streamable]) -> Query:
    """A query that counts the rows alive at each moment."""
    return lambda given: altered(given).snapshot_window().aggregate(n=agg.count())


EQUIVALENTS: dict[str, Query] = {
    "alter_duration": alter_both,
    "clip_duration_constant": clip_by_duration,
    "distinct": distinct_by_counting,
    "group_apply": apply_by_key,
    "group_moving_average": moving_average_at_once,
    "group_sliding_sum_count": samples.sliding_altered,
    "join": join_where,
    "left_anti_join": left_anti_join_where,
    "left_outer_join": outer_as_union,
    "point_to_signal": signal_by_clipping,
    "quantize_lifetime": quantize_both_ends,
    "quantize_tumbling_count": counted(quantize_both_ends),
    "shift": shift_starts,
    "sliding_sum": sliding_points,
    "theta_join": theta_cross_join,
    "tumbling_count": tumbling_as_hopping,
    "tumbling_uda": share_as_expression,
}


def equivalent(case: Case) -> Query | None:
    """Another query with the answer of this case; None if there is none."""
    if case["operator"] in ("join", "left_anti_join") and "left" not in case["inputs"]:
        return None
    return EQUIVALENTS.get(case["operator"])
