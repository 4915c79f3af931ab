"""Expressions in a query: computed row by row, or refused when the query is composed."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, SchemaError
from rxtemporal.operators import expressions
from rxtemporal.operators.expressions import check_row_by_row, infer_field_type, infer_schema

x, y, s, d = pl.col("x"), pl.col("y"), pl.col("s"), pl.col("d")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FRAME = pl.DataFrame(
    {
        "x": [1, 2, None, 4, 2],
        "y": [1.5, -2.0, 0.0, None, 2.5],
        "s": ["a", "b,c", None, "Len", "a"],
        "d": [NOON, None, NOON, NOON, NOON],
        "b": [True, False, None, True, True],
        "Sort": [1, 2, 3, 4, 5],
    }
)

ROW_BY_ROW = {
    "arithmetic": (x * 2 + 1) // 3 % 5,
    "comparison": (x > 1) & (y <= 2) | ~(x == 4),
    "null-safe equality": x.eq_missing(pl.lit(None)),
    "power": x**2,
    "functions of numbers": (y.abs().sqrt() + y.sign()).round(2).clip(0, 9),
    "logarithm": x.log(),
    "null tests": x.is_null() | y.is_nan() | y.is_finite(),
    "filling with a constant": x.fill_null(0) + y.fill_nan(0).fill_null(x),
    "is_in constants": x.is_in([1, 2]),
    "is_in a series of constants": x.is_in(pl.Series([[1, 2]])),
    "is_in other fields of the row": pl.any_horizontal(x == pl.col("Sort"), x == y),
    "lists without doubles": s.str.split(",").list.unique().list.len(),
    "within each list": s.str.split(",").list.eval(pl.element().shift()).list.len(),
    "is_between": x.is_between(1, 2),
    "is_close": y.is_close(1.5),
    "cast": x.cast(pl.Float64),
    "when": pl.when(x > 1).then(x).when(y > 0).then(pl.lit(7)).otherwise(None),
    "coalesce": pl.coalesce(x, pl.lit(0)),
    "horizontal": pl.max_horizontal("x", "y") + pl.sum_horizontal("x", "y"),
    "all of several": pl.all_horizontal(x > 1, y > 0),
    "strings": s.str.to_uppercase().str.len_chars(),
    "string tests": s.str.contains("Sort") | s.str.starts_with("a"),
    "string parts": s.str.extract(r"(\w)") + s.str.slice(0, 1) + s.str.zfill(3),
    "concatenation": pl.concat_str(s, s, separator="-"),
    "format": pl.format("{}-{}", s, x),
    "parsing with a format": s.str.to_datetime("%Y", strict=False),
    "parts of times": d.dt.hour() + d.dt.weekday(),
    "rounding times": d.dt.truncate("1h"),
    "moving times": d.dt.offset_by("1d"),
    "zones": d.dt.convert_time_zone("Europe/Paris").dt.hour(),
    "spans": (d - d).dt.total_seconds(),
    "formatting times": d.dt.strftime("%Y"),
    "replace": s.replace({"a": "z"}),
    "replace_strict": s.replace_strict({"a": 1}, default=None),
    "hash": x.hash().cast(pl.String),
    "bits": x.bitwise_count_ones(),
    "a struct's field": pl.struct("x", "s").struct.field("s"),
    "through a list": s.str.split(",").list.first(),
    "a constant": pl.lit(5),
    "a constant called as a node": s == "Len",
    "a field called as a node": pl.col("Sort") + 1,
    "a result called as a node": x.alias("Len"),
    "a suffix called as a node": x.name.suffix("Len"),
}

EXPANDED = {
    "all fields": pl.all(),
    "several fields": pl.col("x", "y") * 2,
    "but for one": pl.exclude("s", "d"),
    "a selector": cs.numeric(),
    "a function of a selector": cs.numeric().round(1).fill_null(0),
    "by pattern": pl.col("^[xy]$"),
    "by type": pl.col(pl.Int64) + 1,
    "renamed": cs.numeric().name.prefix("a_"),
    "the first": pl.first(),
    "by number": pl.nth(0, 1),
}

OTHER_ROWS = {
    "aggregates": lambda: x > x.mean(),
    "sum": x.sum,
    "any": (x > 1).any,
    "all": (x > 1).all,
    "quantile": lambda: x.quantile(0.5),
    "count": x.count,
    "length": pl.len,
    "length of a field": x.len,
    "length inside arithmetic": lambda: x / pl.len(),
    "n_unique": x.n_unique,
    "approximate n_unique": x.approx_n_unique,
    "null count": x.null_count,
    "has nulls": x.has_nulls,
    "first": x.first,
    "last": x.last,
    "arg_max": x.arg_max,
    "mode": x.mode,
    "skew": x.skew,
    "kurtosis": x.kurtosis,
    "entropy": x.entropy,
    "dot": lambda: x.dot(x),
    "correlation": lambda: pl.corr("x", "y"),
    "covariance": lambda: pl.cov("x", "y"),
    "bits of all": x.bitwise_and,
    "joined strings": lambda: s.str.join(","),
    "shift": x.shift,
    "difference": x.diff,
    "change": x.pct_change,
    "cumulative sum": x.cum_sum,
    "cumulative count": x.cum_count,
    "cumulative eval": lambda: x.cumulative_eval(pl.element().sum()),
    "rank": x.rank,
    "over": lambda: x.sum().over("s"),
    "rolling": lambda: x.rolling_mean(3),
    "rolling by": lambda: x.rolling_sum_by("d", "1h"),
    "rolling aggregate": lambda: x.sum().rolling("d", period="1h"),
    "ewm": lambda: x.ewm_mean(com=1),
    "forward fill": x.forward_fill,
    "backward fill": x.backward_fill,
    "fill with a strategy": lambda: x.fill_null(strategy="forward"),
    "fill with the mean": lambda: x.fill_null(x.mean()),
    "interpolate": x.interpolate,
    "sample": lambda: x.sample(1),
    "shuffle": x.shuffle,
    "reverse": x.reverse,
    "head": x.head,
    "slice": lambda: x.slice(0, 1),
    "every second": lambda: x.gather_every(2),
    "gather": lambda: x.gather([0]),
    "sort": x.sort,
    "sort by": lambda: x.sort_by("y"),
    "order": x.arg_sort,
    "top": lambda: x.top_k(1),
    "unique": x.unique,
    "is unique": x.is_unique,
    "is duplicated": x.is_duplicated,
    "is first": x.is_first_distinct,
    "is last": x.is_last_distinct,
    "value counts": x.value_counts,
    "runs": x.rle_id,
    "peaks": x.peak_max,
    "search": lambda: x.search_sorted(1),
    "index of": lambda: x.index_of(1),
    "drop nulls": x.drop_nulls,
    "drop nans": y.drop_nans,
    "filter": lambda: x.filter(x > 1),
    "explode": lambda: s.str.split(",").explode(),
    "implode": x.implode,
    "append": lambda: x.append(x),
    "extend": lambda: x.extend_constant(0, 1),
    "histogram": x.hist,
    "is_in another column": lambda: x.is_in(pl.col("Sort").implode()),
    "row numbers": lambda: pl.int_range(pl.len()),
    "a column of constants": lambda: pl.lit(pl.Series([1, 2, 3])),
    "repetition": lambda: pl.repeat(1, 3),
    "under an operator": lambda: x.cum_sum() > 1,
    "under a function": lambda: x.shift().abs(),
    "beside a column": lambda: x + x.shift(1),
    "constants under an operator": lambda: x + pl.lit(pl.Series([1, 2, 3])),
    "constants as a function's input": lambda: x.fill_null(pl.Series([1, 2, 3])),
    "repetition under an operator": lambda: pl.lit(1) + pl.repeat(1, 3),
    "inside when": lambda: pl.when(x > x.max()).then(1),
    "deep down": lambda: (x + 1).cast(pl.Float64).fill_null(x.shift(1)).round(1),
    "of a selector": lambda: cs.numeric().shift(),
    "of all fields": lambda: pl.all().sum(),
    "of several fields": lambda: pl.col("x", "y").cum_sum(),
    "Python by element": lambda: x.map_elements(lambda v: v, return_dtype=pl.Int64),
    "Python by batch": lambda: x.map_batches(lambda column: column),
    "a format guessed from the values": lambda: s.str.to_datetime(),
}


def cut(expression: pl.Expr) -> list[Any]:
    """Return an expression's result for each row by itself."""
    parts = [FRAME[i : i + 1].with_columns(expression) for i in range(FRAME.height)]
    return pl.concat(parts).rows()


@pytest.mark.parametrize("expression", ROW_BY_ROW.values(), ids=ROW_BY_ROW)
def test_expressions_row_by_row_are_accepted(expression: pl.Expr) -> None:
    """An expression whose result for a row is the same in any batch is accepted."""
    assert check_row_by_row(expression, "select") is expression
    assert cut(expression) == FRAME.with_columns(expression).rows()


@pytest.mark.parametrize("expression", EXPANDED.values(), ids=EXPANDED)
def test_selectors_of_several_fields_are_accepted(expression: pl.Expr) -> None:
    """Selectors, and expressions of them row by row, are accepted as in polars."""
    assert check_row_by_row(expression, "select") is expression
    assert cut(expression) == FRAME.with_columns(expression).rows()
    stream = rxt.from_polars(FRAME, start="Sort").select(expression)
    assert stream.schema == FRAME.drop("Sort").select(expression).schema


@pytest.mark.parametrize("make", OTHER_ROWS.values(), ids=OTHER_ROWS)
def test_expressions_over_other_rows_are_refused(make: Any) -> None:
    """An expression that depends on other rows is refused outside of windows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expression = make()
    with pytest.raises(ArgumentError, match=r"^where .*Hint: "):
        check_row_by_row(expression, "where")


def test_each_operator_checks_its_expressions() -> None:
    """where, select, with_columns and the aggregates refuse expressions over other rows."""
    stream = rxt.from_polars(FRAME, start="Sort")
    for name, compose in {
        "where": lambda e: stream.where(e > 1),
        "select": lambda e: stream.select(e),
        "with_columns": lambda e: stream.with_columns(z=e),
        "agg.sum": lambda e: stream.snapshot_window().aggregate(z=agg.sum(e)),
        "agg.count": lambda e: agg.count(e),
    }.items():
        with pytest.raises(ArgumentError, match=rf"^{name} computes row by row, and .*cum_sum"):
            compose(x.cum_sum())


@pytest.mark.parametrize("value", ["x", 5, None, FRAME["x"]], ids=repr)
def test_values_other_than_expressions_are_refused(value: Any) -> None:
    """The operator and the value are named."""
    with pytest.raises(ArgumentError, match="where takes polars expressions, got"):
        check_row_by_row(value, "where")


def test_the_output_schema_is_polars() -> None:
    """Types and names of results are those of a polars select; unsigned integers are widened."""
    schema = infer_schema(FRAME.schema, [x + 1, (y > 0).alias("up"), s.str.len_chars()], "select")
    assert schema == pl.Schema({"x": pl.Int64, "up": pl.Boolean, "s": pl.Int64})


@pytest.mark.parametrize(
    ("expressions", "message"),
    [
        ([pl.col("z")], r'select: unable to find column "z".*there are x: Int64, y: Float64'),
        ([x, y.alias("x")], "select: two fields are named 'x'"),
        ([s.str.split(",").list.eval(pl.struct(pl.element()))], r"field 's' has type Struct"),
        ([pl.struct("x", "y")], "field 'x' has type Struct"),
        ([s + d], "select: .*there are x"),
    ],
)
def test_expressions_that_do_not_fit_the_fields_are_refused(expressions: Any, message: str) -> None:
    """Unknown fields, two fields of one name, nested results and wrong types are named."""
    with pytest.raises(SchemaError, match=message):
        infer_schema(FRAME.schema, expressions, "select")


def test_lists_of_scalars_are_made_for_explode() -> None:
    """A list field may be made inside a query, of elements that a payload can carry."""
    lengths = s.str.split(",").list.eval(pl.element().str.len_chars())
    assert infer_schema(FRAME.schema, [lengths], "select") == pl.Schema({"s": pl.List(pl.Int64)})


def test_an_aggregate_reads_one_field() -> None:
    """An expression of several results cannot be aggregated."""
    assert infer_field_type(x * 1.5, FRAME.schema) == pl.Float64()
    with pytest.raises(SchemaError, match="gives 2 fields where one is needed"):
        infer_field_type(pl.col("x", "y"), FRAME.schema)


@pytest.mark.parametrize("predicate", [pl.col("x", "y") > 1, pl.all().is_null(), cs.numeric() > 0])
def test_a_predicate_has_one_result(predicate: pl.Expr) -> None:
    """A predicate over several fields is refused when composed, with a hint."""
    with pytest.raises(SchemaError, match=r"predicates of one result.*all_horizontal.*composed at"):
        rxt.from_polars(FRAME, start="Sort").where(predicate)


def test_types_are_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same expression over the same fields; of others, and of user code, each time."""
    monkeypatch.setattr(expressions, "_INFERRED", {})
    ints, floats = pl.Schema({"x": pl.Int64()}), pl.Schema({"x": pl.Float64()})
    twice, user = x * 2, x.map_elements(abs, return_dtype=pl.Int64)
    for schema, given, known in (
        (ints, [twice], 1), (ints, [twice], 1), (floats, [twice], 2), (ints, [-twice], 3),
        (ints, [twice, -twice], 4), (ints, [twice, -twice], 4), (ints, [user], 4),
    ):  # fmt: skip
        named = [each.alias(f"n{n}") for n, each in enumerate(given)]
        found = infer_schema(schema, named, "where")
        assert found == {f"n{n}": schema["x"] for n in range(len(given))}
        found["other"] = pl.Int64()  # whoever asks next does not see it
        assert len(expressions._INFERRED) == known


def test_few_types_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor are those of expressions that are long themselves."""
    monkeypatch.setattr(expressions, "_INFERRED", {})
    monkeypatch.setattr(expressions, "_MOST_INFERRED", 3)
    fields = pl.Schema({"x": pl.Int64()})
    sizes = []
    for number in range(5):
        infer_schema(fields, [(x + number).alias("y")], "where")
        sizes.append(len(expressions._INFERRED))
    assert sizes == [1, 2, 3, 1, 2]
    infer_schema(fields, [x.is_in(list(range(9_999))).alias("y")], "where")
    assert len(expressions._INFERRED) == 2
