"""Window steps: rows of the window that is open, which are applied before it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from forgetting import forgetful
from tables import history_by_ctis

import rxtemporal as rxt
from rxtemporal import MAX_TIME, EventBatch, agg
from rxtemporal.engine.rows import LARGE, RowStore
from rxtemporal.operators.hopping_window.plan import hopping_window, tumbling_window
from rxtemporal.operators.windows import step as step_module

SCHEMA = pl.Schema({"k": pl.Int64, "x": pl.Float64})


def make_step(windows: Any) -> Any:
    """Return a step that counts and adds up by key."""
    (operator,) = windows.aggregate(n=agg.count(), s=agg.sum("x")).operators
    return operator.make(SCHEMA, ("k",))


def make_batch(start: list[int], cti: int) -> EventBatch:
    """Return points of two keys; the value is the start."""
    times = np.array(start, np.int64)
    payload = pl.DataFrame({"k": times % 2, "x": times.astype(float)}, schema=SCHEMA)
    return EventBatch.of_rows(times, times + 1, payload, cti, ("k",))


def list_rows(batch: EventBatch) -> list[tuple[Any, ...]]:
    """Return start, key, count and sum of each result."""
    return [(int(s), *row) for s, row in zip(batch.start, batch.payload.rows(), strict=True)]


def test_an_open_window_holds_sums_and_no_rows() -> None:
    """Once a window has ended, the rows of the next one are added up; a restart keeps the sums."""
    step = make_step(tumbling_window(10))
    assert list_rows(step.on_batch(make_batch([1, 2, 4, 11, 13, 15, 16], 16))) == [
        (0, 1, 1, 1.0), (0, 0, 2, 6.0),
    ]  # fmt: skip
    assert (len(step._rows), step.rows, step.next_due) == (0, 4, 20)
    saved, step = step.save(), make_step(tumbling_window(10))
    step.load(saved)
    assert list_rows(step.on_batch(make_batch([18, 17], 19))) == []
    assert step.rows == 6
    assert list_rows(step.on_batch(make_batch([], 30))) == [(10, 1, 4, 56.0), (10, 0, 2, 34.0)]
    assert (step.rows, step.next_due) == (0, None)


def test_a_key_of_which_only_sums_are_held_is_not_forgotten() -> None:
    """Its rows are not held any more, and some of its results are still to come."""
    items: list[Any] = []
    for t in range(0, 8, 2):
        items += [("point", t, {"k": f"{t}", "x": 1, "y": None}), ("cti", t + 2)]
    items += [("cti", 30)]
    with forgetful():
        found = history_by_ctis(
            lambda s: s.group_by("k").hopping_window(6, 2).aggregate(n=agg.count()), items
        )
    assert sorted((row["k"], start) for start, _, row in found) == [
        (f"{t}", start) for t in range(0, 8, 2) for start in (t - 4, t - 2, t)
    ]


def test_rows_wait_until_a_window_ends() -> None:
    """Small batches are taken up together; what the step counts, saves and says is as without."""
    step, restarted = (make_step(hopping_window(20, 10)) for _ in range(2))
    step.on_batch(make_batch([1], 10))
    for start in range(11, 19):
        assert list_rows(step.on_batch(make_batch([start], start))) == []
    # one row is added up, and eight wait
    assert (len(step._rows), step._waiting.count, step.rows, step.next_due) == (0, 8, 9, 20)
    restarted.load(step.save())
    for each in (step, restarted):
        assert (each._waiting.count, each.rows, each.next_due) == (0, 9, 20)
        results = list_rows(each.on_batch(make_batch([19, 20], 30)))
        assert results == [(0, 1, 6, 76.0), (0, 0, 4, 60.0), (10, 1, 5, 75.0), (10, 0, 5, 80.0)]


def test_rows_that_wait_are_taken_up_before_edges() -> None:
    """A start edge and its end edge are kept at once, behind the rows that came before them."""
    step = make_step(tumbling_window(10))
    step.on_batch(make_batch([1], 10))
    step.on_batch(make_batch([12], 12))
    begin, end = make_batch([14], 14), make_batch([14], 17)
    step.on_batch(begin.replace(end=np.array([MAX_TIME]), edge=np.array([1])))
    assert (step._waiting.count, step.rows) == (0, 2)
    step.on_batch(end.replace(end=np.array([16]), edge=np.array([1])))
    assert list_rows(step.on_batch(make_batch([], 40))) == [(10, 0, 2, 26.0)]


def test_a_step_that_loads_a_state_forgets_the_rows_that_wait() -> None:
    """Only the saved rows are there afterwards."""
    step = make_step(tumbling_window(10))
    step.on_batch(make_batch([1], 10))
    saved = step.save()
    step.on_batch(make_batch([11, 12], 12))
    step.load(saved)
    assert (step.rows, step.next_due) == (0, None)
    assert list_rows(step.on_batch(make_batch([13], 20))) == [(10, 1, 1, 13.0)]


def test_many_rows_or_batches_do_not_wait() -> None:
    """At most 64 batches, or 4,096 rows, wait; then they are taken up."""
    step = make_step(tumbling_window(10_000))
    step.on_batch(make_batch([1], 10_000))
    for start in range(10_000, 10_064):
        step.on_batch(make_batch([start], start))
    assert (step._waiting.count, step.rows) == (0, 64)
    step.on_batch(make_batch([10_100] * 4_095, 10_100))
    assert (step._waiting.count, step.rows) == (4_095, 4_159)
    step.on_batch(make_batch([10_101], 10_101))
    assert (step._waiting.count, step.rows) == (0, 4_160)


@pytest.mark.parametrize("windows", [tumbling_window(10), hopping_window(20, 10)])
def test_rows_of_which_all_changes_are_due_are_not_held(
    windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in order pass the store by; out of order they are held. The results are the same."""
    held = list[int]()
    extend = RowStore.extend

    def note(self: RowStore, columns: Any, payload: Any = None) -> int:
        held.append(len(columns[0]))
        return extend(self, columns, payload)

    monkeypatch.setattr(RowStore, "extend", note)
    results, starts = list[Any](), [3, 5, 5, 11, 14, 22]
    for order in (starts, starts[::-1]):
        step = make_step(windows)
        batches = [make_batch(order, 23), make_batch([24, 31], 60)]
        results.append([sorted(list_rows(step.on_batch(batch))) for batch in batches])
        assert step.rows == 0
    assert held == [6]
    assert results[0] == results[1]
    assert sum(len(rows) for rows in results[0]) > 4


@pytest.mark.parametrize("last", [[10_063], [10_063, 20_001]])
def test_who_asks_while_rows_are_taken_up_sees_them(last: list[int]) -> None:
    """Until they are applied, they wait: another thread may read at any time."""
    step = make_step(tumbling_window(10_000))
    step.on_batch(make_batch([1], 10_000))
    for start in range(10_000, 10_063):
        step.on_batch(make_batch([start], start))
    seen, find_due_rows, cut = list[Any](), step._bounds.find_due_rows, step._bounds.cut

    def note(method: Any, *given: Any) -> Any:
        seen.append((step.next_due, step.rows))
        return method(*given)

    step._bounds.find_due_rows = lambda *given: note(find_due_rows, *given)
    step._bounds.cut = lambda *given: note(cut, *given)
    step.on_batch(make_batch(last, last[-1]))
    assert seen == [(20_000, 63 + len(last))] * 2


@pytest.mark.long
def test_the_room_of_a_burst_is_given_back_though_no_row_is_held_later() -> None:
    """Rows out of order are stored; those in order, which are not, release the room."""
    step = make_step(tumbling_window(10))
    step.on_batch(make_batch(list(range(LARGE + 1, 0, -1)), LARGE + 20))
    assert len(step._rows.arrays[0]) > LARGE
    step.on_batch(make_batch([LARGE + 21, LARGE + 22], LARGE + 30))
    assert len(step._rows.arrays[0]) == 0


def test_rows_that_come_to_a_held_one_are_held() -> None:
    """The changes of both are applied in order of time."""
    step = make_step(tumbling_window(10))
    assert list_rows(step.on_batch(make_batch([1, 2], 5).replace(end=np.array([25, 3])))) == []
    assert list_rows(step.on_batch(make_batch([11, 13], 20))) == [
        (0, 1, 1, 1.0), (0, 0, 1, 2.0), (10, 1, 3, 25.0),
    ]  # fmt: skip
    assert list_rows(step.on_batch(make_batch([22, 31], 60))) == [
        (20, 1, 1, 1.0), (20, 0, 1, 22.0), (30, 1, 1, 31.0),
    ]  # fmt: skip
    assert (len(step._rows), step.rows) == (0, 0)


def test_rows_with_and_without_nulls_wait_together() -> None:
    """A null value of one batch, and no other, is left out."""
    step = make_step(tumbling_window(10))
    step.on_batch(make_batch([1], 10))
    step.on_batch(make_batch([12], 12))
    none = pl.DataFrame({"k": [0, None], "x": [None, 7.0]}, schema=SCHEMA)
    step.on_batch(make_batch([13, 14], 14).replace(payload=none))
    assert list_rows(step.on_batch(make_batch([16], 20))) == [(10, 0, 3, 28.0), (10, None, 1, 7.0)]


def test_windows_that_hold_many_rows_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are the same, however few pairs of windows and rows are read at a time."""
    rows = [rxt.IntervalEvent(n, n + 40, {"k": n % 3, "x": n * 7 % 11}) for n in range(90)]
    queries = (
        rxt.from_events(rows).group_by("k").snapshot_window().top_k(2, "x"),
        rxt.from_events(rows).hopping_window(20, 5).aggregate(
            q=agg.quantile("x", 0.5), n=agg.count(), last=agg.last("x")
        ),
        rxt.from_events(rows).never_ends().snapshot_window().aggregate(e=agg.expr(pl.col("x").sum())),
    )  # fmt: skip
    whole = [query.to_polars() for query in queries]
    for most in (1, 40, 300):
        monkeypatch.setattr(step_module, "MOST_PAIRS", most)
        for query, frame in zip(queries, whole, strict=True):
            assert query.to_polars().equals(frame)
