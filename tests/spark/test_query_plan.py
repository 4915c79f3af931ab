"""Plans of queries for Spark: what asks for late rows, which Spark drops before, is refused."""

from __future__ import annotations

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import Streamable
from rxtemporal.spark.query.job import check_reference, compose_plan

FIELDS = {name: pl.Schema({"device": pl.String}) for name in ("readings", "moves")}


def placed(readings: Streamable, moves: Streamable) -> Streamable:
    """Join readings with reference data."""
    return readings.join(rxt.reference(moves, on="device"), on="device")


def placed_in_time(readings: Streamable, moves: Streamable) -> Streamable:
    """The same, where the reference data have the time of the readings."""
    places = rxt.reference(moves, on="device", follows=readings)
    return readings.join(places, on="device")


def test_reference_data_that_are_complete_are_taken() -> None:
    """Readings may be judged, and drop late rows."""
    check_reference(compose_plan(placed, FIELDS), {"readings"})


def test_reference_data_that_are_judged_are_refused() -> None:
    """A row that was told late would be valid at no time."""
    with pytest.raises(rxt.BindingError, match=r"drops those of 'moves' before .* Hint: leave it"):
        check_reference(compose_plan(placed, FIELDS), {"readings", "moves"})


def test_another_time_is_refused() -> None:
    """DataFrames do not import each other's CTIs."""
    with pytest.raises(rxt.BindingError, match=r"late rows of 'moves'.* Hint: leave follows="):
        compose_plan(placed_in_time, FIELDS)
