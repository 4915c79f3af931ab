"""Ranks over windows that share rows: what is held, and what the order is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import A, history_by_ctis

import rxtemporal as rxt
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.operators import snapshot_window, tumbling_window
from rxtemporal.operators.windows.kernels import ranks

SCHEMA = pl.Schema({"k": pl.Int64(), "x": pl.Int64()})
# enough for several large blocks of places
MANY = 3 << 12


def make_step(k: int, ties: Any) -> Any:
    """Return a step that ranks by key."""
    (operator,) = snapshot_window().top_k(k, "x", ties=ties).operators
    return operator.make(SCHEMA, ("k",))


def make_batch(rows: list[tuple[int, int, int]], cti: int, end: int = MAX_TIME) -> EventBatch:
    """Return rows of start, key and value that never end."""
    start, key, x = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    payload = pl.DataFrame({"k": key, "x": x}, schema=SCHEMA)
    return EventBatch.of_rows(start, np.full(len(start), end), payload, cti, ("k",))


@pytest.mark.parametrize("ties", ["share", "first"])
@given(
    values=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    cuts=st.sets(st.integers(0, 60)),
    k=st.integers(1, 3),
)
def test_rows_that_are_in_no_later_result_are_not_held(
    ties: Any, values: list[int], cuts: set[int], k: int
) -> None:
    """Of rows that never end the best of each key are held, with those that share the last rank."""
    step = make_step(k, ties)
    rows = [(t, t % 2, x) for t, x in enumerate(values)]
    for begin, end in pairwise(sorted({0, len(rows), *(cuts & {*range(len(rows))})})):
        step.on_batch(make_batch(rows[begin:end], end))
        held = 0
        for key in (0, 1):
            best = sorted((x for _, of, x in rows[:end] if of == key), reverse=True)
            last = best[k - 1 : k]
            shared = sum([x] == last for x in best[k:]) if ties == "share" else 0
            held += min(len(best), k) + shared
        assert step.rows == held


@pytest.mark.long
def test_memory_of_a_table_that_never_ends_stays() -> None:
    """Ten times the rows hold no more rows, and use no more numbers."""
    step = make_step(3, "first")
    numbers = []
    for batch in range(40):
        start = batch * 1_000
        step.on_batch(make_batch([(start + n, n % 10, n * 7 % 1_009) for n in range(1_000)], start))
        numbers.append(step._rows.height)
    assert step.rows <= 2_000  # the last batch waits for the next CTI
    assert max(numbers) <= 4_096


@pytest.mark.long
@pytest.mark.parametrize("falls", [True, False])
def test_many_rows_of_one_key(falls: bool) -> None:
    """Each row that comes first or last in the order is found behind thousands that do not yet."""
    count = MANY
    values = range(count, 0, -1) if falls else range(count)
    step = make_step(2, "first")
    rows = [(t, 0, x) for t, x in enumerate(values)]
    made = step.on_batch(make_batch(rows, count))
    frame = made.payload.with_columns(start=pl.Series(made.start))
    for t in (0, 1, 63, 64, 4_095, 4_096, count - 1):
        best = sorted(values[: t + 1], reverse=True)[:2]
        found = frame.filter(pl.col("start") == t).sort("rank")["x"].to_list()
        assert found == best


def test_rows_that_end_come_back() -> None:
    """A row that is beaten by rows that end is held, and is the best when they have ended."""
    rows = [rxt.IntervalEvent(0, rxt.MAX_TIME, {"x": -1})]
    rows += [rxt.IntervalEvent(n, 100 - n, {"x": n}) for n in range(40)]
    best = rxt.from_events(rows, advance_time=0).snapshot_window().top_k(1, "x").to_polars()
    assert best["x"].to_list() == [*range(40), *range(38, -1, -1), -1]
    assert best["rank"].to_list() == [1] * 80


def test_a_row_that_is_beaten_by_an_open_one_comes_back() -> None:
    """It is held, since the open row may end before it."""
    best = {**A, "x": 5}
    items = [
        ("interval", 0, MAX_TIME, A), ("start", 1, best), ("cti", 10), ("cti", 20),
        ("end", 1, 30, best), ("cti", 200),
    ]  # fmt: skip
    found = history_by_ctis(
        lambda s: s.group_by("k").snapshot_window().top_k(1, "x").ungroup().select("x"), items
    )
    assert found == [(0, 1, {"x": 1}), (1, 30, {"x": 5}), (30, MAX_TIME, {"x": 1})]


VALUES: dict[str, list[Any]] = {
    "integers": [3, None, -(1 << 63), (1 << 63) - 1, 3, 0, None],
    "floats": [0.0, None, -0.0, float("nan"), -1.5, float("-inf"), -float("nan"), 2.5],
    "texts": ["b", None, "", "ä", "a", "b"],
    "bools": [True, None, False, True],
}


@pytest.mark.parametrize("falls", [True, False])
@pytest.mark.parametrize("nulls", [True, False])
@pytest.mark.parametrize("kind", VALUES)
def test_ranks_of_all_kinds_of_values(kind: str, nulls: bool, falls: bool) -> None:
    """They are those of polars, nulls last; NaN is the greatest, and zeros are equal."""
    x = pl.Series("x", [each for each in VALUES[kind] if nulls or each is not None])
    frame = pl.DataFrame({"t": range(len(x)), "x": x, "n": range(len(x))})
    query = rxt.from_polars(frame, start="t").never_ends().snapshot_window()
    made = query.top_k(9, "x", descending=falls).to_polars()
    last = made.filter(pl.col("end_time").is_null()).sort("n")["rank"]
    plain = x + 0.0 if kind == "floats" else x
    expected = plain.rank("min", descending=falls).fill_null(1 + len(x) - x.null_count())
    assert last.to_list() == expected.to_list()


@given(rows=st.lists(st.tuples(*2 * [st.integers(0, 3)], st.integers(0, 2)), max_size=90))
def test_rows_are_sorted_in_groups(rows: list[tuple[int, int, int]]) -> None:
    """By group, codes, start and number, however many there are."""
    group, code, start = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    number = np.arange(len(rows))[::-1].copy()
    base, order, tie, same = ranks.sort_groups(group, 4, code.reshape(1, -1), start, number)
    assert order.tolist() == np.lexsort([number, start, code, group]).tolist()
    assert base.tolist() == [int((group < each).sum()) for each in range(5)]
    pairs = [*zip(group[order].tolist(), code[order].tolist(), strict=True)]
    assert np.diff(tie).astype(bool).tolist() == [a != b for a, b in pairwise(pairs)]
    times = [*zip(pairs, start[order].tolist(), strict=True)]
    assert same.tolist()[1:] == [a == b for a, b in pairwise(times)]


@given(
    rows=st.lists(st.tuples(*3 * [st.integers(0, 1)], *2 * [st.integers(0, 4)]), max_size=90),
    k=st.integers(1, 9),
)
def test_contenders_are_the_rows_with_fewer_than_k_before_them(
    rows: list[tuple[int, int, int, int, int]], k: int
) -> None:
    """Rows are compared with those of the same key and places, by all codes."""
    key, begin, until, *codes = np.array(rows, np.int64).reshape(-1, 5).T.copy()
    stays = ranks.find_contenders(key, begin, until, np.array(codes), k)
    before = [sum(a[:3] == b[:3] and b[3:] < a[3:] for b in rows) for a in rows]
    assert stays.tolist() == [count < k for count in before]


@pytest.mark.parametrize(("ties", "added"), [("share", 6), ("first", 2)])
def test_windows_hold_the_best_rows_of_a_batch(ties: Any, added: int) -> None:
    """A batch adds for each key and window as many rows as have a rank, not all."""
    (operator,) = tumbling_window(100).top_k(2, "x", ties=ties).operators
    step = operator.make(SCHEMA, ("k",))
    rows = [(t, t % 2, (t % 100) // 8) for t in range(200)]
    step.on_batch(make_batch(rows, 0, 1_000))
    # in each window two rows of each key have the highest value
    assert len(step._rows) == 2 * 2 * 2
    # and here six
    rows = [(t, t % 2, (t % 100) // 8) for t in range(200, 300)]
    step.on_batch(make_batch([(t, key, min(x, 11)) for t, key, x in rows], 0, 1_000))
    assert len(step._rows) == 2 * 2 * 2 + 2 * added


def test_the_next_place_is_found_anywhere() -> None:
    """The steps of blocks pass over no row."""
    size = MANY + 5
    there = np.zeros(size, np.uint8)
    blocks, large = np.zeros((size >> 6) + 1, np.int64), np.zeros((size >> 12) + 1, np.int64)
    places = [0, 1, 63, 64, 65, 4_095, 4_096, 4_097, 8_192, size - 1]
    for place in places:
        ranks._set(place, True, there, blocks, large)
    for begin in {0, *places, *(place + 1 for place in places)}:
        expected = min((place for place in places if place >= begin), default=size)
        assert ranks._find_next(begin, size, there, blocks, large) == expected
    for place in places:
        ranks._set(place, False, there, blocks, large)
    assert ranks._find_next(0, size, there, blocks, large) == size
