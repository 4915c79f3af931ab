"""States of steps: loaded in place, and refused by any other step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import CheckpointError, RxTemporalError, agg
from rxtemporal.engine.rows import RowStore
from rxtemporal.engine.state import Stateful
from rxtemporal.testing import Stepper

SCHEMA = {"k": str, "x": int}
ROWS = [
    {"start_time": 0, "end_time": 9, "k": "a", "x": 1},
    {"start_time": 0, "end_time": 9, "k": "b", "x": 5},
]
Query = Callable[[rxt.Streamable], rxt.Streamable]


class Part(Stateful):
    """A part with one value."""

    held = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Whole(Stateful):
    """A list, a tuple and a dict of parts, and a plain value."""

    held = ("parts", "pair", "named", "plain")

    def __init__(self, first: int, parts: int = 2) -> None:
        self.parts = [Part(first + i) for i in range(parts)]
        self.pair = Part(first), [Part(first)]
        self.named = {"a": Part(first)}
        self.plain: Any = {first: [first]}

    def values(self) -> list[Any]:
        """Return all values."""
        parts = [*self.parts, self.pair[0], *self.pair[1], *self.named.values()]
        return [*(part.value for part in parts), self.plain]


def test_parts_are_loaded_in_place() -> None:
    """Parts in lists, tuples and dicts stay the same objects and get the saved values."""
    saved, loaded = Whole(1), Whole(7)
    before = [*loaded.parts, loaded.pair[0], loaded.named["a"]]
    loaded.load(saved.save())
    assert loaded.values() == saved.values() == [1, 2, 1, 1, 1, {1: [1]}]
    after = [*loaded.parts, loaded.pair[0], loaded.named["a"]]
    assert all(one is other for one, other in zip(before, after, strict=True))


def test_a_copy_loads_what_another_was_made_for_and_stays_what_it_is() -> None:
    """Also after an error: it still refuses the state of others."""
    saved, loaded = Whole(1), Whole(7)
    saved.identify("one")
    loaded.identify("another")
    with pytest.raises(CheckpointError, match="saved by one"):
        loaded.load(saved.save())
    loaded.load_copy(saved.save())
    assert loaded.values() == saved.values()
    with pytest.raises(RxTemporalError):
        loaded.load_copy(b"no state")
    with pytest.raises(CheckpointError, match="loaded by another"):
        loaded.load(saved.save())


def test_the_state_of_another_class_changes_nothing() -> None:
    """The state of another class, or of another number of parts, changes nothing."""
    loaded = Whole(7)
    before = loaded.values()
    for other in (Whole(1, parts=3), Part(5)):
        with pytest.raises(CheckpointError, match=r"this state has 3 parts|of a Part, not of a Wh"):
            loaded.load(other.save())
    assert loaded.values() == before


class OlderPart(Part):
    """A part as another version has kept it."""

    held = ("was",)

    def __init__(self, value: Any) -> None:
        self.was = value


OlderPart.__name__ = "Part"


def test_the_state_of_another_version_says_so() -> None:
    """A class that keeps other values than before refuses its old state, and says what to do."""
    with pytest.raises(CheckpointError, match=r"of a Part was saved by another version.*Hint: fin"):
        Part(2).load(OlderPart(1).save())


def stepper(query: Query) -> Stepper:
    """Return the steps of a query."""
    return Stepper(query(rxt.from_events([], schema=SCHEMA, name="s")))


def batch(rows: list[dict[str, Any]], cti: int) -> rxt.EventBatch:
    """Return rows as a batch."""
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
    """A changed operator refuses the old one's state and keeps its own."""
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


def test_a_value_of_another_kind_and_rows_of_other_columns_change_nothing() -> None:
    """A number that is a part now, and rows with a column less: saved by an earlier version."""
    number, part = Part(3), Part(Part(4))
    with pytest.raises(CheckpointError, match=r"what is a Part here was saved by another version"):
        part.load(number.save())
    assert part.value.value == 4
    earlier, rows = Part(RowStore([np.int64])), Part(RowStore([np.int64] * 2))
    with pytest.raises(CheckpointError, match=r"a set of rows was saved by another version.*Hint"):
        rows.load(earlier.save())
