"""The oracle against tables computed by hand, and the strategies against the rules of a stream."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from oracle import (
    MAX_TIME,
    MIN_TIME,
    CtiViolation,
    Late,
    Row,
    avg,
    canonical,
    clip,
    count,
    cti_synchronizing_subject,
    door,
    equal_up_to,
    freeze,
    history,
    hopping_window2,
    lifetime,
    max_,
    min_,
    select,
    shift_event_time,
    shift_time,
    snap_time,
    snap_to_window_intervals,
    snapshot_aggregate,
    snapshot_windows,
    sum_,
    sum_tolerance,
    violation,
    where,
)
from strategies import arrivals, cuts, named_arrivals, streams

SECOND = 1_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JUNE_28 = int((datetime(2012, 6, 28, tzinfo=UTC) - EPOCH).total_seconds()) * SECOND
ALIGNMENT = int((datetime(2012, 3, 15, 12, tzinfo=UTC) - EPOCH).total_seconds()) * SECOND


def at(seconds: float) -> int:
    """Seconds after the start of the printed example, as ticks; infinity is never."""
    return MAX_TIME if seconds == math.inf else JUNE_28 + int(seconds) * SECOND


PRINTED_EVENTS = [
    ("start", at(0), "e0"),
    ("start", at(1), "e1"),
    ("end", at(1), at(2), "e1"),
    ("start", at(3), "e2"),
    ("start", at(9), "e3"),
    ("end", at(3), at(10), "e2"),
    ("end", at(9), at(10), "e3"),
]


# the tables and the run that the reference documents print


def test_printed_adjusted_events() -> None:
    """Snapping gives the table "Adjusted Events" of "Taming Hopping Windows"."""
    printed = [(1, math.inf, "e0"), (3, 7, "e1"), (5, 15, "e2"), (11, 15, "e3")]
    rows = canonical(PRINTED_EVENTS)
    snapped = snap_to_window_intervals(rows, 5 * SECOND, 2 * SECOND, ALIGNMENT)
    assert snapped == [Row(at(s), at(e), p) for s, e, p in printed]


def test_printed_query() -> None:
    """Counting in hopping_window2 gives the table "Query" of "Taming Hopping Windows"."""
    printed = [(1, 3, 1), (3, 5, 2), (5, 7, 3), (7, 11, 2), (11, 15, 3), (15, math.inf, 1)]
    windows = hopping_window2(canonical(PRINTED_EVENTS), 5 * SECOND, 2 * SECOND, ALIGNMENT)
    assert [(s, e, len(rows)) for s, e, rows in windows] == [
        (at(s), at(e), n) for s, e, n in printed
    ]


def test_printed_run_of_the_subject() -> None:
    """Two inputs and a delay of five minutes give the run that the document prints."""
    run = [
        ("A", ("point", 5, 1.0)),
        ("B", ("point", 0, 2.0)),
        ("A", ("cti", 5)),
        ("B", ("cti", 0)),
        ("A", ("point", 7, 3.0)),
        ("A", ("cti", 8)),
        ("B", ("point", 1, 4.0)),
    ]
    out, late = cti_synchronizing_subject(run, delay=5)
    assert out == [
        ("point", 5, 1.0),
        ("point", 0, 2.0),
        ("cti", 0),
        ("point", 7, 3.0),
        ("cti", 3),
    ]
    assert late == [Late(("point", 1, 4.0), 3, "dropped", "B")]


# histories


def test_canonical_closes_identical_open_rows_oldest_first() -> None:
    """Two open rows alike are closed in the order of arrival, and the third stays open."""
    events = [
        ("start", 1, "p"),
        ("start", 1, "p"),
        ("start", 1, "p"),
        ("end", 1, 9, "p"),
        ("cti", 5),
        ("end", 1, 6, "p"),
    ]
    assert canonical(events) == [Row(1, 9, "p"), Row(1, 6, "p"), Row(1, MAX_TIME, "p")]


def test_canonical_knows_every_shape() -> None:
    """A point lives one tick, an interval as it says, a start edge for ever."""
    events = [("point", 3, "a"), ("interval", 1, 4, "b"), ("start", 2, "c"), ("cti", 2)]
    assert canonical(events) == [Row(3, 4, "a"), Row(1, 4, "b"), Row(2, MAX_TIME, "c")]


def test_canonical_matches_nan_and_signed_zero() -> None:
    """An end edge finds its row although NaN and -0.0 stand in the payload."""
    opened = {"y": math.nan, "z": -0.0, "k": None}
    closed = {"k": None, "z": 0.0, "y": float("nan")}
    assert canonical([("start", 1, opened), ("end", 1, 2, closed)]) == [Row(1, 2, opened)]


@pytest.mark.parametrize(
    "events",
    [
        [("end", 1, 2, "p")],
        [("start", 1, "p"), ("end", 1, 2, "q")],
        [("start", 1, "p"), ("end", 1, 2, "p"), ("end", 1, 3, "p")],
        [("start", 1, "p"), ("end", 1, 1, "p")],
        [("interval", 1, MAX_TIME, "p"), ("end", 1, 2, "p")],
    ],
)
def test_canonical_refuses_an_end_edge_without_its_row(events: list[Any]) -> None:
    """An end edge that closes nothing, or leaves no lifetime, is an error."""
    with pytest.raises(ValueError, match="closes no open row"):
        canonical(events)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([("cti", 5), ("point", 5, "p"), ("cti", 5), ("interval", 5, 6, "p")], None),
        ([("start", 1, "p"), ("cti", 5), ("end", 1, 5, "p")], None),
        ([("cti", 5), ("point", 4, "p")], "violates CTI 5"),
        ([("cti", 5), ("interval", 4, 9, "p")], "violates CTI 5"),
        ([("cti", 5), ("start", 4, "p")], "violates CTI 5"),
        ([("start", 1, "p"), ("cti", 5), ("end", 1, 4, "p")], "violates CTI 5"),
        ([("cti", 5), ("cti", 4)], "goes back"),
        ([("interval", 3, 3, "p")], "no lifetime"),
        ([("end", 3, 4, "p")], "closes no open row"),
    ],
)
def test_violation_names_the_broken_promise(events: list[Any], complaint: str | None) -> None:
    """A start may lie at the CTI and an end edge may end at it, but nothing before it."""
    found = violation(events)
    assert found is None if complaint is None else complaint in str(found)


def test_equal_up_to_forgets_what_lies_beyond() -> None:
    """Histories that part ways at 5 are equal up to 5 and not up to 6."""
    a = [Row(1, 5, "p"), Row(2, MAX_TIME, "q")]
    b = [Row(2, 9, "q"), Row(5, 7, "r"), Row(1, 5, "p")]
    assert clip(a, 5) == [Row(1, 5, "p"), Row(2, 5, "q")]
    assert equal_up_to(a, b, 5)
    assert not equal_up_to(a, b, 6)
    assert not equal_up_to(a, b)


def test_equal_up_to_counts_rows() -> None:
    """A history is a multiset: one row more is another history."""
    assert not equal_up_to([Row(1, 2, "p")] * 2, [Row(1, 2, "p")])
    assert not equal_up_to([Row(1, 2, {"y": 1.0})] * 2, [Row(1, 2, {"y": 1.0})], tolerance=0.5)


def test_equal_up_to_takes_floats_within_the_tolerance() -> None:
    """Floats may differ by the tolerance, ints and times may not, and pairs are found."""
    a = [Row(0, 9, {"n": 1, "y": y}) for y in (1.0, 1.5, math.nan)]
    b = [Row(0, 9, {"n": 1, "y": y}) for y in (math.nan, 1.4, 0.6)]
    assert equal_up_to(a, b, tolerance=0.5)
    assert equal_up_to(a, b, tolerance=lambda row: 0.5)
    assert not equal_up_to(a, b, tolerance=0.3)
    assert not equal_up_to([Row(0, 9, {"n": 1})], [Row(0, 9, {"n": 2})], tolerance=5.0)
    assert not equal_up_to([Row(0, 9, (1.0,))], [Row(0, 8, (1.0,))], tolerance=5.0)


def test_equal_up_to_keeps_infinities_apart() -> None:
    """No tolerance makes infinity, NaN, null and a number alike."""
    values = (math.inf, -math.inf, math.nan, None, 0.0)
    for a in values:
        for b in values:
            same = freeze(a) == freeze(b)
            assert equal_up_to([Row(0, 1, (a,))], [Row(0, 1, (b,))], tolerance=1e300) is same


def test_freeze_tells_apart_what_is_different() -> None:
    """Keys differ by value and by field, not by the order of the fields."""
    assert freeze({"a": 1, "b": None}) == freeze({"b": None, "a": 1.0})
    assert freeze({"a": 1}) != freeze({"b": 1})
    assert freeze((math.nan,)) == freeze((float("nan"),))
    assert freeze((math.nan,)) != freeze(("NaN",))
    assert freeze(None) != freeze(0)
    assert freeze(-0.0) == freeze(0.0)


# operators


def test_where_takes_null_for_false() -> None:
    """A row stays only if the predicate is true of it; null is not."""
    rows = [Row(1, 2, {"x": 1}), Row(1, 2, {"x": None}), Row(3, 5, {"x": -1})]
    positive = where(rows, lambda p: None if p["x"] is None else p["x"] > 0)
    assert positive == [Row(1, 2, {"x": 1})]


def test_select_keeps_lifetimes() -> None:
    """A projection changes payloads alone."""
    assert select([Row(1, 9, (3, 4))], lambda p: (p[1],)) == [Row(1, 9, (4,))]


@pytest.mark.parametrize(
    ("row", "d", "moved"),
    [
        ((1, 5), 3, [(4, 8)]),
        ((1, 5), -3, [(-2, 2)]),
        ((1, MAX_TIME), 3, [(4, MAX_TIME)]),
        ((MIN_TIME, 5), -3, [(MIN_TIME, 2)]),
        ((MIN_TIME, MAX_TIME), 7, [(MIN_TIME, MAX_TIME)]),
        ((MAX_TIME - 9, MAX_TIME - 2), 5, [(MAX_TIME - 4, MAX_TIME)]),
        ((MAX_TIME - 5, MAX_TIME - 2), 5, []),
        ((MIN_TIME + 2, MIN_TIME + 4), -3, [(MIN_TIME, MIN_TIME + 1)]),
        ((MIN_TIME + 2, MIN_TIME + 4), -4, []),
    ],
)
def test_shift_event_time(row: tuple[int, int], d: int, moved: list[tuple[int, int]]) -> None:
    """Both ends move; infinities stay, other times saturate, and an empty lifetime is not a row."""
    assert shift_event_time([Row(*row, "p")], d) == [Row(*r, "p") for r in moved]


def test_shift_time_moves_ctis() -> None:
    """A CTI moves as the events do, and the end of time stays."""
    times = (5, MAX_TIME, MIN_TIME, MAX_TIME - 1)
    assert [shift_time(t, 4) for t in times] == [9, MAX_TIME, MIN_TIME, MAX_TIME]


@pytest.mark.parametrize(
    ("row", "d", "p", "snapped"),
    [
        ((0, 1), 10, 10, [(10, 20)]),  # tumbling [0, 10)
        ((9, 10), 10, 10, [(10, 20)]),
        ((9, 11), 10, 10, [(10, 30)]),
        ((-1, 0), 10, 10, [(0, 10)]),  # floor, not truncation: [-10, 0)
        ((0, 1), 5, 2, [(1, 7)]),  # [-4, 1) to [0, 5)
        ((0, 2), 2, 4, [(2, 6)]),  # gaps: [0, 2) [4, 6)
        ((2, 4), 2, 4, []),
        ((3, 4), 2, 4, []),
        ((1, 5), 2, 4, [(2, 10)]),
        ((3, 5), 2, 4, [(6, 10)]),
        ((3, MAX_TIME), 2, 4, [(6, MAX_TIME)]),
        ((MIN_TIME, 3), 2, 4, [(MIN_TIME, 6)]),
        ((MAX_TIME - 3, MAX_TIME - 2), 10**18, 10**18, []),  # the window ends after time
    ],
)
def test_snap_to_window_intervals(
    row: tuple[int, int], d: int, p: int, snapped: list[tuple[int, int]]
) -> None:
    """A row covers the assigned intervals of the windows that it touches, or is not a row."""
    assert snap_to_window_intervals([Row(*row, "p")], d, p) == [Row(*r, "p") for r in snapped]


def test_snapping_takes_min_time_for_minus_infinity() -> None:
    """A row from MIN_TIME on has touched earlier windows, even if it ends in a gap."""
    assert MIN_TIME % 4 == 0
    rows = [Row(MIN_TIME, MIN_TIME + 1, "p"), Row(MIN_TIME + 3, MIN_TIME + 4, "in a gap")]
    assert snap_to_window_intervals(rows, 2, 4, 1) == [Row(MIN_TIME, MIN_TIME + 3, "p")]


def test_snap_time_is_the_altered_cti() -> None:
    """A CTI becomes the end of the earliest window that ends after it; infinities stay."""
    assert [snap_time(t, 5, 2) for t in (0, 1, 2, 3)] == [1, 3, 3, 5]
    assert snap_time(3, 2, 4) == 6
    assert [snap_time(t, 5, 2) for t in (MIN_TIME, MAX_TIME)] == [MIN_TIME, MAX_TIME]


def test_snapshot_windows() -> None:
    """A window ends wherever a row starts or ends, and none is empty."""
    rows = [Row(1, 5, "a"), Row(3, 8, "b"), Row(5, 6, "c"), Row(9, MAX_TIME, "d")]
    assert [(s, e, [r.payload for r in held]) for s, e, held in snapshot_windows(rows)] == [
        (1, 3, ["a"]),
        (3, 5, ["a", "b"]),
        (5, 6, ["b", "c"]),
        (6, 8, ["b"]),
        (9, MAX_TIME, ["d"]),
    ]


def test_snapshot_windows_of_equal_neighbours_stay_apart() -> None:
    """Where one row ends and an equal one starts there is a boundary."""
    windows = snapshot_windows([Row(1, 3, "a"), Row(3, 4, "a")])
    assert [(s, e, len(held)) for s, e, held in windows] == [(1, 3, 1), (3, 4, 1)]


def test_snapshot_aggregate() -> None:
    """Nulls are ignored; the sum of nothing is 0, the rest of nothing is null."""
    rows = [Row(1, 5, {"x": 10}), Row(3, 8, {"x": 20}), Row(5, 6, {"x": None})]
    rows.append(Row(20, 21, {"x": None}))
    named = {"n": count(), "c": count("x"), "s": sum_("x"), "a": avg("x")}
    results = snapshot_aggregate(rows, named | {"lo": min_("x"), "hi": max_("x")})
    assert [(s, e, tuple(p.values())) for s, e, p in results] == [
        (1, 3, (1, 1, 10, 10.0, 10, 10)),
        (3, 5, (2, 2, 30, 15.0, 10, 20)),
        (5, 6, (2, 1, 20, 20.0, 20, 20)),
        (6, 8, (1, 1, 20, 20.0, 20, 20)),
        (20, 21, (1, 0, 0, None, None, None)),
    ]


def test_snapshot_aggregate_by_key() -> None:
    """Windows are found for each key on its own, and null, NaN and zero are keys once each."""
    keys = [None, None, math.nan, float("nan"), 0.0, -0.0]
    rows = [Row(i, 10, {"k": k}) for i, k in enumerate(keys)]
    results = snapshot_aggregate(rows, {"n": count()}, key=["k"])
    assert history(results) == history(
        Row(s, e, {"k": k, "n": n})
        for i, k in enumerate([None, math.nan, 0.0])
        for s, e, n in [(2 * i, 2 * i + 1, 1), (2 * i + 1, 10, 2)]
    )


@pytest.mark.parametrize(
    ("values", "total", "least", "greatest"),
    [
        ([0.1] * 10, 1.0, 0.1, 0.1),
        ([1e16, 1.0, -1e16], 1.0, -1e16, 1e16),
        ([math.inf, 1.0], math.inf, 1.0, math.inf),
        ([math.inf, -math.inf], math.nan, -math.inf, math.inf),
        ([math.nan, 2.0, math.inf], math.nan, 2.0, math.inf),
        ([math.nan, None], math.nan, math.nan, math.nan),
        ([1e308, 1e308, -1e308], 1e308, -1e308, 1e308),
        ([None], 0, None, None),
        (["b", None, "a"], None, "a", "b"),
        ([True, True, None], 2, True, True),
        ([2**53, 1, 1], 2**53 + 2, 1, 2**53),
    ],
)
def test_aggregates_of_difficult_values(
    values: list[Any], total: Any, least: Any, greatest: Any
) -> None:
    """Sums are exact, NaN and infinities add as IEEE says, min and max pass NaN over."""
    payloads = [(value,) for value in values]
    found = (min_(0)(payloads), max_(0)(payloads))
    assert freeze(found) == freeze((least, greatest))
    if total is not None:
        assert freeze(sum_(0)(payloads)) == freeze(total)


def test_an_integer_sum_overflows_loudly() -> None:
    """A sum beyond Int64 is an error, also where its parts are not."""
    with pytest.raises(OverflowError, match="Int64"):
        sum_(0)([(2**62,), (2**62,)])
    assert sum_(0)([(2**62,), (2**62,), (-1,)]) == 2**63 - 1


def test_sum_tolerance_forgets_when_the_aggregate_was_empty() -> None:
    """A large value loosens the bound until the set of rows alive is empty."""
    rows = [Row(0, 2, (1e22,)), Row(1, 4, (1.0,)), Row(6, 7, (1.0,))]
    allowed = sum_tolerance(rows, 0)
    bounds = [allowed(row) for row in snapshot_aggregate(rows, {"s": sum_(0)})]
    assert bounds[0] == pytest.approx(1e10)
    assert bounds[1] == bounds[2] == pytest.approx(2e10)
    assert bounds[3] == 1e-12


# the door


def test_door_counts_events_and_not_end_edges() -> None:
    """Every second start makes a CTI due, dropped ones count, end edges do not."""
    events = [
        ("start", 4, "a"),
        ("end", 4, 9, "a"),
        ("point", 6, "b"),  # the second: CTI 5
        ("point", 3, "late"),
        ("point", 2, "late"),  # the fourth: due, but 1 does not advance
        ("point", 5, "c"),
        ("interval", 8, 9, "d"),  # the sixth: CTI 7
    ]
    out, late = door(events, every=2, delay=1, policy="drop")
    assert out == [*events[:3], ("cti", 5), *events[5:], ("cti", 7), ("cti", MAX_TIME)]
    assert late == [Late(events[3], 5, "dropped"), Late(events[4], 5, "dropped")]


def test_door_by_span() -> None:
    """The first start makes a CTI due, then each at least a span after the last that did."""
    events = [("point", t, "p") for t in (10, 14, 15, 12, 19, 26)]
    out, late = door(events, span=5, delay=4, to_infinity=False)
    ctis = [(i, e[1]) for i, e in enumerate(out) if e[0] == "cti"]
    assert ctis == [(1, 6), (4, 11), (8, 22)]
    assert late == []


def test_door_with_a_negative_delay_commits_at_once() -> None:
    """With a delay of -1 tick each point is followed by the CTI that commits it."""
    out, late = door([("point", 1, "a"), ("point", 1, "b"), ("point", 5, "c")], every=1, delay=-1)
    assert out == [("point", 1, "a"), ("cti", 2), ("point", 5, "c"), ("cti", 6), ("cti", MAX_TIME)]
    assert late == [Late(("point", 1, "b"), 2, "dropped")]


def test_door_makes_ctis_for_dropped_events_too() -> None:
    """A late start makes the CTI that is due, at the start as it was sent."""
    out, _ = door(
        [("cti", 20), ("point", 15, "late"), ("interval", 10, 30, "adjusted")],
        every=1,
        delay=-10,
        policy="adjust",
    )
    assert out == [("cti", 20), ("cti", 25), ("interval", 25, 30, "adjusted"), ("cti", MAX_TIME)]


def test_door_adjusts_lifetimes_that_reach_past_the_cti() -> None:
    """ADJUST moves a start to the CTI if the end lies after it; points never reach past."""
    late_ones = [
        ("interval", 3, 5, "before"),
        ("interval", 3, 6, "reaches"),
        ("point", 4, "point"),
        ("interval", 2, MAX_TIME, "never ends"),
    ]
    out, late = door([("cti", 5), *late_ones], policy="adjust")
    assert out == [
        ("cti", 5),
        ("interval", 5, 6, "reaches"),
        ("interval", 5, MAX_TIME, "never ends"),
        ("cti", MAX_TIME),
    ]
    assert [x.reason for x in late] == ["dropped", "adjusted", "dropped", "adjusted"]
    assert [x.event for x in late] == late_ones


def test_door_drops_the_end_edge_of_a_dropped_start() -> None:
    """Nothing is remembered of a dropped start: its end edge finds no open row."""
    events = [("cti", 5), ("start", 3, "p"), ("end", 3, 9, "p")]
    out, late = door(events, policy="drop")
    assert out == [("cti", 5), ("cti", MAX_TIME)]
    assert late == [Late(events[1], 5, "dropped"), Late(events[2], 5, "no open row")]


def test_door_lets_an_end_edge_follow_its_adjusted_start() -> None:
    """An end edge names the start as it was sent and closes the row where it starts now."""
    events = [
        ("cti", 5),
        ("start", 3, "p"),
        ("start", 5, "p"),
        ("end", 3, 9, "p"),
        ("end", 3, 9, "p"),
    ]
    out, late = door(events, policy="adjust")
    assert out == [
        ("cti", 5),
        ("start", 5, "p"),
        ("start", 5, "p"),
        ("end", 5, 9, "p"),
        ("cti", MAX_TIME),
    ]
    assert late == [Late(events[1], 5, "adjusted"), Late(events[4], 5, "no open row")]


@pytest.mark.parametrize("policy", ["drop", "adjust"])
def test_door_moves_a_late_end_edge_to_the_cti(policy: str) -> None:
    """Under both policies a late end edge closes its row at the CTI."""
    events = [("start", 1, "p"), ("cti", 7), ("end", 1, 4, "p")]
    out, late = door(events, policy=policy)
    assert out == [("start", 1, "p"), ("cti", 7), ("end", 1, 7, "p"), ("cti", MAX_TIME)]
    assert late == [Late(events[2], 7, "end moved")]


@pytest.mark.parametrize("end", [4, 5])
def test_door_leaves_an_adjusted_row_one_tick(end: int) -> None:
    """An end edge at or before the adjusted start ends the row one tick after it."""
    events = [("cti", 5), ("start", 3, "p"), ("end", 3, end, "p")]
    out, late = door(events, policy="adjust")
    assert out[1:3] == [("start", 5, "p"), ("end", 5, 6, "p")]
    assert [x.reason for x in late] == ["adjusted", "end moved"]


def test_door_at_the_beginning_of_time() -> None:
    """A start at MIN_TIME makes a CTI at MIN_TIME whatever the delay, and others do not wrap."""
    events = [("point", MIN_TIME, "p"), ("point", MIN_TIME + 5, "q")]
    out, late = door(events, every=1, delay=-3, to_infinity=False)
    assert out == [events[0], ("cti", MIN_TIME), events[1], ("cti", MIN_TIME + 8)]
    out, late = door(events, every=1, delay=9, to_infinity=False)
    assert out == [events[0], ("cti", MIN_TIME), events[1]]
    assert late == []


def test_door_at_the_end_of_time() -> None:
    """After a CTI at MAX_TIME everything is dropped, and it is not given twice."""
    late_ones = [("start", 3, "p"), ("interval", 3, MAX_TIME, "q")]
    out, late = door([("cti", MAX_TIME), *late_ones], every=1, policy="adjust")
    assert out == [("cti", MAX_TIME)]
    assert late == [Late(event, MAX_TIME, "dropped") for event in late_ones]


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([("cti", 5), ("point", 4, "p")], "dropped"),
        ([("cti", 5), ("cti", 4)], "goes back"),
        ([("end", 1, 4, "p")], "no open row"),
        ([("start", 1, "p"), ("cti", 5), ("end", 1, 4, "p")], "end moved"),
    ],
)
def test_door_without_a_policy_raises(events: list[Any], complaint: str) -> None:
    """Without a policy a violation is an error, and an equal CTI is none."""
    with pytest.raises(CtiViolation, match=complaint):
        door(events, policy=None)
    assert door([("cti", 5), ("cti", 5)], policy=None) == ([("cti", 5), ("cti", MAX_TIME)], [])


def test_door_without_the_flag_does_not_finish() -> None:
    """With generation the flag decides about the last CTI; without, there always is one."""
    assert door([("point", 3, "p")], every=2, to_infinity=False)[0] == [("point", 3, "p")]
    assert door([("point", 3, "p")], to_infinity=False)[0][-1] == ("cti", MAX_TIME)


def test_door_refuses_an_unknown_policy() -> None:
    """A misspelt policy is an error, not the other policy."""
    with pytest.raises(ValueError, match="policy"):
        door([], policy="DROP")


# the subject


def test_subject_passes_only_ctis_that_advance() -> None:
    """An equal or lower CTI does not go through, and an event at the CTI is not late."""
    items = [(None, e) for e in [("cti", 10), ("point", 5, "x"), ("cti", 10), ("cti", 7)]]
    assert cti_synchronizing_subject(items, delay=5) == ([("cti", 5), ("point", 5, "x")], [])


def test_subject_saturates_the_first_cti() -> None:
    """A CTI near the beginning of time does not wrap when the delay is taken off."""
    items = [(None, ("cti", MIN_TIME + t)) for t in (3, 4, 9)]
    out, _ = cti_synchronizing_subject(items, delay=5)
    assert out == [("cti", MIN_TIME), ("cti", MIN_TIME + 4)]


def test_subject_matches_edges_per_input() -> None:
    """An end edge from another input than its start finds no open row."""
    items = [
        ("A", ("start", 1, "p")),
        ("B", ("end", 1, 4, "p")),
        (None, ("end", 1, 4, "p")),
        ("A", ("cti", MAX_TIME)),  # A ends; its row stays open for its return
        ("A", ("end", 1, 5, "p")),
    ]
    out, late = cti_synchronizing_subject(items, delay=0)
    assert out == [("start", 1, "p"), ("end", 1, 5, "p")]
    assert [(x.source, x.reason) for x in late] == [("B", "no open row"), (None, "no open row")]


def test_subject_adjusts_edges() -> None:
    """A late start is moved to the CTI and its end edge follows, to the CTI or one tick on."""
    items = [
        ("A", ("cti", 15)),
        ("B", ("start", 6, "p")),
        ("A", ("cti", 17)),
        ("B", ("end", 6, 8, "p")),
        ("B", ("interval", 4, 20, "q")),
        ("B", ("interval", 4, 12, "r")),
    ]
    out, late = cti_synchronizing_subject(items, delay=5, policy="adjust")
    assert out == [
        ("cti", 10),
        ("start", 10, "p"),
        ("cti", 12),
        ("end", 10, 12, "p"),
        ("interval", 12, 20, "q"),
    ]
    assert [x.reason for x in late] == ["adjusted", "end moved", "adjusted", "dropped"]


def test_subject_reaches_the_end_of_time_by_itself_only() -> None:
    """MAX_TIME comes from the subject's own input or from completion, not from a named one."""
    end = ("cti", MAX_TIME)
    assert cti_synchronizing_subject([("A", end)], delay=5) == ([], [])
    assert cti_synchronizing_subject([(None, end)], delay=5) == ([end], [])
    assert cti_synchronizing_subject([("A", end)], delay=5, completed=True) == ([end], [])


# properties: the strategies are legal, and the oracle agrees with itself


@given(streams())
def test_every_drawn_stream_is_legal(events: list[Any]) -> None:
    """A drawn stream keeps each promise that it gives."""
    assert violation(events) is None
    canonical(events)


@pytest.mark.parametrize("shape", ["point", "interval", "edge"])
def test_streams_of_one_shape(shape: str) -> None:
    """A stream of one shape holds no event of another, and is legal."""
    kinds = {"point": {"point"}, "interval": {"interval"}, "edge": {"start", "end"}}[shape]

    @given(streams([shape]))
    def check(events: list[Any]) -> None:
        assert {e[0] for e in events} <= kinds | {"cti"}
        assert violation(events) is None

    check()


@given(streams(extremes=True))
def test_extreme_streams_are_legal(events: list[Any]) -> None:
    """At the ends of time, too, a drawn stream is legal and leaves the last tick alone."""
    assert violation(events) is None
    assert all(e[1] <= MAX_TIME - 2 for e in events if e[0] != "cti")


@given(arrivals(), st.sampled_from(["drop", "adjust"]), st.integers(1, 4), st.integers(-2, 9))
def test_the_door_lets_only_legal_streams_through(
    events: list[Any], policy: str, every: int, delay: int
) -> None:
    """Whatever arrives, what leaves keeps its promises, and each event is out or late."""
    out, late = door(events, every=every, delay=delay, policy=policy)
    assert violation(out) is None
    dropped = [x for x in late if x.reason in ("dropped", "no open row")]
    assert _inserts_and_ends(events) == _inserts_and_ends(out) + len(dropped)


@given(streams())
def test_the_door_leaves_legal_streams_alone(events: list[Any]) -> None:
    """Without settings a legal stream passes as it is, save for CTIs that do not advance."""
    out, late = door(events, policy=None)
    assert late == []
    assert [e for e in out if e[0] != "cti"] == [e for e in events if e[0] != "cti"]
    assert violation(out) is None


@given(named_arrivals(), st.sampled_from(["drop", "adjust"]), st.integers(0, 9))
def test_the_subject_lets_only_legal_streams_through(
    items: list[Any], policy: str, delay: int
) -> None:
    """What leaves the subject keeps its promises, its CTIs rise, and each event is out or late."""
    out, late = cti_synchronizing_subject(items, delay, policy)
    assert violation(out) is None
    ctis = [e[1] for e in out if e[0] == "cti"]
    assert ctis == sorted(set(ctis))
    dropped = [x for x in late if x.reason in ("dropped", "no open row")]
    events = [event for _, event in items]
    assert _inserts_and_ends(events) == _inserts_and_ends(out) + len(dropped)


@given(named_arrivals(), st.integers(0, 9))
def test_a_larger_delay_loses_no_more(items: list[Any], d: int) -> None:
    """A larger delay makes no more events late."""
    fewer = cti_synchronizing_subject(items, d + 1)[1]
    assert len(fewer) <= len(cti_synchronizing_subject(items, d)[1])


def _inserts_and_ends(events: list[Any]) -> int:
    return sum(e[0] != "cti" for e in events)


@given(streams(), st.integers(1, 9), st.integers(1, 9), st.integers(-9, 9), st.integers(-30, 60))
def test_hopping_window2_holds_what_the_window_touches(
    events: list[Any], d: int, p: int, a: int, n: int
) -> None:
    """While the interval of a window lasts, those rows are alive that the window touches."""
    rows = canonical(events)
    start, end = a + n * p, a + n * p + d
    touched = [r.payload for r in rows if r.start < end and r.end > start]
    for t in (end, end + p - 1):
        held = [w.rows for w in hopping_window2(rows, d, p, a) if w.start <= t < w.end]
        assert [r.payload for w in held for r in w] == touched


@given(streams())
def test_snapshots_hold_what_is_alive(events: list[Any]) -> None:
    """At each instant there is one snapshot, which holds the rows alive, or none and no row."""
    rows = canonical(events)
    windows = snapshot_windows(rows)
    for t in {u for row in rows for u in (row.start, row.end, row.end - 1, row.start - 1)}:
        alive = [row for row in rows if row.start <= t < row.end]
        held = [w.rows for w in windows if w.start <= t < w.end]
        assert held == ([alive] if alive else [])


@given(streams(), streams(), st.integers(0, 50))
def test_equal_up_to_is_what_its_parts_say(a: list[Any], b: list[Any], t: int) -> None:
    """A history equals itself in any order, and with a tolerance too; others by their clips."""
    left, right = canonical(a), canonical(b)
    assert equal_up_to(left, left[::-1], t)
    assert equal_up_to(left, left[::-1], t, tolerance=1e-9)
    same = sorted(map(repr, history(clip(left, t)))) == sorted(map(repr, history(clip(right, t))))
    assert equal_up_to(left, right, t) is same


@given(st.integers(0, 20).flatmap(lambda n: st.tuples(st.just(n), cuts(n))))
def test_cuts_are_a_partition(drawn: tuple[int, list[slice]]) -> None:
    """The runs put together are the items, and none is empty."""
    n, runs = drawn
    items = list(range(n))
    assert [i for run in runs for i in items[run]] == items
    assert all(items[run] for run in runs)


SEARCH = settings(max_examples=5_000, derandomize=True, database=None, phases=[Phase.generate])


def _after_a_cti(events: list[Any]) -> bool:
    """Does an end edge close, after a CTI, a row that was open before it?"""
    ctis = [i for i, e in enumerate(events) if e[0] == "cti"]
    ends = [i for i, e in enumerate(events) if e[0] == "end"]
    return any(events[i][1] < events[c][1] for c in ctis for i in ends if c < i)


def _values(events: list[Any]) -> list[float]:
    return [e[-1]["y"] for e in events if e[0] != "cti" and e[-1]["y"] is not None]


@pytest.mark.parametrize(
    "wanted",
    [
        _after_a_cti,
        lambda events: len(canonical(events)) >= 2 > len(set(history(canonical(events)))),
        lambda events: [e[0] for e in events].count("cti") > 2 and len(canonical(events)) > 3,
        lambda events: any(math.isnan(y) for y in _values(events)),
        lambda events: any(y == 0 and math.copysign(1, y) < 0 for y in _values(events)),
        lambda events: any(r.start < MIN_TIME + 9 for r in canonical(events)),
        lambda events: any(r.start > MAX_TIME - 9 for r in canonical(events)),
        lambda events: any(e[0] == "interval" and e[2] == MAX_TIME for e in events),
        lambda events: any(e[0] == "cti" and e[1] == MAX_TIME for e in events) and len(events) > 3,
        lambda events: any(a[1] > b[1] for a, b in pairwise(events)),
    ],
)
def test_streams_reach_the_difficult_cases(wanted: Any) -> None:
    """The strategy draws each thing that the laws are to be tried on."""
    assert wanted(find(streams(), wanted, settings=SEARCH))


@pytest.mark.parametrize("reason", ["dropped", "adjusted", "no open row", "end moved"])
def test_arrivals_reach_every_reason(reason: str) -> None:
    """Drawn arrivals are late for every reason there is."""

    def late(events: list[Any]) -> bool:
        return any(x.reason == reason for x in door(events, every=1, policy="adjust")[1])

    assert late(find(arrivals(), late, settings=SEARCH))


@given(arrivals())
def test_arrivals_have_lifetimes(events: list[Any]) -> None:
    """Events that come late are well formed all the same."""
    assert all(lifetime(e)[0] < lifetime(e)[1] <= MAX_TIME for e in events if e[0] != "cti")
