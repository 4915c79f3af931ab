"""Law 7: drawn streams as frames, the results of many cases in one job, and the results of the Rx
side for the same streams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import law_streams
import oracle
import physical
import polars as pl
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from law_cases import Case
from oracle import MAX_TIME, Event, Row

import rxtemporal as rxt
from rxtemporal import EventBatch, EventShape
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.spark.query.job import Job
from rxtemporal.testing import history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def by_value() -> None:
    """Pickle the functions of the tests' modules by value: workers cannot import them."""
    from pyspark import cloudpickle

    for name in ("law_cases", "law_functions", "law_seven", "law_streams", "law_table",
                 "law_table_joins", "law_table_windows", "law_windows", "oracle",
                 "physical"):  # fmt: skip
        if name not in cloudpickle.list_registry_pickle_by_value():
            cloudpickle.register_pickle_by_value(sys.modules[name])


# the frames have times in ticks
CASES = {name: case for name, case in law_streams.CASES.items() if not case.real}
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


def query_of(name: str) -> Callable[..., Any]:
    """Return a case's query, of streams that are called left and right."""
    case = CASES[name]

    def query(left: Any, right: Any = None) -> Any:
        return case.query(left, right) if case.inputs == 2 else case.query(left)

    return query


def job(spark: SparkSession, name: str, sides: Sides) -> Job:
    """Return a case's query over the histories of its streams, inside Spark."""
    frames = [in_spark(spark, frame(oracle.canonical(items))) for items in sides]
    named = dict(zip(physical.SIDES, frames, strict=False))
    return Job.compose(query_of(name), named, BUCKETS)


def pack(name: str, result: DataFrame) -> DataFrame:
    """Return a result as rows of text, so that those of all cases are one DataFrame.

    Spark writes a double so that it reads back the same.
    """
    from pyspark.sql import functions as sf

    fields = [sf.col(f"`{name}`").cast("string") for name in result.columns[2:]]
    values = sf.array(*fields).cast("array<string>").alias("values")
    return result.select(sf.lit(name).alias("name"), "start_time", "end_time", values)


def unpack(table: pa.Table, schemas: dict[str, pl.Schema]) -> dict[str, list[Row]]:
    """Return the histories of all cases whose results are in a table.

    Payloads without a schema are JSON, one text for all fields.
    """
    found: dict[str, list[Row]] = {}
    for record in table.to_pylist():
        name, values = record["name"], record["values"]
        payload = _typed(schemas[name], values) if name in schemas else json.loads(*values)
        end = MAX_TIME if record["end_time"] is None else record["end_time"]
        found.setdefault(name, []).append(Row(record["start_time"], end, payload))
    return found


def _typed(schema: pl.Schema, values: list[str | None]) -> dict[str, Any]:
    pairs = zip(schema.items(), values, strict=True)
    return {field: _value(dtype, text) for (field, dtype), text in pairs}


def _value(dtype: pl.DataType, text: str | None) -> Any:
    if text is None or dtype == pl.String:
        return text
    if dtype == pl.Boolean:
        return text == "true"
    return int(text) if dtype.is_integer() else float(text)


def drawn(names: Iterable[str], number: int) -> dict[str, Sides]:
    """Return the streams that some cases are asked for, drawn with a number."""
    return {name: largest(CASES[name].streams(), number) for name in names}


def rx_side(name: str, sides: Sides) -> list[Row]:
    """Return the history of the Rx side for the same frames."""
    case = CASES[name]
    frames = [frame(oracle.canonical(items)) for items in sides]
    if case.last < MAX_TIME:
        return _up_to(case, frames)
    streams = [rxt.from_polars(each, start="start_time", end="end_time") for each in frames]
    return [Row(*row) for row in history(list(case.query(*streams).to_batches()))]


def _up_to(case: Case, frames: list[pl.DataFrame]) -> list[Row]:
    """Return the rows that are complete when all streams have reached the case's last CTI."""
    ends = pl.col("end_time").fill_null(MAX_TIME)
    batches = [
        EventBatch.of_rows(
            each["start_time"].to_numpy(),
            each.select(ends)["end_time"].to_numpy(),
            each.select(*physical.SCHEMA),
            case.last,
        )
        for each in frames
    ]
    plan, whole = physical.planned(case.query, case.inputs), make_shape_step(EventShape.INTERVAL)
    return physical.rows(whole.on_batch(b) for b in physical.pushed(plan, enumerate(batches)))


def wrong(sides: Mapping[str, Sides], found: Mapping[str, list[Row]]) -> list[str]:
    """Return the cases that did not give what the Rx side gives."""
    return [name for name in sides if not same(name, sides[name], found.get(name, []))]


def same(name: str, sides: Sides, made: list[Row]) -> bool:
    """Return True if Spark's rows are the Rx side's; print both if they are not."""
    expected = rx_side(name, sides)
    tolerance = CASES[name].tolerance(oracle.canonical(sides[0]))
    equal = oracle.equal_up_to(expected, made, MAX_TIME, tolerance=tolerance)
    if not equal:
        print(name, oracle.history(expected), oracle.history(made), sep="\n")
    return equal
