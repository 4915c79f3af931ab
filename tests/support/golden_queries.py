"""Queries of the cases with known answers: one function for each operator.

``QUERIES`` has every operator of the cases that take streams; ``ALSO`` has other queries that mean
the same and so have the same answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import golden_samples as samples
import polars as pl
from golden_cases import GOLDEN, Given

import rxtemporal as rxt
from rxtemporal import agg

Query = Callable[[Given], rxt.Streamable]

# Rows and fields ----------------------------------------------------------------------------------

PREDICATES: dict[str, Callable[[], pl.Expr]] = {
    "CpuId in (1,2)": lambda: pl.col("CpuId").is_in([1, 2]),
    "where CpuId in (1,2)": lambda: pl.col("CpuId").is_in([1, 2]),
    "Tag empty or lost/stolen": lambda: (pl.col("Tag") == "") | pl.col("Tag").is_in(lost_tags()),
}


def lost_tags() -> list[str]:
    """The tags that were reported lost or stolen."""
    file = GOLDEN / "data" / "hello_toll_tags.csv"
    tags = pl.read_csv(file, schema_overrides={"TagId": pl.String})
    return tags.filter("IsReportedLostOrStolen")["TagId"].to_list()


def where(given: Given) -> rxt.Streamable:
    """The rows that satisfy a predicate, and of them the fields that the answer has."""
    params = given.params
    rows = samples.tolls(given) if "Tag" in params.get("predicate", "") else given.stream()
    chosen = rows.where(PREDICATES[params.get("predicate") or params["after"]]())
    return chosen.select(*given.case["expected"][0][2])


# Windows ------------------------------------------------------------------------------------------


def snapshot_aggregate(given: Given) -> rxt.Streamable:
    """A sum, or the least or greatest value, of the rows alive."""
    aggregate = getattr(agg, given.case["operator"].removeprefix("snapshot_"))
    field = given.params.get("value", "payload")
    return given.stream().snapshot_window().aggregate(value=aggregate(field))


def group_apply(given: Given) -> rxt.Streamable:
    """A sum of the rows alive for each key."""
    assert given.params == {"group": "k", "apply": "snapshot Sum(v)"}
    return given.stream().group_by("k").snapshot_window().aggregate(v=agg.sum("v"))


def tamed(given: Given) -> tuple[int, int, int]:
    """The windows of the document that tames them."""
    duration, interval = given.spans("duration", "interval")
    return duration, interval, given.alignment


def quantized(given: Given) -> rxt.Streamable:
    """Lifetimes widened to whole windows: snapped ones, which lie one window later, moved back."""
    (size,) = given.spans("size")
    return given.stream().snap_to_window_intervals(size, size).shift_event_time(-size)


def snapshot_windows(given: Given) -> rxt.Streamable:
    """The rows of each snapshot."""
    return given.stream().snapshot_window().apply(as_they_are, schema={"payload": pl.Int64})


def chop(given: Given) -> rxt.Streamable:
    """Lifetimes cut at every boundary, by themselves or in the guide's query."""
    if "query" in given.params:
        return samples.fig53(given)
    return given.stream().chop(*given.spans("period", "offset"))


def tumbling_count(given: Given) -> rxt.Streamable:
    """A count for each window, in the documents' sense or, for random rows, in the engine's."""
    (size,) = given.spans("size")
    if "output" in given.params:
        window = given.stream().tumbling_window(size, given.alignment, output=given.output)
    else:
        window = samples.reporting(given.stream(), size, size).snapshot_window()
    return window.aggregate(n=agg.count())


def hopping_count(given: Given) -> rxt.Streamable:
    """A count for each window that any row touches."""
    window = given.stream().hopping_window(
        *given.spans("size", "hop"), given.alignment, output=given.output
    )
    return window.aggregate(n=agg.count())


def hopping_sum(given: Given) -> rxt.Streamable:
    """A sum over the other engine's windows."""
    rows = samples.reporting(given.stream(), *given.spans("size", "period"))
    return rows.snapshot_window().aggregate(v=agg.sum("v"))


def count_window(given: Given) -> rxt.Streamable:
    """Return the number of rows that a count window holds, or the rows."""
    n = given.params["n"]
    if given.params["result"] == "set of payloads":
        window = given.stream().count_window(n, output=rxt.WindowOutput.WINDOW)
        return window.apply(as_they_are, schema={"payload": pl.String})
    return given.stream().count_window(n).aggregate(n=agg.count())


def as_they_are(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A user-defined operator that shows what a window holds."""
    return rows


def snapshot_topk(given: Given) -> rxt.Streamable:
    """The greatest two of the rows alive, their rank added to a hundred times their value."""
    ranked = given.stream().snapshot_window().top_k(given.params["k"], "v")
    return ranked.select("k", v=pl.col("v") * 100 + pl.col("rank"))


# Two streams --------------------------------------------------------------------------------------

NESTED = {"l.k": "k", "l.v": "v", "r.k": "rk", "r.v": "rv"}


def sides(given: Given) -> tuple[rxt.Streamable, rxt.Streamable]:
    """A case's two streams, the right one's fields under names of their own."""
    return given.stream("left"), given.stream("right").select(rk="k", rv="v")


def join(given: Given) -> rxt.Streamable:
    """Each pair of rows of the same key, for as long as both are alive."""
    if "names" in given.case["inputs"]:
        return samples.fig24(given)
    if given.params["on"] == "VehicleCount":
        return samples.booths(given, lambda one, two: one.join(two, on="VehicleCount"))
    left, right = sides(given)
    return left.join(right, on={"k": "rk"}).select(**NESTED)


def left_anti_join(given: Given) -> rxt.Streamable:
    """The left rows while no row of the same key is alive on the right."""
    if given.params["on"] == "always true":
        points = samples.tolls(given).to_point_events()
        return points.left_anti_join(points.where(pl.col("Tag") != ""))
    return given.stream("left").left_anti_join(given.stream("right"), on="k")


# Every operator -----------------------------------------------------------------------------------


def rows(given: Given) -> rxt.Streamable:
    """The case's rows: its input, or the figure that it goes on from."""
    figure = given.params.get("input")
    return samples.FIGURES[figure](given) if figure else given.stream()


def apply(method: str, *spans: str, **fields: str) -> Query:
    """A query of one operator, which takes these parameters of the case, some of them spans."""
    return lambda given: getattr(rows(given), method)(
        *given.spans(*spans), **{name: given.params[field] for name, field in fields.items()}
    )


def apply_to_two(method: str, *fields: str) -> Query:
    """A query of one operator over two streams."""
    return lambda given: getattr(given.stream("left"), method)(
        given.stream("right"), **{name: given.params[name] for name in fields}
    )


def counted(window: Callable[[Given], Any]) -> Query:
    """A query that counts the rows of each window."""
    return lambda given: window(given).aggregate(n=agg.count())


def summed(altered: Callable[[Given], rxt.Streamable]) -> Query:
    """A query that sums the rows alive at each moment."""
    return lambda given: altered(given).snapshot_window().aggregate(v=agg.sum("v"))


QUERIES: dict[str, Query] = {
    "alter_duration": apply("alter_event_duration", "duration"),
    "chop": chop,
    "clip": apply_to_two("clip_event_duration", "on"),
    "clip_duration_constant": apply("clip_event_duration", "limit"),
    "count_window": count_window,
    "cross_join": samples.cross_join,
    "distinct": apply("distinct"),
    "extend_lifetime": apply("extend_lifetime", "by"),
    "group_apply": group_apply,
    "group_hopping_sum_count": samples.hopping_amounts,
    "group_moving_average": samples.moving_average,
    "group_sliding_sum_count": samples.sliding,
    "group_tumbling_sum": samples.fig46,
    "hopping2_count": counted(lambda given: given.stream().hopping_window2(*tamed(given))),
    "hopping_count": hopping_count,
    "hopping_sum": hopping_sum,
    "ingress": rows,
    "join": join,
    "left_anti_join": left_anti_join,
    "left_outer_join": samples.left_outer_join,
    "pipeline_final": samples.fig55,
    "point_at_end": apply("point_at_end"),
    "point_to_signal": apply("to_signal", on="on"),
    "quantize_lifetime": quantized,
    "quantize_tumbling_count": counted(lambda given: quantized(given).snapshot_window()),
    "select": where,
    "self_clip_self_join": samples.fig36,
    "session_sum": summed(apply("session_lifetimes", "timeout")),
    "session_window": apply("session_lifetimes", "timeout", "max_duration"),
    "shift": apply("shift_event_time", "by"),
    "sliding_sum": summed(apply("alter_event_duration", "duration")),
    "snap_to_window_intervals": lambda given: rows(given).snap_to_window_intervals(*tamed(given)),
    "snapshot_count": counted(lambda given: given.stream().snapshot_window()),
    "snapshot_max": snapshot_aggregate,
    "snapshot_min": snapshot_aggregate,
    "snapshot_sum": snapshot_aggregate,
    "snapshot_topk": snapshot_topk,
    "snapshot_windows": snapshot_windows,
    "stitch": apply("stitch"),
    "theta_join": samples.theta_join,
    "to_point_stream": lambda given: samples.tolls(given).to_point_events().select("LicensePlate"),
    "tumbling_count": tumbling_count,
    "tumbling_sum": samples.fig44,
    "tumbling_topk": samples.tumbling_topk,
    "tumbling_uda": samples.tumbling_uda,
    "tumbling_udo": samples.tumbling_udo,
    "union": apply_to_two("union"),
    "where": where,
}
