"""State of streaming queries in Spark's store: workers that die, other numbers of partitions."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from file_streams import FileStream
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.spark import repartition, run, stream
from rxtemporal.spark.query import processor

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.java

SCHEMA = pl.Schema({"start": pl.Int64(), "key": pl.Int64(), "cti": pl.Int64()})
STEP = 10
Counts = list[tuple[Any, ...]]


def count(points: Any) -> rxt.Streamable:
    """Count the rows of each key, in windows over several micro-batches."""
    return points.group_by("key").tumbling_window(25).aggregate(n=agg.count())


def add(files: FileStream, first: int, last: int) -> None:
    """Add micro-batches of nine keys."""
    for number in range(first, last):
        rows = {"start": [STEP * number + key for key in range(9)], "key": [*range(9)]}
        cti = pl.DataFrame({"cti": [STEP * number + STEP]})
        files.add(pl.concat([pl.DataFrame(rows), cti], how="diagonal").match_to_schema(SCHEMA))


def expect(last: int) -> Counts:
    """Return the final counts after so many micro-batches."""
    rows = [(STEP * number + key, key) for number in range(last) for key in range(9)]
    windows = range(0, STEP * last - 24, 25)
    return sorted(
        (begin, begin + 25, key, n)
        for begin in windows
        for key in range(9)
        if (n := sum(begin <= start < begin + 25 and key == of for start, of in rows))
    )


def start(spark: SparkSession, files: FileStream, folder: Path, buckets: int = 4) -> Any:
    """Start the query until all is read; each micro-batch has a folder of files."""

    def write(rows: Any, number: int) -> None:
        rows.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    frame = stream(files.frame(spark), start="start", cti="cti")
    result = run(count, buckets=buckets, points=frame)
    writer = result.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def read(spark: SparkSession, folder: Path) -> Counts:
    """Return what the query has written."""
    rows = spark.read.parquet(str(folder / "out")).collect()
    return sorted((r.start_time, r.end_time, r.key, r.n) for r in rows)


@pytest.mark.full
def test_another_number_of_partitions(spark: SparkSession, tmp_path: Path) -> None:
    """Between runs; buckets and results stay what they are."""
    files = FileStream(tmp_path / "in", SCHEMA)
    add(files, 0, 2)
    start(spark, files, tmp_path).awaitTermination()
    repartition(tmp_path / "checkpoint", 4, spark)
    add(files, 2, 5)
    query = start(spark, files, tmp_path)
    query.awaitTermination()
    (operator,) = query.lastProgress.stateOperators
    assert operator.numShufflePartitions == 4
    assert read(spark, tmp_path) == expect(5)
    with pytest.raises(CheckpointError, match=r"is the same as the requested 4 .*Hint: nothing"):
        repartition(tmp_path / "checkpoint", 4, spark)
    (newest,) = (tmp_path / "checkpoint" / "commits").glob(str(query.lastProgress.batchId))
    newest.unlink()
    with pytest.raises(CheckpointError, match=r"repartitioned: \[STATE_REP.*Hint: run the query"):
        repartition(tmp_path / "checkpoint", 3, spark)


class DyingProcessor(processor.BucketProcessor):
    """Processor whose process dies at a random call of its storage, or before the commit."""

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._store: Any = DyingStore(handle)

    def close(self) -> None:
        """Maybe die."""
        die()


class DyingStore(processor.SparkStore):
    """Storage at each of whose calls its process may die."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("read_head", "write_head", "read", "write", "remove"):
            die()
        return super().__getattribute__(name)


def die() -> None:
    """Kill this process, one time in fifty."""
    if os.urandom(1)[0] < 256 / 50:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.full
def test_workers_that_die(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any step: the query is started again, and each row is counted once."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr(processor, "BucketProcessor", DyingProcessor)
    files, deaths = FileStream(tmp_path / "in", SCHEMA), 0
    for first in range(0, 24, 8):
        add(files, first, first + 8)
        while True:
            query = start(spark, files, tmp_path, buckets=2)
            try:
                query.awaitTermination()
                break
            except StreamingQueryException as error:
                # an error of ours would come again in each attempt
                if "CheckpointError" in str(error):
                    raise
                deaths += 1
    assert deaths > 2
    assert read(spark, tmp_path) == expect(24)


@pytest.mark.parametrize("partitions", [0, True, "4"])
def test_partitions_are_a_number(partitions: Any) -> None:
    """Anything else is refused before Spark is asked."""
    with pytest.raises(ArgumentError, match="partitions is a positive int"):
        repartition("nowhere", partitions)
