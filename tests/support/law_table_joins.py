"""The cases of operators of two streams, and of those that match a stream with itself."""

from __future__ import annotations

from typing import Any

import oracle
import oracle_joins
import oracle_lifetimes
import oracle_relations
import polars as pl
import strategies
from law_cases import Case
from oracle import Row

from rxtemporal import agg
from rxtemporal.operators.reference.plan import SINCE, SINCE_TYPE, Reference

FIELDS = ("k", "x", "y")
NAMES = {"k": "name", "x": "size", "y": "weight"}
LESS = pl.col("x") < pl.col("x_right")


def less(p: dict[str, Any]) -> bool:
    """LESS, of a joined payload; null is false."""
    return None not in (p["x"], p["x_right"]) and p["x"] < p["x_right"]


def merging(on: list[tuple[str, str]], group: tuple[str, ...] = ()) -> oracle_joins.Merge:
    """Return the oracle's merge of two payloads with the same fields."""
    return oracle_joins.merging(on, FIELDS, FIELDS, "_right", group)


def joining(kind: str, *on: str, where: bool = False, group: str | None = None) -> Case:
    """A kind of join of two streams of the same fields."""
    pairs, keys = [(name, name) for name in on], (group,) if group else ()
    merge = merging(pairs, keys)
    model = getattr(oracle_joins, kind)
    options: dict[str, Any] = {"where": less if where else None, "group": keys, "merge": merge}
    matched = {} if kind == "cross_join" else {"on": pairs}
    asked: dict[str, Any] = {} if kind == "cross_join" else {"on": list(on) or None}
    if where:
        asked["where"] = LESS
    if kind != "left_anti_join":
        asked["suffix"] = "_right"

    def query(left: Any, right: Any) -> Any:
        if group is None:
            return getattr(left, kind)(right, **asked)
        left, right = left.group_by(group), right.group_by(group)
        return getattr(left, kind)(right, **asked).ungroup()

    return Case(query, lambda a, b: model(a, b, **matched, **options), inputs=2, draws=DRAWS)


def relating(*how: str, on: str | None = None, within: int | None = None) -> Case:
    """Relations of two streams of the same fields."""
    pairs = [] if on is None else [(on, on)]
    return Case(
        lambda a, b: a.relate(b, how, on, within, suffix="_right"),
        lambda a, b: oracle_relations.relate(a, b, how, pairs, within, merging(pairs)),
        lambda t, sides: oracle_relations.cti_relate(t, sides, how, pairs, within),
        inputs=2,
        draws=DRAWS,
        by_side=True,
    )


def counted(rows: list[Row], *key: str) -> list[Row]:
    """Return the number of rows alive for each key, which needs the grouping."""
    return oracle.snapshot_aggregate(rows, {"n": oracle.count()}, key)


def counting(stream: Any) -> Any:
    """The engine's side of it."""
    return stream.snapshot_window().aggregate(n=agg.count())


def valid(told: Any) -> Any:
    """What `rxt.reference` makes of the rows of an input stream, which here may be computed."""
    return told.group_by("k")._compose(Reference()).ungroup()


def told_since(stream: Any) -> Any:
    """Rows of k and x; x says since when each of them is so."""
    since = (pl.col("x").fill_null(0) * 7).cast(SINCE_TYPE)
    return stream.select("k", x=pl.col("x").fill_null(0), **{SINCE: since})


def told_at(row: Row) -> int:
    """Since when a row of the model is so."""
    return int(row.payload["x"]) * 7


def x_alone(rows: list[Row]) -> list[Row]:
    """The rows with k and x."""
    return oracle.select(rows, lambda p: {"k": p["k"], "x": p["x"] or 0})


def renamed(rows: list[Row]) -> list[Row]:
    """The right stream where its fields have other names."""
    return oracle.select(rows, lambda p: {new: p[old] for old, new in NAMES.items()})


DRAWS = {"payload": strategies.matching_payloads()}
RENAME = {new: pl.col(old) for old, new in NAMES.items()}
ON_OTHER = [("x", "size")]

TWO_STREAMS: dict[str, Case] = {
    "union": Case(lambda a, b: a.union(b), oracle_joins.union, inputs=2),
    "union, fields in another order": Case(
        lambda a, b: a.union(b.select("y", "k", "x")), oracle_joins.union, inputs=2
    ),
    "union, grouped": Case(
        lambda a, b: counting(a.group_by("k").union(b.group_by("k"))),
        lambda a, b: counted([*a, *b], "k"),
        inputs=2,
        draws=DRAWS,
    ),
    "join": joining("join", "k"),
    "join, on a predicate alone": joining("join", where=True),
    "join, two keys": joining("join", "k", "x"),
    "join, on floats": joining("join", "y"),
    "join, on and where": joining("join", "k", where=True),
    "join, grouped": joining("join", group="k"),
    "join, grouped, on and where": joining("join", "y", group="k", where=True),
    "join, on other names": Case(
        lambda a, b: a.join(b.select(**RENAME), on={"x": "size"}),
        lambda a, b: oracle_joins.join(
            a,
            renamed(b),
            ON_OTHER,
            oracle_joins.merging(ON_OTHER, FIELDS, tuple(NAMES.values())),
        ),
        inputs=2,
        draws=DRAWS,
    ),
    "join, then windows by group": Case(
        lambda a, b: counting(a.group_by("k").join(b.group_by("k"), on="x", suffix="_right")),
        lambda a, b: counted(
            oracle_joins.join(a, b, [("x", "x")], merging([("x", "x")], ("k",)), group=("k",)), "k"
        ),
        inputs=2,
        draws=DRAWS,
    ),
    "cross_join": joining("cross_join"),
    "cross_join, where": joining("cross_join", where=True),
    "left_anti_join": joining("left_anti_join", "k"),
    "left_anti_join, without keys": joining("left_anti_join"),
    "left_anti_join, on floats": joining("left_anti_join", "y"),
    "left_anti_join, on and where": joining("left_anti_join", "k", where=True),
    "left_anti_join, grouped": joining("left_anti_join", group="k"),
    "left_anti_join, grouped, on and where": joining("left_anti_join", "y", group="k", where=True),
    "left_anti_join, then windows by group": Case(
        lambda a, b: counting(a.group_by("k").left_anti_join(b.group_by("k"), on="x")),
        lambda a, b: counted(oracle_joins.left_anti_join(a, b, [("x", "x")], group=("k",)), "k"),
        inputs=2,
        draws=DRAWS,
    ),
    "left_outer_join": joining("left_outer_join", "k"),
    "left_outer_join, without keys": joining("left_outer_join"),
    "left_outer_join, on and where": joining("left_outer_join", "y", where=True),
    "left_outer_join, grouped": joining("left_outer_join", "x", group="k"),
    "full_outer_join": joining("full_outer_join", "k"),
    "full_outer_join, without keys": joining("full_outer_join"),
    "full_outer_join, on and where": joining("full_outer_join", "k", where=True),
    "full_outer_join, grouped, on and where": joining(
        "full_outer_join", "y", group="k", where=True
    ),
    "full_outer_join, on other names": Case(
        lambda a, b: a.full_outer_join(b.select(**RENAME), on={"x": "size"}),
        lambda a, b: oracle_joins.full_outer_join(
            a,
            renamed(b),
            ON_OTHER,
            oracle_joins.merging(ON_OTHER, FIELDS, tuple(NAMES.values())),
        ),
        inputs=2,
        draws=DRAWS,
    ),
    "clip_event_duration": Case(
        lambda a, b: a.clip_event_duration(b, on="k"),
        lambda a, b: oracle_joins.clip_event_duration(a, b, [("k", "k")]),
        inputs=2,
        draws=DRAWS,
    ),
    "clip_event_duration, without keys": Case(
        lambda a, b: a.clip_event_duration(b), oracle_joins.clip_event_duration, inputs=2
    ),
    "clip_event_duration, grouped": Case(
        lambda a, b: a.group_by("k").clip_event_duration(b.group_by("k"), on="x").ungroup(),
        lambda a, b: oracle_joins.clip_event_duration(a, b, [("x", "x")], ("k",)),
        inputs=2,
        draws=DRAWS,
    ),
    "clip_event_duration, then windows by group": Case(
        lambda a, b: counting(a.group_by("k").clip_event_duration(b.group_by("k"))),
        lambda a, b: counted(oracle_joins.clip_event_duration(a, b, (), ("k",)), "k"),
        inputs=2,
        draws=DRAWS,
    ),
}

RELATED: dict[str, Case] = {
    "relate": relating(*oracle_relations.RELATIONS, on="k", within=3),
    "relate, during": relating("during", on="k"),
    "relate, contains": relating("contains", on="k"),
    "relate, before": relating("before", on="k", within=6),
    "relate, after": relating("after", within=4),
    "relate, meets": relating("meets", "met_by", on="x"),
    "relate, overlaps": relating("overlaps", on="k"),
    "relate, overlapped_by": relating("overlapped_by"),
    "relate, rows that begin together": relating("starts", "equals", "started_by"),
    "relate, rows that end together": relating("finishes", "finished_by", on="y"),
    "relate, grouped": Case(
        lambda a, b: a.group_by("k").relate(
            b.group_by("k"), ["before", "equals", "contains"], "x", within=5, suffix="_right"
        ).ungroup(),
        lambda a, b: oracle_relations.relate(
            a, b, ("before", "equals", "contains"), [("x", "x")], 5,
            merging([("x", "x")], ("k",)), ("k",),
        ),
        lambda t, sides: oracle_relations.cti_relate(
            t, sides, ("before", "equals", "contains"), [("x", "x")], 5, ("k",)
        ),
        inputs=2,
        draws=DRAWS,
        by_side=True,
    ),
}  # fmt: skip

ONE_STREAM: dict[str, Case] = {
    "to_signal": Case(lambda s: s.to_signal(), oracle_lifetimes.to_signal),
    "to_signal, on": Case(
        lambda s: s.to_signal("k"),
        lambda rows: oracle_lifetimes.to_signal(rows, ["k"]),
        draws=DRAWS,
    ),
    "to_signal, at most so long": Case(
        lambda s: s.to_signal("k", max_gap=4),
        lambda rows: oracle_lifetimes.clip_to_limit(oracle_lifetimes.to_signal(rows, ["k"]), 4),
        draws=DRAWS,
    ),
    "to_signal, at most so long, then windows by group": Case(
        lambda s: counting(s.group_by("k").to_signal(max_gap=6)),
        lambda rows: counted(
            oracle_lifetimes.clip_to_limit(
                oracle_lifetimes.to_signal(rows, ["k"], null_matches=True), 6
            ),
            "k",
        ),
        draws=DRAWS,
    ),
    "to_signal, on two": Case(
        lambda s: s.to_signal(["k", "y"]),
        lambda rows: oracle_lifetimes.to_signal(rows, ["k", "y"]),
        draws=DRAWS,
    ),
    "to_signal, grouped": Case(
        lambda s: counting(s.group_by("k").to_signal()),
        lambda rows: counted(oracle_lifetimes.to_signal(rows, ["k"], null_matches=True), "k"),
        draws=DRAWS,
    ),
    "to_signal, linear": Case(
        # the chop, which cuts nothing, says that times are ticks
        lambda s: s.to_point_events().chop(1).to_signal("k", linear="x"),
        lambda rows: oracle_lifetimes.linear_signal(rows, ["x"], ["k"]),
        lambda t, events: oracle_lifetimes.cti_linear_signal(t, events, ["k"]),
        draws=DRAWS,
    ),
    "to_signal, linear, at most so long": Case(
        lambda s: s.to_signal("k", 4, linear=["y", "x"]),
        lambda rows: oracle_lifetimes.linear_signal(rows, ["y", "x"], ["k"], 4),
        lambda t, events: oracle_lifetimes.cti_linear_signal(t, events, ["k"], 4),
        draws=DRAWS,
    ),
    "to_signal, linear, without keys": Case(
        lambda s: s.to_signal(max_gap=3, linear="y"),
        lambda rows: oracle_lifetimes.linear_signal(rows, ["y"], [], 3),
        lambda t, events: oracle_lifetimes.cti_linear_signal(t, events, [], 3),
        draws=DRAWS,
    ),
    # rows of a key are equal, so that it does not matter which of two is told last
    "reference": Case(
        lambda s: valid(s.with_columns(**{SINCE: pl.lit(None, SINCE_TYPE)})),
        lambda rows: oracle_lifetimes.reference(rows, ["k"]),
        draws={"payload": strategies.keys_alone()},
    ),
    "reference, told late": Case(
        lambda s: valid(told_since(s)),
        lambda rows: oracle_lifetimes.reference(x_alone(rows), ["k"], told_at),
        draws=DRAWS,
    ),
    "distinct": Case(lambda s: s.distinct(), oracle_lifetimes.distinct, draws=DRAWS),
    "distinct, of a field": Case(
        lambda s: s.distinct("y"), lambda rows: oracle_lifetimes.distinct(rows, ["y"]), draws=DRAWS
    ),
    "distinct, grouped": Case(
        lambda s: counting(s.group_by("k").distinct("x")),
        lambda rows: counted(oracle_lifetimes.distinct(rows, ["k", "x"]), "k"),
        draws=DRAWS,
    ),
    "multicast": Case(
        lambda s: s.multicast(lambda t: t.where(pl.col("x") > 1).join(t, on="k", suffix="_right")),
        lambda rows: oracle_joins.join(
            [r for r in rows if r.payload["x"] is not None and r.payload["x"] > 1],
            rows,
            [("k", "k")],
            merging([("k", "k")]),
        ),
        draws=DRAWS,
    ),
    "apply": Case(
        lambda s: s.group_by("k").apply(counting), lambda rows: counted(rows, "k"), draws=DRAWS
    ),
    "apply, a branch that stays grouped": Case(
        lambda s: s.group_by("x").apply(
            lambda g: g.left_anti_join(g.where(pl.col("k") == "a"), on="y")
        ),
        lambda rows: oracle_joins.left_anti_join(
            rows, [r for r in rows if r.payload["k"] == "a"], [("y", "y")], group=("x",)
        ),
        draws=DRAWS,
    ),
}

CASES = TWO_STREAMS | RELATED | ONE_STREAM
