"""One run inside Spark that feeds another, by the CTIs that the first one gives out."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pyarrow as pa
import pytest
from file_streams import FileStream, read_all
from hourly_readings import READINGS, SETTINGS, hourly
from law_seven import in_spark
from polars.testing import assert_frame_equal
from resumed_runs import SOON, Table
from runs import Log

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.spark import from_dataframe, run, stream
from rxtemporal.testing import assert_same_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.java

IN_ORDER = READINGS.drop("received")
CUTS = (0, 25, 40, 60)
PARTS = [READINGS[first:last] for first, last in pairwise(CUTS)]


def warmest(hours: rxt.Streamable) -> rxt.Streamable:
    """The rooms in an hour and the warmest of them: a second stage, which no key splits."""
    return hours.snapshot_window().aggregate(rooms=agg.count(), most=agg.max("warmest"))


def longer(hours: rxt.Streamable) -> rxt.Streamable:
    """Each room's four hours: a second stage that keys split, its last windows open at the end."""
    return hours.group_by("room").tumbling_window(timedelta(hours=4)).aggregate(n=agg.sum("n"))


def expected(query: Any, settings: Any = SETTINGS) -> pl.DataFrame:
    """Return the results of a query of the readings in this process."""
    made = query(rxt.from_polars(IN_ORDER, start="time", advance_time=settings)).to_polars()
    assert made.height
    return made


def same(found: pl.DataFrame, wanted: pl.DataFrame) -> None:
    """Say that Spark's rows are these, types included."""
    assert_frame_equal(found.sort(found.columns), wanted.sort(wanted.columns))


def events(micro_batches: list[pl.DataFrame]) -> pl.DataFrame:
    """The rows of some micro-batches; that those keep what the CTIs of earlier ones promised."""
    promised: Any = None
    for each in micro_batches:
        rows, ctis = each.filter(pl.col("cti").is_null()), each["cti"].drop_nulls()
        assert promised is None or rows.is_empty() or rows["start_time"].min() >= promised
        assert len(ctis) <= 1
        assert each.filter(pl.col("cti").is_not_null())["start_time"].null_count() == len(ctis)
        if len(ctis):
            assert promised is None or ctis[0] > promised
            promised = ctis[0]
    assert promised is not None
    return pl.concat(micro_batches).filter(pl.col("cti").is_null()).drop("cti")


def frames(tables: list[pa.Table]) -> list[pl.DataFrame]:
    """Micro-batches as frames."""
    return [pl.DataFrame(pl.from_arrow(table)) for table in tables]


def feeding(spark: SparkSession, folder: FileStream) -> DataFrame:
    """The hours of readings as they come, with their CTIs."""
    judged: Any = {"advance_time": SETTINGS, "order_by": "received", "late": "late readings"}
    given = stream(folder.frame(spark), start="time", **judged)
    return run(hourly, readings=given, buckets=3, cti="cti")


@pytest.mark.full
def test_by_way_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """The first run writes a table, in two runs on one checkpoint; others read it as a stream.

    They read file after file, inside Spark and in this process, kept from one run to the next; what
    they give is what the two queries are in this process. Spark tells how much was late.
    """
    folder = FileStream(tmp_path / "in", READINGS.schema)
    hours, micro_batches = tmp_path / "hours", list[pl.DataFrame]()
    here: list[rxt.EventBatch] = []
    for parts in (PARTS[:2], PARTS[2:]):
        for part in parts:
            folder.add(part.sample(fraction=1, shuffle=True))

        def written(rows: DataFrame, _: int) -> None:
            micro_batches.append(pl.DataFrame(pl.from_arrow(rows.toArrow())))
            rows.write.mode("append").parquet(str(hours))

        query = feeding(spark, folder).writeStream.foreachBatch(written)
        place = query.option("checkpointLocation", str(tmp_path / "first"))
        running = place.trigger(availableNow=True).start()
        running.awaitTermination()
        read = spark.readStream.schema(feeding(spark, folder).schema)
        table = read.option("maxFilesPerTrigger", 1).parquet(str(hours))
        arriving = from_dataframe(table, cti="cti", trigger="availableNow", name="hours")
        sink = Table(rxt.EventShape.INTERVAL, here, 10**6, "")
        assert warmest(arriving).run(sink, resume=tmp_path / "kept").wait(SOON)
    late = rxt.from_polars(IN_ORDER, start="time", advance_time=SETTINGS).late_events().to_polars()
    shown = running.recentProgress[-1].observedMetrics["late readings"].asDict()
    largest = shown.pop("largest_lateness")
    assert shown == {"events": IN_ORDER.height, "dropped": late.height, "adjusted": 0}
    assert timedelta(microseconds=largest) == late["by"].max() + timedelta(minutes=15)
    whole = Log(rxt.EventShape.INTERVAL)
    readings = rxt.from_polars(IN_ORDER, start="time", advance_time=SETTINGS)
    warmest(hourly(readings)).run(whole).wait(SOON)
    assert_same_history(whole.batches, here, tolerance=0)
    assert here[-1].cti == whole.batches[-1].cti
    same(events(micro_batches), expected(hourly))
    given = stream(table, cti="cti")
    found = read_all(run(warmest, hours=given, cti="cti"), tmp_path / "second")
    same(events(frames(found)), expected(lambda s: warmest(hourly(s))))


@pytest.mark.full
def test_in_one_query(spark: SparkSession, tmp_path: Path) -> None:
    """One streaming query has both stages, and goes on from its checkpoint.

    It may be asked for its CTIs when it has been going on without.
    """
    folder, micro_batches = FileStream(tmp_path / "in", READINGS.schema), list[pl.DataFrame]()
    for number, part in enumerate(PARTS):
        folder.add(part.sample(fraction=1, shuffle=True))
        hours = stream(feeding(spark, folder), cti="cti")
        found = frames(read_all(run(warmest, hours=hours, buckets=3, cti="cti" if number else None),
                                tmp_path / "checkpoint"))  # fmt: skip
        micro_batches += [each.with_columns(cti=each["cti"] if number else None) for each in found]
    never = pl.lit(None, micro_batches[-1].schema["cti"])
    micro_batches[0] = micro_batches[0].with_columns(cti=never)
    same(events(micro_batches), expected(lambda s: warmest(hourly(s))))


@pytest.mark.parametrize("infinite", [pytest.param(True, marks=pytest.mark.full), False])
def test_bounded(spark: SparkSession, infinite: bool) -> None:
    """A bounded result has one CTI, the end of time, unless settings end before it.

    A second run over it goes as far as it says.
    """
    generation = rxt.AdvanceTimeGenerationSettings(3, 0, advance_to_infinity_on_shutdown=infinite)
    settings = rxt.AdvanceTimeSettings(generation, policy=rxt.AdvanceTimePolicy.DROP)
    came = in_spark(spark, READINGS.with_columns(time=READINGS["time"].sort()))
    given = stream(came, start="time", advance_time=settings, order_by="received")
    made = run(hourly, readings=given, buckets=3, cti="cti")
    found = pl.DataFrame(pl.from_arrow(made.toArrow()))
    ctis = found["cti"].drop_nulls().to_list()
    last = READINGS["time"].max()
    assert isinstance(last, type(READINGS["time"][0]))
    assert ctis == [rxt.to_datetime(rxt.MAX_TIME) if infinite else last.replace(minute=0)]
    whole = rxt.from_polars(
        READINGS.with_columns(time=READINGS["time"].sort()).drop("received"),
        start="time", advance_time=settings,
    )  # fmt: skip
    same(found.filter(pl.col("cti").is_null()).drop("cti"), hourly(whole).to_polars())
    again = run(longer, hours=stream(made, cti="cti"), buckets=2)
    same(pl.DataFrame(pl.from_arrow(again.toArrow())), longer(hourly(whole)).to_polars())


@pytest.mark.full
def test_nothing_is_final_as_well(spark: SparkSession) -> None:
    """A bounded result without rows says that none will come, and a second run knows it."""
    none = run(hourly, readings=stream(in_spark(spark, IN_ORDER[:0]), start="time"), cti="cti")
    some = stream(in_spark(spark, IN_ORDER), start="time")
    alone = run(
        lambda some, none: some.left_anti_join(none, on="room"),
        some=some,
        none=stream(none, cti="cti"),
    )
    assert alone.count() == IN_ORDER.height


@pytest.mark.parametrize(
    ("cti", "error", "says"),
    [
        (3, rxt.ArgumentError, "name of a column for the result's CTIs, got 3"),
        ("Warmest", rxt.SchemaError, "has a column 'Warmest' already"),
        ("end_time", rxt.SchemaError, "has a column 'end_time' already"),
    ],
)
def test_refused(spark: SparkSession, cti: Any, error: type[Exception], says: str) -> None:
    """A name that the result has already, in any case of letters, and what is not a name."""
    with pytest.raises(error, match=says):
        run(hourly, readings=stream(in_spark(spark, IN_ORDER), start="time"), cti=cti)
