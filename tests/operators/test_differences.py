"""increase, resets and changes by example: resets, windows, keys, and what is no reading."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import agg


def read(values: list[Any], dtype: Any = int, **fields: Any) -> rxt.Streamable:
    """Return a reading at each tick."""
    rows = [rxt.PointEvent(time, {"x": x}) for time, x in enumerate(values)]
    return rxt.from_events(rows, schema={"x": dtype}, name="readings")


def test_a_fall_counts_from_zero() -> None:
    """The rises of a counter that has begun anew once."""
    windows = read([0, 1, 2, 3, 2, 3, 4]).tumbling_window(10)
    found = windows.aggregate(used=agg.increase("x"), resets=agg.resets("x")).to_polars()
    assert found.rows() == [(0, 10, 7, 1)]


def test_a_rise_belongs_to_the_window_of_the_later_reading() -> None:
    """So adjacent windows add up to the whole."""
    found = read([5, 8, 9, 4, 6]).tumbling_window(2).aggregate(used=agg.increase("x"))
    assert found.to_polars()["used"].to_list() == [3, 5, 2]
    assert found.to_polars()["used"].sum() == 10


def test_what_is_no_reading_is_passed_over() -> None:
    """NaN makes the window of its own row NaN, and no other."""
    found = read([1.0, None, 4.0, math.nan, 6.0], float).tumbling_window(1)
    used = found.aggregate(used=agg.increase("x"), n=agg.changes("x")).to_polars()
    assert str(used["used"].to_list()) == "[0.0, 0.0, 3.0, nan, 2.0]"
    assert used["n"].to_list() == [0, 0, 1, 1, 1]


def test_changes_of_a_text() -> None:
    """Of any type, also of an expression."""
    found = read(["a", "a", "b", None, "b", "a"], str).tumbling_window(10)
    counted = found.aggregate(n=agg.changes("x"), upper=agg.changes(pl.col("x").str.to_uppercase()))
    assert counted.to_polars().rows() == [(0, 10, 2, 2)]


def test_other_aggregates_see_the_rows_as_they_are() -> None:
    """The differences are no fields of theirs."""

    class Names(agg.UserDefinedAggregate):
        def compute(self, values: list[Any]) -> str:
            return ",".join(values[0])

    found = read([1, 2]).tumbling_window(10).aggregate(used=agg.increase("x"), names=Names())
    assert found.to_polars().rows() == [(0, 10, 1, "x")]


@pytest.mark.parametrize(
    ("compose", "message"),
    [
        (lambda s: agg.increase("k"), r"increase\(.*\) is about a counter, which is a number"),
        (lambda s: agg.resets("k"), r"has the type String. Hint: cast it to a number"),
        (lambda s: agg.changes("z"), "unable to find column"),
    ],
)
def test_bad_fields(compose: Any, message: str) -> None:
    """A counter is a number."""
    stream = rxt.from_events([], schema={"k": str, "increase(x)": int, "x": int})
    with pytest.raises(rxt.SchemaError, match=message):
        stream.tumbling_window(10).aggregate(n=compose(stream))


def test_a_field_that_has_the_name_of_a_difference() -> None:
    """It has to be renamed."""
    stream = rxt.from_events([], schema={"increase(x)": int, "x": int})
    with pytest.raises(rxt.SchemaError, match=r"agg.increase needs the name 'increase\(x\)'"):
        stream.tumbling_window(10).aggregate(n=agg.increase("x"))


def test_why_names_the_reading_before() -> None:
    """As history: it is in another window."""
    used = read([5, 8, 9]).tumbling_window(2).aggregate(used=agg.increase("x"))
    told = str(rxt.why(used, 1))
    assert "1 x=8 (history)" in told
    assert "2 x=9" in told
