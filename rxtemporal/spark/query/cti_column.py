"""The CTI of a result as a row among its rows: the lowest of its buckets' CTIs.

Each bucket has its own CTI, the result's is the lowest of them, and a reader takes the highest CTI
that it finds. So one task, through which all rows pass, combines the buckets' CTIs. It keeps
the rows of a micro-batch and the CTI after them together, in one file if they are written to files,
and a reader that takes file after file finds no CTI before its rows.

This needs no state: either all buckets take part in a micro-batch, or none.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.spark.query.bounded_bucket import BucketRun, PlanRun
from rxtemporal.spark.query.packing import unpack

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

# a bucket's CTI before and after a micro-batch; the column of CTIs among results
BEFORE, AFTER, PROMISED = "before", "after", "c"
# beginning of the name of the lowest CTI among a query's observed metrics
OBSERVED = "rxtemporal.cti."


@dataclasses.dataclass(frozen=True)
class MicroBatchCti:
    """Step that unpacks all buckets' results of a micro-batch and appends the CTI after it.

    ``schema`` is that of the results, with the column of CTIs at the end.
    """

    schema: pa.Schema
    buckets: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and at the end the CTI as one more row if time has advanced."""
        count, before, after = 0, MAX_TIME, MAX_TIME
        for batch in batches:
            yield from _add_cti_column(unpack(iter([batch])), self.schema)
            count += batch.num_rows
            before = min(before, *batch.column(BEFORE).to_pylist())
            after = min(after, *batch.column(AFTER).to_pylist())
        if count == self.buckets and after > before:
            yield make_cti_row(after, self.schema)


@dataclasses.dataclass(frozen=True)
class BucketCti:
    """Step that runs a plan over a bounded bucket and appends the bucket's CTI as one more row."""

    run: BucketRun
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and then the bucket's CTI."""
        results = PlanRun(self.run.plan, self.run.written)
        yield from _add_cti_column(self.run.push_rows(results, batches), self.schema)
        yield make_cti_row(results.cti, self.schema)


@dataclasses.dataclass(frozen=True)
class LowestCti:
    """Step that replaces the buckets' CTIs among the rows by the lowest of them."""

    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows, and at the end the CTI as one more row, if it promises anything."""
        import pyarrow.compute as pc

        ctis: list[int] = []
        for batch in batches:
            is_cti = pc.is_valid(batch.column(PROMISED))
            ctis += batch.filter(is_cti).column(PROMISED).to_pylist()
            yield batch.filter(pc.invert(is_cti)).cast(self.schema)
        if min(ctis, default=MIN_TIME) > MIN_TIME:
            yield make_cti_row(min(ctis), self.schema)


def append_end(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows followed by the end of time as their CTI, even if there are no rows.

    ``schema`` is that of the rows with the column of CTIs.
    """
    from pyspark.sql import functions as sf

    never = (sf.lit(None).cast(each.dataType).alias(each.name) for each in schema.fields[:-1])
    end = rows.sparkSession.range(1).select(*never, sf.lit(MAX_TIME).alias(PROMISED))
    return rows.withColumn(PROMISED, sf.lit(None).cast("long")).union(end)


def make_cti_row(cti: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return a CTI as a row whose other columns are null."""
    import pyarrow as pa

    fields = [pa.nulls(1, each.type) for each in schema][:-1]
    return pa.RecordBatch.from_arrays([*fields, pa.array([cti], pa.int64())], schema=schema)


def _add_cti_column(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        none = pa.nulls(batch.num_rows, pa.int64())
        yield pa.RecordBatch.from_arrays([*batch.columns, none], schema=schema)
