"""Joins of streams whose fields are of different types."""

from __future__ import annotations

import polars as pl
import pytest

import rxtemporal as rxt

LEFT = pl.DataFrame(
    {"start_time": [1, 2], "end_time": [9, 9], "k": [1, 2], "a": ["x", None]},
    schema_overrides={"k": pl.Int32},
)
RIGHT = pl.DataFrame(
    {"start_time": [3, 4], "end_time": [9, 9], "k": [2, 5], "b": [True, False], "t": [None, "z"]}
)


@pytest.mark.parametrize("method", ["join", "left_outer_join", "full_outer_join"])
def test_keys_of_two_types_are_joined_as_the_wider_one(method: str) -> None:
    """Batches and frames have the types that the query says, also where a partner is missing."""
    left, right = (
        rxt.from_polars(frame, start="start_time", end="end_time") for frame in (LEFT, RIGHT)
    )
    query = getattr(left, method)(right, on="k")
    assert query.schema["k"] == pl.Int64
    batches = list(query.to_batches())
    assert sum(map(len, batches))
    for batch in batches:
        assert batch.payload.schema == query.schema
