"""Queries run inside Spark: how DataFrames are read, split and judged, and what is refused."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from law_seven import in_spark
from polars.testing import assert_frame_equal

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import explain, from_dataframe, run, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rxtemporal.spark.query.job import Query

pytestmark = pytest.mark.java

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
READINGS = pl.DataFrame(
    {
        "time": [BEGIN + timedelta(minutes=10 * n) for n in range(40)],
        "room": ["hall", "lab", None, "attic"] * 10,
        "temp": [19.0 + n % 7 for n in range(40)],
    }
)


def hourly(readings: rxt.Streamable) -> rxt.Streamable:
    """Each room's hour."""
    windows = readings.group_by("room").tumbling_window(timedelta(hours=1))
    return windows.aggregate(n=agg.count(), warmest=agg.max("temp"))


def result(frame: DataFrame) -> pl.DataFrame:
    """Return Spark's results, sorted."""
    found = pl.DataFrame(pl.from_arrow(frame.toArrow()))
    return found.sort(found.columns)


def same(frame: DataFrame, query: rxt.Streamable) -> None:
    """Say that Spark gives what the Rx side gives, types included."""
    expected = query.to_polars()
    assert expected.height
    assert_frame_equal(result(frame), expected.sort(expected.columns))


def test_split_by_key(spark: SparkSession) -> None:
    """Rows of one key meet in one of many buckets, null among the keys; times are timestamps."""
    given = stream(in_spark(spark, READINGS), start="time")
    same(run(hourly, readings=given, buckets=5), hourly(rxt.from_polars(READINGS, start="time")))


def test_columns_that_say_nothing_are_not_sent(spark: SparkSession) -> None:
    """The points of one input have no end, no input and no CTIs on their way to a bucket."""
    given = stream(in_spark(spark, READINGS), start="time")
    frame: Any = run(hourly, readings=given, buckets=5)
    plan = frame._jdf.queryExecution().executedPlan().toString()
    shuffled = plan[plan.index("Exchange") :]
    assert "_start" in shuffled
    assert not any(name in shuffled for name in ("_end", "_input", "_cti"))


def find_days(readings: rxt.Streamable) -> rxt.Streamable:
    """Each room's local day, by the time for which its readings hold."""
    signal = readings.to_signal("room", max_gap="3h").group_by("room")
    days = signal.tumbling_window("1d", time_zone="Asia/Kolkata")
    return days.aggregate(mean=agg.time_mean("temp"), time=agg.duration(), n=agg.count())


def test_local_days_and_aggregates_by_time(spark: SparkSession) -> None:
    """The bounds of a calendar, and durations, come through."""
    given = stream(in_spark(spark, READINGS), start="time")
    expected = find_days(rxt.from_polars(READINGS, start="time"))
    same(run(find_days, readings=given, buckets=3), expected)


def test_one_bucket(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    """A query that cannot be split runs in one bucket, and says why."""

    def warmest(readings: rxt.Streamable) -> rxt.Streamable:
        return readings.tumbling_window(timedelta(hours=1)).aggregate(most=agg.max("temp"))

    given = stream(in_spark(spark, READINGS), start="time")
    assert explain(warmest, readings=given).endswith(
        "one bucket: tumbling_window().aggregate of an ungrouped stream sees all rows"
    )
    with caplog.at_level("WARNING"):
        same(run(warmest, readings=given), warmest(rxt.from_polars(READINGS, start="time")))
    assert "spark.one_bucket" in caplog.text


def test_keys_of_two_types(spark: SparkSession) -> None:
    """Rows that match meet though keys are of two types: -0.0 and 0.0, NaN, short and long."""
    nan = float("nan")
    left = pl.DataFrame(
        {"start_time": [1, 2, 3, 4, 5, 6], "end_time": [9] * 6,
         "a": pl.Series([1.5, -0.0, nan, 0.0, None, 2.0], dtype=pl.Float32),
         "b": pl.Series([1, 2, 3, 4, 5, None], dtype=pl.Int16)}
    )  # fmt: skip
    right = pl.DataFrame(
        {"start_time": [1] * 6, "end_time": [20] * 6, "a": [0.0, nan, 1.5, -0.0, None, 2.0],
         "b": [2, 3, 1, 4, 5, None], "z": list("uvwxyz")}
    )  # fmt: skip

    def joined(left: rxt.Streamable, right: rxt.Streamable) -> rxt.Streamable:
        return left.join(right, on=["a", "b"])

    given = {"left": in_spark(spark, left), "right": in_spark(spark, right)}
    assert explain(joined, **given, buckets=7).endswith("'left' by a, b; 'right' by a, b")
    frames = [rxt.from_polars(each, start="start_time", end="end_time") for each in (left, right)]
    made = result(run(joined, **given, buckets=7))
    assert made.height == 4
    assert sorted(made["z"]) == sorted(joined(*frames).to_polars()["z"])


@pytest.mark.parametrize("infinite", [True, False])
def test_one_door(spark: SparkSession, infinite: bool) -> None:
    """Late is what is late among all rows, in the order of a column, not in a bucket."""
    settings = rxt.AdvanceTimeSettings(
        rxt.AdvanceTimeGenerationSettings(
            3, timedelta(minutes=30), advance_to_infinity_on_shutdown=infinite
        ),
        policy=rxt.AdvanceTimePolicy.DROP,
    )
    came = READINGS.with_columns(received=pl.Series([(n * 17) % 40 for n in range(40)]))
    given = stream(in_spark(spark, came), start="time", advance_time=settings, order_by="received")
    in_order = came.sort("received").drop("received")
    expected = hourly(rxt.from_polars(in_order, start="time", advance_time=settings))
    assert expected.to_polars()["n"].sum() < READINGS.height
    same(run(hourly, readings=given, buckets=3), expected)


def test_functions_of_users_travel(spark: SparkSession) -> None:
    """Classes and functions that no worker can import, their annotations among them."""

    class Spread(agg.UserDefinedAggregate):
        def compute(self, values: list[Any]) -> float:
            return float(max(values) - min(values))

    def query(readings: rxt.Streamable) -> rxt.Streamable:
        warm = readings.where(lambda payload: payload["temp"] > 20)
        return (
            warm.group_by("room")
            .tumbling_window(timedelta(hours=3))
            .aggregate(spread=Spread("temp"))
        )

    given = stream(in_spark(spark, READINGS), start="time")
    same(run(query, readings=given), query(rxt.from_polars(READINGS, start="time")))


TICKS = pl.DataFrame({"o": [0, 1, 2], "t": [0, 5, 9], "k": list("aab"), "n": [1, 3, 2]})


def find_previous(rows: rxt.Streamable) -> rxt.Streamable:
    """The row before each row, with its time, in a lifetime with a span in ticks."""
    return rows.group_by("k").previous("n").ungroup().clip_event_duration(20)


def draw_lines(rows: rxt.Streamable) -> rxt.Streamable:
    """Lines between rows, with the times of their ends, in lifetimes with a span in ticks."""
    return rows.to_signal("k", linear="n").clip_event_duration(20)


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (find_previous, {}),
        (draw_lines, {"unit": "ticks"}),
        (find_previous, {"advance_time": 3, "order_by": "o"}),
    ],
)
def test_integers_are_ticks(spark: SparkSession, query: Query, options: dict[str, Any]) -> None:
    """Fields of times are numbers, and spans are; CTIs of the result, too."""
    given = stream(in_spark(spark, TICKS), start="t", **options)
    rows = TICKS.drop("o") if "order_by" in options else TICKS
    here = query(rxt.from_polars(rows, start="t", advance_time=options.get("advance_time")))
    same(run(query, rows=given, buckets=2), here)
    assert run(query, rows=given, cti="cti").schema["cti"].dataType.typeName() == "long"


ONE_BY_ONE = rxt.INCREASING_START_TIME
IN_TICKS = rxt.AdvanceTimeSettings(
    rxt.AdvanceTimeGenerationSettings(1, 3), policy=rxt.AdvanceTimePolicy.DROP
)
IMPORTING = rxt.AdvanceTimeSettings(
    imports=rxt.AdvanceTimeImportSettings("clock"), policy=rxt.AdvanceTimePolicy.DROP
)
GUARDED = dataclasses.replace(ONE_BY_ONE, ahead=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda df: run(hourly, readings=df), rxt.SchemaError, "no column 'start_time'"),
        (lambda df: run(hourly, others=stream(df, start="time")), rxt.BindingError, "do not match"),
        (lambda df: run(hourly, readings=READINGS), rxt.ArgumentError, "takes Spark DataFrames"),
        (lambda df: run(hourly), rxt.ArgumentError, "at least one DataFrame"),
        (lambda df: run(lambda a: 3, a=stream(df, start="time")), rxt.BindingError, "a stream"),
        (
            lambda df: run(
                lambda a: a.union(rxt.from_polars(READINGS, start="time")),
                a=stream(df, start="time"),
            ),
            rxt.BindingError,
            "make it a parameter",
        ),
        (
            lambda df: stream(df, start="time", advance_time=ONE_BY_ONE),
            rxt.AdvanceTimeError,
            "order_by",
        ),
        (
            lambda df: stream(df, start="time", advance_time=IMPORTING, order_by="temp"),
            rxt.AdvanceTimeError,
            "has its own door",
        ),
        (
            lambda df: stream(df, start="time", advance_time=GUARDED, order_by="temp"),
            rxt.AdvanceTimeError,
            "Spark does not know",
        ),
        (lambda df: stream(df, start="time", late=3), rxt.ArgumentError, "a str, got 3"),
        (lambda df: stream(df, start="time", late="x"), rxt.AdvanceTimeError, "which is missing"),
        (
            lambda df: stream(df, start="time", late="x", advance_time=ONE_BY_ONE, order_by="temp"),
            rxt.AdvanceTimeError,
            "this DataFrame is bounded",
        ),
        (lambda df: stream(df, start="room"), rxt.SchemaError, "is not a time"),
        (
            lambda df: from_dataframe(df, start="time", cti="time"),
            rxt.AdvanceTimeError,
            "final as a whole here",
        ),
        (
            lambda df: stream(
                df, start="time", cti="time", advance_time=ONE_BY_ONE, order_by="temp"
            ),
            rxt.AdvanceTimeError,
            "both advance time",
        ),
        (
            lambda df: run(hourly, readings=stream(df, start="time"), buckets=0),
            rxt.ArgumentError,
            "positive",
        ),
        (
            lambda df: run(
                lambda a: rxt.reference(a, on="room"),
                a=stream(df, start="time", advance_time=ONE_BY_ONE, order_by="temp"),
            ),
            rxt.BindingError,
            r"Spark drops those of 'a' before the query.* Hint: leave it out",
        ),
        (
            lambda df: run(lambda a: a.clip_event_duration(5), a=stream(df, start="time")),
            rxt.ArgumentError,
            r"takes spans in ticks, and the times of stream 'a' are datetimes\. Hint",
        ),
        (
            lambda df: run(
                lambda a, b: a.union(b),
                a=stream(df, start="time"),
                b=stream(df.selectExpr("unix_micros(time) time", "room", "temp"), start="time"),
            ),
            rxt.ArgumentError,
            "the times of stream 'b' are numbers of ticks, and the times of stream 'a' are datet",
        ),
        (
            lambda df: stream(df, start="time", advance_time=IN_TICKS, order_by="temp"),
            rxt.ArgumentError,
            "the times of column 'time' are datetimes, and its delay is a number of ticks. Hint",
        ),
        (
            lambda df: stream(df.withColumn("c", df.temp.cast("long")), start="time", cti="c"),
            rxt.SchemaError,
            r"one form, and 'time' has a datetime where 'c' has a number\. Hint: unit=",
        ),
    ],
)
def test_refused(spark: SparkSession, call: Any, error: type[Exception], says: str) -> None:
    """Wrong arguments are refused when a query is composed, with a hint."""
    with pytest.raises(error, match=says):
        call(in_spark(spark, READINGS))
