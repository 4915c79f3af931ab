"""Examples that the laws have found: once wrong, each as a small table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import arrangements
import oracle
import physical
import polars as pl
import pytest
from oracle import MAX_TIME, MIN_TIME
from tables import A, B

import rxtemporal as rxt
from rxtemporal import agg


class Lives(agg.TimeSensitiveAggregate):
    """Says which lifetimes there are in which window."""

    def compute(self, events: list[Any], window: Any) -> str:
        """From and to, then those of the window."""
        lifetimes = [f"{event.start}-{event.end}" for event in events]
        return f"{' '.join(lifetimes)} in {window.start}-{window.end}"


def results(
    items: list[Any], query: Callable[[Any], Any]
) -> list[tuple[list[tuple[Any, ...]], int]]:
    """Return the output for each item: (start, end, the payload's values) and the CTI."""
    single = [(0, batch) for batch in physical.batches(items, arrangements.cut_evenly(items, 1))]
    found = []
    for out in physical.stepped(physical.planned(query), single):
        rows = [row for batch in out for row in oracle.history(physical.rows([batch]))]
        told = [(start, end, *(value for _, value in payload)) for start, end, payload in rows]
        found.append((told, out[-1].cti if out else None))
    return found


def lives(windows: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A query for the lifetimes in windows."""
    return lambda stream: windows(stream).aggregate(lives=Lives())


def test_rows_that_are_open_when_time_ends_are_joined_for_ever() -> None:
    """Rows without an end edge are released at the end of time, and so are their ids."""
    sides = [[("start", 3, row), ("cti", MAX_TIME)] for row in (A, B)]
    made = [physical.batches(items, arrangements.cut_evenly(items, 1)) for items in sides]
    arrivals = [(side, made[side][i]) for i in range(2) for side in range(2)]
    plan = physical.planned(lambda a, b: a.cross_join(b, suffix="_right"), 2)
    *_, last = physical.stepped(plan, arrivals)
    assert [(batch.start.tolist(), batch.end.tolist()) for batch in last] == [([3], [MAX_TIME])]


@pytest.mark.parametrize("start", [0, -20])
def test_windows_before_the_origin_of_time_count_like_any_other(start: int) -> None:
    """A key's first window may have a negative number."""
    items = [("point", start, A), ("cti", start + 10)]
    (_, (found, _)) = results(items, lambda s: s.hopping_window(5, 2, 1).aggregate(n=agg.count()))
    assert found == [(start - 3, start + 2, 1), (start - 1, start + 4, 1)]


def test_a_snapshot_that_never_ends_is_seen_when_time_ends() -> None:
    """A time-sensitive aggregate waits for a window's end; the end of time is one."""
    items = [("start", 3, A), ("cti", 9), ("cti", MAX_TIME)]
    assert results(items, lives(lambda s: s.snapshot_window())) == [
        ([], None),
        ([], 3),
        ([(3, MAX_TIME, f"3-{MAX_TIME} in 3-{MAX_TIME}")], MAX_TIME),
    ]


@pytest.mark.parametrize("row", [("interval", 3, 9, A), ("start", 3, A)])
def test_a_snapshot_that_ends_at_the_cti_holds_nothing_back(row: Any) -> None:
    """A snapshot is half-open: one up to 9 does not contain 9, and all of it is known at CTI 9.

    A row that ends at 9 ends it, or one that begins.
    """
    items = [row, ("interval", 9, 12, B), ("cti", 9)]
    assert results(items, lives(lambda s: s.snapshot_window()))[-1] == ([(3, 9, "3-9 in 3-9")], 9)


def test_a_window_is_seen_as_it_is_where_its_result_is_a_point() -> None:
    """The point at a window's end is the result's lifetime, not the window's."""
    items = [("interval", 3, 14, A), ("cti", 20)]
    at_end = {"output": rxt.WindowOutput.POINT_AT_END}
    assert results(items, lives(lambda s: s.tumbling_window(10, **at_end)))[-1] == (
        [(10, 11, "3-10 in 0-10"), (20, 21, "10-14 in 10-20")],
        20,
    )


@pytest.mark.parametrize("union", ["left", "right"])
def test_unions_of_many_streams_keep_their_open_rows_apart(union: str) -> None:
    """An id goes through any number of unions, and is still that of one row."""

    def chained(stream: Any) -> Any:
        united = stream
        for _ in range(150):
            alone = stream.where(lambda payload: payload["k"] == "b")
            united = united.union(alone) if union == "left" else alone.union(united)
        return united

    items = [("start", 1, A), ("start", 2, A), ("start", 2, B), ("end", 2, 5, A), ("end", 1, 7, A)]
    made = physical.batches(items, arrangements.cut_evenly(items, 1))
    out = physical.stepped(physical.planned(chained), [(0, b) for b in made], lambda: True)
    rows = physical.rows([each for batches in out for each in batches])
    expected = [oracle.Row(1, 7, A), oracle.Row(2, 5, A), *[oracle.Row(2, MAX_TIME, B)] * 151]
    assert oracle.history(rows) == oracle.history(expected)


@pytest.mark.parametrize(
    "query",
    [
        lambda s: s.snap_to_window_intervals(5, 8, 1),
        lambda s: s.hopping_window2(5, 8, 1).aggregate(n=agg.count()),
        lambda s: s.group_by("k").hopping_window2(5, 8, 1).aggregate(n=agg.count()).stitch(),
    ],
)
@pytest.mark.parametrize("end", [[], [("end", MIN_TIME, MIN_TIME + 9, A)]])
def test_a_row_from_the_beginning_of_time_is_in_no_gap(query: Any, end: list[Any]) -> None:
    """It touches all windows before it, so it leaves at once, and no CTI comes before it."""
    items = [("start", MIN_TIME, A), ("cti", MIN_TIME + 1), ("cti", MIN_TIME + 9), *end]
    made = physical.batches([*items, ("cti", 0)], arrangements.cut_evenly([*items, 0], 1))
    some = physical.stepped(physical.planned(query), [(0, batch) for batch in made])
    (row,) = oracle.clip(physical.rows(batch for out in some for batch in out), 0)
    assert row[:2] == (MIN_TIME, MIN_TIME + 14 if end else 0)


def test_the_end_of_a_row_from_the_beginning_of_time_stays_where_it_is() -> None:
    """Its start does not move, nor does the end, which is measured from there: time travel."""
    later = lambda s: s.alter_event_start_time(pl.col("start") + 9)  # noqa: E731
    whole = [("interval", MIN_TIME, 5, A), ("cti", 5)]
    assert results(whole, later)[0] == ([(MIN_TIME, 5, *A.values())], MIN_TIME)
    in_edges = [("start", MIN_TIME, A), ("cti", 5), ("end", MIN_TIME, 5, A)]
    with pytest.raises(rxt.CtiViolationError, match=r"the end of .* lands at"):
        results(in_edges, later)
