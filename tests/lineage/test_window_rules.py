"""Causes of the results of windows: enough to compute the result again, and none too many."""

from __future__ import annotations

import tracemalloc
from itertools import accumulate

import law_table
import law_table_windows
import numpy as np
import oracle
import oracle_windows
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from law_causes import Caused, list_rows
from law_streams import SOME

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.causes.causes import BOUNDARY, ROW
from rxtemporal.view.lineage.capture import capture

CASES = {
    **law_table_windows.CASES,
    **{name: c for name, c in law_table.CASES.items() if name.startswith("session_lifetimes")},
}
few = settings(max_examples=max(3, settings().max_examples // 30))
many = settings(max_examples=max(settings().max_examples // 2, 10))
# windows that count their rows: each row matters
COUNTS = [
    name
    for name in CASES
    if name.endswith((", running", ", gaps", ", points", ", capped", "windows", "tumbling_window"))
    and not name.startswith(("snap_", "session_lifetimes"))
]


def check_recomputed(name: str, data: st.DataObject) -> None:
    """Check that each result is among those that the model makes of its causes alone."""
    caused = Caused(CASES[name], data.draw(CASES[name].streams()))
    for number, result in enumerate(caused.results):
        causes = caused.find_causes(number)
        assert caused.recompute(number, causes), (result, causes)


@pytest.mark.parametrize("name", [name for name in CASES if name in SOME])
@few
@given(data=st.data())
def test_causes_are_enough(name: str, data: st.DataObject) -> None:
    """A result is computed again from its causes alone."""
    check_recomputed(name, data)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
@many
@given(data=st.data())
def test_causes_are_enough_of_many_streams(name: str, data: st.DataObject) -> None:
    """A result is computed again from its causes alone."""
    check_recomputed(name, data)


@pytest.mark.parametrize("name", COUNTS)
@few
@given(data=st.data())
def test_each_row_counts(name: str, data: st.DataObject) -> None:
    """The count of a window changes if any of the rows in it is left out."""
    caused = Caused(CASES[name], data.draw(CASES[name].streams()))
    for number in range(len(caused.results)):
        causes = caused.flow.causes(caused.flow.output, [number])
        rows = causes.row.tolist()
        for row in causes.row[causes.role == ROW].tolist():
            assert not caused.recompute(number, [[each for each in rows if each != row]])


def find(query: rxt.Streamable, row: int) -> dict[int, list[int]]:
    """Return the rows of the input that are causes of a result, by role."""
    flow = capture(query._node)
    causes = flow.causes(flow.output, [row])
    return {role: causes.row[causes.role == role].tolist() for role in set(causes.role.tolist())}


def make_rows(*rows: tuple[int, int, int]) -> rxt.Streamable:
    """Return a stream of rows with x, by start, end and x."""
    return rxt.from_events([rxt.IntervalEvent(s, e, {"x": x}) for s, e, x in rows])


def test_neighbours_bound_a_snapshot() -> None:
    """A snapshot stands on the rows alive, and on those that end or begin where it does."""
    rows = make_rows((0, 4, 1), (2, 9, 2), (7, 8, 3), (11, 12, 4))
    counts = rows.snapshot_window().aggregate(n=agg.count())
    assert counts.to_polars(time="ticks").row(2) == (4, 7, 1)
    assert find(counts, 2) == {ROW: [1], BOUNDARY: [0, 2]}


def test_a_rank_stands_on_those_before_it() -> None:
    """A ranked row stands on itself and on better ones; ties and worse ones do not matter."""
    rows = make_rows((0, 1, 5), (1, 2, 9), (2, 3, 5), (3, 4, 1))
    best = rows.tumbling_window(10).top_k(2, "x")
    assert best.to_polars(time="ticks")["x"].to_list() == [9, 5, 5]
    assert [find(best, row) for row in range(3)] == [{ROW: [1]}, {ROW: [0, 1]}, {ROW: [1, 2]}]


def test_equal_ranks_are_told_apart() -> None:
    """Each of two equal results is one of the two equal rows."""
    best = make_rows((0, 1, 5), (1, 2, 5)).tumbling_window(10).top_k(1, "x")
    assert [find(best, row) for row in range(2)] == [{ROW: [0]}, {ROW: [1]}]


def test_a_rank_that_ties_do_not_share_stands_on_those_before_it() -> None:
    """Of two equal rows the second in rank stands on both: without the first it would be first."""
    equal = make_rows((0, 1, 5), (0, 1, 5)).tumbling_window(10)
    best = equal.top_k(2, "x", ties="first", rank="place")
    assert best.to_polars(time="ticks")["place"].to_list() == [1, 2]
    assert [find(best, row) for row in range(2)] == [{ROW: [0]}, {ROW: [0, 1]}]


def test_ranks_of_rows_without_fields() -> None:
    """Equal results are told apart where a ranking leaves no field of the input in them."""
    rows = rxt.from_events([rxt.PointEvent(t, {}) for t in (1, 1, 3)], schema={})
    best = rows.tumbling_window(10).top_k(3, rxt.start(), descending=False, ties="first", rank=None)
    assert best.to_polars(time="ticks").rows() == [(0, 10)] * 3
    assert [find(best, row) for row in range(3)] == [{ROW: [0]}, {ROW: [0, 1]}, {ROW: [0, 1, 2]}]


def test_sessions_before_a_limited_one() -> None:
    """The limit of a session depends on the one before it, if that was ended by its own."""
    rows = make_rows(*((t, t + 1, t) for t in (3, 7, 11, 15, 19, 21, 24)))
    counts = rows.session_window(5, 10).aggregate(n=agg.count())
    assert counts.to_polars(time="ticks").rows() == [(3, 20, 5), (21, 29, 2)]
    assert find(counts, 1) == {ROW: [5, 6]}
    rows = make_rows(*((t, t + 1, t) for t in range(3, 40, 4)))
    counts = rows.session_window(5, 10).aggregate(n=agg.count())
    assert counts.to_polars(time="ticks").rows()[:2] == [(3, 20, 5), (23, 30, 2)]
    assert find(counts, 1) == {ROW: [5, 6], BOUNDARY: [0, 1, 2, 3, 4]}


def test_sessions_long_before_a_limited_one() -> None:
    """A session that begins the timeout after a limited one, or later, stands on its rows alone."""
    rows = make_rows(*((t, t + 1, t) for t in (3, 7, 11, 15, 19, *range(24, 43, 4))))
    counts = rows.session_window(5, 10).aggregate(n=agg.count())
    assert counts.to_polars(time="ticks").rows() == [(3, 20, 5), (24, 40, 4), (40, 45, 1)]
    assert find(counts, 1) == {ROW: [5, 6, 7, 8]}


@given(
    gaps=st.lists(st.sampled_from([1, 2, 3, 3, 4, 4, 4, 5, 9]), min_size=1, max_size=24),
    timeout=st.integers(2, 6),
    longest=st.integers(2, 12),
)
# each session continues one that its limit has ended
@example(gaps=[3, *[4] * 20], timeout=5, longest=10)
def test_a_session_stands_on_those_before_it_only_if_they_limit_it(
    gaps: list[int], timeout: int, longest: int
) -> None:
    """Its causes give it again; and there are none of other sessions if its own rows alone do."""
    starts = list(accumulate(gaps))
    query = make_rows(*((t, t + 1, t) for t in starts)).session_window(timeout, longest)
    flow = capture(query.aggregate(n=agg.count())._node)

    def compute(numbers: list[int]) -> list[tuple[int, int, int]]:
        rows = [oracle.Row(starts[number], starts[number] + 1, {}) for number in numbers]
        sessions = oracle_windows.session_windows(rows, timeout, longest)
        return [(window.start, window.end, len(window.rows)) for window in sessions]

    for number, result in enumerate(list_rows(flow.result)):
        causes = flow.causes(flow.output, [number])
        own = causes.row[causes.role == ROW].tolist()
        wanted = (result.start, result.end, result.payload["n"])
        assert wanted in compute(causes.row.tolist())
        assert (len(own) < len(causes.row)) == (wanted not in compute(own))


def test_a_few_results_cost_little_memory() -> None:
    """The causes of a few results are found without those of all others."""
    n = 2_000
    frame = pl.DataFrame({"start": np.arange(n), "end": np.arange(n) + n, "x": 1})
    rows = rxt.from_polars(frame, start="start", end="end")
    flow = capture(rows.snapshot_window().aggregate(n=agg.count())._node, every=0)
    flow.causes(flow.output, [1])
    tracemalloc.start()
    found = flow.causes(flow.output, [n - 1, n, n + 1])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) > n
    # all pairs would be 2,000,000, of 25 bytes each
    assert peak < 4_000_000
