"""deadband by example: limits, numbers that are none, keys, and why a row did not pass."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from forgetting import forgetful
from tables import A, B, history_by_ctis

import rxtemporal as rxt


def pass_values(values: list[Any], by: float, dtype: Any = float) -> list[Any]:
    """Return the values that pass."""
    rows = [rxt.PointEvent(time, {"x": x}) for time, x in enumerate(values)]
    return rxt.from_events(rows, schema={"x": dtype}).deadband("x", by).to_polars()["x"].to_list()


def test_a_value_is_compared_with_the_last_that_passed() -> None:
    """So a slow drift passes in steps, and a difference of just the limit does not pass."""
    assert pass_values([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 0.5], 2) == [0.0, 3.0, 0.5]


def test_with_zero_each_change_passes() -> None:
    """Equal values do not."""
    assert pass_values([1, 1, 2, 2, 1], 0, int) == [1, 2, 1]


def test_what_is_no_number_differs_from_all_numbers() -> None:
    """And not from itself; the number after it passes whatever it is."""
    found = pass_values([1.0, None, None, 1.1, math.nan, math.nan, None, 1.1], 5)
    assert str(found) == str([1.0, None, 1.1, math.nan, None, 1.1])


@pytest.mark.parametrize("dtype", [pl.UInt8, pl.Int8, pl.Float32])
def test_other_numbers(dtype: Any) -> None:
    """Of each type."""
    assert pass_values([1, 2, 4, 100], 2, dtype) == [1, 4, 100]


def test_a_key_is_held_for_a_row_that_is_still_to_come_though_it_may_be_forgotten() -> None:
    """Also where none of its rows has passed yet, and one of another key has."""
    items = [("point", 5, A), ("point", 1, B), ("cti", 3), ("point", 6, A), ("cti", 9)]
    with forgetful():
        found = history_by_ctis(
            lambda s: s.group_by("k").deadband("x", 1).ungroup().select("k"), items
        )
    assert found == [(1, 2, {"k": B["k"]}), (5, 6, {"k": A["k"]})]


def test_why_a_row_did_not_pass() -> None:
    """The last row of its key that passed is named."""
    rows = [(0, "a", 5), (1, "b", 9), (2, "a", 6), (3, "a", 9)]
    readings = rxt.from_events(
        [rxt.PointEvent(time, {"k": k, "x": x}) for time, k, x in rows], name="readings"
    )
    query = readings.group_by("k").deadband("x", 2).ungroup()
    told = str(rxt.why_not(query, {"k": "a", "x": 6}))
    assert "'x' differs by no more than 2 from the last row that passed, 0 k='a' x=5" in told
    assert rxt.why(query, {"x": 9, "k": "a"}).causes["readings"].height == 1
