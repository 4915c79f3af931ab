"""Drawn expressions over frames with nulls, NaN, infinities and extreme values of each type."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

SCHEMA = pl.Schema(
    {
        "tiny": pl.Int8(), "small": pl.Int16(), "medium": pl.Int32(), "large": pl.Int64(),
        "other": pl.Int64(), "byte": pl.UInt8(), "huge": pl.UInt64(),
        "single": pl.Float32(), "double": pl.Float64(), "second": pl.Float64(),
        "flag": pl.Boolean(), "sign": pl.Boolean(),
        "day": pl.Date(), "night": pl.Date(), "naive": pl.Datetime("us"),
        "time": pl.Datetime("us", "UTC"), "moment": pl.Datetime("us", "UTC"),
        "span": pl.Duration("us"), "gap": pl.Duration("us"),
        "text": pl.String(), "word": pl.String(),
    }
)  # fmt: skip
Draw = Callable[[st.SearchStrategy[Any]], Any]

_FLOATS = [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.1, 2.5, -3.5,
           127.5, -128.9, 128.0, 2.0**31, -(2.0**63), 2.0**63, 2.0**64]  # fmt: skip
_TIMES = [datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime(1, 1, 1),
          datetime(9999, 12, 31, 23), datetime(2024, 2, 29, 12, 30, 15, 5), datetime(2023, 3, 1),
          datetime(1900, 2, 28, 1), datetime(2000, 12, 31, 23, 59)]  # fmt: skip
_SPANS = [timedelta(0), timedelta(microseconds=-1), timedelta(days=1), timedelta(hours=-30)]


def list_values(dtype: pl.DataType) -> list[Any]:
    """Return values of a type: its extremes, and what lies at some function's edge."""
    if dtype.is_integer():
        info = np.iinfo(str(dtype).lower())
        numbers = [info.min, info.max, 0, 1, 2, 3, 7, 100, info.max - 1]
        return numbers if info.min == 0 else [*numbers, -1, -7, info.min + 1]
    if dtype.is_float():
        if dtype == pl.Float64():
            return _FLOATS
        return pl.Series(_FLOATS, dtype=pl.Float64).cast(dtype).to_list()
    if dtype == pl.Boolean():
        return [True, False]
    if dtype == pl.Date():
        return [time.date() for time in _TIMES]
    if isinstance(dtype, pl.Datetime):
        return [time.replace(tzinfo=UTC) if dtype.time_zone else time for time in _TIMES]
    return _SPANS if isinstance(dtype, pl.Duration) else ["", "a", "b", "é", "abc"]


def make_edges(names: tuple[str, ...]) -> pl.DataFrame:
    """Return a frame of these columns with each value beside each, and nulls beside all."""
    frame = pl.DataFrame()
    for name in names:
        dtype = SCHEMA[name]
        column = pl.DataFrame({name: pl.Series([None, *list_values(dtype)], dtype=dtype)})
        frame = frame.join(column, how="cross") if frame.width else column
    return frame


def make_mixture() -> pl.DataFrame:
    """Return a frame in which each column has nulls and all its values, beside others each time."""
    columns = []
    for number, (name, dtype) in enumerate(SCHEMA.items()):
        values = [None, *list_values(dtype)]
        rows = [values[row * (number + 1) % len(values)] for row in range(60)]
        columns.append(pl.Series(name, rows, dtype=dtype))
    return pl.DataFrame(columns)


@st.composite
def frames(draw: Draw) -> pl.DataFrame:
    """Draw a frame of at least two rows, of which the last has no nulls."""
    height = draw(st.integers(1, 6))
    columns = []
    for name, dtype in SCHEMA.items():
        value = st.sampled_from(list_values(dtype))
        row = st.none() | value if draw(st.booleans()) else value
        values = [*(draw(row) for _ in range(height)), draw(value)]
        columns.append(pl.Series(name, values, dtype=dtype))
    return pl.DataFrame(columns)


def _column(draw: Draw, has: Callable[[pl.DataType], bool]) -> pl.Expr:
    return pl.col(draw(st.sampled_from([name for name, dtype in SCHEMA.items() if has(dtype)])))


_NUMBERS = [0, 1, -1, 2, 3, 7, 300, 100_000, 0.0, -0.0, 0.5, 2.5, 3.0, math.nan, math.inf, 1e300]
_NUMERIC = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt64, pl.Float32, pl.Float64]
_PARTS = ["year", "quarter", "month", "day", "ordinal_day", "weekday"]
_CLOCK = ["hour", "minute", "second", "millisecond", "microsecond"]
_COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne", "eq_missing", "ne_missing"]


@st.composite
def numbers(draw: Draw, depth: int) -> pl.Expr:
    """Draw an expression of a number."""
    kind = draw(st.integers(0, 16)) if depth > 0 else 0
    if kind <= 1:
        return _column(draw, lambda dtype: dtype.is_numeric())
    one = draw(numbers(depth - 1))
    if kind <= 8:
        right = draw(numbers(depth - 1) | st.sampled_from(_NUMBERS).map(pl.lit))
        left, right = (right, one) if draw(st.integers(0, 3)) == 0 else (one, right)
        name = draw(st.sampled_from(["add", "sub", "mul", "truediv", "floordiv", "mod"]))
        return getattr(left, name)(right)
    if kind == 9:
        return draw(st.sampled_from([-one, one.abs(), one**2, one**3]))
    if kind == 10:
        strict, dtype = draw(st.integers(0, 3)) == 0, draw(st.sampled_from([*_NUMERIC, pl.Boolean]))
        return one.cast(dtype, strict=strict)
    if kind == 11:
        return one.cast(draw(st.sampled_from(_NUMERIC)), wrap_numerical=True)
    if kind == 12:
        return draw(booleans(depth - 1)).cast(draw(st.sampled_from(_NUMERIC)))
    if kind == 13:
        has_clock = _column(draw, lambda dtype: isinstance(dtype, pl.Datetime))
        part = draw(st.sampled_from(_PARTS + _CLOCK))
        return getattr(has_clock.dt, part)()
    two = draw(numbers(depth - 1) | st.sampled_from(_NUMBERS).map(pl.lit))
    if kind == 14:
        return draw(st.sampled_from([one.fill_null(two), pl.coalesce(one, two), one.fill_nan(two)]))
    if kind == 15:
        return draw(st.sampled_from([pl.min_horizontal, pl.max_horizontal]))(one, two)
    return pl.when(draw(booleans(depth - 1))).then(one).otherwise(two)


@st.composite
def times(draw: Draw, depth: int) -> pl.Expr:
    """Draw an expression of a time, a date or a span."""
    time = pl.col(draw(st.sampled_from(["time", "moment"])))
    every = [
        time, pl.col("day"), pl.col("naive"), time + pl.col("span"), time - pl.col("gap"),
        pl.col("time") - pl.col("moment"), pl.col("span") + pl.col("gap"), -pl.col("gap"),
        time + timedelta(days=1), time.fill_null(pl.col("moment")), time.cast(pl.Date),
        time.dt.date(), pl.col("day").cast(pl.Datetime("us")), pl.max_horizontal("day", "night"),
    ]  # fmt: skip
    result: pl.Expr = draw(st.sampled_from(every))
    if depth > 0 and draw(st.booleans()):
        return pl.when(draw(booleans(depth - 1))).then(result).otherwise(None)
    return result


@st.composite
def booleans(draw: Draw, depth: int) -> pl.Expr:
    """Draw an expression of a boolean."""
    kind = draw(st.integers(0, 12)) if depth > 0 else 0
    if kind == 0:
        return pl.col(draw(st.sampled_from(["flag", "sign"])))
    if kind <= 4:
        operand = draw(st.sampled_from([numbers, numbers, numbers, times, booleans]))
        literal = st.sampled_from(_NUMBERS if operand is numbers else [None]).map(pl.lit)
        left, right = draw(operand(depth - 1)), draw(operand(depth - 1) | literal)
        return getattr(left, draw(st.sampled_from(_COMPARISONS)))(right)
    one = draw(booleans(depth - 1))
    if kind <= 7:
        two = draw(booleans(depth - 1) | st.sampled_from([True, False, None]).map(pl.lit))
        every = [one & two, one | two, one ^ two, pl.all_horizontal(one, two), one.fill_null(two)]
        return draw(st.sampled_from(every))
    if kind == 8:
        return ~one
    number = draw(numbers(depth - 1))
    if kind == 9:
        return draw(st.sampled_from([number.is_null(), number.is_not_null(), one.is_null()]))
    if kind == 10:
        floats = number.cast(pl.Float64)
        every = [floats.is_nan(), floats.is_not_nan(), floats.is_finite(), floats.is_infinite()]
        return draw(st.sampled_from(every))
    if kind == 11:
        closed = draw(st.sampled_from(["both", "left", "right", "none"]))
        low, high = (draw(st.sampled_from(_NUMBERS)) for _ in range(2))
        return number.is_between(low, high, closed=closed)
    name, dtype = draw(st.sampled_from(sorted(SCHEMA.items(), key=str)))
    values = st.lists(st.none() | st.sampled_from(list_values(dtype)), max_size=7)
    return pl.col(name).is_in(draw(values), nulls_equal=draw(st.booleans()))


def has_same_bits(one: pl.Series, two: pl.Series) -> bool:
    """Return True if type, nulls and values are the same; NaN is NaN, and -0.0 is not 0.0."""
    if one.dtype != two.dtype or one.is_null().to_list() != two.is_null().to_list():
        return False
    if one.dtype.is_float():
        one, two = (each.fill_nan(math.nan).drop_nulls() for each in (one, two))
        return one.to_numpy().tobytes() == two.to_numpy().tobytes()
    return one.equals(two)
