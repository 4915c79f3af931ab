"""The step of a signal: against a model, whatever is saved between batches, and what it holds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal import MAX_TIME, EventBatch
from rxtemporal.operators.clip.plan import to_signal
from rxtemporal.operators.clip.step import SignalStep

Point = tuple[int, str | None, int]
SCHEMA = pl.Schema({"k": pl.String(), "v": pl.Int64()})
# some points of few keys, and how many ticks the CTI is behind the latest one of a batch
BATCHES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["a", "b", None])), max_size=12),
        st.integers(0, 9),
    ),
    max_size=8,
)


def make_step(gap: int | None) -> SignalStep:
    """Return a step for the field ``k``."""
    step = to_signal("k", gap).make(SCHEMA, ())
    assert isinstance(step, SignalStep)
    return step


def make_batch(points: list[Point], cti: int) -> EventBatch:
    """Return points as a batch."""
    frame = pl.DataFrame([point[1:] for point in points], SCHEMA, orient="row")
    return EventBatch.of_rows(np.array([point[0] for point in points], np.int64), None, frame, cti)


def find_ends(points: list[Point], gap: int | None) -> list[tuple[int, int, int]]:
    """Return start, end and value of each row of the signal."""
    rows = []
    for start, key, value in points:
        later = [at for at, other, _ in points if other == key and at > start and key is not None]
        last = MAX_TIME if gap is None else start + gap
        rows.append((start, min([last, *later]), value))
    return sorted(rows)


def join_edges(batches: list[EventBatch]) -> list[tuple[int, int, int]]:
    """Return start, end and value of each row, of a start edge and its end edge once."""
    rows: dict[object, tuple[int, int, int]] = {}
    for batch in batches:
        values = batch.payload["v"].to_list()
        for row, value in enumerate(values):
            edge = int(batch.edge[row])
            name = edge or (value, "complete")
            # a start edge comes first, and its end edge later
            assert (name in rows) == (edge != 0 and batch.end[row] != MAX_TIME)
            rows[name] = (int(batch.start[row]), int(batch.end[row]), value)
    return sorted(rows.values())


@pytest.mark.parametrize("gap", [None, 1, 4])
@given(drawn=BATCHES, saved=st.booleans())
def test_each_row_lasts_until_the_next_of_its_key(
    gap: int | None, drawn: list[tuple[list[tuple[int, str | None]], int]], saved: bool
) -> None:
    """However points are cut into batches, and states saved, the rows are those of the model."""
    step, cti, points, found = make_step(gap), 0, list[Point](), list[EventBatch]()
    drawn = [*drawn, ([], 0)]
    for number, (times, behind) in enumerate(drawn):
        new = [(cti + at, key, len(points) + i) for i, (at, key) in enumerate(times)]
        points += new
        cti = max([cti, *(at + 3 - behind for at, _, _ in new)])
        cti = MAX_TIME if number == len(drawn) - 1 else cti
        found.append(step.on_batch(make_batch(new, cti)).check())
        if saved:
            state, step = step.save(), make_step(gap)
            step.load(state)
    assert join_edges(found) == find_ends(points, gap)


def test_rows_that_others_follow_in_their_batch_are_not_held() -> None:
    """A step holds the latest row of each key, and those that the CTI has not passed."""
    step = make_step(None)
    points: list[Point] = [(at, "abc"[at % 3], at) for at in range(3_000)]
    assert len(step.on_batch(make_batch(points, 3_000))) == 3_000
    assert step.rows == step._rows.height == 3
    more: list[Point] = [(at, "a", at) for at in range(3_000, 3_100)]
    assert len(step.on_batch(make_batch(more, 3_090))) == 90 + 1
    assert step.rows == 3 + 10
    # a row without a key has no followers and never ends
    assert step.on_batch(make_batch([(3_200, None, 0)], 4_000)).end.max() == MAX_TIME
    assert step.rows == 3


def test_keys_whose_gap_is_over_are_forgotten() -> None:
    """With a gap a step holds no more than the keys of one gap."""
    step = make_step(5)
    for at in range(0, 40_000, 100):
        points: list[Point] = [(at, f"{at + key}", key) for key in range(100)]
        step.on_batch(make_batch(points, at + 1))
        assert step.rows == 100
    assert len(step._keying) < 4_000
    assert step._rows.height < 4_000


def test_rows_without_a_key_stay_when_all_keys_are_forgotten() -> None:
    """They are numbered anew by a batch that brings no row, and no key."""
    step = make_step(10)
    keyed: list[Point] = [(0, f"{key}", key) for key in range(1_100)]
    others: list[Point] = [(1_000, None, 0)] * 2_500 + [(5_000, None, 0)] * 500
    step.on_batch(make_batch(keyed + others, 50))
    assert len(step._keying) == 0
    assert len(step.on_batch(make_batch([], 2_000))) == 2_500
    assert step._rows.height == step.rows == 500
