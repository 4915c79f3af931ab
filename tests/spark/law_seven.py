"""What law 7 is asked of: drawn streams as frames, and the results of many cases in one job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import oracle
import physical
import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from law_cases import Case
from oracle import MAX_TIME, Event, Row

from rxtemporal.spark.running import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def by_value() -> None:
    """Let the functions of the tests' modules travel whole: workers cannot import them."""
    from pyspark import cloudpickle

    for name in ("law_cases", "law_functions", "law_seven", "law_table", "law_table_joins",
                 "law_table_windows", "law_windows", "oracle", "physical"):  # fmt: skip
        if name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(sys.modules[name])


Sides = tuple[list[Event], ...]
SCHEMA = {"start_time": pl.Int64, "end_time": pl.Int64, **physical.SCHEMA}
BUCKETS = 2


def largest(streams: st.SearchStrategy[Sides], number: int) -> Sides:
    """Return of some drawn streams those with the most rows."""
    found: list[Sides] = []

    @seed(number)
    @settings(
        max_examples=8, database=None, phases=[Phase.generate], deadline=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(streams)
    def collect(sides: Sides) -> None:
        found.append(sides)

    collect()
    return max(found, key=lambda sides: sum(map(len, sides)))


def frame(rows: list[Row]) -> pl.DataFrame:
    """Return a canonical history as a frame; null ends never come."""
    records = [
        {"start_time": r.start, "end_time": None if r.end == MAX_TIME else r.end, **r.payload}
        for r in rows
    ]
    return pl.DataFrame(records, schema=SCHEMA)


def in_spark(spark: SparkSession, given_frame: pl.DataFrame) -> DataFrame:
    """Return a frame as Spark's."""
    table = given_frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    return spark.createDataFrame(table).coalesce(1)  # a task costs more than these rows


def job(spark: SparkSession, case: Case, sides: Sides) -> Job:
    """Return a case's query over the histories of its streams, inside Spark."""

    def query(left: Any, right: Any = None) -> Any:
        return case.query(left, right) if case.inputs == 2 else case.query(left)

    frames = [in_spark(spark, frame(oracle.canonical(items))) for items in sides]
    named = dict(zip(physical.SIDES, frames, strict=False))
    return Job.of(query, named, BUCKETS)


def packed(name: str, result: DataFrame) -> DataFrame:
    """Return a result as rows of text, so that those of all cases are one DataFrame.

    Spark writes a double so that it reads back the same.
    """
    from pyspark.sql import functions as sf

    fields = [sf.col(f"`{name}`").cast("string") for name in result.columns[2:]]
    values = sf.array(*fields).cast("array<string>").alias("values")
    return result.select(sf.lit(name).alias("name"), "start_time", "end_time", values)


def unpacked(table: pa.Table, schemas: dict[str, pl.Schema]) -> dict[str, list[Row]]:
    """Return the histories of all cases whose results are in a table."""
    found: dict[str, list[Row]] = {}
    for record in table.to_pylist():
        typed = zip(schemas[record["name"]].items(), record["values"], strict=True)
        payload = {field: _value(dtype, text) for (field, dtype), text in typed}
        end = MAX_TIME if record["end_time"] is None else record["end_time"]
        found.setdefault(record["name"], []).append(Row(record["start_time"], end, payload))
    return found


def _value(dtype: pl.DataType, text: str | None) -> Any:
    if text is None or dtype == pl.String:
        return text
    if dtype == pl.Boolean:
        return text == "true"
    return int(text) if dtype.is_integer() else float(text)
