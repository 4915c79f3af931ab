"""Columns: every payload type there and back, and rows taken, sliced, stacked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from rxtemporal.core.columns import Columns, Nullable, SeriesColumn
from rxtemporal.errors import SchemaError

TYPES: dict[str, Any] = {
    "bool": [True, None, False],
    "int": [1, 2**62, None],
    "small": pl.Series([1, None, 2], dtype=pl.Int8),
    "float": [None, float("nan"), -0.0],
    "date": [date(2020, 1, 1), None, date(2021, 1, 1)],
    "time": [
        datetime(2020, 1, 1, tzinfo=UTC),
        None,
        datetime(2021, 1, 1, tzinfo=UTC),
    ],
    "span": [timedelta(1), None, timedelta(2)],
    "text": ["a", None, "b"],
    "bytes": [b"a", b"", None],
    "decimal": [Decimal("1.5"), None, Decimal(2)],
    "null": [None, None, None],
    "list": [[1], None, [2, 3]],
}
FRAME = pl.DataFrame(TYPES)
PARTS = {
    "with nulls": FRAME,
    "without nulls": FRAME.drop("null").drop_nulls(),
    "two chunks": pl.concat([FRAME, FRAME], rechunk=False),
    "no rows": FRAME.clear(),
    "no fields": pl.DataFrame(height=3),
}


@pytest.fixture(params=PARTS, name="frame")
def _frame(request: pytest.FixtureRequest) -> pl.DataFrame:
    return PARTS[request.param]


def each_way(frame: pl.DataFrame) -> list[Columns]:
    """Return the columns of a frame, and the same without the frame."""
    first = Columns.from_frame(frame)
    return [first, Columns(first.schema, first.columns, first.height)]


def test_a_frame_comes_back_as_it_was(frame: pl.DataFrame) -> None:
    """Every value, null and type survives, with and without the frame at hand."""
    for columns in each_way(frame):
        assert columns.height == len(columns) == frame.height
        assert_frame_equal(columns.frame, frame)
        for name in frame.columns:
            assert columns.series(name).equals(frame[name], check_dtypes=True, check_names=True)


def test_rows_are_taken_by_number_and_by_mask(frame: pl.DataFrame) -> None:
    """Rows may repeat and be in any order; polars gives the same ones."""
    generator = np.random.default_rng(1)
    for size in (0, 1, 2, 5):
        numbers = generator.integers(0, max(frame.height, 1), size if frame.height else 0)
        mask = generator.random(frame.height) < 0.5
        for columns in each_way(frame):
            assert_frame_equal(columns.take(numbers).frame, take(frame, numbers))
            assert_frame_equal(columns.take(mask).frame, take(frame, np.flatnonzero(mask)))


def take(frame: pl.DataFrame, numbers: Any) -> pl.DataFrame:
    """Return these rows, by polars."""
    if not frame.width:
        return pl.DataFrame(height=len(numbers))
    return frame[numbers.tolist()] if len(numbers) else frame.clear()


def test_a_slice_and_its_rest_give_the_whole(frame: pl.DataFrame) -> None:
    """A slice ends where the rows end."""
    for columns in each_way(frame):
        parts = [columns.slice(0, 1), columns.slice(1, 99)]
        assert_frame_equal(parts[1].frame, frame.slice(1))
        assert_frame_equal(Columns.concat(parts).frame, frame)


def test_columns_with_and_without_nulls_are_stacked() -> None:
    """A column is nullable if one of its parts is."""
    whole = PARTS["with nulls"].drop("null")
    parts = [whole.slice(row, 1) for row in range(3)]
    found = Columns.concat([Columns.from_frame(part) for part in parts])
    assert_frame_equal(found.frame, whole)
    assert isinstance(found["int"], Nullable)
    assert isinstance(found["text"], SeriesColumn)


def test_numbers_without_nulls_are_not_copied() -> None:
    """Neither into columns nor into a slice."""
    series = pl.Series("x", [1, 2, 3])
    columns = Columns.from_frame(pl.DataFrame([series]))
    assert np.shares_memory(columns["x"], series.to_numpy())  # type: ignore[arg-type]
    assert np.shares_memory(columns.slice(1, 3)["x"], series.to_numpy())  # type: ignore[arg-type]


def test_a_field_that_is_not_there_is_named() -> None:
    """The error lists the fields that there are."""
    with pytest.raises(SchemaError, match=r"no field 'y'; there are \['x'\]"):
        Columns.from_frame(pl.DataFrame({"x": [1]}))["y"]
