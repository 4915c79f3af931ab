"""Rows that lifetime operators hold: saved and loaded, grouped, and no more than needed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import arrangements
import numpy as np
import oracle
import physical
import polars as pl
import pytest
import strategies
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME
from tables import LENGTH, A, B, C

from rxtemporal import EventBatch
from rxtemporal.operators.alter.plan import (
    alter_event_duration,
    alter_event_lifetime,
    alter_event_start_time,
)
from rxtemporal.operators.chop.plan import chop
from rxtemporal.operators.clip.plan import clip_to_limit
from rxtemporal.operators.group_by import group_by
from rxtemporal.operators.lifetimes.plan import (
    extend_lifetime,
    point_at_end,
    shift_event_time,
    to_point_events,
)

OPERATORS: dict[str, Callable[[], Any]] = {
    "shift_event_time": lambda: shift_event_time(4),
    "shift_event_time, back": lambda: shift_event_time(-4),
    "shift_event_time, back to the beginning": lambda: shift_event_time(MIN_TIME),
    "to_point_events": to_point_events,
    "point_at_end": point_at_end,
    "extend_lifetime": lambda: extend_lifetime(3),
    "extend_lifetime, back": lambda: extend_lifetime(-3),
    "clip_event_duration": lambda: clip_to_limit(4),
    "chop": lambda: chop(10**15, 7),
    "alter_event_duration": lambda: alter_event_duration(pl.col("x").abs().fill_null(0) + 1),
    "alter_event_lifetime": lambda: alter_event_lifetime(pl.col("start") * 2, LENGTH * 2),
    "alter_event_start_time": lambda: alter_event_start_time(lambda t: t + 1),
}


def stepwise(made: list[EventBatch], operator: Any, *, saved: bool) -> list[EventBatch]:
    """Return a step's output for each batch; with ``saved``, by a newly loaded step for each."""
    step = operator.make(made[0].schema, ())
    out = []
    for batch in made:
        out.append(step.on_batch(batch))
        if saved:
            state, step = step.save(), operator.make(made[0].schema, ())
            step.load(state)
    return out


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=max(5, settings().max_examples // 3))
@given(data=st.data())
def test_a_step_continues_from_its_saved_state(name: str, data: st.DataObject) -> None:
    """A step saved and loaded after every batch gives the same batches with the same ids."""
    items = data.draw(strategies.streams())
    if name == "chop":
        items = [item for item in items if item != ("cti", MAX_TIME)]
    made = physical.batches(items, data.draw(strategies.cuts(len(items))))
    if not made:
        return
    operator = OPERATORS[name]()
    plain, loaded = (stepwise(made, operator, saved=saved) for saved in (False, True))
    for one, other in zip(plain, loaded, strict=True):
        assert one.cti == other.cti
        assert [one.start.tolist(), one.end.tolist(), one.edge.tolist()] == [
            other.start.tolist(), other.end.tolist(), other.edge.tolist(),
        ]  # fmt: skip
        assert oracle.freeze(one.payload.to_dicts()) == oracle.freeze(other.payload.to_dicts())


@pytest.mark.parametrize("name", OPERATORS)
def test_a_grouped_stream_stays_grouped(name: str) -> None:
    """Each batch names the keys, with held rows too."""
    key = {"a": A, "b": B, "c": C}
    items: list[Any] = []
    for time in range(40):
        row = key["abc"[time % 3]]
        items += [("start", time, row), ("interval", time, time + 9, row), ("cti", time)]
        if time >= 6:
            items.append(("end", time - 6, time, key["abc"[(time - 6) % 3]]))
    made = physical.batches(items, arrangements.cut_evenly(items, 5))
    seen = 0
    for batch in physical.run(made, group_by("k"), OPERATORS[name]()):
        assert batch.keys == ("k",)
        seen += len(batch)
    assert seen >= 30


@pytest.mark.parametrize("name", ["extend_lifetime, back", "clip_event_duration", "chop"])
@pytest.mark.parametrize("lasts", [2, 40])
def test_many_open_rows_come_and_go(name: str, lasts: int) -> None:
    """Rows are renumbered many times; each is closed once, and none is kept."""
    operator = {
        "extend_lifetime, back": extend_lifetime(-30),
        "clip_event_duration": clip_to_limit(30),
        "chop": chop(30),
    }[name]
    steps, each = 200, 50
    step = operator.make(pl.Schema({"x": pl.Int64}), ())
    made, ids, peak = [], np.arange(1, each + 1), 0
    for time in range(steps):
        made.append(_edges(time, MAX_TIME, ids + time * each, time))
        if time >= lasts:
            made.append(_edges(time - lasts, time, ids + (time - lasts) * each, time))
    out = []
    for batch in made:
        out.append(step.on_batch(batch))
        peak = max(peak, step.rows)
    assert peak <= (lasts + 1) * each
    found = [
        (row.start, row.end, row.payload["x"]) for row in physical.rows(out) if row.end < steps - 45
    ]
    expected = [
        (start, end, x)
        for time in range(steps - lasts)
        for start, end in _lifetimes(name, time, time + lasts)
        if end < steps - 45
        for x in range(each)
    ]
    assert sorted(found) == sorted(expected)


def _edges(start: int, end: int, ids: Any, cti: int) -> EventBatch:
    n = len(ids)
    payload = pl.DataFrame({"x": range(n)}, schema={"x": pl.Int64})
    return EventBatch(np.full(n, start), np.full(n, end), ids.astype(np.int64), payload, cti)


def _lifetimes(name: str, start: int, end: int) -> list[tuple[int, int]]:
    if name == "clip_event_duration":
        return [(start, min(end, start + 30))]
    if name == "chop":
        cuts = [start, *range((start // 30 + 1) * 30, end, 30), end]
        return list(pairwise(cuts))
    return [(start, end - 30)] if end - start > 30 else []
