"""Columns from lists of values: those that polars makes, and no value that it would change."""

from __future__ import annotations

import enum
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_series_equal

from rxtemporal.core.columns import make_series
from rxtemporal.core.payloads import make_converter, make_values_series


class Level(enum.IntEnum):
    """An integer of another type."""

    LOW = 1


class Name(str):
    """A text of another type."""

    __slots__ = ()


TYPES = [
    *(pl.Boolean(), pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64()),
    *(pl.String(), pl.Binary(), pl.Date(), pl.Datetime("us", "UTC"), pl.Datetime("us")),
    *(pl.Duration("us"), pl.Decimal(10, 2), pl.Null()),
]
VALUES: list[Any] = [
    *(
        None,
        True,
        0,
        -1,
        127,
        128,
        -129,
        2**15,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        -(2**63),
        10**400,
    ),
    *(0.5, -0.0, 1e300, float("nan"), float("inf"), "", "a", "\ud800", b"x", Level.LOW, Name("n")),
    *(np.int8(3), np.int64(2**40), np.float32(0.5), np.float64(0.25), np.bool_(True)),
    *(date(2026, 5, 1), datetime(2026, 5, 1), datetime(2026, 5, 1, tzinfo=UTC)),
    *(timedelta(seconds=1), Decimal("1.25"), Decimal("1.255"), [1], {"x": 1}, object()),
]
REFUSED = (Exception, pl.exceptions.PanicException)


def convert(dtype: pl.DataType, values: list[Any]) -> pl.Series | None:
    """Return the converted values as a series; None if they are refused."""
    try:
        return make_series("x", make_converter("x", dtype)(values), dtype)
    except REFUSED:
        return None


def expect(dtype: pl.DataType, values: list[Any]) -> pl.Series | None:
    """Return what polars makes of the values; None if the field cannot hold them."""
    try:
        return make_values_series("x", dtype, values)
    except REFUSED:
        return None


def assert_as_polars(dtype: pl.DataType, values: list[Any]) -> None:
    """Check that values are converted as polars does, or refused as well."""
    found, expected = convert(dtype, values), expect(dtype, values)
    assert (found is None) == (expected is None), (dtype, values, found, expected)
    if found is not None and expected is not None:
        assert_series_equal(found, expected, check_exact=True)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_each_value_is_converted_as_by_polars_or_refused(dtype: pl.DataType) -> None:
    """Alone, beside a null, and beside a value that fits: bools are not numbers, nothing wraps."""
    fits = [value for value in VALUES if expect(dtype, [value]) is not None][-1]
    for value in VALUES:
        for values in [value], [value, None], [None, value, fits], [fits, value]:
            assert_as_polars(dtype, values)
    assert_as_polars(dtype, [])


@given(st.sampled_from(TYPES), st.lists(st.sampled_from(VALUES), max_size=4))
def test_values_of_any_kind_are_converted_as_by_polars(dtype: pl.DataType, values: Any) -> None:
    """Several kinds in one list."""
    assert_as_polars(dtype, values)
