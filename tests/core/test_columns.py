"""Columns: every payload type there and back, and rows taken, sliced, stacked."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from rxtemporal.core.columns import (
    Columns,
    Demand,
    Nullable,
    RepeatingColumns,
    SeriesColumn,
    make_series,
)
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
    """Return the columns of a frame, the same without the frame, and as repeated rows."""
    first = Columns.from_frame(frame)
    plain = Columns(first.schema, first.columns, first.height)
    return [first, plain, repeat(frame, 1), repeat(frame, 2)]


def repeat(frame: pl.DataFrame, every: int) -> Columns:
    """Return a frame of which every so many columns repeat those of as many rows."""
    plain = Columns.from_frame(frame)
    numbers = np.arange(frame.height)[::-1].copy()
    few = {n: each[numbers] for n, each in enumerate(plain.columns) if n % every == 0}
    columns = [None if n in few else each for n, each in enumerate(plain.columns)]
    repeating = RepeatingColumns(columns, few, numbers, Demand())
    return Columns(plain.schema, repeating, plain.height)


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


def count_bytes(columns: Columns, name: str) -> int:
    """Return the bytes that a column of texts keeps in memory."""
    texts = columns.series(name).to_arrow(compat_level=pl.CompatLevel.newest())
    return sum(each.size for each in texts.buffers() if each is not None)


def test_a_few_rows_keep_the_texts_of_no_others() -> None:
    """Of a large frame; polars would keep the texts of all of them."""
    texts = [f"a text that is longer than twelve bytes: {n}" for n in range(2_000)]
    frame = pl.DataFrame({"text": texts, "n": range(2_000)})
    columns = Columns.from_frame(frame)
    assert count_bytes(columns, "text") > 80_000
    for rows in np.array([3, 1_999]), np.arange(2_000) % 1_000 == 7:
        few = columns.take(rows)
        assert count_bytes(few, "text") < 200
        assert few.frame.equals(frame.filter(rows) if rows.dtype == bool else frame[rows])
    some = columns.slice(5, 8).copy_texts()
    assert count_bytes(some, "text") < 300
    assert some.frame.equals(frame[5:8])


def test_rows_that_are_taken_from_repeated_ones_repeat_them() -> None:
    """Selected, cut or taken by number, they need not be spread to be looked up."""
    columns = repeat(FRAME, 2)
    first, second, third = FRAME.columns[:3]
    numbers = np.array([2, 0, 2])
    for made in (columns, columns.share(), columns.slice(0, 3), columns.take(numbers)):
        kept = made.select(pl.Schema({third: pl.Int8(), second: pl.Int64(), first: pl.Boolean()}))
        for each in (made, kept):
            found = each.find_repeated([first, third])
            assert found is not None
            spread = [make_series("", column.spread(), each.schema[name])
                      for name, column in zip([first, third], found, strict=True)]  # fmt: skip
            assert spread[0].equals(each.series(first))
            assert spread[1].equals(each.series(third))
            assert each.find_repeated([first, second]) is None
            assert each.find_repeated(["other"]) is None
    # more rows than are taken are not few
    assert columns.take(numbers[:2]).find_repeated([first]) is None
    assert Columns.from_frame(FRAME).find_repeated([first]) is None


def test_the_size_of_repeated_rows_is_that_of_all_of_them() -> None:
    """To ask for it makes no column."""
    few, numbers = {0: np.array([5, 6])}, np.zeros(100, np.int64)
    repeating = RepeatingColumns([None, np.arange(100)], few, numbers, Demand())
    columns = Columns(pl.Schema({"a": pl.Int64(), "b": pl.Int64()}), repeating, 100)
    assert columns.estimate_bytes() == 2 * 100 * 8
    assert columns["a"].tolist() == [5] * 100  # type: ignore[union-attr]
    assert columns.estimate_bytes() == 2 * 100 * 8


def test_those_who_make_repeated_rows_learn_if_they_are_read_as_such() -> None:
    """To read all values, or fields of which some are not repeated, is no such demand."""
    demand = Demand()
    few, numbers = {0: np.array([5])}, np.zeros(3, np.int64)
    repeating = RepeatingColumns([None, np.arange(3)], few, numbers, demand)
    columns = Columns(pl.Schema({"a": pl.Int64(), "b": pl.Int64()}), repeating, 3)
    taken = columns.take(np.array([1, 2]))
    assert taken.frame.to_dict(as_series=False) == {"a": [5, 5], "b": [1, 2]}
    assert columns.find_repeated(["a", "b"]) is None
    assert columns.find_repeated([]) is None
    assert not demand.few
    assert taken.find_repeated(["a"]) is not None
    assert demand.few


def test_a_field_that_is_not_there_is_named() -> None:
    """The error lists the fields that there are."""
    with pytest.raises(SchemaError, match=r"no field 'y'; there are \['x'\]"):
        Columns.from_frame(pl.DataFrame({"x": [1]}))["y"]
