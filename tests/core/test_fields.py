"""Fields of declared types: one value and a column are read by one rule."""

from __future__ import annotations

import enum
import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from products import draw_product

from rxtemporal.core.fields import UnfitError, field_of

DTYPES = [
    pl.Boolean(), pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.Float32(), pl.Float64(),
    pl.String(), pl.Binary(), pl.Date(), pl.Datetime("us"), pl.Datetime("us", "UTC"),
    pl.Datetime("us", "Europe/Berlin"), pl.Duration("us"), pl.Decimal(5, 2), pl.Decimal(38, 0),
    pl.Null(),
]  # fmt: skip
MISFITS = (UnfitError, ValueError, OverflowError)
FAR = timezone(timedelta(hours=14))


class Text(str):
    """A text with code of its own."""

    def __str__(self) -> str:
        raise RuntimeError


class Level(enum.IntEnum):
    """An int with code of its own."""

    HIGH = 3


class EvilZone(tzinfo):
    """A time zone that raises."""

    def utcoffset(self, _):
        """Raise."""
        raise RuntimeError


VALUES = [
    None, True, np.True_, 0, -1, 127, 128, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 10**25,
    10**400, 10**5000, Level.HIGH, np.int8(3), np.uint64(2**64 - 1), 1.5, math.nan, math.inf,
    1e300, -0.0, np.float32(1.5), np.float64(2.5), "a", "ü", "\ud800", Text("a"), "\0", b"a",
    bytearray(b"a"),
    date.min, date.max, datetime.min, datetime.max, datetime.min.replace(tzinfo=FAR),
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=12))), datetime.max.replace(tzinfo=UTC),
    datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=FAR),
    datetime(2026, 1, 1, tzinfo=EvilZone()), timedelta.max, timedelta.min,
    timedelta(microseconds=1),
    Decimal("1e40"), Decimal("NaN"), Decimal("sNaN"), Decimal("inf"), Decimal("999.99"),
    Decimal("1000"), Decimal("0e50"), Decimal("1e2"), Decimal("0.001"), [], [1], {}, object(),
]  # fmt: skip


def fits(field, value) -> bool:
    """Return True if a field takes a value."""
    try:
        field.check(value)
    except UnfitError:
        return False
    return True


@pytest.mark.parametrize(
    ("dtype", "value"),
    draw_product(DTYPES, VALUES, outcome=lambda dtype, value: fits(field_of("x", dtype), value)),
    ids=lambda value: str(value) if isinstance(value, pl.DataType) else type(value).__name__,
)
def test_a_value_fits_alone_if_and_only_if_it_fits_in_a_column(dtype, value):
    """A column takes what ``check`` takes, holds the same value, and can be read back."""
    field = field_of("x", dtype)
    if not fits(field, value):
        with pytest.raises(MISFITS):
            field.column([value, None])
        return
    plain = field.check(value)
    column = field.column([value, None])
    assert column.dtype == dtype
    assert column.equals(field.column([plain, None]), check_dtypes=True, null_equal=True)
    assert field.is_in_range(column)
    back, nothing = column.to_list()
    assert nothing is None
    if dtype == pl.Float32() and plain is not None:
        plain = float(np.float32(plain))
    assert back == plain or (back != back and plain != plain)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_plain_value_has_no_code_of_its_own(value):
    """What a field returns is of exactly one builtin type."""
    own = (bool, int, float, str, bytes, date, datetime, timedelta, Decimal, type(None))
    for dtype in DTYPES:
        field = field_of("x", dtype)
        if fits(field, value):
            assert type(field.check(value)) in own


def test_a_misfit_names_field_type_and_value():
    """The reason is a sentence for whoever sent the value."""
    with pytest.raises(UnfitError, match=r"^field 'x' is Float64 and cannot hold '1' \(str\)$"):
        field_of("x", pl.Float64()).check("1")
    with pytest.raises(UnfitError, match="<int of 16610 bits>"):
        field_of("x", pl.Int64()).check(10**5000)


def test_a_column_that_cannot_be_read_back_is_out_of_range():
    """polars holds the year 10,000, Python does not."""
    for dtype in (pl.Date(), pl.Datetime("us"), pl.Datetime("us", "Europe/Berlin")):
        column = pl.Series("x", [2**31 - 1 if dtype == pl.Date() else 2**62]).cast(dtype)
        assert not field_of("x", dtype).is_in_range(column)
        assert field_of("x", dtype).is_in_range(column.clear())


MIXED = st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(), st.text())


@given(st.lists(MIXED, max_size=9))
def test_columns_of_mixed_values(values):
    """A column raises if and only if one of its values does not fit."""
    for dtype in (pl.Int64(), pl.Float64(), pl.String()):
        field = field_of("x", dtype)
        if all(fits(field, value) for value in values):
            column = field.column(values)
            assert column.equals(field.column(list(map(field.check, values))), null_equal=True)
        else:
            with pytest.raises(MISFITS):
                field.column(values)
