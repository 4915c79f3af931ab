"""A query over bounded DataFrames, whose result is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rxtemporal.spark.query.bounded_bucket import BoundedDoor, BucketRun, InputReader
from rxtemporal.spark.query.columns import (
    BUCKET,
    ENDS,
    STARTS,
    assign_buckets,
    copy_ctis,
    union_all,
)
from rxtemporal.spark.query.cti_column import BucketCti, LowestCti, append_end
from rxtemporal.spark.query.job import Job
from rxtemporal.spark.schema import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run_bounded(job: Job) -> DataFrame:
    """Return the results of a job over bounded DataFrames, with times as ticks."""
    rows = union_all([_select_rows(job, reader) for reader in job.readers])
    if not _is_split_by_any_row(job):
        rows = rows.repartitionById(job.buckets, BUCKET)
    rows = rows.sortWithinPartitions(STARTS)
    # functions of time may not break committed CTIs; on the Rx side only settings generate those
    steady = not any(
        n.operator is not None and n.operator.checks_ctis for n in job.plan.list_nodes()
    )
    with_ctis = frozenset(r.number for r in job.readers if job.inputs[r.name].cti is not None)
    work = BucketRun(job.plan, job.readers, arrow_schema(job.tick_schema), steady, with_ctis)
    if job.cti is None:
        return rows.mapInArrow(work, job.tick_schema)
    schema = job.tick_schema_with_cti
    if all(each.ends for each in job.inputs.values()):
        return append_end(rows.mapInArrow(work, job.tick_schema), schema)
    results = rows.mapInArrow(BucketCti(work, arrow_schema(schema)), schema)
    return results.repartition(1).mapInArrow(LowestCti(arrow_schema(schema)), schema)


def _is_split_by_any_row(job: Job) -> bool:
    """Return True if any row may be in any bucket, so that none has to be moved."""
    free = job.split.reason is None and not any(map(job.split.get_fields, job.sources))
    inputs = job.inputs.values()
    return free and all(each.advance_time is None and each.cti is None for each in inputs)


def _select_rows(job: Job, reader: InputReader) -> DataFrame:
    given = job.inputs[reader.name]
    rows = assign_buckets(reader.number, given, job.split_by(reader.name), job.buckets)
    if given.cti is not None:
        return copy_ctis(rows, job.buckets)
    if given.advance_time is None:
        return rows
    order = [f"o{i}" for i in range(len(given.order_by))]
    schema = rows.drop(*order).schema
    door = BoundedDoor(reader, given.advance_time, job.buckets, arrow_schema(schema))
    return rows.repartition(1).sortWithinPartitions(*order, STARTS, ENDS).mapInArrow(door, schema)
