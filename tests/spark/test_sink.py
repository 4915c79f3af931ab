"""The sink end to end: into tables and functions, repeated, broken off, taken up again."""

from __future__ import annotations

import math
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from sink_input import (
    HOUR,
    SCHEMA,
    batches,
    expected_rows,
    feed,
    read_table,
    rows,
    wait_until,
    write,
)

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import ArgumentError, SpoolError
from rxtemporal.spark import ParquetTable, SparkSink, list_files, read
from rxtemporal.storage.segments import SegmentFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.java


def sink(target: Any, path: Path, spark: SparkSession, **options: Any) -> SparkSink:
    """A sink on the tests' session, without pauses."""
    options = {"trigger": "0 seconds", **options}
    return SparkSink(target, path=path / "sink", session=spark, **options)


def test_a_table_holds_what_the_query_gave(spark: SparkSession, tmp_path: Path) -> None:
    """Every row arrives once, in several micro-batches, and nothing is left in the spool."""
    table = tmp_path / "table"
    done = feed(sink(ParquetTable(table), tmp_path, spark, max_segments_per_batch=4), batches(9))
    assert read_table(table) == expected_rows(9)
    assert sorted(map(tuple, spark.read.parquet(str(table)).select("k", "v").collect())) == sorted(
        (row["k"], row["v"]) for row in rows(9)
    )
    stats = done.stats()
    assert (stats.segments, stats.rows, stats.rows_known) == (10, 27, 0)
    assert stats.micro_batches >= 3
    folder = SegmentFolder(tmp_path / "sink" / "spool")
    assert folder.bounds() == (10, 10)
    assert folder.describe(10).cti == MAX_TIME


def test_a_reader_sees_whole_micro_batches(spark: SparkSession, tmp_path: Path) -> None:
    """While Spark writes a table and its files are merged; each row is there once."""
    table = ParquetTable(tmp_path / "table", partition_by="k", compact=1)
    running = sink(table, tmp_path, spark, max_segments_per_batch=1)
    feeding = threading.Thread(target=feed, args=(running, batches(12)))
    feeding.start()
    wait_until((tmp_path / ".table.rxtemporal" / "_table.json").exists)
    seen: list[int] = []
    while feeding.is_alive():
        found = read(table.path).select("start_time", "end_time", "k", "v").collect()
        seen.append(found.height // 3)
        assert sorted(found.rows()) == expected_rows(seen[-1])
    feeding.join()
    assert len(set(seen)) > 2
    assert read_table(table.path) == expected_rows(12)
    assert any("-c" in path.name for path in list_files(table.path))


def test_folders_are_local_whatever_the_sessions_file_system_is(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A cluster's session has a file system of its own for paths without a scheme."""
    spark.conf.set("fs.defaultFS", "hdfs://nowhere.invalid")
    try:
        feed(sink(ParquetTable(tmp_path / "a b%20"), tmp_path / "ä#?", spark), batches(2))
    finally:
        spark.conf.unset("fs.defaultFS")
    assert read_table(tmp_path / "a b%20") == expected_rows(2)


def test_spark_may_be_there_before_the_first_segment(spark: SparkSession, tmp_path: Path) -> None:
    """A micro-batch over an empty spool does nothing, and what comes later arrives."""
    table = tmp_path / "table"
    early = sink(ParquetTable(table), tmp_path, spark)
    early.open("q", SCHEMA)
    wait_until(lambda: early.stats().micro_batches > 0)
    assert early.cti(0) == MIN_TIME
    write(early, batches(3))
    early.close(None)
    assert read_table(table) == expected_rows(3)


def test_a_finished_run_repeated_adds_nothing(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second run of a finished query drops every row and says so, without any Spark."""
    table = ParquetTable(tmp_path / "table")
    feed(sink(table, tmp_path, spark), batches(4))
    files = sorted((tmp_path / "table").iterdir())
    with caplog.at_level("INFO", "rxtemporal"):
        again = feed(sink(table, tmp_path, spark), batches(4))
    assert "spark_sink.finished_before" in caplog.text
    assert (again.stats().segments, again.stats().rows_known) == (0, 12)
    assert again.stats().micro_batches == 0
    assert sorted((tmp_path / "table").iterdir()) == files


def test_a_broken_off_run_is_taken_up(spark: SparkSession, tmp_path: Path) -> None:
    """The end of a run loses nothing; the next run, in other batches, adds just the rest."""
    table = ParquetTable(tmp_path / "table", partition_by="start_time")
    first = sink(table, tmp_path, spark)
    first.open("q", SCHEMA)
    write(first, batches(6)[:4])
    first.close(KeyboardInterrupt())
    again = feed(sink(table, tmp_path, spark), batches(6, step=3))
    assert read_table(tmp_path / "table") == expected_rows(6)
    assert (again.stats().rows, again.stats().rows_known) == (6, 12)


def test_a_stream_that_grows_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A run that ended before the end of time leaves its CTI, and a longer one adds the rest."""
    table = ParquetTable(tmp_path / "table")
    feed(sink(table, tmp_path, spark), batches(2, end=5 * HOUR))
    assert SegmentFolder(tmp_path / "sink" / "spool").describe(3).cti == 5 * HOUR
    feed(sink(table, tmp_path, spark), batches(7))
    assert [row for row in read_table(tmp_path / "table") if row[3] >= 5] == [
        row for row in expected_rows(7) if row[3] >= 5
    ]


def test_a_lost_checkpoint_neither_loses_nor_doubles(spark: SparkSession, tmp_path: Path) -> None:
    """Without its checkpoint Spark groups the segments anew, and the ledger sorts it out."""
    table = ParquetTable(tmp_path / "table")
    first = sink(table, tmp_path, spark, max_segments_per_batch=2)
    first.open("q", SCHEMA)
    write(first, batches(8)[:6])
    wait_until(lambda: first.stats().micro_batches >= 2)
    first.close(RuntimeError("the machine goes down"))
    shutil.rmtree(tmp_path / "sink" / "checkpoint")
    feed(sink(table, tmp_path, spark, max_segments_per_batch=3), batches(8))
    assert read_table(tmp_path / "table") == expected_rows(8)


def test_a_function_gets_rows_times_and_the_key(spark: SparkSession, tmp_path: Path) -> None:
    """A function sees timestamps (null: never ends), the payload, ``_segment``, and the CTI."""
    seen: list[tuple[Any, ...]] = []
    types: dict[str, str] = {}
    ctis: list[int] = []

    def take(frame: DataFrame, number: int) -> None:
        types.update(frame.dtypes)
        ctis.append(it.cti(number))
        seen.extend(map(tuple, frame.collect()))

    it = sink(take, tmp_path, spark)
    feed(it, batches(3))
    assert types == {
        "start_time": "timestamp",
        "end_time": "timestamp",
        "k": "string",
        "v": "bigint",
        "_segment": "bigint",
    }
    assert len(seen) == 9
    assert sum(row[1] is None for row in seen) == 3
    assert {row[4] for row in seen} == {1, 2, 3}
    assert ctis[-1] == MAX_TIME
    assert ctis == sorted(ctis)
    assert it.cti(len(ctis) - 1) == MAX_TIME
    with pytest.raises(ArgumentError, match="micro-batch 99"):
        it.cti(99)


def test_an_exception_in_a_function_comes_back(spark: SparkSession, tmp_path: Path) -> None:
    """It ends the run as itself, saying where and what to do; the next run gets the batch again."""
    seen: list[int] = []

    def fails(frame: DataFrame, number: int) -> None:
        raise LookupError("no such customer")

    first = sink(fails, tmp_path, spark)
    first.open("q", SCHEMA)
    write(first, batches(3)[:1])
    with pytest.raises(LookupError, match="no such customer") as refused:
        first.close(None)
    assert "in micro-batch 0 of the Spark sink" in refused.value.__notes__[0]
    feed(sink(lambda frame, _: seen.append(frame.count()), tmp_path, spark), batches(3))
    assert sum(seen) == 9


def test_closing_waits_for_a_function_that_runs(spark: SparkSession, tmp_path: Path) -> None:
    """A run that is broken off never leaves a function behind that could meet the next run's."""
    begun, go_on, order = threading.Event(), threading.Event(), list[str]()

    def slow(frame: DataFrame, number: int) -> None:
        begun.set()
        assert go_on.wait(60)
        order.append("function")

    def close() -> None:
        it.close(KeyboardInterrupt())
        order.append("closed")

    it = sink(slow, tmp_path, spark)
    it.open("q", SCHEMA)
    write(it, batches(1))
    assert begun.wait(60)
    closing = threading.Thread(target=close)
    closing.start()
    wait_until(lambda: it._delivery is not None and it._delivery.progress._stopping)
    go_on.set()
    closing.join()
    assert order == ["function", "closed"]


def test_a_checkpoint_ahead_of_its_spool_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """A spool that was deleted while its checkpoint stayed is found before anything is lost."""
    feed(sink(lambda frame, _: frame.count(), tmp_path, spark), batches(2))
    shutil.rmtree(tmp_path / "sink" / "spool")
    with pytest.raises(SpoolError, match="do not belong together"):
        sink(print, tmp_path, spark).open("q", SCHEMA)


def test_damage_in_the_spool_is_said_by_the_run(spark: SparkSession, tmp_path: Path) -> None:
    """A flipped bit that Spark meets ends the run with the file's name, not with wrong rows."""
    table = ParquetTable(tmp_path / "table")
    it = sink(table, tmp_path, spark, trigger="1 hour")
    it.open("q", SCHEMA)
    write(it, batches(2)[:1])
    segment = tmp_path / "sink" / "spool" / "000000000001.arrow"
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    with pytest.raises(Exception, match=r"000000000001\.arrow is damaged"):
        it.close(None)


def test_every_type_gets_through(spark: SparkSession, tmp_path: Path) -> None:
    """Each type a payload has, nulls, both ends of time and odd names arrive in the table."""
    payload = pl.DataFrame(
        {
            "flag": [True, None],
            "a.b": pl.Series([-1, None], dtype=pl.Int8),
            "UPPER": pl.Series([-1, None], dtype=pl.Int16),
            "ä ö": pl.Series([-1, None], dtype=pl.Int32),
            "real": pl.Series([0.5, None], dtype=pl.Float32),
            "number": [math.inf, None],
            "text": ["ä", None],
            "raw": [b"\x00", None],
            "money": pl.Series(["1.50", None]).cast(pl.Decimal(38, 2)),
            "at": pl.Series([MIN_TIME, MAX_TIME]).cast(pl.Datetime("us", "Europe/Berlin")),
            "local": pl.Series([MAX_TIME, None]).cast(pl.Datetime("us")),
            "took": pl.Series([-7, None]).cast(pl.Duration("us")),
            "day": pl.Series([-1, None]).cast(pl.Date),
            "nothing": pl.Series([None, None], dtype=pl.Null),
        }
    )
    given = EventBatch.of_rows(np.array([MIN_TIME, 2]), np.array([3, MAX_TIME]), payload, MAX_TIME)
    feed(sink(ParquetTable(tmp_path / "table"), tmp_path, spark), [given])
    got = pl.read_parquet(tmp_path / "table").sort("start_time")
    assert got["start_time"].to_physical().to_list() == [MIN_TIME, 2]
    assert got["end_time"].to_physical().to_list() == [3, None]
    # Parquet knows no duration, no column without a type, and one zone
    there = payload.with_columns(
        pl.col("took").dt.total_microseconds(),
        pl.col("nothing").cast(pl.String),
        pl.col("at").dt.convert_time_zone("UTC"),
    )
    assert got.select(there.columns).schema == there.schema
    assert got.select(there.columns).rows() == there.rows()
    by_spark = spark.read.parquet(str(tmp_path / "table"))
    assert dict(by_spark.dtypes)["took"] == "interval day to second"
    assert dict(by_spark.dtypes)["local"] == "timestamp_ntz"
    assert by_spark.where("took = interval '-0.000007' second").count() == 1


def test_devices_with_times_of_their_own_are_there_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also those that are behind what the table has, over a stop."""
    given = [
        {"time": begin + step, "k": device, "n": 10 * step + number}
        for step in range(40)
        for number, (device, begin) in enumerate((("a", 1_000), ("b", 500), ("c", 0)))
    ]
    for part in (given[:50], given):
        source = rxt.PushSource("rows", schema={"k": str, "n": int}, clock="k", seq="n", unit="s")
        counts = source.stream.group_by("k").tumbling_window("5s").aggregate(v=agg.count())
        target = sink(ParquetTable(tmp_path / "table"), tmp_path, spark)
        process = counts.run(target, resume=tmp_path / "run")
        source.push(part)
        if part is given:
            source.close()
            process.wait()
        else:
            process.stop()
    found = read_table(tmp_path / "table")
    assert len(found) == len(set(found)) == 3 * 8
    assert {row[3] for row in found} == {5}
