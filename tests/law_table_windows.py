"""The cases of windows: each kind of window, and what is made of the rows that it holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import oracle
import oracle_windows
import polars as pl
import strategies
from law_cases import Case, Rule, Tolerance, exactly, nearly, passed_on, sums
from oracle import Row, Window

import rxtemporal as rxt
from rxtemporal import agg

POINTS = rxt.WindowOutput.POINT_AT_END
NEAR = {"extremes": False}
LATE = 5_000

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
}


class Spread(agg.UserDefinedAggregate):
    """A plain aggregate of one's own."""

    def compute(self, values: list[int]) -> int:
        """The largest less the smallest; -1 of nothing."""
        return max(values) - min(values) if values else -1


class Told(agg.UserDefinedAggregate):
    """One that sees whole payloads, in order."""

    def compute(self, values: list[dict[str, Any]]) -> str:
        """All that they say."""
        return told(values)


class Tally(agg.UserDefinedAggregate):
    """An incremental one: how many values of each kind, and their sum."""

    def init(self) -> Any:
        """Nothing yet."""
        return {"kinds": {}, "sum": 0}

    def add(self, state: Any, value: int) -> Any:
        """One more."""
        kinds = state["kinds"]
        return {"kinds": kinds | {value: kinds.get(value, 0) + 1}, "sum": state["sum"] + value}

    def remove(self, state: Any, value: int) -> Any:
        """One less."""
        kinds = state["kinds"] | {value: state["kinds"][value] - 1}
        left = {kind: n for kind, n in kinds.items() if n}
        return {"kinds": left, "sum": state["sum"] - value}

    def result(self, state: Any) -> int:
        """The sum, and how many different ones."""
        return int(state["sum"] * 10 + len(state["kinds"]))


class Covered(agg.TimeSensitiveAggregate):
    """One that sees lifetimes, clipped, and the window."""

    def compute(self, events: list[Any], window: Any) -> str:
        """When which row is alive in which window."""
        return covered(events, window)


def told(values: list[dict[str, Any]]) -> str:
    """Payloads in order; -0.0 as 0.0, for neither comes first."""
    return ";".join(f"{p['k']},{p['x']},{None if p['y'] is None else p['y'] + 0.0}" for p in values)


def covered(events: list[Any], window: Any) -> str:
    """Lifetimes in any order where rows are equal, and the window."""
    lived = sorted((e.start, e.end, str(e.payload["x"])) for e in events)
    return f"{window.start}-{window.end}: {lived}"


def values(payloads: list[dict[str, Any]], field: str) -> list[Any]:
    """What is not null."""
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
SENSITIVE = {"covered": (Covered(), covered)}

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

# windows


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of window: how it is composed, which windows there are, and its CTI rules."""

    window: Callable[[Any], Any]
    windows: oracle_windows.Windows
    cti: Rule = passed_on
    # the rule for streams that are grouped by k
    cti_by_key: Rule = passed_on
    # the rule of what needs a window's end, and the same by key
    finished: Rule | None = None
    finished_by_key: Rule | None = None
    output: str = "window"
    endless: bool = True
    draws: Any = dataclasses.field(default_factory=dict)


def hopping(d: int, p: int, a: int = 0, *, points: bool = False) -> Kind:
    """Hopping windows over rows that end."""
    rule: Rule = lambda t, _: oracle_windows.cti_hopping_window(t, d, p, a)  # noqa: E731
    if points:
        rule = passed_on
    output = {"output": POINTS} if points else {}
    return Kind(
        lambda s: s.hopping_window(d, p, a, **output),
        lambda rows: oracle_windows.hopping_windows(rows, d, p, a),
        rule, rule,
        output="point" if points else "window",
        endless=False,
        draws=NEAR,
    )  # fmt: skip


def session(timeout: int, most: int | None = None, *, points: bool = False) -> Kind:
    """Session windows."""
    key: dict[bool, tuple[str, ...]] = {False: (), True: ("k",)}
    rules: list[Rule] = [
        lambda t, e, k=k: oracle_windows.cti_session_window(t, e, timeout, most, key[k])
        for k in (False, True)
    ]
    return Kind(
        lambda s: s.session_window(timeout, most, **({"output": POINTS} if points else {})),
        lambda rows: oracle_windows.session_windows(rows, timeout, most),
        *([passed_on] * 2 if points else rules),
        output="point" if points else "window",
    )


def counting(n: int, *, points: bool = True) -> Kind:
    """Count windows."""
    key: dict[bool, tuple[str, ...]] = {False: (), True: ("k",)}
    rules: list[Rule] = [
        lambda t, e, k=k: oracle_windows.cti_count_window(t, e, n, key[k]) for k in (False, True)
    ]
    return Kind(
        lambda s: s.count_window(n, **({} if points else {"output": rxt.WindowOutput.WINDOW})),
        lambda rows: oracle_windows.count_windows(rows, n),
        *([passed_on] * 2 if points else rules),
        output="point" if points else "window",
    )


SNAPSHOT = Kind(
    lambda s: s.snapshot_window(),
    oracle.snapshot_windows,
    finished=oracle_windows.cti_time_sensitive_snapshot,
    finished_by_key=lambda t, e: oracle_windows.cti_time_sensitive_snapshot(t, e, ["k"]),
)

# what is made of them


def of(
    kind: Kind,
    made: Callable[[Any], Any],
    model: Callable[..., list[Row]],
    *,
    by_key: bool = False,
    finished: bool = False,
    tolerance: Tolerance = exactly,
    calm: bool = True,
) -> Case:
    """The case of a kind of window and what is made of its rows, grouped by k or not."""
    rules = [kind.cti, kind.cti_by_key]
    if finished and kind.finished and kind.finished_by_key:
        rules = [kind.finished, kind.finished_by_key]
    return Case(
        lambda s: made(kind.window(s.group_by("k") if by_key else s)),
        lambda rows: model(rows, kind.windows, key=["k"] if by_key else [], output=kind.output),
        rules[by_key],
        tolerance,
        draws=({"payload": strategies.calm_payloads()} if calm else {}) | kind.draws,
        endless=kind.endless,
    )


def aggregating(kind: Kind, named: dict[str, Any], **options: Any) -> Case:
    """Aggregates."""
    ours = {name: pair[0] for name, pair in named.items() if name not in SENSITIVE}
    sensitive = {name: pair for name, pair in named.items() if name in SENSITIVE}
    models = {name: named[name][1] for name in ours}
    ours |= {name: pair[0] for name, pair in sensitive.items()}

    def model(rows: list[Row], windows: Any, **where: Any) -> list[Row]:
        timed = {name: pair[1] for name, pair in sensitive.items()}
        return oracle_windows.window_aggregate(rows, windows, models, time_sensitive=timed, **where)

    options = {"tolerance": nearly, "finished": bool(sensitive)} | options
    return of(kind, lambda w: w.aggregate(**ours), model, **options)


def ranking(kind: Kind, k: int, by: str, *, descending: bool = True, by_key: bool = False) -> Case:
    """The best ranks."""
    return of(
        kind,
        lambda w: w.top_k(k, by, descending=descending),
        lambda rows, windows, **where: oracle_windows.top_k(
            rows, windows, k, by, descending, **where
        ),
        by_key=by_key,
    )


def applying(kind: Kind, *, by_key: bool = False) -> Case:
    """An operator of payloads."""
    return of(
        kind,
        lambda w: w.apply(kinds, schema=KINDS),
        lambda rows, windows, **where: oracle_windows.window_apply(rows, windows, kinds, **where),
        by_key=by_key,
    )


def piecing(kind: Kind, *, by_key: bool = False) -> Case:
    """An operator of events."""
    return of(
        kind,
        lambda w: w.apply(pieces(rxt.IntervalEvent), schema=KINDS, time_sensitive=True),
        lambda rows, windows, **where: oracle_windows.window_apply(
            rows, windows, pieces(Row), time_sensitive=True, **where
        ),
        by_key=by_key,
        finished=True,
    )


def over(name: str, kind: Kind, *, by_key: bool) -> dict[str, Case]:
    """Everything that is made of windows of a kind, every other of them grouped."""
    return {
        f"{name}, running": aggregating(kind, AGGREGATES | VARIED, by_key=by_key),
        f"{name}, listed": aggregating(kind, LISTED, by_key=not by_key),
        f"{name}, time-sensitive": aggregating(kind, SENSITIVE | VARIED, by_key=by_key),
        f"{name}, top_k": ranking(kind, 2, "y", by_key=not by_key),
        f"{name}, apply": applying(kind, by_key=by_key),
        f"{name}, apply to events": piecing(kind, by_key=not by_key),
    }


def snapping(d: int, p: int, a: int) -> Case:
    """The lifetime half of a hopping window."""
    return Case(
        lambda s: s.snap_to_window_intervals(d, p, a),
        lambda rows: oracle.snap_to_window_intervals(rows, d, p, a),
        lambda t, _: oracle.snap_time(t, d, p, a),
    )


def tamed(d: int, p: int, a: int = 0) -> Kind:
    """Snapped lifetimes, then snapshots."""
    rule: Rule = lambda t, _: oracle.snap_time(t, d, p, a)  # noqa: E731
    return Kind(
        lambda s: s.hopping_window2(d, p, a),
        lambda rows: oracle.hopping_window2(rows, d, p, a),
        rule,
        rule,
    )


def window_by_window(rows: list[Row], windows: Any, **where: Any) -> list[Row]:
    """How many rows each window holds."""
    return oracle_windows.window_aggregate(rows, windows, {"n": oracle.count()}, **where)


def upto(d: int, p: int, a: int, last: int) -> Case:
    """Hopping windows over rows that may never end, up to a CTI."""

    def windows(rows: list[Row]) -> list[Window]:
        return oracle_windows.hopping_windows(rows, d, p, a, last)

    return Case(
        lambda s: s.hopping_window(d, p, a).aggregate(n=agg.count()),
        lambda rows: window_by_window(rows, windows),
        lambda t, _: oracle_windows.cti_hopping_window(t, d, p, a),
        draws=NEAR,
        last=last,
    )


CASES: dict[str, Case] = {
    "snap_to_window_intervals": snapping(5, 2, 0),
    "snap_to_window_intervals, tumbling": snapping(4, 4, 1),
    "snap_to_window_intervals, gaps": snapping(2, 5, 3),
    **over("snapshot_window", SNAPSHOT, by_key=False),
    "snapshot_window, running, of huge values": aggregating(
        SNAPSHOT, AGGREGATES, calm=False, tolerance=sums()
    ),
    "snapshot_window, running, of huge values, by key": aggregating(
        SNAPSHOT, AGGREGATES, by_key=True, calm=False, tolerance=sums("k")
    ),
    "snapshot_window, time-sensitive, by key": aggregating(SNAPSHOT, SENSITIVE, by_key=True),
    "snapshot_window, apply to events, in one group": piecing(SNAPSHOT),
    "snapshot_window, top_k, the least": ranking(SNAPSHOT, 1, "x", descending=False),
    "snapshot_window, grouped by a float": Case(
        lambda s: s.group_by("y").snapshot_window().aggregate(n=agg.count()),
        lambda rows: oracle.snapshot_aggregate(rows, {"n": oracle.count()}, ["y"]),
    ),
    "hopping_window2": Case(
        lambda s: s.hopping_window2(5, 2, 1).aggregate(
            **{name: pair[0] for name, pair in AGGREGATES.items()}
        ),
        lambda rows: oracle.snapshot_aggregate(
            oracle.snap_to_window_intervals(rows, 5, 2, 1),
            {name: pair[1] for name, pair in AGGREGATES.items()},
        ),
        lambda t, _: oracle.snap_time(t, 5, 2, 1),
        tolerance=sums(snap=(5, 2, 1)),
    ),
    "hopping_window2, gaps, grouped": aggregating(tamed(2, 5), AGGREGATES, by_key=True),
    "hopping_window2, listed": aggregating(tamed(4, 4, 1), LISTED),
    "hopping_window2, top_k": ranking(tamed(6, 2), 2, "x", by_key=True),
    **over("hopping_window", hopping(5, 2, 1), by_key=True),
    "hopping_window, gaps": aggregating(hopping(2, 5, 3), AGGREGATES, by_key=True),
    "hopping_window, gaps, apply": applying(hopping(3, 4)),
    "hopping_window, points": aggregating(hopping(5, 2, points=True), AGGREGATES | VARIED),
    "hopping_window, points, apply to events": piecing(hopping(5, 2, 1, points=True), by_key=True),
    "hopping_window, of endless rows": upto(120, 50, 7, LATE),
    "hopping_window, of points at the ends of time": dataclasses.replace(
        aggregating(hopping(7, 3, 1), AGGREGATES),
        draws={"shapes": ("point",), "extremes": True, "payload": strategies.calm_payloads()},
    ),
    "tumbling_window": Case(
        lambda s: s.group_by("k").tumbling_window(4, 1).aggregate(n=agg.count()),
        lambda rows: window_by_window(
            rows, lambda members: oracle_windows.tumbling_windows(members, 4, 1), key=["k"]
        ),
        lambda t, _: oracle_windows.cti_hopping_window(t, 4, 4, 1),
        endless=False,
        draws=NEAR,
    ),
    "tumbling_window, points": Case(
        lambda s: s.tumbling_window(10, output=POINTS).aggregate(n=agg.count()),
        lambda rows: window_by_window(
            rows, lambda members: oracle_windows.tumbling_windows(members, 10), output="point"
        ),
        endless=False,
        draws=NEAR,
    ),
    **over("session_window", session(5), by_key=True),
    "session_window, capped": aggregating(session(6, 10), AGGREGATES, by_key=True),
    "session_window, capped, listed": aggregating(session(12, 5), LISTED),
    "session_window, points": aggregating(session(5, points=True), AGGREGATES | VARIED),
    "session_window, points, top_k": ranking(session(5, 8, points=True), 1, "k", by_key=True),
    **over("count_window", counting(3), by_key=False),
    "count_window, of one": aggregating(counting(1), AGGREGATES),
    "count_window, as windows": aggregating(counting(3, points=False), AGGREGATES),
    "count_window, as windows, by key": aggregating(counting(2, points=False), LISTED, by_key=True),
    "count_window, as windows, apply to events": piecing(counting(2, points=False)),
}
