"""The oracle's operators against tables made by hand and cases with known answers from outside.

Each test says in its docstring the sentence of the operator's meaning that it pins.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from needs import skip_or_fail
from oracle import (
    MAX_TIME,
    MIN_TIME,
    Row,
    avg,
    canonical,
    clip,
    count,
    freeze,
    history,
    hopping_window2,
    max_,
    min_,
    shift_event_time,
    snap_to_window_intervals,
    snapshot_windows,
    sum_,
)
from oracle_joins import (
    clip_event_duration,
    cross_join,
    cti_of_two,
    full_outer_join,
    join,
    left_anti_join,
    left_outer_join,
    merging,
    union,
)
from oracle_lifetimes import (
    TooMany,
    UnboundedWindow,
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
    chop,
    clip_to_limit,
    cti_alter_event_lifetime,
    cti_extend_lifetime,
    cti_shift_event_time,
    distinct,
    explode,
    extend_lifetime,
    per_key,
    point_at_end,
    scan,
    session_cap,
    session_lifetimes,
    stitch,
    to_point_events,
    to_signal,
)
from oracle_windows import (
    count_windows,
    cti_count_window,
    cti_hopping_window,
    cti_session_window,
    cti_time_sensitive_snapshot,
    first,
    hopping_windows,
    last,
    quantile,
    session_windows,
    std,
    top_k,
    tumbling_windows,
    var,
    window_aggregate,
    window_apply,
)
from strategies import few_payloads, streams

P = {"k": "p"}
ON = [("k", "k")]
Lifetimes = list[tuple[int, int]]


def alike(lifetimes: Lifetimes, payload: dict[str, Any] | None = None) -> list[Row]:
    """Rows of these lifetimes and one payload."""
    return [Row(s, e, P if payload is None else payload) for s, e in lifetimes]


def keyed(rows: list[tuple[int, int, Any]], *names: str) -> list[Row]:
    """Rows whose payload has the fields `names`, or "k"."""
    return [Row(s, e, dict(zip(names or "k", v, strict=True))) for s, e, *v in rows]


def lives(rows: list[Row]) -> Lifetimes:
    """The lifetimes, sorted."""
    return sorted((row.start, row.end) for row in rows)


def table(rows: list[Row]) -> list[tuple[Any, ...]]:
    """(start, end, value, value, ...) of each row, sorted."""
    return sorted(((*row[:2], *row.payload.values()) for row in rows), key=repr)


def pair(lp: Any, rp: Any) -> dict[str, Any]:
    """A joined payload of two."""
    return {"l": lp, "r": rp}


# altered lifetimes


def test_alter_event_lifetime() -> None:
    """“Start f(start), then duration g(row)”, g of the row as it came in."""
    rows = alike([(10, 14), (20, 21)])
    altered = alter_event_lifetime(rows, lambda t: t // 10, lambda row: row.end - row.start + 1)
    assert lives(altered) == [(1, 6), (2, 4)]


def test_alter_leaves_infinities() -> None:
    """“Sending them through a user's time function leaves them as they are”."""
    rows = alike([(MIN_TIME, 5), (3, MAX_TIME)])
    assert lives(alter_event_start_time(rows, lambda t: t - 2)) == [(MIN_TIME, 5), (1, MAX_TIME)]
    assert [cti_alter_event_lifetime(t, lambda t: t - 2) for t in (MIN_TIME, 9, MAX_TIME)] == [
        MIN_TIME,
        7,
        MAX_TIME,
    ]
    assert cti_shift_event_time(9, -4) == 5


def test_alter_start_keeps_the_duration() -> None:
    """“The same with the other part kept (the duration, the start)”."""
    assert lives(alter_event_start_time(alike([(4, 9)]), lambda t: t + 3)) == [(7, 12)]
    assert lives(alter_event_duration(alike([(4, 9)]), lambda row: 2 * (row.end - 4))) == [(4, 14)]


@pytest.mark.parametrize(("reads_end", "end"), [(True, MAX_TIME), (False, 7)])
def test_a_duration_that_names_no_end_completes_rows(reads_end: bool, end: int) -> None:
    """“If it names no end, rows are complete at once, else an open row stays open.”"""
    rows = alike([(4, MAX_TIME)])
    assert lives(alter_event_duration(rows, lambda _: 3, reads_end=reads_end)) == [(4, end)]
    assert lives(alter_event_duration(rows, 3)) == [(4, 7)]  # a plain number names no end


@pytest.mark.parametrize("duration", [0, -1])
def test_a_duration_must_be_positive(duration: int) -> None:
    """“A duration that is not positive is an error in every shape.”"""
    with pytest.raises(ValueError, match="duration"):
        alter_event_duration(alike([(4, 9)]), duration)


def test_durations_saturate() -> None:
    """“Other results saturate; a row whose lifetime becomes empty by saturation is no row.”"""
    assert lives(alter_event_duration(alike([(4, 9)]), 2**62)) == [(4, MAX_TIME)]
    assert alter_event_start_time(alike([(4, 9)]), lambda _: MAX_TIME) == []


def test_to_point_events_and_point_at_end() -> None:
    """“[start, start + 1 tick)”; “[end, end + 1 tick) (rows that never end give none)”."""
    rows = alike([(1, 5), (2, MAX_TIME), (MIN_TIME, 7)])
    assert lives(to_point_events(rows)) == [(MIN_TIME, MIN_TIME + 1), (1, 2), (2, 3)]
    assert lives(point_at_end(rows)) == [(5, 6), (7, 8)]


@pytest.mark.parametrize(
    ("d", "lifetimes"),
    [
        (3, [(1, 8), (2, 6), (4, MAX_TIME)]),
        (-1, [(1, 4), (2, 2), (4, MAX_TIME)]),
        (-2, [(1, 3), (4, MAX_TIME)]),
        (-4, [(4, MAX_TIME)]),
    ],
)
def test_extend_lifetime(d: int, lifetimes: Lifetimes) -> None:
    """“End moved by d; with d < 0 rows not longer than -d vanish”."""
    rows = alike([(1, 5), (2, 3), (4, MAX_TIME)])
    assert lives(extend_lifetime(rows, d)) == [row for row in lifetimes if row[0] < row[1]]


def test_extended_lifetimes_saturate() -> None:
    """“Nothing wraps.”"""
    assert lives(extend_lifetime(alike([(1, MAX_TIME - 2)]), 9)) == [(1, MAX_TIME)]
    assert extend_lifetime(alike([(MIN_TIME, MIN_TIME + 3)]), -9) == []


@pytest.mark.parametrize(
    ("t", "d", "cti"),
    [(20, 5, 20), (20, -5, 15), (11, -5, 7), (8, -5, 7), (7, -5, 7), (6, -5, 6)],
)
def test_cti_extend_lifetime(t: int, d: int, cti: int) -> None:
    """“With d < 0 and rows still open: min(t, max(t + d, start of the oldest open row))”."""
    events = [
        ("start", 2, P),
        ("start", 7, P),
        ("interval", 1, MAX_TIME, P),
        ("end", 2, 4, P),
        ("start", 9, P),
    ]
    assert cti_extend_lifetime(t, events, d) == cti
    assert cti_extend_lifetime(t, [*events, ("end", 7, 9, P), ("end", 9, 12, P)], d) == t
    assert cti_extend_lifetime(MAX_TIME, events, d) == MAX_TIME


def test_clip_to_limit() -> None:
    """“End at most start + limit; rows that never end do”."""
    rows = alike([(1, 5), (2, 20), (3, MAX_TIME)])
    assert lives(clip_to_limit(rows, 6)) == [(1, 5), (2, 8), (3, 9)]


def test_to_signal() -> None:
    """“Each lasts until the next one of the same key (two at the same tick both live on)”."""
    rows = keyed([(1, 2, "a"), (3, 9, "b"), (4, 5, "a"), (4, MAX_TIME, "a"), (8, 9, "b")])
    assert table(to_signal(rows, ["k"])) == [
        (1, 4, "a"),
        (3, 8, "b"),
        (4, MAX_TIME, "a"),
        (4, MAX_TIME, "a"),
        (8, MAX_TIME, "b"),
    ]
    assert lives(to_signal(rows))[:3] == [(1, 3), (3, 4), (4, 8)]


def test_to_signal_with_null_keys() -> None:
    """“In `on`, null matches nothing”: such rows are never followed by one of their key."""
    rows = keyed([(1, 2, None), (5, 6, None)])
    assert lives(to_signal(rows, ["k"])) == [(1, MAX_TIME), (5, MAX_TIME)]
    assert lives(to_signal(rows, ["k"], null_matches=True)) == [(1, 5), (5, MAX_TIME)]


def test_to_signal_takes_nan_and_zero_for_keys() -> None:
    """“NaN equals NaN and -0.0 equals 0.0 wherever a value is a key.”"""
    rows = keyed([(1, 2, math.nan), (2, 3, 0.0), (5, 6, float("nan")), (7, 8, -0.0)])
    assert lives(to_signal(rows, ["k"]))[:2] == [(1, 5), (2, 7)]


# cut and joined lifetimes


@pytest.mark.parametrize(
    ("row", "offset", "pieces"),
    [
        ((12, 19), 0, [(12, 14), (14, 19)]),
        ((14, 21), 0, [(14, 21)]),
        ((13, 22), 0, [(13, 14), (14, 21), (21, 22)]),
        ((-8, 1), 0, [(-8, -7), (-7, 0), (0, 1)]),
        ((12, 19), 2, [(12, 16), (16, 19)]),
        ((12, 19), 16, [(12, 16), (16, 19)]),
    ],
)
def test_chop(row: tuple[int, int], offset: int, pieces: Lifetimes) -> None:
    """“Lifetimes cut at every boundary strictly inside”."""
    assert lives(chop(alike([row]), 7, offset)) == pieces


def test_chop_of_endless_rows() -> None:
    """“Of an endless row, the pieces up to the CTI, and at the end of time an error”."""
    rows = alike([(3, MAX_TIME)])
    assert lives(chop(rows, 7, upto=15)) == [(3, 7), (7, 14), (14, 21)]
    assert lives(chop(rows, 7, upto=14)) == [(3, 7), (7, 14)]
    assert lives(chop(rows, 7, upto=4)) == [(3, 7)]
    assert chop(rows, 7, upto=3) == []
    assert lives(chop(alike([(3, 16)]), 7, upto=4)) == [(3, 7), (7, 14), (14, 16)]
    with pytest.raises(UnboundedWindow):
        chop(rows, 7)


def test_chop_at_the_ends_of_time() -> None:
    """What reaches from the beginning of time has too many pieces; the last piece never ends."""
    with pytest.raises(TooMany):
        chop(alike([(MIN_TIME, 5)]), 7)
    late = MAX_TIME - 3
    assert lives(chop(alike([(late, MAX_TIME)]), 10, late, upto=late + 1)) == [(late, MAX_TIME)]


@pytest.mark.parametrize(
    ("lifetimes", "stitched"),
    [
        ([(1, 3), (3, 5), (6, 7)], [(1, 5), (6, 7)]),
        ([(1, 3), (2, 5)], [(1, 3), (2, 5)]),  # what overlaps stays apart
        ([(1, 5), (3, 5), (5, 9)], [(1, 9), (3, 5)]),
        ([(1, 5), (5, 7), (5, 9)], [(1, 9), (5, 7)]),
        ([(1, 5), (3, 5), (5, 7), (5, 9)], [(1, 9), (3, 7)]),
        ([(1, 5), (3, 5), (4, 5), (5, 7), (5, 9)], [(1, 9), (3, 7), (4, 5)]),
        ([(1, 3), (3, MAX_TIME)], [(1, MAX_TIME)]),
        ([(1, 2), (1, 2), (2, 3)], [(1, 2), (1, 3)]),
    ],
)
def test_stitch(lifetimes: Lifetimes, stitched: Lifetimes) -> None:
    """“Where several rows end at the same boundary the one with the oldest start goes on”."""
    assert lives(stitch(alike(lifetimes))) == stitched
    assert lives(stitch(alike(lifetimes[::-1]))) == stitched


def test_stitch_needs_equal_payloads() -> None:
    """“Touching lifetimes of equal payload joined”; “in `stitch` null equals null”."""
    rows = keyed([(1, 3, None), (3, 5, None), (3, 6, 0.0), (6, 8, -0.0), (5, 9, "a")])
    assert table(stitch(rows)) == [(1, 5, None), (3, 8, 0.0), (5, 9, "a")]


def test_distinct() -> None:
    """“One row for each maximal stretch in which the value is alive”, payload the named fields."""
    rows = keyed(
        [(1, 5, "a", 1), (3, 7, "a", 2), (7, 8, "a", 1), (9, 10, "a", 1), (2, 3, None, 1)], "k", "x"
    )
    assert table(distinct(rows, ["k"])) == [(1, 8, "a"), (2, 3, None), (9, 10, "a")]


# sessions


def test_session_lifetimes() -> None:
    """“Starts that follow each other by less than `timeout` share a session (a gap of exactly
    `timeout` closes); each row lives to the session's end = last start + timeout”.
    """
    rows = alike([(1, 2), (5, 99), (5, 6), (10, MAX_TIME), (14, 15)])
    ends = session_lifetimes(rows, 5)
    assert lives(ends) == [(1, 10), (5, 10), (5, 10), (10, 19), (14, 19)]


@pytest.mark.parametrize(
    ("first_start", "after_cap", "cap"),
    [
        (0, False, 10),
        (10, False, 20),
        (1, False, 20),
        (9, False, 20),
        (-1, False, 10),
        (0, True, 10),
        (1, True, 10),
        (19, True, 20),
    ],
)
def test_session_cap(first_start: int, after_cap: bool, cap: int) -> None:
    """“With c = snap(first start, 0, M), the cap is c + M if the session starts at c, or starts
    *less than* `timeout` after the last start of a session that its cap closed; else c + 2M”.
    """
    assert session_cap(first_start, 10, after_cap) == cap


def test_sessions_are_capped() -> None:
    """“The session ends at the cap if that is earlier”; a start at the cap begins the next one."""
    rows = alike([(t, t + 1) for t in (5, 9, 13, 17, 19, 20, 24, 28, 29, 50)])
    assert lives(session_lifetimes(rows, 5, 10)) == [
        *((t, 20) for t in (5, 9, 13, 17, 19)),
        *((t, 30) for t in (20, 24, 28, 29)),
        (50, 55),
    ]


def test_sessions_continue_the_grid_within_the_timeout() -> None:
    """The design's own example: 41 is less than 10 after 32, and 62 is more than 10 after 51."""
    starts = (11, 12, 21, 25, 31, 32, 41, 45, 51, 62, 71, 75)
    found = session_windows(alike([(t, t + 1) for t in starts]), 10, 20)
    assert held(found) == [
        (11, 40, [11, 12, 21, 25, 31, 32]),
        (41, 60, [41, 45, 51]),
        (62, 85, [62, 71, 75]),
    ]


def test_sessions_by_key() -> None:
    """“Everything after group_by is per key”; null equals null."""
    rows = keyed([(1, 2, "a"), (3, 4, None), (5, 6, "a"), (6, 7, None), (12, 13, "a")])
    assert table(session_lifetimes(rows, 5, key=["k"])) == [
        (1, 10, "a"),
        (12, 17, "a"),
        (3, 11, None),
        (5, 10, "a"),
        (6, 11, None),
    ]


# row by row


def test_explode() -> None:
    """“One row for each element of a list field; an empty or null list gives none”."""
    rows = keyed([(1, 5, "a", [3, None, 3]), (2, 3, "b", []), (2, 4, "c", None)], "k", "v")
    assert table(explode(rows, "v")) == [(1, 5, "a", 3), (1, 5, "a", 3), (1, 5, "a", None)]


def running_total(state: int, start: int, payload: dict[str, Any]) -> tuple[int, Any]:
    """Adds v up; says nothing of a null, and everything twice where v is 0."""
    if payload["v"] is None:
        return state, None
    result = {"at": start, "total": state + payload["v"]}
    return state + payload["v"], result if payload["v"] else [result, result]


def test_scan() -> None:
    """“In order of start; sees start and payload, never the end; what it returns lives as long as
    the row”; rows of one start come by payload, nulls first.
    """
    rows = keyed([(5, 6, 3), (1, 9, 7), (5, MAX_TIME, None), (5, 7, 0)], "v")
    assert table(scan(rows, 0, running_total)) == [
        (1, 9, 1, 7),
        (5, 6, 5, 10),
        (5, 7, 5, 7),
        (5, 7, 5, 7),
    ]


def test_scan_has_a_state_for_each_key() -> None:
    """“Everything after group_by is per key”, and keys cannot be projected away."""
    rows = keyed([(1, 2, "a", 1), (2, 3, "b", 2), (3, 4, "a", 4)], "k", "v")
    assert table(scan(rows, 0, running_total, key=["k"])) == [
        (1, 2, "a", 1, 1),
        (2, 3, "b", 2, 2),
        (3, 4, "a", 3, 5),
    ]


def test_scan_copies_its_seed() -> None:
    """A state that is changed in place is a key's own."""
    rows = keyed([(1, 2, "a"), (2, 3, "b")])
    seen = scan(rows, [], lambda s, t, p: (s.append(t) or s, {"n": len(s)}), key=["k"])
    assert table(seen) == [(1, 2, "a", 1), (2, 3, "b", 1)]


def test_per_key() -> None:
    """“Lifetime operators keep the grouping”: a model runs for each key, payloads as they are."""
    rows = keyed([(1, 2, "a"), (3, 9, "b"), (4, 5, "a")])
    assert history(per_key(rows, ["k"], to_signal)) == history(to_signal(rows, ["k"]))


# two inputs

LEFT = keyed([(1, 10, "a", 1), (5, MAX_TIME, "b", 2), (3, 4, None, 3)], "k", "x")
RIGHT = keyed([(4, 7, "a", 8), (10, 12, "a", 9), (2, 6, "b", 7), (1, 9, None, 6)], "k", "y")
MERGE = merging(ON, "kx", "ky")


def test_join() -> None:
    """“For matching l, r whose lifetimes overlap: both payloads, lifetime = intersection”; “a
    zero-length intersection is no row”; “in `on`, null matches nothing”.
    """
    assert table(join(LEFT, RIGHT, ON, MERGE)) == [(4, 7, "a", 1, 8), (5, 6, "b", 2, 7)]


def test_join_where_sees_the_joined_names() -> None:
    """“`where` sees the joined names”; null is false."""
    chosen = join(LEFT, RIGHT, ON, MERGE, lambda p: None if p["y"] == 7 else p["x"] + p["y"] == 9)
    assert table(chosen) == [(4, 7, "a", 1, 8)]


def test_join_of_groups() -> None:
    """In the key of a group null equals null."""
    merge = merging((), "kx", "ky", group="k")
    assert table(join(LEFT, RIGHT, (), merge, group="k")) == [
        (3, 4, None, 3, 6),
        (4, 7, "a", 1, 8),
        (5, 6, "b", 2, 7),
    ]


def test_join_keys_are_compared_by_value() -> None:
    """“NaN equals NaN and -0.0 equals 0.0 wherever a value is a key.”"""
    left = keyed([(1, 5, math.nan), (1, 5, 0.0)])
    right = keyed([(2, 3, float("nan")), (3, 4, -0.0)])
    assert lives(join(left, right, ON, merging(ON, "k", "k"))) == [(2, 3), (3, 4)]


def test_cross_join() -> None:
    """Every l meets every r that is alive with it."""
    left, right = keyed([(1, 5, "a"), (7, 9, "b")], "k"), keyed([(2, 8, 1), (4, 5, 2)], "v")
    assert table(cross_join(left, right)) == [(2, 5, 1, "a"), (4, 5, 2, "a"), (7, 8, 1, "b")]


def test_joined_fields() -> None:
    """“Those in `on` under one name appear once, from whichever side is there; different names
    both appear; any other clash is an error that proposes `suffix=`”.
    """
    merge = merging([("k", "k"), ("a", "b")], ["k", "a", "x"], ["k", "b", "x"], suffix="_r")
    lp, rp = {"k": 1, "a": 2, "x": 3}, {"k": 1, "b": 2, "x": 4}
    assert merge(lp, rp) == {"k": 1, "a": 2, "x": 3, "b": 2, "x_r": 4}
    assert merge(lp, None) == {"k": 1, "a": 2, "x": 3, "b": None, "x_r": None}
    assert merge(None, rp) == {"k": 1, "a": None, "x": None, "b": 2, "x_r": 4}
    with pytest.raises(ValueError, match="two fields of one name"):
        merging([("k", "k")], ["k", "x"], ["k", "x"])


@pytest.mark.parametrize(
    ("others", "parts"),
    [
        ([], [(3, 20)]),
        ([(5, 8)], [(3, 5), (8, 20)]),
        ([(1, 3), (20, 25)], [(3, 20)]),
        ([(3, 4), (19, 20)], [(4, 19)]),
        ([(5, 12), (6, 8), (12, 13)], [(3, 5), (13, 20)]),
        ([(0, 99)], []),
        ([(7, MAX_TIME)], [(3, 7)]),
    ],
)
def test_left_anti_join(others: Lifetimes, parts: Lifetimes) -> None:
    """“l during the parts of its lifetime in which no matching r is alive”."""
    assert lives(left_anti_join(alike([(3, 20)]), alike(others), ON)) == parts


def test_left_anti_join_ignores_what_does_not_match() -> None:
    """Null matches nothing, and a `where` says what else must hold."""
    assert table(left_anti_join(LEFT, RIGHT, ON)) == [
        (1, 4, "a", 1),
        (3, 4, None, 3),
        (6, MAX_TIME, "b", 2),
        (7, 10, "a", 1),
    ]
    rest = left_anti_join(LEFT, RIGHT, ON, lambda p: p["y"] == 7, MERGE)
    assert lives(rest) == [(1, 10), (3, 4), (6, MAX_TIME)]


def test_outer_joins() -> None:
    """“Join united with the anti joins, missing fields null”."""
    inner = [(4, 7, "a", 1, 8), (5, 6, "b", 2, 7)]
    left = [(1, 4, "a", 1, None), (3, 4, None, 3, None), (6, MAX_TIME, "b", 2, None)]
    left.append((7, 10, "a", 1, None))
    right = [(1, 9, None, None, 6), (10, 12, "a", None, 9), (2, 5, "b", None, 7)]
    assert table(left_outer_join(LEFT, RIGHT, ON, MERGE)) == sorted(inner + left, key=repr)
    found = full_outer_join(LEFT, RIGHT, ON, MERGE)
    assert table(found) == sorted(inner + left + right, key=repr)


@pytest.mark.parametrize(
    ("others", "end"),
    [
        ([(3, 9)], 20),  # starts at the same time
        ([(1, 99)], 20),  # is already alive
        ([(20, 21)], 20),
        ([(15, 16), (4, 5), (3, 4)], 4),
        ([(19, MAX_TIME)], 19),
    ],
)
def test_clip_event_duration(others: Lifetimes, end: int) -> None:
    """“l ends at the next matching r that starts **strictly later** than l and before l's end; one
    that starts at the same time or is already alive does not clip”.
    """
    assert lives(clip_event_duration(alike([(3, 20)]), alike(others), ON)) == [(3, end)]
    assert lives(clip_event_duration(alike([(3, 20)]), alike(others))) == [(3, end)]


def test_clip_by_key() -> None:
    """Only a matching r clips; null matches nothing, but in a group's key null equals null."""
    left, right = keyed([(1, 9, "a"), (1, 9, None)]), keyed([(2, 3, "b"), (4, 5, None)])
    assert lives(clip_event_duration(left, right, ON)) == [(1, 9), (1, 9)]
    assert lives(clip_event_duration(left, right, group="k")) == [(1, 4), (1, 9)]


def test_union() -> None:
    """“Both multisets”; the CTI of two inputs is “min of the two”."""
    assert union(alike([(1, 2)]), alike([(1, 2), (0, 3)])) == alike([(1, 2), (1, 2), (0, 3)])
    assert cti_of_two(7, 3) == 3


# windows


def held(windows: list[Any]) -> list[tuple[Any, ...]]:
    """(start, end, starts of the rows held) of each window."""
    return [(w.start, w.end, sorted(row.start for row in w.rows)) for w in windows]


def test_hopping_windows() -> None:
    """“A window [s, e) holds a row iff row.start < e and row.end > s”; none is empty."""
    rows = alike([(1, 2), (3, 10), (9, 10), (30, 31)])
    assert held(hopping_windows(rows, 5, 2)) == [
        (-2, 3, [1]),
        (0, 5, [1, 3]),
        (2, 7, [3]),
        (4, 9, [3]),
        (6, 11, [3, 9]),
        (8, 13, [3, 9]),
        (26, 31, [30]),
        (28, 33, [30]),
        (30, 35, [30]),
    ]


def test_hopping_windows_with_gaps() -> None:
    """“Gaps are allowed (p > d)”: “ours drops the rows that touch no window”."""
    rows = alike([(2, 4), (3, 5), (6, 7)])
    assert held(hopping_windows(rows, 2, 4)) == [(4, 6, [3])]


def test_tumbling_windows() -> None:
    """“Hopping with p = d”, aligned to a."""
    assert held(tumbling_windows(alike([(0, 4), (3, 8)]), 4, 1)) == [
        (-3, 1, [0]),
        (1, 5, [0, 3]),
        (5, 9, [3]),
    ]


def test_hopping_windows_of_endless_rows() -> None:
    """“It emits those up to the CTI; asked for the end of time it raises UnboundedWindowError”."""
    rows = alike([(1, 2), (7, MAX_TIME)])
    assert held(tumbling_windows(rows, 5, upto=12)) == [(0, 5, [1]), (5, 10, [7]), (10, 15, [7])]
    assert held(tumbling_windows(rows, 5, upto=10)) == [(0, 5, [1]), (5, 10, [7])]
    with pytest.raises(UnboundedWindow):
        tumbling_windows(rows, 5)


def test_windows_are_cut_at_the_ends_of_time() -> None:
    """“A window that saturates at an end of time is cut there.”"""
    early = hopping_windows(alike([(MIN_TIME, MIN_TIME + 1)]), 4, 2, MIN_TIME + 1)
    assert [w[:2] for w in early] == [(MIN_TIME, MIN_TIME + 1), (MIN_TIME, MIN_TIME + 3)]
    late = tumbling_windows(alike([(MAX_TIME - 5, MAX_TIME - 2)]), 4, MAX_TIME - 7)
    assert [w[:2] for w in late] == [(MAX_TIME - 7, MAX_TIME - 3), (MAX_TIME - 3, MAX_TIME)]
    with pytest.raises(TooMany):
        tumbling_windows(alike([(MIN_TIME, 5)]), 4)


def test_session_windows() -> None:
    """“One window [first start, session end) for each session; it holds the rows that *start* in
    it, whatever their ends”.
    """
    rows = alike([(1, 2), (5, 99), (5, MAX_TIME), (10, 11)])
    assert held(session_windows(rows, 5)) == [(1, 10, [1, 5, 5]), (10, 15, [10])]


def test_count_windows() -> None:
    """“n consecutive distinct start times: [first start, n-th start + 1 tick), sliding by one
    distinct start; fewer than n, no window; holds the rows that start in it”.
    """
    rows = alike([(1, 99), (3, 4), (3, 4), (7, 8), (9, 15)])
    assert held(count_windows(rows, 2)) == [(1, 4, [1, 3, 3]), (3, 8, [3, 3, 7]), (7, 10, [7, 9])]
    assert held(count_windows(rows, 1))[1] == (3, 4, [3, 3])
    assert count_windows(rows, 5) == []


# over windows

VALUES = keyed([(1, 6, "a", 5), (2, 3, None, 7), (7, 8, "a", None), (2, 4, "a", 9)], "k", "v")


def by_fives(rows: list[Row]) -> list[Any]:
    """Windows of five ticks."""
    return tumbling_windows(rows, 5)


def test_window_aggregate() -> None:
    """“One row for each window (and key)”, the keys first; the result lives for the whole window
    or is a point at its end.
    """
    named = {"n": count(), "s": sum_("v")}
    assert table(window_aggregate(VALUES, by_fives, named)) == [(0, 5, 3, 21), (5, 10, 2, 5)]
    points = window_aggregate(VALUES, by_fives, named, ["k"], "point")
    assert table(points) == [(10, 11, "a", 2, 5), (5, 6, "a", 2, 14), (5, 6, None, 1, 7)]
    with pytest.raises(ValueError, match="output"):
        window_aggregate(VALUES, by_fives, named, output="end")


def test_a_window_that_never_ends_has_no_point_at_its_end() -> None:
    """A window that never ends has no end at which a point could start."""
    rows = keyed([(1, MAX_TIME, 1)], "v")
    assert window_aggregate(rows, snapshot_windows, {"n": count()}, output="point") == []


def test_time_sensitive_aggregate() -> None:
    """“Time-sensitive aggregates see lifetimes clipped to the window”, and the window."""
    spent = {"t": lambda rows, window: (sum(e - s for s, e, _ in rows), window.end)}
    found = window_aggregate(VALUES, by_fives, {}, time_sensitive=spent)
    assert table(found) == [(0, 5, (7, 5)), (5, 10, (2, 10))]


def test_top_k() -> None:
    """“Competition rank: ties share it, so there may be more than k; rank 1 is the greatest
    unless `descending=False`, nulls last in both”.
    """
    rows = keyed([(t, t + 1, v) for t, v in enumerate([4, 9, 4, None, 1])], "v")
    two = top_k(rows, by_fives, 2, "v")
    assert table(two) == [(0, 5, 4, 2), (0, 5, 4, 2), (0, 5, 9, 1)]
    three = top_k(rows, by_fives, 3, "v", descending=False, output="point")
    assert table(three) == [(5, 6, 1, 1), (5, 6, 4, 2), (5, 6, 4, 2)]
    assert table(top_k(rows, by_fives, 5, "v"))[-1] == (0, 5, None, 5)


def test_top_k_by_key() -> None:
    """`top_k` ends the grouping and puts the keys first in the payload."""
    best = top_k(VALUES, by_fives, 1, "v", key=["k"])
    assert table(best) == [(0, 5, "a", 9, 1), (0, 5, None, 7, 1), (5, 10, "a", 5, 1)]


def test_window_apply() -> None:
    """“Rows of the window in, rows out, for each window”; payloads come by (start, payload)."""
    found = window_apply(VALUES, by_fives, lambda ps: [{"v": p["v"]} for p in ps[:2]])
    assert table(found) == [(0, 5, 5), (0, 5, 7), (5, 10, 5), (5, 10, None)]
    points = window_apply(VALUES, by_fives, lambda ps: [{"n": len(ps)}], ["k"], "point")
    assert table(points) == [(10, 11, "a", 2), (5, 6, "a", 2), (5, 6, None, 1)]


def test_time_sensitive_window_apply() -> None:
    """Time-sensitive operators see lifetimes clipped to the window and may return such rows."""
    found = window_apply(VALUES, by_fives, lambda rows, _: rows, time_sensitive=True)
    assert lives(found) == [(1, 5), (2, 3), (2, 4), (5, 6), (7, 8)]
    first_only = window_apply(
        VALUES, by_fives, lambda rows, _: rows[1:2], time_sensitive=True, clip=False
    )
    assert lives(first_only) == [(2, 3), (7, 8)]
    points = window_apply(VALUES, by_fives, lambda rows, _: rows[:1], (), "point", True)
    assert lives(points) == [(5, 6), (10, 11)]
    with pytest.raises(ValueError, match="leave the window"):
        window_apply(VALUES, by_fives, lambda rows, _: rows, time_sensitive=True, clip=False)


# aggregates


def test_first_and_last() -> None:
    """“`first`, `last` skip nulls”; “rows by (start, payload in schema order, nulls first)”."""
    rows = keyed([(3, 4, "b", 3), (3, 4, None, 4), (3, 4, "a", 5), (1, 2, "z", None)], "k", "v")
    named = {"f": first("v"), "l": last("v"), "k": first("k"), "none": first("v")}
    found = window_aggregate(rows, by_fives, named | {"none": lambda ps: first("v")(ps[:1])})
    assert table(found) == [(0, 5, 4, 3, "z", None)]


def test_std_and_var() -> None:
    """“std, var: ddof 1, null for one row”."""
    payloads = [{"v": v} for v in (2, None, 4, 9)]
    assert var("v")(payloads) == 13.0
    assert std("v")(payloads) == math.sqrt(13)
    assert var("v")(payloads[:2]) is None
    assert std("v")([]) is None
    assert math.isnan(std("v")([{"v": math.inf}, {"v": 1.0}]))


INTERPOLATIONS = ("nearest", "lower", "higher", "midpoint", "linear", "equiprobable")


@given(
    st.lists(st.none() | st.sampled_from([0.0, 1.5, 1.0, -7.0, 3.25, math.inf, math.nan])),
    st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]),
)
@example([math.inf, math.inf], 0.1)
def test_quantile_is_that_of_polars(values: list[float | None], q: float) -> None:
    """“`quantile`: the interpolation is named”, and means what it means in polars."""
    # nulls are ignored; left in the column they shift polars' positions by a rounding error
    column = pl.Series("v", values, pl.Float64).drop_nulls()
    for interpolation in INTERPOLATIONS:
        found = quantile("v", q, interpolation)([{"v": v} for v in values])
        assert freeze(found) == freeze(column.quantile(q, interpolation)), interpolation


# CTIs


@pytest.mark.parametrize(
    ("t", "d", "p", "cti"),
    [
        (0, 10, 10, 0),
        (9, 10, 10, 0),
        (10, 10, 10, 10),
        (-1, 10, 10, -10),
        (3, 5, 2, 0),
        (5, 5, 2, 2),
        (3, 2, 4, 4),
        (MIN_TIME, 5, 2, MIN_TIME),
        (MAX_TIME, 5, 2, MAX_TIME),
    ],
)
def test_cti_hopping_window(t: int, d: int, p: int, cti: int) -> None:
    """“Start of the earliest window that ends after t”; “d = 2, p = 4, t = 3 gives 4, rightly”."""
    assert cti_hopping_window(t, d, p) == cti


@pytest.mark.parametrize(
    ("t", "cti"), [(0, 0), (1, 1), (9, 1), (10, 10), (13, 13), (22, 20), (25, 25)]
)
def test_cti_session_window(t: int, cti: int) -> None:
    """“min(t, start of the oldest open session)”."""
    events = [("point", 1, {"k": "a"}), ("start", 5, {"k": "b"}), ("point", 20, {"k": "a"})]
    assert cti_session_window(t, events, 5) == cti


def test_cti_session_window_by_key() -> None:
    """“Min over the keys that hold something back; t if none does”."""
    events = [("point", 1, {"k": "a"}), ("point", 3, {"k": None}), ("end", 1, 4, {"k": "a"})]
    assert [cti_session_window(t, events, 5, key=["k"]) for t in (5, 6, 7, 8)] == [1, 3, 3, 8]


@pytest.mark.parametrize(("t", "cti"), [(1, 1), (2, 1), (4, 1), (5, 3), (8, 7), (MAX_TIME,) * 2])
def test_cti_count_window(t: int, cti: int) -> None:
    """“Window: min(t, start of the oldest unfinished window)”; a point at t is not committed."""
    events = [("point", s, {"k": "a"}) for s in (1, 3, 3, 4, 7)]
    wanted = {4: 1, 5: 3, 8: 4}.get(t, cti)
    assert cti_count_window(t, events, 3) == wanted
    assert cti_count_window(t, events, 1) == t


def test_cti_count_window_by_key() -> None:
    """“A key that falls silent holds all back.”"""
    events = [("point", s, {"k": k}) for s, k in ((1, "a"), (2, "b"), (3, "b"), (5, "b"))]
    assert cti_count_window(9, events, 2, key=["k"]) == 1
    assert cti_count_window(9, events[1:], 2, key=["k"]) == 5


@pytest.mark.parametrize(("t", "cti"), [(1, 1), (2, 1), (4, 4), (5, 4), (6, 6), (7, 7), (9, 8)])
def test_cti_time_sensitive_snapshot(t: int, cti: int) -> None:
    """“They hold the CTI at the start of the snapshot that contains t.”"""
    events = [("interval", 1, 6, P), ("start", 4, P), ("end", 4, 6, P), ("start", 8, P)]
    assert cti_time_sensitive_snapshot(t, events) == cti


# what a CTI promises

Model = Callable[[list[Row], int], list[Row]]  # of the rows, up to a time
Rule = Callable[[int, list[Any]], int]  # of a CTI and the events that came before it
COUNTED = {"n": count(), "f": first("x"), "l": last("x")}


def over(windows: Callable[..., Any], output: str = "window", *, key: str = "") -> Model:
    """Aggregates over windows of the rows, up to a time."""
    return lambda rows, upto: window_aggregate(
        rows, lambda members: windows(members, upto), COUNTED, key, output
    )


def passed_on(t: int, _: list[Any]) -> int:
    """The output CTI is the input's."""
    return t


PROMISES: dict[str, tuple[Model, Rule]] = {
    "shift": (lambda rows, _: shift_event_time(rows, 5), lambda t, _: t + 5),
    "alter": (
        lambda rows, _: alter_event_lifetime(rows, lambda t: t // 4 * 4, 3),
        lambda t, _: t // 4 * 4,
    ),
    "to_point_events": (lambda rows, _: to_point_events(rows), passed_on),
    "point_at_end": (lambda rows, _: point_at_end(rows), passed_on),
    "extend": (lambda rows, _: extend_lifetime(rows, 4), passed_on),
    "shorten": (
        lambda rows, _: extend_lifetime(rows, -4),
        lambda t, events: cti_extend_lifetime(t, events, -4),
    ),
    "clip_to_limit": (lambda rows, _: clip_to_limit(rows, 6), passed_on),
    "to_signal": (lambda rows, _: to_signal(rows, "k"), passed_on),
    "chop": (lambda rows, upto: chop(rows, 7, 2, upto), passed_on),
    "stitch": (lambda rows, _: stitch(rows), passed_on),
    "distinct": (lambda rows, _: distinct(rows, "x"), passed_on),
    "session_lifetimes": (lambda rows, _: session_lifetimes(rows, 5, 12, "k"), passed_on),
    "scan": (
        lambda rows, _: scan(rows, 0, lambda n, t, p: (n + 1, {"n": n, "t": t, **p}), "k"),
        passed_on,
    ),
    "hopping_window": (
        over(lambda rows, upto: hopping_windows(rows, 5, 2, 1, upto)),
        lambda t, _: cti_hopping_window(t, 5, 2, 1),
    ),
    "hopping_window with gaps": (
        over(lambda rows, upto: hopping_windows(rows, 2, 5, 0, upto)),
        lambda t, _: cti_hopping_window(t, 2, 5),
    ),
    "hopping_window, points": (
        over(lambda rows, upto: hopping_windows(rows, 5, 2, 0, upto), "point"),
        passed_on,
    ),
    "session_window": (
        over(lambda rows, _: session_windows(rows, 5, 12), key="k"),
        lambda t, events: cti_session_window(t, events, 5, 12, "k"),
    ),
    "session_window, points": (
        over(lambda rows, _: session_windows(rows, 5), "point"),
        passed_on,
    ),
    "count_window": (
        over(lambda rows, _: count_windows(rows, 3), key="k"),
        lambda t, events: cti_count_window(t, events, 3, "k"),
    ),
    "count_window, points": (over(lambda rows, _: count_windows(rows, 3), "point"), passed_on),
    "snapshot_window": (over(lambda rows, _: snapshot_windows(rows)), passed_on),
    "snapshot_window, time-sensitive": (
        lambda rows, _: window_aggregate(
            rows, snapshot_windows, {}, "k", time_sensitive={"end": lambda _, w: w.end}
        ),
        lambda t, events: cti_time_sensitive_snapshot(t, events, "k"),
    ),
}


@pytest.mark.parametrize("name", PROMISES)
@settings(max_examples=max(5, settings().max_examples // 5))
@given(events=streams(extremes=False, payload=few_payloads()))
def test_a_cti_promises_what_the_model_says(name: str, events: list[Any]) -> None:
    """What comes after a CTI changes nothing before the output CTI of the operator's rule."""
    model, rule = PROMISES[name]
    for i, event in enumerate(events):
        if event[0] == "cti":
            cti = rule(event[1], events[:i])
            now, in_the_end = (model(canonical(known), cti) for known in (events[:i], events))
            assert history(clip(now, cti)) == history(clip(in_the_end, cti))


JOINS: dict[str, Callable[..., list[Row]]] = {
    "join": lambda left, right: join(left, right, ON, pair),
    "full_outer_join": lambda left, right: full_outer_join(left, right, ON, pair),
    "clip_event_duration": lambda left, right: clip_event_duration(left, right, ON),
}


@pytest.mark.parametrize("name", JOINS)
@settings(max_examples=max(5, settings().max_examples // 5))
@given(*[streams(extremes=False, payload=few_payloads(), max_size=12)] * 2)
def test_two_ctis_promise_what_the_model_says(name: str, left: Any, right: Any) -> None:
    """What comes after a CTI of each input changes nothing before the lower of the two."""
    model, whole = JOINS[name], [canonical(left), canonical(right)]
    for i, j in product(*([n for n, e in enumerate(s) if e[0] == "cti"] for s in (left, right))):
        cti = cti_of_two(left[i][1], right[j][1])
        now = model(canonical(left[:i]), canonical(right[:j]))
        assert history(clip(now, cti)) == history(clip(model(*whole), cti))


# cases with known answers

GOLDEN = Path(__file__).parents[3] / "shared" / "golden"
Case = dict[str, Any]
Models = dict[str, Callable[..., list[Row]]]


def cases() -> list[Case]:
    """The cases whose inputs are written out; none where there is no folder."""
    files = [GOLDEN / "random.jsonl", GOLDEN / "documents.jsonl"]
    texts = [file.read_text(encoding="utf-8") for file in files if file.exists()]
    found = [json.loads(line) for text in texts for line in text.splitlines()]
    return [c for c in found if all(isinstance(given, list) for given in c["inputs"].values())]


def record(value: Any) -> dict[str, Any]:
    """A payload of one value has the field `v`."""
    return value if isinstance(value, dict) else {"v": value}


def never(time: int | str) -> int:
    """A time of a case."""
    return MAX_TIME if time == "inf" else int(time)


def rows_of(events: list[Any]) -> list[Row]:
    """The rows that a case's events describe."""
    physical: list[tuple[Any, ...]] = []
    for kind, *times, payload in (e for e in events if e[0] != "punctuation"):
        kept = times[:1] if kind == "start" else map(never, times)
        physical.append((kind, *kept, record(payload)))
    return canonical(physical)


def ceiling(period: int) -> Callable[[int], int]:
    """The next boundary at or after a time: where the other engine's windows begin to report."""
    return lambda t: -(-t // period) * period


def reported(rows: list[Row], size: int, period: int) -> list[Row]:
    """The lifetimes that the other engine gives to the rows of a hopping window."""
    return alter_event_lifetime(rows, ceiling(period), size)


def snapshot(rows: list[Row], **named: Any) -> list[Row]:
    """Aggregates over snapshot windows."""
    return window_aggregate(rows, snapshot_windows, named)


def ranked(rows: list[Row], k: int) -> list[Row]:
    """The top rows as the cases write them: v * 100 + rank."""
    best = top_k(rows, snapshot_windows, k, "v")
    return [
        row._replace(payload={"k": row.payload["k"], "v": row.payload["v"] * 100 + rank})
        for row in best
        for rank in [row.payload["rank"]]
    ]


ONE_INPUT: Models = {
    "alter_duration": lambda rows, p: alter_event_duration(rows, p["duration"]),
    "chop": lambda rows, p: chop(rows, p["period"], p["offset"]),
    "clip_duration_constant": lambda rows, p: clip_to_limit(rows, p["limit"]),
    "extend_lifetime": lambda rows, p: extend_lifetime(rows, p["by"]),
    "group_apply": lambda rows, _: window_aggregate(
        rows, snapshot_windows, {"v": sum_("v")}, key="k"
    ),
    "hopping_sum": lambda rows, p: snapshot(
        reported(rows, p["size"], p["period"]), v=sum_(p["value"])
    ),
    "point_at_end": lambda rows, _: point_at_end(rows),
    "point_to_signal": lambda rows, p: to_signal(rows, [p["on"]]),
    "quantize_lifetime": lambda rows, p: shift_event_time(
        snap_to_window_intervals(rows, p["size"], p["period"]), -p["size"]
    ),
    "quantize_tumbling_count": lambda rows, p: shift_event_time(
        window_aggregate(
            rows, lambda rows: hopping_window2(rows, p["size"], p["size"]), {"v": count()}
        ),
        -p["size"],
    ),
    "session_sum": lambda rows, p: snapshot(
        session_lifetimes(rows, p["timeout"]), v=sum_(p["value"])
    ),
    "session_window": lambda rows, p: session_lifetimes(rows, p["timeout"], p["max_duration"]),
    "shift": lambda rows, p: shift_event_time(rows, p["by"]),
    "sliding_sum": lambda rows, p: snapshot(
        alter_event_duration(rows, p["duration"]), v=sum_(p["value"])
    ),
    "snapshot_count": lambda rows, _: snapshot(rows, v=count()),
    "snapshot_max": lambda rows, _: snapshot(rows, v=max_("v")),
    "snapshot_min": lambda rows, _: snapshot(rows, v=min_("v")),
    "snapshot_sum": lambda rows, _: snapshot(rows, v=sum_("v")),
    "snapshot_topk": lambda rows, p: ranked(rows, p["k"]),
    "stitch": lambda rows, _: stitch(rows),
}
TWO_INPUTS: Models = {
    "clip": lambda left, right, p: clip_event_duration(left, right, [(p["on"],) * 2]),
    "join": lambda left, right, p: join(left, right, [(p["on"],) * 2], pair),
    "left_anti_join": lambda left, right, p: left_anti_join(left, right, [(p["on"],) * 2]),
    "union": lambda left, right, _: union(left, right),
}
# these need a look at the case itself, in tests of their own
APART = {"count_window", "distinct", "hopping_count", "snapshot_windows", "tumbling_count"}
ELSEWHERE = {"advance_time", "cti_synchronizing_subject", "hopping2_count", "ingress"}
ELSEWHERE |= {"snap_to_window_intervals"}  # the oracle's printed tables

CASES = cases()


def of(*operators: str) -> list[Any]:
    """The cases of these operators; a single one that skips where there are no cases."""
    found = [pytest.param(case, id=case["id"]) for case in CASES if case["operator"] in operators]
    return found or [pytest.param(None, id="absent")]


def asked(case: Case | None) -> Case:
    """The case, or a skip for want of it."""
    if case is None:
        skip_or_fail("golden", f"there are no cases with known answers in {GOLDEN}")
    return case


def expected(case: Case) -> list[Row]:
    """The rows that a case asks for."""
    return [Row(never(s), never(e), record(payload)) for s, e, payload in case["expected"]]


@pytest.mark.parametrize("case", of(*ONE_INPUT))
def test_known_answers(case: Case | None) -> None:
    """The model of an operator with one input gives the known answer."""
    case = asked(case)
    found = ONE_INPUT[case["operator"]](rows_of(case["inputs"]["input"]), case["params"])
    assert history(found) == history(expected(case))


@pytest.mark.parametrize("case", of(*TWO_INPUTS))
def test_known_answers_of_two_inputs(case: Case | None) -> None:
    """The model of an operator with two inputs gives the known answer."""
    case = asked(case)
    left, right = (rows_of(case["inputs"][side]) for side in ("left", "right"))
    found = TWO_INPUTS[case["operator"]](left, right, case["params"])
    assert history(found) == history(expected(case))


@pytest.mark.parametrize("case", of("distinct"))
def test_known_answers_of_distinct(case: Case | None) -> None:
    """Distinct agrees instant by instant; where it splits a lifetime is the other's own."""
    case = asked(case)
    found = distinct(rows_of(case["inputs"]["input"]))
    assert history(found) == history(distinct(expected(case)))
    alive = snapshot(expected(case), payloads=lambda ps: len(ps) - len({*map(freeze, ps)}))
    assert all(row.payload["payloads"] == 0 for row in alive)


@pytest.mark.parametrize("case", of("tumbling_count", "hopping_count"))
def test_known_counts_of_windows(case: Case | None) -> None:
    """Counts are the known ones; the other engine's through the lifetimes that it gives."""
    case = asked(case)
    rows, params = rows_of(case["inputs"]["input"]), case["params"]
    size = params["size"]
    if "output" not in params:
        found = snapshot(reported(rows, size, size), v=count())
    else:
        hop, a = params.get("hop", size), params["alignment"]
        output = "point" if "Point" in params["output"] else "window"
        windows = {"windows": lambda rows: hopping_windows(rows, size, hop, a)}
        found = window_aggregate(rows, aggregates={"v": count()}, output=output, **windows)
    assert history(found) == history(expected(case))


@pytest.mark.parametrize("case", of("count_window", "snapshot_windows"))
def test_known_contents_of_windows(case: Case | None) -> None:
    """Windows are the known ones and hold the known rows, or as many."""
    case = asked(case)
    counted = "count" in case["params"].get("result", "")
    n = case["params"].get("n")
    found = window_aggregate(
        rows_of(case["inputs"]["input"]),
        (lambda rows: count_windows(rows, n)) if n else snapshot_windows,
        {"v": count() if counted else lambda ps: [p["v"] for p in ps]},
        output="point" if counted else "window",
    )
    assert history(found) == history(expected(case))


def test_every_case_is_looked_at() -> None:
    """Each case whose input is written out is checked here, or by the oracle's own tests."""
    operators = {case["operator"] for case in CASES}
    assert operators <= {*ONE_INPUT, *TWO_INPUTS, *APART, *ELSEWHERE}


def test_tamed_windows_are_classic_ones() -> None:
    """Tamed and classic tumbling windows compute the same at every instant, one window apart."""
    rows = keyed([(1, 6, 2.0), (2, 3, 4.0), (17, 21, 1.0)], "v")
    named = {"n": count(), "a": avg("v")}
    classic = window_aggregate(rows, by_fives, named)
    tamed = window_aggregate(rows, lambda rows: hopping_window2(rows, 5, 5), named)
    assert table(shift_event_time(classic, 5)) == table(chop(tamed, 5))
