"""Conditions over the match so far: in the kernel they give what they give by columns."""

from __future__ import annotations

import math
from datetime import timedelta
from random import Random
from typing import Any

import polars as pl
import pytest

import rxtemporal as rxt
from rxtemporal import pattern as pt

X, Y, N, S, F = (pl.col(name) for name in ("x", "y", "n", "s", "f"))
FIELDS = {
    "k": pl.String,
    "x": pl.Int64,
    "y": pl.Float64,
    "n": pl.Boolean,
    "s": pl.Int16,
    "f": pl.Float32,
    "t": pl.Datetime("us", "UTC"),
}
SECOND = timedelta(seconds=1)

CONDITIONS: dict[str, pl.Expr] = {
    "first": pt.first("A.x") - 1 < X,
    "first, of a float": pt.first("A.y") <= Y,
    "first, of a short float": pt.first("A.f") > F,
    "first, of short integers": pt.first("A.s") >= S,
    "first, of a bool": pt.first("A.n") | N,
    "first, that is a bool": pt.first("A.n"),
    "first, of a time": pl.col("t") - pt.first("A.t") < 3 * SECOND,
    "starts": rxt.start() - pt.first("A.start") < 4 * SECOND,
    "start of the match": pl.col("start") - pt.match_start() <= 2 * SECOND,
    "last": pt.last("B.x") != X,
    "last, of the row before": pt.last("A.y", 1) < Y,
    "last, further back": pt.last("A.x", 2).is_null() | (pt.last("A.x", 2) == X),
    "last, further back, of another": pt.last("B.x", 1).fill_null(0) <= X,
    "prev": pt.prev("y") + pt.count("A") > Y,
    "count": pt.count("A") < 3,
    "count of values": pt.count("A.y") * 2 <= pt.count("B") + 3,
    "count of texts": pt.count("A.k") < 2,
    "sum": pt.sum("A.x") < 3,
    "sum of floats": pt.sum("A.y") / 2 > pt.sum("B.y") - 1,
    "sum of short integers": pt.sum("A.s") < 3,
    "sum of short floats": pt.sum("A.f") < 1.5,
    "sum of bools": pt.sum("A.n") < 2,
    "mean": pt.mean("A.x") < 1,
    "mean of floats": pt.mean("B.y") * 1.5 >= Y,
    "min": pt.min("A.y") < Y,
    "max": pt.max("A.y") > Y,
    "min of integers": pt.min("A.x") == X,
    "max of times": pt.max("A.t") == pl.col("t"),
    "logic": ((pt.count("A") > 1) & (X > 0)) | ~(pt.first("A.y") > Y),
    "logic of nulls": (pt.first("A.x") > 1) | (Y.is_null() & pt.last("B.y").is_not_null()),
    "between": X.is_between(pt.min("A.x"), pt.max("A.x"), closed="left"),
    "outside": ~Y.is_between(pt.min("A.y"), pt.first("A.x")),
    "arithmetic": -pt.first("A.x") * 2 + X >= (pt.sum("A.x") - 1).abs(),
    "arithmetic of floats": -(pt.first("A.y") - 0.5) * Y + 1 < (Y - pt.max("A.y")).abs(),
    "quotient": pt.sum("A.x") / pt.count("A") < X / 3,
    "quotient by zero": Y / pt.first("A.y") > 1,
    "zeros": (pt.first("A.y") + 0.0 >= 0.0 - Y) | (0.0 + pt.last("A.y") > Y),
    "products and sums": pt.first("A.y") * Y - pt.first("A.x") > Y - pt.sum("A.y") * 2,
    "not equal": pt.first("A.y") != Y,
    "equal": pt.last("A.y", 1) == Y,
    "of its row": (X % 2 == 0) & (pt.count("A") < 4) & (pl.col("k") == "a"),
}
BY_COLUMNS: dict[str, pl.Expr] = {
    "texts": pt.first("A.k") == pl.col("k"),
    "texts of a row": pl.col("k").str.starts_with("a") & (pt.count("A") < 3),
    "a remainder": pt.count("A") % 2 == 1,
    "short sums": pt.first("A.s") + S > 1,
    "a choice": pl.when(pt.count("A") > 1).then(X).otherwise(1) > 0,
}


def make_stream(random: Random, rows: int) -> rxt.Streamable:
    """Return some rows of two keys, with nulls, NaN and zeros of both signs."""
    choices: dict[str, list[Any]] = {
        "k": ["a", "b", "ab", None],
        "x": [None, -1, 0, 0, 1, 2, 3],
        "y": [None, math.nan, -0.0, 0.0, 0.5, 1.0, math.inf],
        "n": [None, True, False],
        "s": [None, -1, 0, 1, 2],
        "f": [None, math.nan, 0.1, 0.5, 1.0],
        "t": [None, *(rxt.to_datetime(n * 1_000_000) for n in range(5))],
    }
    time, found = 0, []
    for _ in range(rows):
        time += random.randrange(3)
        payload = {name: random.choice(values) for name, values in choices.items()}
        found.append(rxt.PointEvent(rxt.to_datetime(time * 1_000_000), payload))
    return rxt.from_events(found, schema=FIELDS)


def find(stream: rxt.Streamable, condition: pl.Expr, text: str) -> pl.DataFrame:
    """Return the rows of matches in which A has a condition, in order."""
    query = stream.group_by("n").detect(text, A=condition, B=X > 0, rows="all", within="9s")
    made = query.ungroup().to_polars()
    return made.sort(made.columns)


@pytest.mark.parametrize("name", CONDITIONS)
def test_programs(name: str) -> None:
    """A condition gives the same in the kernel and by columns, which one of its parts needs."""
    random, condition = Random(name), CONDITIONS[name]
    by_columns = condition & (pt.count("A") % 1 == 0)
    found = 0
    for text in ("B? A+ B", "(A | B){2,4}", "B+? A !A"):
        stream = make_stream(random, 60)
        for given, is_slow in ((condition, False), (by_columns, True)):
            plan = stream.detect(text, A=given, within="9s").explain()
            assert ("for one row of each key at a time: A" in plan) == is_slow
        made = find(stream, condition, text)
        assert made.equals(find(stream, by_columns, text), null_equal=True)
        found += made.height
    assert found


@pytest.mark.parametrize("name", BY_COLUMNS)
def test_what_is_no_program(name: str) -> None:
    """It is tested by columns, and explain says so."""
    stream = make_stream(Random(name), 60)
    plan = stream.detect("A+ B", A=BY_COLUMNS[name], B=pt.count("A") > 1).explain()
    assert "conditions tested by columns, for one row of each key at a time: A\n" in plan
    assert find(stream, BY_COLUMNS[name], "A+ B").height


@pytest.mark.parametrize("text", ["A+", "A*", "A* B?", "(A | B)*"])
def test_keys_tested_by_columns(text: str) -> None:
    """Each has tests of its own, also where a match may be empty."""
    rows = [rxt.PointEvent(1, {"k": k, "s": s}) for k, s in zip("abcde", "yxyxy", strict=True)]
    keyed = rxt.from_events(rows).group_by("k")
    found = keyed.detect(text, A=pt.first("A.s") == "x", **({"B": False} if "B" in text else {}))
    assert found.ungroup().to_polars(time="ticks")["k"].to_list() == ["b", "d"]


def test_a_node_that_is_given_out_again_has_registers_of_its_own() -> None:
    """Ways that ended leave nothing to those that begin."""
    rows = [rxt.PointEvent(time, {"x": x}) for time, x in enumerate([5, 1, 1, 9, 7, 2, 2, 9] * 50)]
    query = rxt.from_events(rows).detect(
        "A B+ C", B=pt.first("A.x") > X, C=pt.sum("B.x") + 4 < X, measures={"s": pt.sum("B.x")}
    )
    found = query.to_polars()["s"].to_list()
    assert found == [2, 4] * 50
