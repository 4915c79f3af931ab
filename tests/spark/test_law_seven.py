"""Law 7: the same query over the same data gives the same history on the Rx side and on Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import law_seven
import oracle
import polars as pl
import pytest
from test_laws import CASES

import rxtemporal as rxt
from rxtemporal.testing import history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# those that end before the end of time are asked of streams
BOUNDED = [name for name, case in CASES.items() if case.last == oracle.MAX_TIME]
# so many plans are planned by Spark at a time
TOGETHER = 40


def rx_side(name: str, sides: law_seven.Sides) -> list[Any]:
    """The history that the Rx side gives for the same frames."""
    streams = [
        rxt.from_polars(law_seven.frame(oracle.canonical(s)), start="start_time", end="end_time")
        for s in sides
    ]
    found = history(list(CASES[name].query(*streams).to_batches()))
    return [oracle.Row(*row) for row in found]


@pytest.fixture
def uncompiled(spark: SparkSession) -> Iterator[SparkSession]:
    """The session without compiled plans: for many small ones that takes longer than their rows."""
    law_seven.by_value()
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.java
def test_bounded(uncompiled: SparkSession) -> None:
    """Every case of every operator, over bounded DataFrames in two buckets or, unsplit, in one."""
    number = random.randrange(2**32)
    print(f"law 7: streams drawn with {number}")
    sides = {name: law_seven.largest(CASES[name].streams(), number) for name in BOUNDED}
    jobs = {name: law_seven.job(uncompiled, CASES[name], sides[name]) for name in BOUNDED}
    schemas = {name: job.plan.schema or pl.Schema() for name, job in jobs.items()}
    found: dict[str, list[Any]] = {}
    for first in range(0, len(BOUNDED), TOGETHER):
        some = BOUNDED[first : first + TOGETHER]
        packed = [law_seven.packed(name, jobs[name].bounded()) for name in some]
        together = reduce(lambda one, other: one.union(other), packed)
        found |= law_seven.unpacked(together.toArrow(), schemas)
    wrong = [name for name in BOUNDED if not same(name, sides[name], found.get(name, []))]
    assert not wrong
    assert sum(map(len, found.values())) > len(BOUNDED)


def same(name: str, sides: law_seven.Sides, made: list[oracle.Row]) -> bool:
    """Whether Spark's rows are the Rx side's; prints them where they are not."""
    expected = rx_side(name, sides)
    tolerance = CASES[name].tolerance(oracle.canonical(sides[0]))
    equal = oracle.equal_up_to(expected, made, oracle.MAX_TIME, tolerance=tolerance)
    if not equal:
        print(name, oracle.history(expected), oracle.history(made), sep="\n")
    return equal
