"""Kinds of windows, and how a kind and what is made of its rows become a case of the laws."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import oracle
import oracle_lifetimes
import oracle_windows
import polars as pl
import strategies
from law_cases import Case, Rule, Tolerance, exactly, nearly, passed_on
from law_functions import (
    AGGREGATES,
    AVERAGED,
    COMPARED,
    INSTANTS,
    KINDS,
    LINES,
    LISTED,
    SENSITIVE,
    TIMED,
    VARIED,
    kinds,
    pieces,
)
from oracle import Row, Window

import rxtemporal as rxt
from rxtemporal import agg

POINTS = rxt.WindowOutput.POINT_AT_END
NEAR = {"extremes": False}

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
    real: bool = False
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


# where days begin half an hour after those of UTC, and so in the middle of units of seven ticks
ZONE, MIDNIGHT = "Asia/Kolkata", -19_800_000_000


def local(*, points: bool = False) -> Kind:
    """Windows of seven ticks that are counted from the local midnight."""
    kind = hopping(7, 7, MIDNIGHT, points=points)
    output = {"output": POINTS} if points else {}
    return dataclasses.replace(
        kind, real=True, window=lambda s: s.tumbling_window("7us", time_zone=ZONE, **output)
    )


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


WHOLE = Kind(
    lambda s: s.whole_window(),
    oracle_windows.whole_window,
    *2 * [lambda t, _: t if t == oracle.MAX_TIME else oracle.MIN_TIME],
)


def counting(n: int, *, points: bool = True, partial: bool = False) -> Kind:
    """Count windows."""
    key: dict[bool, tuple[str, ...]] = {False: (), True: ("k",)}
    rules: list[Rule] = [
        lambda t, e, k=k: oracle_windows.cti_count_window(t, e, n, key[k]) for k in (False, True)
    ]
    return Kind(
        lambda s: s.count_window(
            n, partial=partial, **({} if points else {"output": rxt.WindowOutput.WINDOW})
        ),
        lambda rows: oracle_windows.count_windows(rows, n, partial=partial),
        *([passed_on] * 2 if points else rules),
        output="point" if points else "window",
    )


SNAPSHOT = Kind(
    lambda s: s.snapshot_window(),
    oracle.snapshot_windows,
    finished=oracle_windows.cti_time_sensitive_snapshot,
    finished_by_key=lambda t, e: oracle_windows.cti_time_sensitive_snapshot(t, e, ["k"]),
)

RUNNING = Kind(
    lambda s: s.never_ends().snapshot_window(),
    lambda rows: oracle.snapshot_windows([row._replace(end=oracle.MAX_TIME) for row in rows]),
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
        real=kind.real,
    )


def by_length(rows: list[Row]) -> Callable[[Row], float]:
    """Floats come from values of one or two digits, times lengths of time."""
    return lambda row: 1e-9 + 1e-11 * (row.end - row.start)


def by_lifetime(rows: list[Row]) -> Callable[[Row], float]:
    """Floats come from values of one or two digits, times parts of the lengths of rows."""
    longest = max((row.end - row.start for row in rows), default=0)
    return lambda _: 1e-9 + 1e-11 * longest


def aggregating(kind: Kind, named: dict[str, Any], **options: Any) -> Case:
    """Aggregates, some of which the model computes from clipped rows."""
    clipped = SENSITIVE | TIMED | INSTANTS

    def model(rows: list[Row], windows: Any, **where: Any) -> list[Row]:
        models = {name: pair[1] for name, pair in named.items() if name not in clipped}
        timed = {name: pair[1] for name, pair in named.items() if name in clipped}
        return oracle_windows.window_aggregate(rows, windows, models, time_sensitive=timed, **where)

    ours = {name: pair[0] for name, pair in named.items()}
    waits = any(name in clipped and name not in AVERAGED for name in named)
    options = {"tolerance": nearly, "finished": waits} | options
    return of(kind, lambda w: w.aggregate(**ours), model, **options)


def timing(
    kind: Kind,
    others: dict[str, Any] | None = None,
    *,
    by_key: bool = False,
    tolerance: Any = by_length,
) -> Case:
    """Aggregates by time, beside others; results may be shorter than their windows."""
    return aggregating(kind, TIMED | (others or {}), by_key=by_key, tolerance=tolerance)


def reading_signals(kind: Kind, others: dict[str, Any] | None = None) -> Case:
    """Aggregates at the bounds of windows, of rows of which one of a key is alive at a time."""
    values = {"x": (agg.min("x"), oracle.min_("x")), "y": (agg.max("y"), oracle.max_("y"))}
    ours = {name: pair[0] for name, pair in values.items()}
    models = {name: pair[1] for name, pair in values.items()}
    case = aggregating(kind, INSTANTS | (others or {}), by_key=True, tolerance=by_length)

    def cti(t: int, events: Any) -> int:
        # the windows are over the snapshots, which begin where a row ends, too
        rows = oracle.snapshot_aggregate(oracle.canonical(events), models, ["k"])
        begun = [("interval", *row) for row in rows if row.start < t]
        return case.cti(t, begun)

    return dataclasses.replace(
        case,
        cti=cti,
        query=lambda s: case.query(s.group_by("k").snapshot_window().aggregate(**ours)),
        model=lambda rows: case.model(oracle.snapshot_aggregate(rows, models, ["k"])),
    )


def following_lines(d: int, p: int, a: int, max_gap: int) -> Case:
    """Aggregates of a linear signal by key, over hopping windows."""
    kind, fields = hopping(d, p, a), ["x", "y"]
    values = {"x": (agg.min("x"), oracle.min_("x")), "y": (agg.max("y"), oracle.max_("y"))}
    ours = {name: pair[0] for name, pair in values.items()}
    models = {name: pair[1] for name, pair in values.items()}

    def query(stream: Any) -> Any:
        readings = stream.to_point_events().group_by("k").snapshot_window().aggregate(**ours)
        signal = readings.group_by("k").to_signal(linear=fields, max_gap=max_gap)
        return kind.window(signal).aggregate(**{name: pair[0] for name, pair in LINES.items()})

    def model(rows: list[Row]) -> list[Row]:
        points = oracle_lifetimes.to_point_events(rows)
        readings = oracle.snapshot_aggregate(points, models, ["k"])
        signal = oracle_lifetimes.linear_signal(readings, fields, ["k"], max_gap, null_matches=True)
        timed = {name: pair[1] for name, pair in LINES.items()}
        return oracle_windows.window_aggregate(
            signal, kind.windows, {}, time_sensitive=timed, key=["k"]
        )

    def cti(t: int, events: list[Any]) -> int:
        held = oracle_lifetimes.cti_linear_signal(t, events, ["k"], max_gap, null_matches=True)
        return oracle_windows.cti_hopping_window(held, d, p, a)

    draws = {"payload": strategies.calm_payloads()} | kind.draws
    return Case(query, model, cti, by_length, draws=draws)


def comparing(kind: Kind, *, by_key: bool = False) -> Case:
    """Aggregates of what rows differ from the row before of their key."""

    def model(rows: list[Row], windows: Any, *, key: Sequence[str], **where: Any) -> list[Row]:
        compared = oracle_lifetimes.compare_neighbours(rows, ["k", "x", "y"], key)
        models = {name: pair[1] for name, pair in COMPARED.items()}
        return oracle_windows.window_aggregate(compared, windows, models, key=key, **where)

    ours = {name: pair[0] for name, pair in COMPARED.items()}
    return of(kind, lambda w: w.aggregate(**ours), model, by_key=by_key, tolerance=nearly)


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


def ranking_by_two(kind: Kind, k: int, *, ties: str = "share", by_key: bool = False) -> Case:
    """The best ranks by two fields, the greatest x and of those the least k."""
    return of(
        kind,
        lambda w: w.top_k(k, ["x", pl.col("k")], descending=[True, False], ties=ties, rank="place"),
        lambda rows, windows, **where: oracle_windows.top_k_by_two(
            rows, windows, k, ("x", "k"), ties, "place", **where
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
    """Return the number of rows in each window."""
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
