"""Programs give bit for bit what polars gives: values, nulls, types and errors."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest
from drawn_expressions import (
    SCHEMA,
    booleans,
    frames,
    has_same_bits,
    make_edges,
    make_mixture,
    numbers,
    times,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from rxtemporal.core.columns import Columns, Nullable, make_series
from rxtemporal.engine.expressions import program as programs
from rxtemporal.engine.expressions.program import Program, compile_expression, compile_outputs

LARGE, OTHER, TINY, BYTE = pl.col("large"), pl.col("other"), pl.col("tiny"), pl.col("byte")
X, Y, SINGLE = pl.col("double"), pl.col("second"), pl.col("single")
FLAG, SIGN = pl.col("flag"), pl.col("sign")
TIME, MOMENT, NAIVE, DAY = pl.col("time"), pl.col("moment"), pl.col("naive"), pl.col("day")
SPAN, GAP, TEXT, WORD = pl.col("span"), pl.col("gap"), pl.col("text"), pl.col("word")
NAN, INF = float("nan"), float("inf")
NOON = datetime(2024, 2, 29, 12, 30, 15, 5, UTC)

COMPILED = [
    # arithmetic
    LARGE + OTHER, LARGE - OTHER, LARGE * OTHER, TINY + 1, TINY + 300, 300 - TINY, TINY * TINY,
    LARGE + 1.5, SINGLE * 2.1, SINGLE + 1, X + Y, X - Y, X * Y, X + 0.0, X - 0.0, 0.0 + X, 0.0 - X,
    -0.0 - X, X * 0.0, X * -1, X + None, -LARGE, -TINY, -X, BYTE + BYTE, X * Y + Y, Y - X * Y,
    X * Y - Y, X * Y + 0.0, X * Y - 0.0, 0.0 - X * Y, X * Y + 1, LARGE * OTHER + 1, LARGE + X,
    # division
    X / Y, X / 3, X / 0.0, 3 / X, SINGLE / 3, SINGLE / SINGLE, LARGE / OTHER, LARGE / 7, LARGE / 0,
    TINY / 3, X // Y, X // 3, X // 0.0, 1.0 // X, LARGE // OTHER, LARGE // 7, LARGE // -1,
    LARGE // 0, 7 // LARGE, TINY // 3, X % Y, X % 3, X % -3, 5.0 % X, LARGE % OTHER, LARGE % 7,
    LARGE % -7, LARGE % 0, LARGE % -1, 7 % LARGE, X**2, X**3, X**2.0, LARGE**2, TINY**3,
    # comparison
    LARGE < OTHER, LARGE == OTHER, LARGE > 3, LARGE < 3, TINY < 300, TINY == 1.5, TINY < LARGE,
    X < Y, X <= Y, X > Y, X >= Y, X == Y, X != Y, X < 0.5, X <= 0.5, X > 0.5, X >= 0.5, X == 0.5,
    X != 0.5, X > 0.0, X == -0.0, X < NAN, X <= NAN, X > NAN, X >= NAN, X == NAN, X != NAN,
    X > 0.5, SINGLE > X, SINGLE > 0.1, FLAG < SIGN, FLAG == SIGN, X.is_between(0, 2.5),
    X.is_between(0, Y, closed="none"), LARGE.is_between(0, OTHER, closed="left"),
    X.eq_missing(Y), X.ne_missing(Y), X.eq_missing(0.5), LARGE.eq_missing(OTHER),
    TIME < MOMENT, TIME >= NOON, date(1970, 1, 1) == DAY, SPAN > GAP, timedelta(days=1) > SPAN,
    TIME > DAY, TEXT == "a", TEXT != "a", TEXT == WORD, TEXT != WORD, TEXT == "a",
    # logic
    FLAG & SIGN, FLAG | SIGN, FLAG ^ SIGN, ~FLAG, FLAG & None, FLAG | None, FLAG & True,
    FLAG | False, (X > 0) & (LARGE < 3), (X > 0) | FLAG, ~(X > 0), pl.all_horizontal(FLAG, SIGN),
    pl.any_horizontal(FLAG, X > 0), LARGE & OTHER, LARGE | 1, LARGE ^ OTHER,
    # nulls
    X.is_null(), X.is_not_null(), TEXT.is_null(), TEXT.is_not_null(), (X + Y).is_null(),
    X.fill_null(0), X.fill_null(Y), LARGE.fill_null(300), TINY.fill_null(300),
    FLAG.fill_null(False), TINY.fill_null(LARGE), pl.coalesce(X, Y, 1.0),
    TIME.fill_null(MOMENT), DAY.fill_null(DAY),
    X.is_nan(), X.is_not_nan(), X.is_finite(), X.is_infinite(), X.fill_nan(0.0), X.fill_nan(None),
    # casts
    LARGE.cast(pl.Float64), LARGE.cast(pl.Float32), LARGE.cast(pl.Int8, strict=False),
    LARGE.cast(pl.UInt64, strict=False), LARGE.cast(pl.Int8, wrap_numerical=True),
    BYTE.cast(pl.Int8, strict=False), TINY.cast(pl.Int64), X.cast(pl.Float32),
    SINGLE.cast(pl.Float64), X.cast(pl.Int8, strict=False), X.cast(pl.Int64, strict=False),
    X.cast(pl.UInt64, strict=False), SINGLE.cast(pl.Int32, strict=False), X.cast(pl.Boolean),
    LARGE.cast(pl.Boolean),
    FLAG.cast(pl.Int8), FLAG.cast(pl.Float64), TIME.cast(pl.Int64), TIME.cast(pl.Date),
    DAY.cast(pl.Datetime("us")), LARGE.cast(pl.Duration("us")), TIME.dt.date(),
    # choices
    pl.when(FLAG).then(X).otherwise(Y), pl.when(FLAG).then(1).otherwise(TINY),
    pl.when(FLAG).then(X), pl.when(X > Y).then(1).when(X < Y).then(2).otherwise(None),
    pl.when(FLAG).then(TIME).otherwise(MOMENT), pl.when(FLAG).then(SIGN).otherwise(~SIGN),
    pl.when(FLAG).then(1.5).otherwise(2.5),
    # membership
    LARGE.is_in([1, 2, 3]), LARGE.is_in([1, None]), LARGE.is_in([1, None], nulls_equal=True),
    LARGE.is_in([]), LARGE.is_in([-7, 0, 1, 2, 3, 7, 2**63 - 1]),
    TINY.is_in([1, 2, 3, 7, 100, 127]),
    X.is_in([0.0, NAN]), X.is_in([0.0, 1.0, 2.5, NAN, INF, -3.5]), FLAG.is_in([True]),
    DAY.is_in([date(1970, 1, 1)]), TIME.is_in([NOON]), TEXT.is_in(["a", "b"]),
    LARGE.replace_strict([-7, 0, 1, 2, 3], [1.5, 2.5, -0.0, NAN, INF], default=7.5),
    LARGE.replace_strict({1: 10, 2: 20}, default=-1), LARGE.is_in([1, 2]).cast(pl.Int8).sign(),
    # bounds
    X.clip(0, 1), X.clip(-2.5, 1e308), LARGE.clip(-7, 100), TINY.clip(0, 100), SINGLE.clip(0.1, 2),
    X.sign(), LARGE.sign(), SINGLE.sign(),
    # others of rows
    X.abs(), LARGE.abs(), TINY.abs(), SPAN.abs(), X.sqrt(), X.floor(), X.ceil(),
    pl.min_horizontal(X, Y), pl.max_horizontal(X, Y), pl.min_horizontal(X, 0.5),
    pl.max_horizontal(LARGE, OTHER), pl.min_horizontal(X, Y, LARGE), pl.max_horizontal(DAY, DAY),
    # times
    *(getattr(each.dt, part)() for each in (TIME, NAIVE, DAY)
      for part in ("year", "quarter", "month", "day", "ordinal_day", "weekday")),
    *(getattr(each.dt, part)() for each in (TIME, NAIVE)
      for part in ("hour", "minute", "second", "millisecond", "microsecond")),
    TIME + SPAN, TIME - SPAN, TIME - MOMENT, SPAN + GAP, SPAN - GAP, TIME + timedelta(hours=1),
    -SPAN,
    *(TIME.dt.truncate(every) for every in ("1us", "7ms", "1s", "90m", "1h", "1d", "7d")),
    *(getattr(SPAN.dt, f"total_{unit}")() for unit in ("days", "hours", "minutes", "seconds",
                                                      "milliseconds", "microseconds")),
    TIME.dt.timestamp("us"), TIME.dt.timestamp("ms"), TIME.dt.epoch("s"), NAIVE.dt.truncate("1h"),
    TIME.to_physical(), DAY.to_physical(), X.to_physical(),
    # constants, names
    X, X.alias("y"), TEXT.alias("y"), (X > 0).alias("y"), pl.lit(3), pl.lit(2.5), pl.lit(None),
    pl.lit("a"), pl.lit(True), pl.lit(NOON), pl.lit(1) + 2, (X + 1).name.suffix("_y"),
]  # fmt: skip


def run(program: Program, frame: pl.DataFrame) -> pl.Series:
    """Return a program's result over a frame whose columns it gets as arrays."""
    columns = Columns(frame.schema, Columns.from_frame(frame).columns, frame.height)
    return make_series("", program(columns), program.dtype)


def run_polars(expression: pl.Expr, frame: pl.DataFrame) -> pl.Series:
    """Return polars' result, with one entry for each row."""
    return frame.with_columns(expression.alias("$")).get_column("$").alias("")


@pytest.mark.parametrize("expression", COMPILED, ids=str)
def test_each_function_is_compiled_and_agrees(expression: pl.Expr) -> None:
    """Each function is compiled, and gives what polars gives for each value beside each."""
    program = compile_expression(expression, SCHEMA)
    assert program is not None
    names = tuple(dict.fromkeys(expression.meta.root_names())) or ("tiny",)
    edges = make_edges(names)
    frame = edges.with_columns(pl.lit(None, dtype).alias(name) for name, dtype in SCHEMA.items()
                               if name not in names).select(list(SCHEMA))  # fmt: skip
    for part in (frame, frame.drop_nulls(names), frame.clear()):
        want, got = run_polars(expression, part), run(program, part)
        assert program.dtype == want.dtype
        assert has_same_bits(want, got), pl.DataFrame([*edges.select(names), want, got])


@given(frames(), numbers(3) | booleans(3) | times(1))
@settings(max_examples=100)
def test_programs_agree_with_polars(frame: pl.DataFrame, expression: pl.Expr) -> None:
    """An expression that is compiled gives what polars gives, errors too.

    Where all rows of a part are one constant, as of a choice that is false everywhere, polars goes
    on with that constant, and a last bit or the sign of a zero may differ: then it is asked for the
    same rows among others.
    """
    program = compile_expression(expression, SCHEMA)
    if program is None:
        return
    try:
        want = run_polars(expression, frame)
    except pl.exceptions.PolarsError as error:
        with pytest.raises(type(error)):
            run(program, frame)
        return
    got = run(program, frame)
    if not has_same_bits(want, got):
        want = run_polars(expression, pl.concat([frame, make_mixture()])).head(frame.height)
    assert has_same_bits(want, got)


@pytest.mark.parametrize("flags", [[False, False], [False, True]])
def test_a_choice_does_not_depend_on_other_rows(flags: list[bool]) -> None:
    """A divisor that is the same for all rows of a batch divides as in any other batch."""
    expression = X / pl.when(FLAG).then(Y).otherwise(3.0)
    program = compile_expression(expression, SCHEMA)
    assert program is not None
    frame = _frame({"double": [0.1, 0.7], "second": [2.0, 2.0], "flag": flags})
    assert run(program, frame)[0] == 0.1 / 3.0


UNKNOWN = [
    X.log(), X.sin(), X.round(1), X**Y, LARGE**-1, X.clip(0, Y), TEXT.str.len_chars(), TEXT + "a",
    TEXT < "a", TEXT.cast(pl.Int64), pl.when(FLAG).then(pl.lit("a")).otherwise(TEXT), X.cum_sum(),
    pl.col("huge") + LARGE, TIME.dt.convert_time_zone("Europe/Berlin").dt.hour(),
    pl.concat_str(X, Y),
    SPAN * 2, X.cast(pl.Decimal(10, 2)), pl.struct(X), LARGE.is_in(OTHER.implode()), X.rank(),
    pl.col("absent"),
    TIME.dt.truncate("1mo"), TIME.dt.truncate("1w"), TINY.clip(0, 300), DAY.dt.truncate("1d"),
    LARGE.replace_strict({1: "a"}, default="b"), TEXT.replace_strict({"a": 1}, default=2),
    X.sum(), pl.len(), X.map_elements(abs), X.cast(pl.Int8) // 0,
]  # fmt: skip


@pytest.mark.parametrize("expression", UNKNOWN, ids=str)
def test_what_is_unknown_is_left_to_polars(expression: pl.Expr) -> None:
    """An expression of which a part is unknown has no program."""
    assert compile_expression(expression, SCHEMA) is None


STRICT = [
    LARGE.cast(pl.Int8),
    LARGE.replace_strict({1: 2}),
    LARGE.cast(pl.UInt64),
    X.cast(pl.Int64),
    (X + 1).cast(pl.Int8) > 3,
]


@pytest.mark.parametrize("expression", STRICT, ids=str)
def test_a_strict_cast_that_fails_raises_what_polars_raises(expression: pl.Expr) -> None:
    """A strict cast is compiled; where it fails the error is that of polars."""
    program = compile_expression(expression, SCHEMA)
    assert program is not None
    fields = {name: [1, None, 1] for name in ("large", "double")}
    good = _frame(fields)
    assert has_same_bits(run_polars(expression, good), run(program, good))
    bad = _frame({"large": [1, -(2**40)], "double": [1.0, NAN]})
    with pytest.raises(pl.exceptions.InvalidOperationError) as error:
        run_polars(expression, bad)
    with pytest.raises(pl.exceptions.InvalidOperationError) as other:
        run(program, bad)
    assert str(error.value).split("\n")[0].split(" in column")[0] in str(other.value)


def test_a_null_under_a_cast_never_fails() -> None:
    """A value that is hidden by a null does not fail a strict cast."""
    program = compile_expression(LARGE.cast(pl.Int8), pl.Schema({"large": pl.Int64}))
    assert program is not None
    hidden = Nullable(np.array([1, 2**40]), np.array([True, False]))
    result = program(Columns(pl.Schema({"large": pl.Int64}), [hidden], 2))
    assert make_series("", result, pl.Int8()).to_list() == [1, None]


def _frame(fields: dict[str, list[Any]]) -> pl.DataFrame:
    height = len(next(iter(fields.values())))
    return pl.DataFrame(
        {
            name: pl.Series(fields.get(name, [None] * height), dtype=dtype)
            for name, dtype in SCHEMA.items()
        }
    )


def test_a_batch_of_one_row_gives_what_it_gives_in_a_larger_one() -> None:
    """A division by a constant does not depend on the batch, as it does in polars."""
    program = compile_expression(X / 3, pl.Schema({"double": pl.Float64}))
    assert program is not None
    frame = pl.DataFrame({"double": np.linspace(0.1, 9.9, 50)})
    apart = [run(program, frame.slice(row, 1)).item() for row in range(50)]
    assert apart == run_polars(X / 3, frame).to_list()


@pytest.mark.parametrize("expression", [X * 2 + 1, pl.min_horizontal(X, Y), X > 0, TIME.dt.hour()])
def test_long_columns_are_computed_in_blocks(
    expression: pl.Expr, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result of many rows is that of all blocks, some of which have nulls."""
    monkeypatch.setattr(programs, "_BLOCK", 4)
    monkeypatch.setattr(programs, "_LONG", 5)
    program = compile_expression(expression, SCHEMA)
    assert program is not None
    nulls = [1.5, NAN, 0.25, None, *range(7)]
    times = [NOON + timedelta(hours=number) for number in range(11)]
    frame = _frame({"double": nulls, "second": nulls[::-1], "time": times})
    assert has_same_bits(run_polars(expression, frame), run(program, frame))


def test_columns_are_found_by_name() -> None:
    """A program reads the columns of its schema wherever they stand."""
    program = compile_expression(X - Y, pl.Schema({"double": pl.Float64, "second": pl.Float64}))
    assert program is not None
    frame = pl.DataFrame({"second": [1.0], "other": [0], "double": [3.0]})
    assert run(program, frame).to_list() == [2.0]


def test_a_column_is_given_as_it_is() -> None:
    """A column that is only named is not copied, and never written to."""
    schema = pl.Schema({"x": pl.Float64})
    program = compile_expression(pl.col("x").alias("y"), schema)
    values = np.array([1.0, 2.0])
    columns = Columns(schema, [values], 2)
    assert program is not None
    assert program(columns) is values
    other = compile_expression((pl.col("x") + 0.0) * 2 - (pl.col("x") - 0) ** 2, schema)
    assert other is not None
    other(columns)
    assert values.tolist() == [1.0, 2.0]


def test_outputs_of_a_selector() -> None:
    """An expression of several outputs has a program for each, cast to the wanted types."""
    schema = pl.Schema({"a": pl.UInt8, "b": pl.Float64})
    found = compile_outputs(pl.all() * 2, schema, pl.Schema({"a": pl.Int16, "b": pl.Float64}))
    assert found is not None
    assert {name: program.dtype for name, program in found.items()} == {
        "a": pl.Int16(),
        "b": pl.Float64(),
    }
    assert compile_expression(pl.all() * 2, schema) is None
    columns = compile_outputs(pl.col("b", "a"), schema)
    assert columns is not None
    assert list(columns) == ["b", "a"]


def test_warnings_of_numpy_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    """Overflow, NaN and divisions by zero warn nobody."""
    frame = _frame({"double": [1e308, -INF, NAN], "second": [0.0, 0.0, 1e308], "large": [0, 1, 2]})
    for expression in (
        X * 10,
        X / Y,
        X % Y,
        LARGE // (LARGE - LARGE),
        X.cast(pl.Int64, strict=False),
    ):
        program = compile_expression(expression, SCHEMA)
        assert program is not None
        run(program, frame)
    assert not recwarn.list


@given(st.data())
@settings(max_examples=5)
def test_dates_far_away_are_left_to_polars(data: st.DataObject) -> None:
    """Times that Python's calendar does not have give what polars gives."""
    ticks = data.draw(st.lists(st.integers(-(2**57), 2**57), min_size=2, max_size=5))
    frame = pl.DataFrame({"naive": pl.Series(ticks).cast(pl.Datetime("us"))})
    for part in ("year", "day", "hour"):
        expression = getattr(NAIVE.dt, part)()
        program = compile_expression(expression, frame.schema)
        assert program is not None
        assert has_same_bits(run_polars(expression, frame), run(program, frame))
