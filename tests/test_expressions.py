"""Which polars expressions are computed row by row, and what is said of the others."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import polars.selectors as cs
import pytest

import rxtemporal as rxt
from rxtemporal.expressions import row_by_row

x, y = pl.col("x"), pl.col("y")

OF_ONE_ROW: list[pl.Expr] = [
    x + y > 3,
    x.is_in([1, None]),
    x.is_in(pl.Series([1, 2])),
    pl.when(x > 1).then(y).otherwise(None),
    pl.all(),
    pl.all().fill_null(0),
    pl.col("x", "y").cast(pl.String).str.to_uppercase(),
    cs.numeric().abs() + 1,
    pl.max_horizontal("x", "y"),
    pl.lit(1),
    pl.col("Agg") + pl.lit("Sort"),
]

OF_OTHER_ROWS: list[pl.Expr] = [
    x.sum(),
    x > x.mean(),
    x.is_in(y),
    ~x.is_in(y + 1) | (y > 1),
    x.shift(),
    x.over("y"),
    x.rank(),
    x.reverse(),
    x.sort(),
    x.filter(y > 1),
    x.fill_null(strategy="forward"),
    x.drop_nulls(),
    pl.len(),
    pl.all().cum_sum(),
    pl.all() > pl.all().mean(),
    cs.numeric().shift(),
    pl.col("x", "y").unique(),
]


@pytest.mark.parametrize("expression", OF_ONE_ROW, ids=str)
def test_of_one_row(expression: pl.Expr) -> None:
    """What computes each row from that row alone is accepted, of many columns at once too."""
    assert row_by_row(expression, "select") is expression


@pytest.mark.parametrize("expression", OF_OTHER_ROWS, ids=str)
def test_of_other_rows(expression: pl.Expr) -> None:
    """What depends on the rows that happen to be in a batch is refused."""
    with pytest.raises(rxt.ArgumentError, match="looks at other rows"):
        row_by_row(expression, "select")


@pytest.mark.filterwarnings("ignore::polars.exceptions.PolarsInefficientMapWarning")
def test_python_inside_an_expression() -> None:
    """A Python function inside an expression is refused."""
    with pytest.raises(rxt.ArgumentError):
        row_by_row(x.map_elements(abs, return_dtype=pl.Int64), "select")


@pytest.mark.parametrize("compose", ["select", "with_columns"])
def test_many_columns_of_a_grouped_stream(compose: str) -> None:
    """An expression over many columns may not change a key, and leaves other fields free."""
    stream = rxt.from_events([rxt.PointEvent(0, {"k": 1, "x": None})], schema={"k": int, "x": int})
    grouped = stream.group_by("k")
    method: Callable[..., rxt.Streamable] = getattr(grouped, compose)
    assert method(pl.exclude("k").fill_null(7)).to_polars().rows() == [(0, 1, 1, 7)]
    with pytest.raises(rxt.SchemaError, match="'k' is a group key and cannot be changed"):
        method(pl.all().fill_null(7))
