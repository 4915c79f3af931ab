"""Hopping windows: every way in which rows reach the sweep gives the same results."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import MAX_TIME, EventBatch, agg
from rxtemporal.engine.rows import RowStore
from rxtemporal.errors import UnboundedWindowError
from rxtemporal.operators.hopping_window import bounds as steps
from rxtemporal.operators.hopping_window.plan import hopping_window, tumbling_window
from rxtemporal.testing import Stepper

SCHEMA = pl.Schema({"k": pl.Int64, "x": pl.Float64})
GRIDS = {
    "tumbling": tumbling_window(10),
    "five at a time": hopping_window(20, 4),
    "uneven": hopping_window(10, 4),
    "with gaps": hopping_window(3, 10),
}
# a key of its own, whose row is held all the time
HELD = 9

Row = tuple[int, int, float | None]
ROWS = st.lists(
    st.tuples(
        st.integers(0, 9),
        st.integers(0, 2),
        st.sampled_from([0.1, 0.3, -7.25, 1e16, math.inf, -math.inf, math.nan, None]),
    ),
    max_size=12,
)


def make_step(windows: Any, aggregate: Any = agg.sum) -> Any:
    """Return a step with a count and twice the same aggregate: the first is part of the sweep."""
    fields = {"n": agg.count(), "first": aggregate("x"), "second": aggregate("x")}
    (operator,) = windows.aggregate(**fields).operators
    return operator.make(SCHEMA, ("k",))


def make_points(rows: Sequence[Row], cti: int, *, in_order: bool = True) -> EventBatch:
    """Return a batch of rows of start, key and value; ``in_order``: they are marked as such."""
    payload = pl.DataFrame([row[1:] for row in rows], schema=SCHEMA, orient="row")
    start = np.array([row[0] for row in rows], np.int64)
    return EventBatch(start, None, None, payload, cti, ("k",), in_order)


def run(step: Any, batches: Sequence[EventBatch]) -> pl.DataFrame:
    """Return all results of a step, without those of the held row, with their lifetimes."""
    results = [step.on_batch(batch).to_polars("ticks") for batch in batches]
    return pl.concat(results).filter(pl.col("k") != HELD)


def list_batches(parts: Sequence[Sequence[Row]]) -> list[list[Row]]:
    """Return batches of rows in order of time, whose first numbers are gaps."""
    gaps = iter(itertools.accumulate(row[0] for rows in parts for row in rows))
    return [[(next(gaps), *row[1:]) for row in rows] for rows in parts]


@pytest.mark.parametrize("aggregate", [agg.sum, agg.avg])
@pytest.mark.parametrize("grid", GRIDS)
@given(parts=st.lists(ROWS, max_size=4))
def test_rows_that_are_held_and_rows_that_are_not_have_the_same_results(
    grid: str, aggregate: Any, parts: list[list[Row]]
) -> None:
    """Points in order, points that are not known to be, and points behind a row that is held.

    The first also with little room for results. They are the same bit for bit; so are a sum that is
    computed with the windows and one that is computed after them.
    """
    batches = list_batches(parts)
    ctis = list(itertools.accumulate([rows[-1][0] if rows else 0 for rows in batches], max))
    held = make_points([(-50, HELD, 1.0)], -50).replace(end=np.array([1000]))
    points, unknown = (
        [make_points(*each, in_order=known) for each in zip(batches, ctis, strict=True)]
        for known in (True, False)
    )
    last = make_points([], 2000)
    ways = points, unknown, [held, *points]
    first, *others = [run(make_step(GRIDS[grid], aggregate), [*way, last]) for way in ways]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "ROOM", 2)
        others.append(run(make_step(GRIDS[grid], aggregate), [*points, last]))
    for other in others:
        assert_frame_equal(first, other, check_exact=True, check_row_order=False)
    assert_frame_equal(first.select(x="first"), first.select(x="second"), check_exact=True)


def test_points_in_order_pass_the_store_by(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of small batches, which are taken up together."""
    monkeypatch.delattr(RowStore, "extend")
    step = make_step(tumbling_window(10))
    step.on_batch(make_points([(0, 1, 0.5)], 0))
    for start in range(1, 10):
        step.on_batch(make_points([(start, 1, 0.25)], start))
    result = step.on_batch(make_points([(10, 1, 8.0)], 10))
    assert result.payload.rows() == [(1, 10, 2.75, 2.75)]
    assert step.on_batch(make_points([], 20)).payload.rows() == [(1, 1, 8.0, 8.0)]


def test_a_point_at_the_end_of_time_never_ends() -> None:
    """So it is not a single change; the points before it are."""
    for last, results in ((MAX_TIME - 2, 1), (MAX_TIME - 1, 0)):
        step = make_step(tumbling_window(10))
        step.on_batch(make_points([(last - 5, 1, 1.0), (last, 1, 2.0)], last))
        if results:
            result = step.on_batch(make_points([], MAX_TIME))
            assert result.payload.rows() == [(1, 2, 3.0, 3.0)]
            continue
        with pytest.raises(UnboundedWindowError, match="lives very long, or for ever"):
            step.on_batch(make_points([], MAX_TIME))


@pytest.mark.parametrize("value", [2.5, None])
def test_more_results_than_there_is_room_for(value: float | None) -> None:
    """A row that lives long has a result in each window, of which all arrays take part."""
    step, count = make_step(tumbling_window(10), agg.avg), 3 * steps.ROOM
    row = pl.DataFrame([(1, value), (2, 1.0)], SCHEMA, orient="row")
    start, end = np.array([0, 0]), np.array([10 * count, 10 * count])
    result = step.on_batch(EventBatch.of_rows(start, end, row, 10 * count, ("k",)))
    rows = pl.DataFrame(result.payload).filter(k=1)
    assert rows.drop("k").unique().rows() == [(1, value, value)]
    assert result.start.tolist() == [10 * n for n in range(count) for _ in range(2)]
    assert (result.end - result.start).tolist() == [10] * 2 * count


def test_a_text_is_in_no_window_behind_its_own_after_a_state_has_been_loaded() -> None:
    """The least one of each window is that of its own rows, also of windows to come."""

    def make_query() -> Stepper:
        names = rxt.from_events([], schema={"name": str}, name="names")
        return Stepper(names.hopping_window(10, 5).aggregate(least=agg.min("name")))

    def push(stepper: Stepper, start: int, name: str) -> list[tuple[int, str]]:
        row = {"start_time": start, "end_time": start + 1, "name": name}
        made = stepper.push("names", EventBatch.from_dicts([row], cti=start))
        results = [each for batch in made for each in batch.to_dicts("ticks")]
        return [(each["start_time"], each["least"]) for each in results]

    before, after = make_query(), make_query()
    for start, name in ((1, "c"), (11, "b"), (21, "a")):
        push(before, start, name)
    after.load(before.save())
    assert push(after, 31, "d") == [(15, "a"), (20, "a")]
    assert push(after, 46, "e") == [(25, "d"), (30, "d")]
