"""Window steps: rows of the window that is open, which are applied before it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from rxtemporal import EventBatch, agg
from rxtemporal.operators.hopping_windows import tumbling_window

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
