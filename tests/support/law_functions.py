"""Functions of windows in the cases of the laws: for the engine and for the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import oracle
import oracle_windows
import polars as pl

from rxtemporal import agg

# of the rows that satisfy a predicate

PICKED = (pl.col("k") == "a") | (pl.col("x") > 1)


def pick(payload: dict[str, Any]) -> bool:
    """Return True for a row that counts; null is false."""
    return payload["k"] == "a" or (payload["x"] is not None and payload["x"] > 1)


def picking(aggregate: oracle.Aggregate) -> oracle.Aggregate:
    """Return an aggregate of the payloads that count."""
    return lambda payloads: aggregate([each for each in payloads if pick(each)])


# aggregates, the engine's and the model's

AGGREGATES: dict[str, tuple[Any, oracle.Aggregate]] = {
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
    "gk": (agg.max("k"), oracle.max_("k")),
    "dx": (agg.count_distinct("x"), oracle_windows.count_distinct("x")),
    "dk": (agg.count_distinct("k"), oracle_windows.count_distinct("k")),
    "dy": (agg.count_distinct(pl.col("y")), oracle_windows.count_distinct("y")),
    # these are counted with others of the same values
    "px": (agg.count_distinct("x", where=PICKED), picking(oracle_windows.count_distinct("x"))),
    "py": (agg.count_distinct("y", where=PICKED), picking(oracle_windows.count_distinct("y"))),
    "pn": (agg.count(where=PICKED), picking(oracle.count())),
}


class Spread(agg.UserDefinedAggregate):
    """A user's aggregate."""

    def compute(self, values: list[int]) -> int:
        """Return the largest less the smallest value; -1 without values."""
        return max(values) - min(values) if values else -1


class Told(agg.UserDefinedAggregate):
    """A user's aggregate of whole payloads, in order."""

    def compute(self, values: list[dict[str, Any]]) -> str:
        """Return all payloads as text."""
        return told(values)


class Tally(agg.UserDefinedAggregate):
    """An incremental aggregate: the number of each value, and the sum."""

    def init(self) -> Any:
        """Return the state without values."""
        return {"kinds": {}, "sum": 0}

    def add(self, state: Any, value: int) -> Any:
        """Add a value."""
        kinds = state["kinds"]
        return {"kinds": kinds | {value: kinds.get(value, 0) + 1}, "sum": state["sum"] + value}

    def remove(self, state: Any, value: int) -> Any:
        """Remove a value."""
        kinds = state["kinds"] | {value: state["kinds"][value] - 1}
        left = {kind: n for kind, n in kinds.items() if n}
        return {"kinds": left, "sum": state["sum"] - value}

    def result(self, state: Any) -> int:
        """Return the sum and the number of distinct values."""
        return int(state["sum"] * 10 + len(state["kinds"]))


class Covered(agg.TimeSensitiveAggregate):
    """A time-sensitive aggregate of clipped lifetimes and the window."""

    def compute(self, events: list[Any], window: Any) -> str:
        """Return each row's lifetime in its window."""
        return covered(events, window)


def told(values: list[dict[str, Any]]) -> str:
    """Return payloads in order; -0.0 as 0.0, since neither comes first."""
    return ";".join(f"{p['k']},{p['x']},{None if p['y'] is None else p['y'] + 0.0}" for p in values)


def covered(events: list[Any], window: Any) -> str:
    """Lifetimes in any order where rows are equal, and the window."""
    lived = sorted((e.start, e.end, str(e.payload["x"])) for e in events)
    return f"{window.start}-{window.end}: {lived}"


def values(payloads: list[dict[str, Any]], field: str) -> list[Any]:
    """Return the values that are not null."""
    return [p[field] for p in payloads if p[field] is not None]


LISTED: dict[str, tuple[Any, oracle.Aggregate]] = {
    "fx": (agg.first("x"), oracle_windows.first("x")),
    "fk": (agg.first("k"), oracle_windows.first("k")),
    "ly": (agg.last("y"), oracle_windows.last("y")),
    "qx": (agg.quantile("x", 0.3), oracle_windows.quantile("x", 0.3)),
    "qy": (agg.quantile("y", 0.6, "lower"), oracle_windows.quantile("y", 0.6, "lower")),
    "ql": (agg.quantile("x", 0.7, "linear"), oracle_windows.quantile("x", 0.7, "linear")),
    "final": (agg.expr(pl.col("x").last()), lambda payloads: payloads[-1]["x"]),
    "double": (agg.expr((pl.col("x") * 2).sum()), lambda payloads: 2 * sum(values(payloads, "x"))),
    "spread": (
        Spread("x"),
        lambda payloads: max(v) - min(v) if (v := values(payloads, "x")) else -1,
    ),
    "told": (Told(), told),
}
VARIED: dict[str, tuple[Any, oracle.Aggregate]] = {
    "vx": (agg.var("x"), oracle_windows.var("x")),
    "vy": (agg.var("y"), oracle_windows.var("y")),
    "dx": (agg.std("x"), oracle_windows.std("x")),
    "tally": (
        Tally("x"),
        lambda payloads: sum(v := values(payloads, "x")) * 10 + len(set(v)),
    ),
}
# of the differences that ``oracle_lifetimes.compare_neighbours`` adds to the rows
COMPARED: dict[str, tuple[Any, oracle.Aggregate]] = {
    "ix": (agg.increase("x"), oracle.sum_("x increase")),
    "iy": (agg.increase("y"), oracle.sum_("y increase")),
    "rx": (agg.resets(pl.col("x")), oracle.sum_("x resets")),
    "ry": (agg.resets("y"), oracle.sum_("y resets")),
    "cx": (agg.changes("x"), oracle.sum_("x changes")),
    "ck": (agg.changes("k"), oracle.sum_("k changes")),
    "nx": (agg.count("x"), oracle.count("x")),
    "told": (Told(), told),
}
SENSITIVE = {"covered": (Covered(), covered)}
# by time, which the model computes from clipped rows
AVERAGED: dict[str, tuple[Any, oracle_windows.Timed]] = {
    "mx": (agg.time_mean("x"), oracle_windows.time_mean("x")),
    "my": (agg.time_mean("y"), oracle_windows.time_mean("y")),
    "part": (agg.coverage(), oracle_windows.coverage),
}
# over real times, of which a tick is a microsecond
REAL = AVERAGED | {"jx": (agg.integral("x", per="1us"), oracle_windows.integral("x", 1))}
TIMED: dict[str, tuple[Any, oracle_windows.Timed]] = AVERAGED | {
    "jx": (agg.integral("x", per=1), oracle_windows.integral("x", 1)),
    "jy": (agg.integral(pl.col("y"), per=3), oracle_windows.integral("y", 3)),
    "time": (agg.duration(), oracle_windows.duration),
}
# of rows of which one of a key is alive at a time
INSTANTS: dict[str, tuple[Any, oracle_windows.Timed]] = {
    "start x": (agg.at_start("x"), oracle_windows.at_start("x")),
    "start y": (agg.at_start("y"), oracle_windows.at_start("y")),
    "end x": (agg.at_end("x"), oracle_windows.at_end("x")),
    "end y": (agg.at_end("y"), oracle_windows.at_end("y")),
}

# of rows that move along lines
LINES: dict[str, tuple[Any, oracle_windows.Timed]] = {
    "mean x": (agg.time_mean("x"), oracle_windows.line_mean("x")),
    "mean y": (agg.time_mean("y"), oracle_windows.line_mean("y")),
    "area x": (agg.integral("x", per=2), oracle_windows.line_integral("x", 2)),
    "area y": (agg.integral(pl.col("y"), per=3), oracle_windows.line_integral("y", 3)),
    "rise x": (agg.increase("x", interpolate=True), oracle_windows.line_increase("x")),
    "rise y": (agg.increase("y", interpolate=True), oracle_windows.line_increase("y")),
    "start x": (agg.at_start("x"), oracle_windows.line_at("x", end=False)),
    "start y": (agg.at_start("y"), oracle_windows.line_at("y", end=False)),
    "end x": (agg.at_end("x"), oracle_windows.line_at("x", end=True)),
    "end y": (agg.at_end("y"), oracle_windows.line_at("y", end=True)),
}


def picking_rows(aggregate: oracle_windows.Timed) -> oracle_windows.Timed:
    """Return an aggregate by time of the rows that count."""
    return lambda rows, window: aggregate([row for row in rows if pick(row.payload)], window)


FILTERED: dict[str, tuple[Any, oracle.Aggregate]] = {
    "n": (agg.count(where=PICKED), picking(oracle.count())),
    "ny": (agg.count("y", where=PICKED), picking(oracle.count("y"))),
    "all": (agg.count(), oracle.count()),
    "sx": (agg.sum("x", where=PICKED), picking(oracle.sum_("x"))),
    "sy": (agg.sum(pl.col("y"), where=PICKED), picking(oracle.sum_("y"))),
    "ay": (agg.mean("y", where=PICKED), picking(oracle.avg("y"))),
    "lx": (agg.min("x", where=PICKED), picking(oracle.min_("x"))),
    "dy": (agg.count_distinct("y", where=PICKED), picking(oracle_windows.count_distinct("y"))),
    "every": (agg.count_distinct("y"), oracle_windows.count_distinct("y")),
    "gk": (agg.max("k", where=PICKED), picking(oracle.max_("k"))),
    "vx": (agg.var("x", where=PICKED), picking(oracle_windows.var("x"))),
    "fx": (agg.first("x", where=PICKED), picking(oracle_windows.first("x"))),
    "ly": (agg.last("y", where=PICKED), picking(oracle_windows.last("y"))),
    "qx": (agg.quantile("x", 0.3, where=PICKED), picking(oracle_windows.quantile("x", 0.3))),
    "double": (
        agg.expr((pl.col("x") * 2).sum(), where=PICKED),
        picking(lambda payloads: 2 * sum(values(payloads, "x"))),
    ),
    "told": (Told(where=PICKED), picking(told)),
    "tally": (
        Tally("x", where=PICKED),
        picking(lambda payloads: sum(v := values(payloads, "x")) * 10 + len(set(v))),
    ),
}
FILTERED_TIMES: dict[str, tuple[Any, oracle_windows.Timed]] = {
    "mx": (agg.time_mean("x", where=PICKED), picking_rows(oracle_windows.time_mean("x"))),
    "jy": (agg.integral("y", 2, where=PICKED), picking_rows(oracle_windows.integral("y", 2))),
    "time": (agg.duration(where=PICKED), picking_rows(oracle_windows.duration)),
    "all": (agg.duration(), oracle_windows.duration),
}

# operators of one's own


def kinds(payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One payload for each kind of x but 1, in order of appearance."""
    seen = dict.fromkeys(p["x"] for p in payloads)
    return [{"kind": x, "of": len(payloads)} for x in seen if x != 1]


def pieces(make: Callable[..., Any]) -> Callable[..., Iterable[Any]]:
    """Each row of x = 1 as it is clipped, and the rest of the window after the first end."""

    def apply(events: list[Any], window: Any) -> list[Any]:
        rows = [make(e.start, e.end, {"kind": e.payload["x"], "of": len(events)}) for e in events]
        first = min(e.end for e in events)
        rest = [make(first, window.end, {"kind": None, "of": 0})] if first < window.end else []
        return [row for row in rows if row.payload["kind"] == 1] + rest

    return apply


KINDS = {"kind": int, "of": int}
