"""Law 7: the same query over the same data gives the same history on the Rx side and on Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

import law_seven
import law_seven_spark
import oracle
import polars as pl
import pytest
from law_seven import CASES

from rxtemporal.spark.query.run import run_bounded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# those that end before the end of time are asked of streams
BOUNDED = [name for name, case in CASES.items() if case.last == oracle.MAX_TIME]
# the first case of each operator
FIRST = list({name.partition(",")[0]: name for name in reversed(BOUNDED)}.values())
# the same streams in each default run
SEED = 7
# so many plans are planned by Spark at a time
TOGETHER = 40


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
@pytest.mark.parametrize(
    "cases",
    [pytest.param(FIRST[::3], id="some"), pytest.param(FIRST, id="all", marks=pytest.mark.full)],
)
def test_bounded(uncompiled: SparkSession, cases: list[str]) -> None:
    """A case of every operator, or of each third one, over bounded DataFrames, in one query."""
    sides = law_seven.drawn(cases, SEED)
    found = law_seven_spark.bounded(uncompiled, sides)
    assert not law_seven.wrong(sides, found)
    assert sum(map(len, found.values())) > len(cases)


@pytest.mark.full
@pytest.mark.java
def test_each_case_alone(uncompiled: SparkSession) -> None:
    """Every case as a query of its own, in two buckets or, unsplit, in one."""
    number = random.randrange(2**32)
    print(f"law 7: streams drawn with {number}")
    sides = law_seven.drawn(BOUNDED, number)
    jobs = {name: law_seven.job(uncompiled, name, sides[name]) for name in BOUNDED}
    schemas = {name: job.plan.schema or pl.Schema() for name, job in jobs.items()}
    found: dict[str, list[Any]] = {}
    for first in range(0, len(BOUNDED), TOGETHER):
        some = BOUNDED[first : first + TOGETHER]
        packed = [
            law_seven.pack(name, jobs[name].name_columns(run_bounded(jobs[name]))) for name in some
        ]
        together = reduce(lambda one, other: one.union(other), packed)
        found |= law_seven.unpack(together.toArrow(), schemas)
    assert not law_seven.wrong(sides, found)
    assert sum(map(len, found.values())) > len(BOUNDED)
