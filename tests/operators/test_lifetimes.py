"""Operators that alter lifetimes row by row, on small tables of events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import polars as pl
import pytest
from oracle import MAX_TIME, MIN_TIME
from tables import LENGTH, ROWS, A, B, C, edges, history, outputs

import rxtemporal as rxt
from rxtemporal import UnboundedWindowError
from rxtemporal.operators.alter.plan import (
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
)
from rxtemporal.operators.chop import step as chopping
from rxtemporal.operators.chop.plan import chop, sample
from rxtemporal.operators.clip.plan import clip_to_limit
from rxtemporal.operators.lifetimes.plan import (
    extend_lifetime,
    point_at_end,
    shift_event_time,
    to_point_events,
)
from rxtemporal.operators.snap.plan import snap_to_window_intervals


@pytest.mark.parametrize(
    ("operator", "expected"),
    [
        (shift_event_time(10), [(13, 24, "a"), (15, MAX_TIME, "c"), (18, 19, "b")]),
        (shift_event_time(-4), [(-1, 10, "a"), (1, MAX_TIME, "c"), (4, 5, "b")]),
        (to_point_events(), [(3, 4, "a"), (5, 6, "c"), (8, 9, "b")]),
        (point_at_end(), [(9, 10, "b"), (14, 15, "a")]),
        (extend_lifetime(2), [(3, 16, "a"), (5, MAX_TIME, "c"), (8, 11, "b")]),
        (extend_lifetime(-1), [(3, 13, "a"), (5, MAX_TIME, "c")]),
        (extend_lifetime(-11), [(5, MAX_TIME, "c")]),
        (clip_to_limit(5), [(3, 8, "a"), (5, 10, "c"), (8, 9, "b")]),
        (alter_event_duration(2), [(3, 5, "a"), (5, 7, "c"), (8, 10, "b")]),
        (alter_event_duration(pl.col("x")), [(3, 4, "a"), (5, 8, "c"), (8, 10, "b")]),
        (alter_event_duration(2 * LENGTH), [(3, 25, "a"), (5, MAX_TIME, "c"), (8, 10, "b")]),
        (
            alter_event_duration(lambda row: row.end - row.start + row.payload["x"]),
            [(3, 15, "a"), (5, MAX_TIME, "c"), (8, 11, "b")],
        ),
        (
            alter_event_start_time(lambda t: 2 * t),
            [(6, 17, "a"), (10, MAX_TIME, "c"), (16, 17, "b")],
        ),
        (
            alter_event_lifetime(pl.col("start") // 5 * 5, timedelta(microseconds=5)),
            [(0, 5, "a"), (5, 10, "b"), (5, 10, "c")],
        ),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_complete_rows(operator: Any, expected: list[Any]) -> None:
    """Each row gets the lifetime of the definition, or vanishes."""
    assert history(ROWS, operator) == expected


def test_chop_cuts_at_every_boundary_strictly_inside() -> None:
    """A row that ends or begins at a boundary is not cut there."""
    rows = [("interval", 3, 14, A), ("interval", 5, 10, B), ("interval", 11, 12, C)]
    assert history(rows, chop(5)) == [
        (3, 5, "a"), (5, 10, "a"), (5, 10, "b"), (10, 14, "a"), (11, 12, "c"),
    ]  # fmt: skip
    assert history(rows[:1], chop(5, -6)) == [(3, 4, "a"), (4, 9, "a"), (9, 14, "a")]
    assert history(rows[:1], chop(timedelta(microseconds=5), timedelta(microseconds=9))) == [
        (3, 4, "a"), (4, 9, "a"), (9, 14, "a"),
    ]  # fmt: skip


def test_sample_reads_at_every_boundary() -> None:
    """A row that begins there counts, and one that ends there does not."""
    rows = [("interval", 3, 14, A), ("interval", 5, 10, B), ("interval", 11, 12, C)]
    assert history(rows, sample(5)) == [(5, 6, "a"), (5, 6, "b"), (10, 11, "a")]
    assert history(rows, sample(5, -4)) == [(6, 7, "a"), (6, 7, "b"), (11, 12, "a"), (11, 12, "c")]


def test_an_open_row_is_sampled_as_the_cti_passes() -> None:
    """A point is final with the first CTI above it."""
    items = [("start", 3, 1, A), ("cti", 5), ("cti", 6), ("cti", 17), ("end", 3, 20, 1, A)]
    assert outputs([*items, ("cti", 30)], sample(5)) == [
        [MIN_TIME], [5], [(5, 6, 0, "a"), 6], [(10, 11, 0, "a"), (15, 16, 0, "a"), 17], [17], [30],
    ]  # fmt: skip


def test_chop_with_a_period_longer_than_time() -> None:
    """At most one boundary lies within time, wherever the offset is."""
    assert history(ROWS[:1], chop(10 * MAX_TIME, 7)) == [(3, 7, "a"), (7, 14, "a")]
    assert history(ROWS[:1], chop(MAX_TIME - MIN_TIME + 2, MIN_TIME)) == [(3, 14, "a")]


# Edges whose ends come later ----------------------------------------------------------------------


def test_shift_moves_edges_and_ctis() -> None:
    """Both edges keep their id, and the CTI is shifted too."""
    assert outputs(edges(start=5, end=20, ctis=(15,)), shift_event_time(-5)) == [
        [(0, "-", 1, "a"), MIN_TIME],
        [10],
        [(0, 15, 1, "a"), 10],
    ]


def test_each_point_leaves_once() -> None:
    """A point at the start leaves with the start edge, a point at the end with the end edge."""
    items = edges(start=5, end=20, ctis=(15,))
    assert outputs(items, to_point_events()) == [[(5, 6, 0, "a"), MIN_TIME], [15], [15]]
    assert outputs(items, point_at_end()) == [[MIN_TIME], [15], [(20, 21, 0, "a"), 15]]


def test_a_shortened_row_waits_until_it_cannot_vanish() -> None:
    """Its start edge leaves once t + d is above its start, and the CTI stays behind while open."""
    items = [*edges(start=5, end=20, ctis=(9, 10, 11, 18)), ("cti", 21)]
    assert outputs(items, extend_lifetime(-5)) == [
        [MIN_TIME],
        [5],
        [5],
        [(5, "-", 1, "a"), 6],
        [13],
        [(5, 15, 1, "a"), 18],
        [21],
    ]


def test_a_shortened_row_that_ends_soon_vanishes() -> None:
    """The row never leaves and no longer holds the CTI; another waiting row still does."""
    items = [("start", 5, A), ("start", 7, B), ("cti", 8), ("end", 5, 10, A), ("end", 7, 13, B)]
    assert outputs(items, extend_lifetime(-5)) == [
        [MIN_TIME],
        [MIN_TIME],
        [5],
        [7],
        [(7, 8, 0, "b"), 8],
    ]


def test_a_row_extended_to_the_end_of_time_is_not_closed() -> None:
    """Its end edge would add nothing to its start edge."""
    items = edges(start=5, end=MAX_TIME - 3, ctis=(15,))
    assert outputs(items, extend_lifetime(3)) == [[(5, "-", 1, "a"), MIN_TIME], [15], [15]]
    assert outputs(items, extend_lifetime(2))[-1] == [(5, MAX_TIME - 1, 1, "a"), 15]


def test_a_limited_row_is_closed_by_the_cti() -> None:
    """Its start leaves at once; its own later end is dropped."""
    items = edges(start=5, end=20, ctis=(9, 10, 18))
    assert outputs(items, clip_to_limit(5)) == [
        [(5, "-", 1, "a"), MIN_TIME],
        [9],
        [(5, 10, 1, "a"), 10],
        [18],
        [18],
    ]


@pytest.mark.parametrize(("end", "limited"), [(9, 9), (12, 10)])
def test_a_limited_row_is_closed_by_its_own_end(end: int, limited: int) -> None:
    """An end before the CTI reaches the limit closes the row, and only once."""
    items = [*edges(start=5, end=end, ctis=(8,)), ("cti", 30)]
    assert outputs(items, clip_to_limit(5))[2:] == [[(5, limited, 1, "a"), 8], [30]]


def test_a_limit_beyond_the_end_of_time_is_none() -> None:
    """The row is closed by its own end edge."""
    items = edges(start=5, end=20, ctis=(9,))
    assert outputs(items, clip_to_limit(2 * MAX_TIME))[-1] == [(5, 20, 1, "a"), 9]


def test_an_open_row_is_chopped_as_the_cti_passes() -> None:
    """Pieces that end by the CTI are complete; the current one is a start edge with its own id."""
    items = edges(start=3, end=20, ctis=(3, 4, 10, 11, 12))
    assert outputs(items, chop(5)) == [
        [MIN_TIME],
        [3],
        [(3, "-", 1, "a"), 4],
        [(3, 5, 1, "a"), (5, 10, 0, "a"), 10],
        [(10, "-", 2, "a"), 11],
        [12],
        [(10, 15, 2, "a"), (15, 20, 0, "a"), 12],
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_an_open_row_that_ends_at_a_boundary_has_no_piece_after_it(times: int) -> None:
    """The piece that ended there was complete when the CTI reached it, however often it comes."""
    items = [*edges(start=3, end=5, ctis=(5,) * times), ("cti", 9)]
    assert outputs(items, chop(5)) == [[MIN_TIME], [(3, 5, 0, "a"), 5], *[[5]] * times, [9]]


def test_an_open_row_in_a_gap_between_windows_waits_until_it_touches_one() -> None:
    """At the CTI at which a window starts the row may still end there, and touch no window."""
    items = [*edges(start=3, end=5, ctis=(4, 5)), ("start", 8, B), ("cti", 10), ("cti", 11)]
    assert outputs(items, snap_to_window_intervals(2, 5)) == [
        [MIN_TIME],
        [7],
        [7],
        [7],
        [7],
        [12],
        [(12, "-", 2, "b"), 12],
    ]


def test_an_endless_row_is_chopped_up_to_the_cti_and_never_to_the_end() -> None:
    """At the end of time it would have infinitely many pieces."""
    items = [("interval", 3, MAX_TIME, A), ("cti", 6)]
    assert outputs(items, chop(5))[1] == [(3, 5, 0, "a"), (5, "-", 1, "a"), 6]
    with pytest.raises(UnboundedWindowError, match=r"1 rows never end.*clip_event_duration"):
        outputs([*items, ("cti", MAX_TIME)], chop(5))


def test_an_absurd_number_of_pieces_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that would be cut into more pieces than fit into memory is an error."""
    monkeypatch.setattr(chopping, "MOST_PIECES", 100)
    assert len(history([("interval", 0, 100, A)], chop(1))) == 100
    with pytest.raises(UnboundedWindowError, match=r"1 rows into 101 pieces.*longer period"):
        history([("interval", 0, 101, A)], chop(1))
    with pytest.raises(UnboundedWindowError, match="pieces"):
        history([("interval", MIN_TIME, MAX_TIME - 1, A)] * 9, chop(1))


# The ends of time ---------------------------------------------------------------------------------


def test_the_ends_of_time_stay_and_the_rest_saturates() -> None:
    """A row that becomes empty by it is dropped."""
    rows = [("interval", MIN_TIME, 5, A), ("interval", MAX_TIME - 9, MAX_TIME - 3, B)]
    assert history(rows, shift_event_time(4)) == [
        (MIN_TIME, 9, "a"),
        (MAX_TIME - 5, MAX_TIME, "b"),
    ]
    assert history(rows, shift_event_time(9)) == [(MIN_TIME, 14, "a")]
    assert history(rows, shift_event_time(10 * MIN_TIME)) == []
    assert history(rows, alter_event_lifetime(lambda t: 9 * t, 5)) == [
        (MIN_TIME, MIN_TIME + 5, "a")
    ]
    assert history(rows, extend_lifetime(-6)) == [(MIN_TIME, -1, "a")]
    assert history(rows, alter_event_duration(2 * MAX_TIME)) == [
        (MIN_TIME, MAX_TIME, "a"),
        (MAX_TIME - 9, MAX_TIME, "b"),
    ]


def test_a_row_shifted_to_the_beginning_of_time_waits_until_it_cannot_vanish() -> None:
    """An open row may become empty there, but not once the CTI is above it."""
    first, second = MIN_TIME + 2, MIN_TIME + 3
    items = [
        ("start", first, A),
        ("start", second, B),
        ("cti", MIN_TIME + 4),
        ("end", first, MIN_TIME + 5, A),
        ("cti", MIN_TIME + 6),
        ("end", second, MIN_TIME + 7, B),
    ]
    assert outputs(items, shift_event_time(-5)) == [
        [MIN_TIME],
        [MIN_TIME],
        [MIN_TIME],
        [MIN_TIME],
        [(MIN_TIME, "-", 2, "b"), MIN_TIME + 1],
        [(MIN_TIME, MIN_TIME + 2, 2, "b"), MIN_TIME + 1],
    ]


def test_every_rule_gives_the_end_of_time_for_the_end_of_time() -> None:
    """Open rows leave as rows that never end."""
    items = [("start", 5, A), ("cti", MAX_TIME)]
    for operator in (shift_event_time(-9), extend_lifetime(-9), alter_event_duration(LENGTH)):
        out = outputs(items, operator)
        assert out[-1][-1] == MAX_TIME
        assert sum(map(len, out)) == 3, "one row"


def test_operators_describe_their_rules() -> None:
    """The plan names each operator's CTI rule and held rows."""

    def told(operator: Any) -> tuple[str, str, str]:
        return operator.name, operator.cti_rule, operator.holds

    assert told(shift_event_time(1)) == ("shift_event_time", "t + d", "nothing")
    assert told(extend_lifetime(1)) == ("extend_lifetime", "t", "nothing")
    assert told(extend_lifetime(-1))[1] == "min(t, max(t + d, start of the oldest open row))"
    assert told(clip_to_limit(1)) == ("clip_event_duration", "t", "open rows, until their limit")
    assert told(alter_event_duration(1)) == ("alter_event_duration", "t", "nothing")
    assert told(alter_event_start_time(abs)) == ("alter_event_start_time", "f(t)", "nothing")


def test_saved_states_know_the_step_by_its_name() -> None:
    """With another name, runs that earlier versions have saved could not be continued."""
    node: Any = rxt.from_events([], schema={"x": int}).to_point_events()._node
    assert type(node.operator.make(node.schema, ())).__name__ == "ToPointsStep"
