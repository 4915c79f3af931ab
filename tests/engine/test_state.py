"""Saved states: what comes back is what was saved, and what does not fit is refused."""

from __future__ import annotations

import collections
import math
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import CheckpointError, agg
from rxtemporal.engine.steps.state import Stateful
from rxtemporal.testing import Stepper

SCHEMA = {"k": str, "x": int}
ROWS = [
    {"start_time": 0, "end_time": 9, "k": "a", "x": 1},
    {"start_time": 0, "end_time": 9, "k": "b", "x": 5},
]
Query = Callable[[rxt.Streamable], rxt.Streamable]


class Holder(Stateful):
    """Holds one value."""

    held = ("value",)

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Pair(NamedTuple):
    """No plain tuple."""

    a: int
    b: int


def restored(value: Any) -> Any:
    """A value, saved and loaded."""
    holder = Holder()
    holder.load(Holder(value).save())
    return holder.value


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -(2**70), "text", b"\x00\xff", 0.1, -0.0, math.inf,
        datetime(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC),
        datetime(2024, 5, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),
        date(2024, 5, 1), timedelta(1, 2, 3), Decimal("1.20"),
        [1, [2.5]], (1, ("a",)), {1, 2}, frozenset({"a"}), {("a", 1): {frozenset({2}): [None]}},
    ],
)  # fmt: skip
def test_a_state_comes_back_as_it_was(value: Any) -> None:
    """Values of users' states come back equal and of the same type, zones included."""
    back = restored(value)
    assert (back, type(back)) == (value, type(value))
    if isinstance(value, datetime):
        assert back + timedelta(180) == value + timedelta(180)
        assert (back + timedelta(180)).utcoffset() == (value + timedelta(180)).utcoffset()


def test_arrays_and_frames_come_back_as_they_were() -> None:
    """Columns keep their types, shapes and contents."""
    bools = np.arange(22).reshape(2, 11) % 3 == 0
    for array in (np.arange(3), np.zeros((0, 3)), bools, bools[:0], np.array([[1.5, 2.5]])):
        back = restored(array)
        assert (back.dtype, back.shape) == (array.dtype, array.shape)
        assert (back == array).all()
    frame = pl.DataFrame({"s": ["a", None], "d": [Decimal("1.50"), None]})
    assert restored(frame).equals(frame)
    assert restored(pl.DataFrame(height=3)).height == 3


@pytest.mark.parametrize(
    "value",
    [collections.Counter("aab"), collections.defaultdict(int), Pair(1, 2), object(), {1: object()}],
)
def test_what_would_come_back_as_something_else_is_refused(value: Any) -> None:
    """A subclass of a plain type, or an object, cannot be saved, and the message says what can."""
    with pytest.raises(CheckpointError, match="made of numbers, strings, times, lists"):
        Holder(value).save()


def stepper(query: Query) -> Stepper:
    """A query, to be stepped."""
    return Stepper(query(rxt.from_events([], schema=SCHEMA, name="s")))


def batch(rows: list[dict[str, Any]], cti: int) -> rxt.EventBatch:
    """Rows as a batch."""
    return rxt.EventBatch.from_dicts(rows, schema={"k": pl.String, "x": pl.Int64}, cti=cti)


OTHERS: list[tuple[Query, Query]] = [
    (
        lambda s: s.snapshot_window().aggregate(v=agg.max("x")),
        lambda s: s.snapshot_window().aggregate(v=agg.min("x")),
    ),
    (
        lambda s: s.tumbling_window(100).aggregate(n=agg.count()),
        lambda s: s.tumbling_window(4).aggregate(n=agg.count()),
    ),
    (
        lambda s: s.snapshot_window().aggregate(n=agg.count()),
        lambda s: s.tumbling_window(4).aggregate(n=agg.count()),
    ),
    (lambda s: s.distinct("k"), lambda s: s.distinct("x")),
    (lambda s: s.group_by("k"), lambda s: s.group_by("x")),
    (lambda s: s.where(pl.col("x") > 1), lambda s: s.where(pl.col("x") > 2)),
]


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_the_state_of_another_query_is_refused(one: Query, other: Query) -> None:
    """A changed operator does not go on from the old one's state, and is left as it was."""
    saved = stepper(one)
    saved.push("s", batch(ROWS, 5))
    changed = stepper(other)
    with pytest.raises(CheckpointError):
        changed.load(saved.save())
    fresh = stepper(other)
    pushes = [step.push("s", batch(ROWS, 500)) for step in (changed, fresh)]
    assert [[b.to_dicts() for b in out] for out in pushes[:1]] == [
        [b.to_dicts() for b in out] for out in pushes[1:]
    ]


@pytest.mark.parametrize("place", [0, 3, 5, 7, 10, 14, 20, 60, -1])
def test_damaged_states_are_refused(place: int) -> None:
    """One flipped bit anywhere, a cut or another kind of thing: a CheckpointError, nothing else."""
    saved = Holder([np.arange(5), {"a": 1}]).save()
    damaged = bytearray(saved)
    damaged[place] ^= 8
    for data in (bytes(damaged), saved[:place], saved + b"x", b"", None, "text"):
        with pytest.raises(CheckpointError):
            Holder().load(data)  # type: ignore[arg-type]
