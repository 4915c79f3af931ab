"""Predicates and projections: compiled where possible, and by polars where not."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from rxtemporal.core.columns import Columns, SeriesColumn
from rxtemporal.engine.expressions.evaluator import Evaluator, Predicate, Projection

SCHEMA = pl.Schema({"x": pl.Float64(), "flag": pl.Boolean(), "text": pl.String()})
FRAME = pl.DataFrame({"x": [1.0, None], "flag": [None, True], "text": ["ab", None]}, SCHEMA)
X, TEXT = pl.col("x"), pl.col("text")


def make_columns() -> Columns:
    """Return the rows as columns alone."""
    return Columns(SCHEMA, Columns.from_frame(FRAME).columns, FRAME.height)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (X > 0, [True, False]),
        (pl.col("flag"), [False, True]),
        (TEXT.str.starts_with("a"), [True, False]),
        (pl.lit(True), [True, True]),
        (pl.lit(None), [False, False]),
        (pl.lit("a").str.starts_with("a"), [True, True]),
    ],
    ids=str,
)
def test_a_predicate_takes_null_for_false(predicate: pl.Expr, expected: list[bool]) -> None:
    """A predicate has a verdict for each row, also if it is a constant or not compiled."""
    assert Predicate(predicate, SCHEMA)(make_columns()).tolist() == expected


@pytest.mark.parametrize("expression", [X + 1, TEXT.str.len_chars(), pl.lit("a"), pl.lit(1).log()])
def test_an_expression_has_one_result_for_each_row(expression: pl.Expr) -> None:
    """An expression gives a column as long as the batch, whoever computes it."""
    assert len(Evaluator(expression, SCHEMA)(make_columns())) == FRAME.height


def test_a_projection_computes_and_keeps() -> None:
    """Fields that stay are not copied; the others are compiled or run by polars, cast as asked."""
    fields = pl.Schema(
        {
            "text": pl.String(),
            "y": pl.Float64(),
            "n": pl.Int64(),
            "z": pl.Float64(),
            "w": pl.Int16(),
        }
    )
    made = Projection(
        [X.alias("y"), TEXT.str.len_chars().alias("n"), (X * 2).alias("z"), pl.lit(7).alias("w")],
        SCHEMA,
        fields,
    )
    columns = make_columns()
    result = made(columns)
    assert result.schema == fields
    assert result["text"] is columns["text"]
    assert result["y"] is columns["x"]
    assert result.frame.rows() == [("ab", 1.0, 2, 2.0, 7), (None, None, None, None, 7)]
    assert result.frame.schema == fields


def test_a_projection_of_selectors() -> None:
    """A selector stands for its fields, compiled or not."""
    schema = pl.Schema({"a": pl.Float64(), "b": pl.Float64()})
    columns = Columns(schema, [np.array([1.0]), np.array([-4.0])], 1)
    assert Projection([pl.all() * 2], schema, schema)(columns).frame.rows() == [(2.0, -8.0)]
    assert Projection([pl.all().sign()], schema, schema)(columns).frame.rows() == [(1.0, -1.0)]
    assert Projection([], schema, pl.Schema({"b": pl.Float64()}))(columns).frame.rows() == [(-4.0,)]
    assert len(Projection([], schema, pl.Schema({}))(columns)) == 1


def test_fields_are_found_by_name() -> None:
    """A projection reads fields wherever they stand in a batch."""
    projection = Projection(
        [(X + 1).alias("y")], SCHEMA, pl.Schema({"x": pl.Float64, "y": pl.Float64})
    )
    columns = make_columns()
    turned = Columns(
        pl.Schema({"text": pl.String(), "x": pl.Float64(), "flag": pl.Boolean()}),
        [columns["text"], columns["x"], columns["flag"]],
        2,
    )
    for each in (columns, turned, columns):
        assert projection(each).frame.rows() == [(1.0, 2.0), (None, None)]
    assert isinstance(turned["text"], SeriesColumn)
