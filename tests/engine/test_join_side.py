"""The rows that a join holds: in order or not, removed when they have ended, saved and loaded."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxtemporal import MAX_TIME, EventBatch
from rxtemporal.engine import rows as rows_module
from rxtemporal.engine.key_matcher import KeyMatcher
from rxtemporal.operators.join import step as join_side
from rxtemporal.operators.join.step import JoinedPayload, JoinStep

SCHEMAS = (
    pl.Schema({"k": pl.Int32(), "a": pl.Int64()}),
    pl.Schema({"k": pl.Int64(), "b": pl.Int64()}),
)
JOINED = pl.Schema({"k": pl.Int64(), "a": pl.Int64(), "b": pl.Int64()})
# after the CTI, length and key
ROWS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 2)), max_size=6)
# side, rows, advance of the CTI, and if the step is saved and loaded then
BATCHES = st.lists(
    st.tuples(st.integers(0, 1), ROWS, st.integers(0, 9), st.sampled_from([False] * 9 + [True])),
    min_size=8,
    max_size=24,
)
LAST: list[tuple[int, list[tuple[int, int, int]], int, bool]] = [
    (0, [], MAX_TIME, False), (1, [], MAX_TIME, False),
]  # fmt: skip

Row = tuple[int, int, int, int]


def make_step() -> JoinStep:
    """Return a join on ``k``, whose types differ."""
    keying = KeyMatcher((), (("k", "k"),), [pl.Int64()])
    return JoinStep(keying, SCHEMAS, JoinedPayload({"b": "b"}, JOINED), None, ())


def make_batch(side: int, rows: list[Row], cti: int) -> EventBatch:
    """Return a batch of rows of start, end, key and number."""
    start, end, key, number = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    payload = pl.DataFrame(dict(zip(SCHEMAS[side], (key, number), strict=True)), SCHEMAS[side])
    return EventBatch.of_rows(start, end, payload, cti)


def list_pairs(batch: EventBatch) -> list[tuple[int, ...]]:
    """Return the rows of a batch as ``match`` does."""
    times = zip(batch.start.tolist(), batch.end.tolist(), strict=True)
    return [(*time, *row) for time, row in zip(times, batch.payload.rows(), strict=True)]


def match(left: list[Row], right: list[Row]) -> list[tuple[int, ...]]:
    """Return the pairs by definition: start, end, key and both numbers."""
    return sorted(
        (max(a[0], b[0]), min(a[1], b[1]), a[2], a[3], b[3])
        for a in left
        for b in right
        if a[2] == b[2] and max(a[0], b[0]) < min(a[1], b[1])
    )


@given(BATCHES, st.sampled_from([1, 99]))
def test_pairs_do_not_depend_on_when_rows_begin_are_removed_or_saved(
    batches: list[tuple[int, list[tuple[int, int, int]], int, bool]], many_pairs: int
) -> None:
    """Rows wait in order or in any order, few are enough to be removed, and states are loaded.

    Few pairs are enough to look for the rows that they share, or none are.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_side, "MANY_KEPT", 4)
        patch.setattr(join_side, "MANY_PAIRS", many_pairs)
        patch.setattr(join_side, "SHARED", 1)
        patch.setattr(join_side, "MOST_UNUSED", 10**9)
        patch.setattr(rows_module, "MANY", 4)
        step, made = make_step(), []
        given: tuple[list[Row], list[Row]] = [], []
        ctis = [0, 0]
        for side, drawn, more, is_saved in [
            *batches,
            (0, [], MAX_TIME, False),
            (1, [], MAX_TIME, False),
        ]:
            begin = ctis[side]
            rows = [
                (begin + after, begin + after + length, key, len(given[side]) + number)
                for number, (after, length, key) in enumerate(drawn)
            ]
            given[side].extend(rows)
            ctis[side] = min(begin + more, MAX_TIME)
            take = step.on_right if side else step.on_left
            made.append(take(make_batch(side, rows, ctis[side])))
            if is_saved:
                saved, step = step.save(), make_step()
                step.load(saved)
        assert step.rows == 0
    assert match(*given) == sorted(pair for batch in made for pair in list_pairs(batch))
