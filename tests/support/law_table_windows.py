"""The cases of windows: each kind of window, and what is made of the rows that it holds."""

from __future__ import annotations

import dataclasses

import oracle
import oracle_windows
import strategies
from law_cases import Case, sums
from law_functions import (
    AGGREGATES,
    AVERAGED,
    FILTERED,
    FILTERED_TIMES,
    LISTED,
    REAL,
    SENSITIVE,
    TIMED,
    VARIED,
)
from law_windows import (
    NEAR,
    POINTS,
    RUNNING,
    SNAPSHOT,
    WHOLE,
    aggregating,
    applying,
    by_length,
    by_lifetime,
    comparing,
    counting,
    following_lines,
    hopping,
    local,
    over,
    piecing,
    ranking,
    ranking_by_two,
    reading_signals,
    session,
    snapping,
    tamed,
    timing,
    upto,
    window_by_window,
)

from rxtemporal import agg

LATE = 5_000

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
    "snapshot_window, differences": comparing(SNAPSHOT),
    "snapshot_window, differences, by key": comparing(SNAPSHOT, by_key=True),
    "hopping_window, differences, by key": comparing(hopping(5, 2, 1), by_key=True),
    "hopping_window2, differences, by key": comparing(tamed(5, 2, 1), by_key=True),
    "session_window, differences, by key": comparing(session(5), by_key=True),
    "snapshot_window, top_k, the least": ranking(SNAPSHOT, 1, "x", descending=False),
    **{
        f"{name}, top_k by two, {ties}": ranking_by_two(kind, 2, ties=ties, by_key=by_key)
        for name, kind, by_key in (
            ("snapshot_window", SNAPSHOT, True),
            ("hopping_window", hopping(5, 2, 1), False),
            ("session_window", session(5), False),
            ("snapshot_window, of rows that never end", RUNNING, True),
        )
        for ties in ("share", "first")
    },
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
    **over("tumbling_window, local", local(), by_key=True),
    "tumbling_window, local, by time": aggregating(
        local(), REAL | AGGREGATES, by_key=True, tolerance=by_length
    ),
    "tumbling_window, local, points": aggregating(local(points=True), AGGREGATES | VARIED),
    "tumbling_window, local, apply to events": piecing(local(points=True), by_key=True),
    **over("session_window", session(5), by_key=True),
    "session_window, capped": aggregating(session(6, 10), AGGREGATES, by_key=True),
    "session_window, capped, listed": aggregating(session(12, 5), LISTED),
    "session_window, always capped": aggregating(session(7, 3), AGGREGATES, by_key=True),
    "session_window, points": aggregating(session(5, points=True), AGGREGATES | VARIED),
    "session_window, points, top_k": ranking(session(5, 8, points=True), 1, "k", by_key=True),
    **over("count_window", counting(3), by_key=False),
    **{
        f"{name}, by time": timing(kind, by_key=by_key)
        for name, kind, by_key in (
            ("snapshot_window", SNAPSHOT, True),
            ("tumbling_window", hopping(4, 4, 1), True),
            ("hopping_window", hopping(5, 2, 1), False),
            ("hopping_window, gaps", hopping(2, 5, 3), True),
            ("hopping_window, points", hopping(6, 2, points=True), True),
            ("hopping_window, of many", hopping(20, 2), True),
            ("session_window", session(5), True),
            ("session_window, points", session(5, 8, points=True), False),
        )
    },
    # points at the end of windows that may be as long as all time
    "count_window, by time": timing(counting(3), by_key=True, tolerance=by_lifetime),
    "snapshot_window, means by time": aggregating(SNAPSHOT, AVERAGED, tolerance=by_length),
    "snapshot_window, by time, beside others": timing(SNAPSHOT, VARIED, by_key=True),
    "tumbling_window, by time, beside others": timing(hopping(4, 4, 1), AGGREGATES | VARIED),
    "tumbling_window, by time, beside listed": timing(hopping(4, 4), LISTED, by_key=True),
    "hopping_window, by time, beside others": timing(
        hopping(5, 2, 1), AGGREGATES | VARIED, by_key=True
    ),
    "hopping_window, by time, beside listed": timing(hopping(6, 3), LISTED | SENSITIVE),
    "session_window, by time, beside others": timing(session(5), AGGREGATES | LISTED, by_key=True),
    "count_window, by time, beside others": timing(counting(2), AGGREGATES, tolerance=by_lifetime),
    "tumbling_window, at bounds": reading_signals(hopping(4, 4, 1), TIMED),
    "hopping_window, at bounds": reading_signals(hopping(5, 2)),
    "hopping_window, at bounds, by time": reading_signals(hopping(6, 2), TIMED),
    "hopping_window, at bounds, beside others": reading_signals(hopping(5, 2), TIMED | AGGREGATES),
    "tumbling_window, along lines": following_lines(4, 4, 1, 6),
    "hopping_window, along lines": following_lines(6, 2, 0, 9),
    "session_window, at bounds": reading_signals(session(5)),
    **{
        f"{name}, where": aggregating(kind, FILTERED, by_key=by_key)
        for name, kind, by_key in (
            ("snapshot_window", SNAPSHOT, True),
            ("tumbling_window", hopping(4, 4, 1), False),
            ("hopping_window", hopping(5, 2, 1), True),
            ("session_window", session(5), True),
            ("count_window", counting(3), False),
        )
    },
    **{
        f"{name}, by time, where": aggregating(
            kind, FILTERED_TIMES | FILTERED, by_key=True, tolerance=by_length
        )
        for name, kind in (
            ("snapshot_window", SNAPSHOT),
            ("hopping_window", hopping(5, 2, 1)),
            ("session_window", session(5)),
        )
    },
    **over("count_window, partial", counting(3, partial=True), by_key=True),
    "count_window, partial, as windows, by key": aggregating(
        counting(2, points=False, partial=True), LISTED, by_key=True
    ),
    "count_window, partial, where": aggregating(counting(4, partial=True), FILTERED),
    "count_window, partial, as windows, apply": piecing(counting(3, points=False, partial=True)),
    "whole_window": aggregating(WHOLE, AGGREGATES | VARIED),
    "whole_window, by key": aggregating(WHOLE, AGGREGATES | VARIED, by_key=True),
    "whole_window, listed": aggregating(WHOLE, LISTED),
    "whole_window, top_k": ranking(WHOLE, 2, "x", by_key=True),
    "count_window, of one": aggregating(counting(1), AGGREGATES),
    "count_window, as windows": aggregating(counting(3, points=False), AGGREGATES),
    "count_window, as windows, by key": aggregating(counting(2, points=False), LISTED, by_key=True),
    "count_window, as windows, apply to events": piecing(counting(2, points=False)),
}
