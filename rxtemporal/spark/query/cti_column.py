"""The CTI of a result, which is the lowest of its buckets': a row among the rows.

A bucket knows how far it has come itself. A result is no further than the bucket that is furthest
behind, and a reader takes the highest CTI that it finds, so the buckets' are made one before
anybody reads them: by one task, which every row passes on its way out. So the rows of a micro-batch
and the CTI after them stay together, in one file where they are written, and a reader that takes
file after file meets no CTI before its rows.

No state is needed for it: all buckets take part in a micro-batch, or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.spark.query.bounded_bucket import BucketRun, Results
from rxtemporal.spark.query.packing import unpacked

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# how far a bucket had come before a micro-batch, and after it; the column of CTIs among results
BEFORE, AFTER, PROMISED = "before", "after", "c"


@dataclasses.dataclass(frozen=True)
class Gathered:
    """Takes what all buckets make of a micro-batch, packed, and gives it with the CTI after it.

    ``schema`` is of the results with the column of CTIs, which is the last one.
    """

    schema: pa.Schema
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and at the end the CTI as one more of them if time has advanced."""
        told, before, after = 0, MAX_TIME, MAX_TIME
        for batch in batches:
            yield from _as_rows(unpacked(iter([batch])), self.schema)
            told += batch.num_rows
            before = min(before, *batch.column(BEFORE).to_pylist())
            after = min(after, *batch.column(AFTER).to_pylist())
        if told == self.buckets and after > before:
            yield cti_row(after, self.schema)


@dataclasses.dataclass(frozen=True)
class Telling:
    """Runs a plan over a bounded bucket, and gives its CTI after the rows, as one more of them."""

    run: BucketRun
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and how far the bucket has come."""
        results = Results(self.run.plan, self.run.written)
        yield from _as_rows(self.run.through(results, batches), self.schema)
        yield cti_row(results.cti, self.schema)


@dataclasses.dataclass(frozen=True)
class Lowest:
    """Takes rows with each bucket's CTI as a row among them, and gives them with the lowest."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and at the end the CTI as one more of them, if it says anything."""
        import pyarrow.compute as pc

        ctis: list[int] = []
        for batch in batches:
            is_cti = pc.is_valid(batch.column(PROMISED))
            ctis += batch.filter(is_cti).column(PROMISED).to_pylist()
            yield batch.filter(pc.invert(is_cti)).cast(self.schema)
        if min(ctis, default=MIN_TIME) > MIN_TIME:
            yield cti_row(min(ctis), self.schema)


def with_end(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with the end of time after them: they are all there is, even if there are none.

    ``schema`` is theirs with the column of CTIs.
    """
    from pyspark.sql import functions as sf

    never = (sf.lit(None).cast(each.dataType).alias(each.name) for each in schema.fields[:-1])
    end = rows.sparkSession.range(1).select(*never, sf.lit(MAX_TIME).alias(PROMISED))
    return rows.withColumn(PROMISED, sf.lit(None).cast("long")).union(end)


def cti_row(cti: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return a CTI as a row: all its other columns are null."""
    import pyarrow as pa

    fields = [pa.nulls(1, each.type) for each in schema][:-1]
    return pa.RecordBatch.from_arrays([*fields, pa.array([cti], pa.int64())], schema=schema)


def _as_rows(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        none = pa.nulls(batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)
