"""Law 7 on streaming DataFrames, restarts, doors, and checkpoints that do not fit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import law_seven
import law_seven_spark
import physical
import polars as pl
import pyarrow as pa
import pytest
import united_cases
from file_streams import FileStream, read_all
from hourly_readings import READINGS, SETTINGS, hourly
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.operators.partition import find_partition
from rxtemporal.spark import run, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java


@pytest.fixture
def narrow(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with plans that are not compiled: for small ones that takes longer than rows."""
    law_seven.by_value()
    settings = {
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
    }
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.full
def test_law_seven(narrow: SparkSession, tmp_path: Path) -> None:
    """Micro-batch by micro-batch, stopped and started again: the same history, of every case."""
    number = random.randrange(2**32)
    print(f"law 7: streams drawn with {number}")
    sides = law_seven.drawn(law_seven.CASES, number)
    found = law_seven_spark.streaming(narrow, sides, tmp_path, random.Random(number))
    assert not law_seven.wrong(sides, found)
    assert sum(map(len, found.values())) > len(sides)


def test_patterns_and_relations(narrow: SparkSession, tmp_path: Path) -> None:
    """The same for a few of their cases, with the same streams each time."""
    names = ["detect, grouped", "relate", "relate, before", "relate, grouped"]
    sides = law_seven.drawn(names, 3)  # each has results
    found = law_seven_spark.streaming(narrow, sides, tmp_path, random.Random(3))
    assert not law_seven.wrong(sides, found)
    assert {*found} == {*names}


def test_cases_run_together() -> None:
    """Cases are grouped by each field that can split them; few run alone."""
    assert len(law_seven_spark.ALONE) == 4
    together = [name for name in law_seven.CASES if name not in law_seven_spark.ALONE]
    groups = united_cases.group_by_split(together)
    assert sorted(name for names in groups.values() for name in names) == sorted(together)
    assert {*groups} == {None, *physical.SCHEMA}
    for field, names in groups.items():
        plan = physical.planned(united_cases.unite_cases(names), 2, united_cases.FIELDS)._node
        split = find_partition(plan)
        found = {split.get_fields(node) for node in plan.list_nodes() if node.source is not None}
        assert found == {(field,) if field else ()}, names
        assert (split.reason is None) == (field is not None)


def test_one_door(narrow: SparkSession, tmp_path: Path) -> None:
    """Rows are judged in the order of a column, across micro-batches and a restart."""
    folder = FileStream(tmp_path / "in", READINGS.schema)
    given = stream(folder.frame(narrow), start="time", advance_time=SETTINGS, order_by="received")
    tables = []
    for first in (0, 25, 40):
        folder.add(
            READINGS[first : {0: 25, 25: 40, 40: 60}[first]].sample(fraction=1, shuffle=True)
        )
        if first:  # two micro-batches in the first run
            result = run(hourly, readings=given, buckets=3)
            tables += read_all(result, tmp_path / "checkpoint")
    found = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
    in_order = READINGS.drop("received")
    expected = hourly(rxt.from_polars(in_order, start="time", advance_time=SETTINGS)).to_polars()
    assert 10 < expected["n"].sum() < READINGS.height
    assert_frame_equal(found.sort(found.columns), expected.sort(expected.columns))


@pytest.mark.full
def test_a_checkpoint_refuses_what_does_not_fit(narrow: SparkSession, tmp_path: Path) -> None:
    """Another number of buckets and another query are refused, before anything is computed."""
    from pyspark.errors import StreamingQueryException

    folder = FileStream(tmp_path / "in", READINGS.schema)
    given = stream(folder.frame(narrow), start="time", advance_time=SETTINGS, order_by="received")
    folder.add(READINGS[:25])
    read_all(run(hourly, readings=given, buckets=3), tmp_path / "checkpoint")
    folder.add(READINGS[25:40])

    def windows(readings: rxt.Streamable) -> rxt.Streamable:
        return (
            readings.group_by("room")
            .snapshot_window()
            .aggregate(n=agg.count(), warmest=agg.max("temp"))
        )

    others = {"has 3 buckets, and this query has 4": (hourly, 4), "has changed since": (windows, 3)}
    for says, (query, buckets) in others.items():
        result = run(query, readings=given, buckets=buckets)
        with pytest.raises(StreamingQueryException, match=says):
            read_all(result, tmp_path / "checkpoint")


SEEN = pl.Schema({"start_time": pl.Int64, "end_time": pl.Int64, "k": pl.Int64, "cti": pl.Int64})


def met(left: rxt.Streamable, right: rxt.Streamable, least: int = 5) -> rxt.Streamable:
    """A join of what is left of one input by a filter that Spark does."""
    return left.where(pl.col("k") > least).join(right, on="k")


@pytest.mark.full
def test_inputs_are_known_by_name_and_filters_by_what_they_filter(
    narrow: SparkSession, tmp_path: Path
) -> None:
    """Restarted with its inputs named in another order a query goes on; with another filter, or
    with its inputs the other way round, it is refused.
    """
    from pyspark.errors import StreamingQueryException

    folders = {name: FileStream(tmp_path / name, SEEN) for name in ("left", "right")}

    def add(name: str, *rows: tuple[int | None, ...]) -> None:
        folders[name].add(pl.DataFrame(rows, schema=SEEN, orient="row"))

    def read(query: Any, *names: str) -> list[tuple[Any, ...]]:
        given = {name: stream(folders[name].frame(narrow), cti="cti") for name in names}
        made = read_all(run(query, buckets=2, **given), tmp_path / "checkpoint")
        return [tuple(row.values()) for table in made for row in table.to_pylist()]

    add("left", (1, 300, 7, None), (1, 300, 2, None), (None, None, None, 100))
    add("right", (None, None, None, 50))
    assert read(met, "left", "right") == []
    add("left", (None, None, None, 400))
    add("right", (60, 90, 7, None), (60, 90, 2, None), (None, None, None, 400))
    assert read(met, "right", "left") == [(60, 90, 7)]
    add("left", (500, 600, 7, None))
    add("right", (500, 600, 7, None))
    changed = {
        "where.*dyn int: 5.*Now: .*dyn int: 1": lambda left, right: met(left, right, 1),
        "of 'left' and 'right'.*Now: .*of 'right' and 'left'": lambda left, right: right.join(
            left.where(pl.col("k") > 5), on="k"
        ),
    }
    for says, query in changed.items():
        with pytest.raises(StreamingQueryException, match=f"(?s){says}"):
            read(query, "left", "right")
