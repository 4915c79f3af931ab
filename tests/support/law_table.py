"""The cases of operators that look at one stream, row by row or in order of time."""

from __future__ import annotations

from typing import Any

import oracle
import oracle_lifetimes
import oracle_patterns
import polars as pl
import strategies
from law_cases import Case, Model, nearly
from law_windows import MIDNIGHT, ZONE
from oracle import Row
from oracle_lifetimes import per_key, through

from rxtemporal import agg

COMPLETE = {"shapes": ("point", "interval")}
NEAR = {"extremes": False}
FEW = {"payload": strategies.few_payloads()}
TIME_BEFORE = pl.col("time_before").cast(pl.Int64)
LENGTH = pl.col("end") - pl.col("start")
# later than all that streams draw near the origin of time
LATE = 5_000


def grouped(model: Model, *key: str) -> Model:
    """Return a model that is run for each key."""
    return lambda rows: per_key(rows, key, model)


def passing(name: str, query: Any, model: Model, **options: Any) -> dict[str, Case]:
    """An operator of lifetimes on a stream, and on a grouped one that is counted afterwards."""

    def by_key(stream: Any) -> Any:
        return query(stream.group_by("k")).snapshot_window().aggregate(n=agg.count())

    def counted(rows: list[Row]) -> list[Row]:
        return oracle.snapshot_aggregate(per_key(rows, ["k"], model), COUNT, ["k"])

    return {
        name: Case(query, model, **options),
        f"{name}, grouped": Case(by_key, counted, **options),
    }


COUNT = {"n": oracle.count()}


# functions of users, for the engine and the model alike


def words(payload: dict[str, Any]) -> dict[str, Any]:
    """A list field: none, an empty one, or some elements, null among them."""
    x, found = payload["x"], [payload["x"], None, 7]
    return {"name": payload["k"], "some": None if x is None else found[: max(x, 0) % 4]}


WORDS = {"name": str, "some": pl.List(pl.Int64)}


def running(state: list[int], start: int, payload: dict[str, Any]) -> tuple[list[int], Any]:
    """Sum x and return no, one or two results."""
    state = [state[0] + (payload["x"] or 0), state[1] + 1]
    result = {"total": state[0] % 1000, "number": state[1], "at": start}
    return state, (None, result, [result, {**result, "at": None}])[state[1] % 3]


# a row of a large x, and the next one, of a small one
PAIR = {
    "A": lambda row, _: None if row.payload["x"] is None else row.payload["x"] > 1,
    "B": lambda row, _: None if row.payload["x"] is None else row.payload["x"] <= 1,
}


def is_large(row: Row) -> bool:
    """Return True for the first row of a pair."""
    return bool(PAIR["A"](row, None))


RUNNING = {"total": int, "number": int, "at": int}


def floored(t: int) -> int:
    """The boundary at or before a time."""
    return t // 5 * 5


# tables

RELATIONAL: dict[str, Case] = {
    "where": Case(
        lambda s: s.where(pl.col("x") > 1),
        lambda rows: oracle.where(rows, lambda p: p["x"] is not None and p["x"] > 1),
    ),
    "where, by function": Case(
        lambda s: s.where(lambda row: row["k"] == "a"),
        lambda rows: oracle.where(rows, lambda p: p["k"] == "a"),
    ),
    "where, several": Case(
        lambda s: s.where(pl.col("x") > 0, lambda row: row["k"] == "a", pl.col("y").is_null()),
        lambda rows: oracle.where(
            rows, lambda p: (p["x"] or 0) > 0 and (p["k"], p["y"]) == ("a", None)
        ),
    ),
    "select": Case(
        lambda s: s.select("k", twice=pl.col("x") * 2, one=1),
        lambda rows: oracle.select(
            rows,
            lambda p: {"k": p["k"], "twice": None if p["x"] is None else p["x"] * 2, "one": 1},
        ),
    ),
    "select, grouped": Case(
        lambda s: s.group_by("x").select("y").ungroup(),
        lambda rows: oracle.select(rows, lambda p: {"x": p["x"], "y": p["y"]}),
    ),
    "select, by function": Case(
        lambda s: s.select(lambda p: {"both": f"{p['k']}{p['x']}"}, schema={"both": str}),
        lambda rows: oracle.select(rows, lambda p: {"both": f"{p['k']}{p['x']}"}),
    ),
    "with_columns": Case(
        lambda s: s.with_columns(x=pl.col("x").is_null()),
        lambda rows: oracle.select(rows, lambda p: {**p, "x": p["x"] is None}),
    ),
    "drop": Case(
        lambda s: s.drop("x", "y"), lambda rows: oracle.select(rows, lambda p: {"k": p["k"]})
    ),
    "explode": Case(
        lambda s: s.select(words, schema=WORDS).explode("some"),
        lambda rows: oracle_lifetimes.explode(oracle.select(rows, words), "some"),
    ),
    "explode, grouped": Case(
        lambda s: (
            s.select(words, schema=WORDS)
            .group_by("name")
            .explode("some")
            .snapshot_window()
            .aggregate(n=agg.count("some"))
        ),
        lambda rows: oracle.snapshot_aggregate(
            oracle_lifetimes.explode(oracle.select(rows, words), "some"),
            {"n": oracle.count("some")},
            ["name"],
        ),
    ),
    "group_by": Case(lambda s: s.group_by("k"), lambda rows: rows),
    "ungroup": Case(lambda s: s.group_by("y").ungroup().group_by("k").ungroup(), lambda rows: rows),
}

LIFETIMES: dict[str, Case] = {
    **passing(
        "shift_event_time",
        lambda s: s.shift_event_time(4),
        lambda rows: oracle.shift_event_time(rows, 4),
        cti=lambda t, _: oracle.shift_time(t, 4),
    ),
    "shift_event_time, back": Case(
        lambda s: s.shift_event_time(-13),
        lambda rows: oracle.shift_event_time(rows, -13),
        lambda t, _: oracle.shift_time(t, -13),
    ),
    "alter_event_lifetime": Case(
        lambda s: s.alter_event_lifetime(lambda t: 2 * t, LENGTH * 2),
        lambda rows: oracle_lifetimes.alter_event_lifetime(
            rows, lambda t: 2 * t, lambda row: 2 * (row.end - row.start)
        ),
        lambda t, _: through(lambda t: 2 * t, t),
        draws=NEAR,
    ),
    "alter_event_lifetime, by functions": Case(
        lambda s: s.alter_event_lifetime(lambda t: t + 3, lambda row: row.end - row.start),
        lambda rows: oracle_lifetimes.alter_event_start_time(rows, lambda t: t + 3),
        lambda t, _: through(lambda t: t + 3, t),
        draws=NEAR,
    ),
    "alter_event_lifetime, of a fixed duration": Case(
        lambda s: s.alter_event_lifetime(pl.col("start") // 5 * 5, 7),
        lambda rows: oracle_lifetimes.alter_event_lifetime(rows, floored, 7),
        lambda t, _: through(floored, t),
    ),
    **passing(
        "alter_event_start_time",
        lambda s: s.alter_event_start_time(floored),
        lambda rows: oracle_lifetimes.alter_event_start_time(rows, floored),
        cti=lambda t, _: through(floored, t),
        draws=COMPLETE,
    ),
    "alter_event_start_time, of open rows": Case(
        lambda s: s.alter_event_start_time(pl.col("start") + 9),
        lambda rows: oracle_lifetimes.alter_event_start_time(rows, lambda t: t + 9),
        lambda t, _: through(lambda t: t + 9, t),
        draws=NEAR,  # the end of an open row from MIN_TIME is not moved, though its CTIs are
    ),
    **passing(
        "alter_event_duration",
        lambda s: s.alter_event_duration(pl.col("x").abs().fill_null(3) % 9 + 1),
        lambda rows: oracle_lifetimes.alter_event_duration(
            rows,
            lambda row: abs(3 if row.payload["x"] is None else row.payload["x"]) % 9 + 1,
            False,
        ),
    ),
    "alter_event_duration, that reads the end": Case(
        lambda s: s.alter_event_duration(LENGTH + 2),
        lambda rows: oracle_lifetimes.alter_event_duration(
            rows, lambda row: row.end - row.start + 2
        ),
    ),
    **passing(
        "never_ends",
        lambda s: s.never_ends(),
        lambda rows: [row._replace(end=oracle.MAX_TIME) for row in rows],
    ),
    **passing("to_point_events", lambda s: s.to_point_events(), oracle_lifetimes.to_point_events),
    **passing("point_at_end", lambda s: s.point_at_end(), oracle_lifetimes.point_at_end),
    **passing(
        "extend_lifetime",
        lambda s: s.extend_lifetime(3),
        lambda rows: oracle_lifetimes.extend_lifetime(rows, 3),
    ),
    **passing(
        "extend_lifetime, back",
        lambda s: s.extend_lifetime(-3),
        lambda rows: oracle_lifetimes.extend_lifetime(rows, -3),
        cti=lambda t, events: oracle_lifetimes.cti_extend_lifetime(t, events, -3),
    ),
    "extend_lifetime, far back": Case(
        lambda s: s.extend_lifetime(-30),
        lambda rows: oracle_lifetimes.extend_lifetime(rows, -30),
        lambda t, events: oracle_lifetimes.cti_extend_lifetime(t, events, -30),
    ),
    **passing(
        "clip_event_duration, after a limit",
        lambda s: s.clip_event_duration(6),
        lambda rows: oracle_lifetimes.clip_to_limit(rows, 6),
    ),
    **passing(
        "chop",
        lambda s: s.chop(7, 2),
        lambda rows: oracle_lifetimes.chop(rows, 7, 2),
        endless=False,
        draws=NEAR,
    ),
    "chop, of endless rows": Case(
        lambda s: s.chop(60, -7),
        lambda rows: oracle_lifetimes.chop(rows, 60, -7, LATE),
        draws=NEAR,
        last=LATE,
    ),
    **passing(
        "sample",
        lambda s: s.sample(3, 2),
        lambda rows: oracle_lifetimes.sample(rows, 3, 2),
        endless=False,
        draws=NEAR,
    ),
    "sample, of endless rows": Case(
        lambda s: s.sample(60, -7),
        lambda rows: oracle_lifetimes.sample(rows, 60, -7, LATE),
        draws=NEAR,
        last=LATE,
    ),
    **passing(
        "chop, local",
        lambda s: s.chop("7us", time_zone=ZONE),
        lambda rows: oracle_lifetimes.chop(rows, 7, MIDNIGHT),
        endless=False,
        real=True,
        draws=NEAR,
    ),
    "sample, local, of endless rows": Case(
        lambda s: s.sample("60us", time_zone=ZONE),
        lambda rows: oracle_lifetimes.sample(rows, 60, MIDNIGHT, LATE),
        draws=NEAR,
        last=LATE,
        real=True,
    ),
    "sample, of a signal": Case(
        lambda s: s.to_signal("k", max_gap=7).sample(2),
        lambda rows: oracle_lifetimes.sample(
            oracle_lifetimes.clip_to_limit(oracle_lifetimes.to_signal(rows, ["k"]), 7), 2
        ),
        draws=NEAR,
    ),
    "sample, of a linear signal": Case(
        lambda s: s.to_signal("k", max_gap=7, linear=["x", "y"]).sample(3, 1),
        lambda rows: oracle_lifetimes.drop_lines(
            oracle_lifetimes.sample(
                oracle_lifetimes.linear_signal(rows, ["x", "y"], ["k"], 7), 3, 1
            ),
            ["x", "y"],
        ),
        lambda t, events: oracle_lifetimes.cti_linear_signal(t, events, ["k"], 7),
        nearly,
        draws=NEAR | {"payload": strategies.calm_payloads()},
    ),
    "shift_event_time, of a linear signal": Case(
        lambda s: s.to_signal("k", 5, linear="x").shift_event_time(4),
        lambda rows: [
            row._replace(
                start=row.start + 4,
                end=row.end + 4,
                payload=row.payload
                | {name: row.payload[name] + 4 for name in ("x_line_start", "x_line_end")},
            )
            for row in oracle_lifetimes.linear_signal(rows, ["x"], ["k"], 5)
        ],
        lambda t, events: oracle.shift_time(
            oracle_lifetimes.cti_linear_signal(t, events, ["k"], 5), 4
        ),
        draws=NEAR,
    ),
    "chop, of points at the ends of time": Case(
        lambda s: s.chop(3, 1),
        lambda rows: oracle_lifetimes.chop(rows, 3, 1),
        draws={"shapes": ("point",), "extremes": True},
    ),
}

SEQUENCES: dict[str, Case] = {
    **passing("stitch", lambda s: s.stitch(), oracle_lifetimes.stitch, draws=FEW),
    "stitch, of the chopped": Case(
        lambda s: s.chop(4).stitch(),
        lambda rows: oracle_lifetimes.stitch(oracle_lifetimes.chop(rows, 4)),
        endless=False,
        draws=NEAR | FEW,
    ),
    **passing(
        "session_lifetimes",
        lambda s: s.session_lifetimes(5),
        lambda rows: oracle_lifetimes.session_lifetimes(rows, 5),
    ),
    **passing(
        "session_lifetimes, capped",
        lambda s: s.session_lifetimes(6, 10),
        lambda rows: oracle_lifetimes.session_lifetimes(rows, 6, 10),
    ),
    **passing(
        "session_lifetimes, always capped",
        lambda s: s.session_lifetimes(7, 3),
        lambda rows: oracle_lifetimes.session_lifetimes(rows, 7, 3),
    ),
    "scan": Case(
        lambda s: s.scan([0, 0], running, schema=RUNNING),
        lambda rows: oracle_lifetimes.scan(rows, [0, 0], running),
    ),
    "deadband": Case(
        lambda s: s.deadband("x", 1),
        lambda rows: oracle_lifetimes.deadband(rows, "x", 1),
    ),
    "deadband, grouped": Case(
        lambda s: s.group_by("k").deadband("x", 0).ungroup(),
        lambda rows: oracle_lifetimes.deadband(rows, "x", 0, ["k"]),
    ),
    "previous": Case(
        lambda s: s.previous("x", "y", max_gap=40).with_columns(time_before=TIME_BEFORE),
        lambda rows: oracle_lifetimes.previous(rows, ["x", "y"], max_gap=40),
    ),
    "previous, third, grouped": Case(
        # a number of ticks says that times are ticks, and this one is longer than all time
        lambda s: (
            s.group_by("k")
            .previous(n=3, max_gap=10**18)
            .ungroup()
            .with_columns(time_before=TIME_BEFORE)
        ),
        lambda rows: oracle_lifetimes.previous(rows, ["x", "y"], ["k"], n=3),
    ),
    "previous, near, grouped": Case(
        lambda s: (
            s.group_by("k").previous("k", max_gap=4).ungroup().with_columns(time_before=TIME_BEFORE)
        ),
        lambda rows: oracle_lifetimes.previous(rows, ["k"], ["k"], max_gap=4),
    ),
    "detect": Case(
        lambda s: s.detect("A B", A=pl.col("x") > 1, B=pl.col("x") <= 1),
        lambda rows: oracle_patterns.detect(rows, "A B", PAIR),
        lambda t, events: oracle_patterns.cti_detect_pair(t, events, is_large),
    ),
    "detect, grouped": Case(
        lambda s: (
            s.group_by("k")
            .detect("A B", A=pl.col("x") > 1, B=pl.col("x") <= 1, within=7)
            .snapshot_window()
            .aggregate(n=agg.count())
        ),
        lambda rows: oracle.snapshot_aggregate(
            oracle_patterns.detect(rows, "A B", PAIR, ["k"], within=7), COUNT, ["k"]
        ),
        lambda t, events: oracle_patterns.cti_detect_pair(t, events, is_large, ["k"], 7),
    ),
    "detect, all rows": Case(
        lambda s: (
            s.detect("A B", A=pl.col("x") > 1, B=pl.col("x") <= 1, within=9, rows="all")
            .drop("variable")
            .with_columns(match=pl.col("match").cast(pl.Int64))
        ),
        lambda rows: oracle_patterns.detect_rows(rows, "A B", PAIR, within=9),
        lambda t, events: oracle_patterns.cti_detect_pair(t, events, is_large, (), 9),
    ),
    "scan, grouped": Case(
        lambda s: s.group_by("k").scan([0, 0], running, schema=RUNNING),
        lambda rows: oracle_lifetimes.scan(rows, [0, 0], running, ["k"]),
    ),
}

CASES = RELATIONAL | LIFETIMES | SEQUENCES
