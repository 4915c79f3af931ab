"""A query run inside Spark: the same function of streams, over DataFrames."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from rxtemporal.core.log import get_logger
from rxtemporal.errors import ArgumentError, CheckpointError
from rxtemporal.spark.query.bounded_bucket import BoundedDoor, BucketRun
from rxtemporal.spark.query.columns import (
    BUCKET,
    CTI,
    ENDS,
    INPUT,
    STARTS,
    assign_buckets,
    copy_ctis,
    union_all,
)
from rxtemporal.spark.query.cti_column import BucketCti, LowestCti, append_end
from rxtemporal.spark.query.job import Job, Query
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.query.streaming import run_streaming
from rxtemporal.spark.schema import arrow_schema
from rxtemporal.spark.tasks import Task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_bounded(job: Job) -> DataFrame:
    """Return the results of a job over bounded DataFrames, with times as ticks."""
    rows = union_all([_select_rows(job, reader) for reader in job.readers])
    # each column more takes time in a shuffle, a sort and the way to Python
    rows = rows.drop(*_list_alike(job))
    if not _is_split_by_any_row(job):
        rows = rows.repartitionById(job.buckets, BUCKET)
    rows = rows.drop(BUCKET).sortWithinPartitions(STARTS)
    # functions of time may not break committed CTIs; on the Rx side only settings generate those
    steady = not any(
        n.operator is not None and n.operator.checks_ctis for n in job.plan.list_nodes()
    )
    # of devices nothing is final before the last time of each
    steady = steady and job.plan.clock is None
    with_ctis = frozenset(
        r.number
        for r in job.readers
        if job.inputs[r.name].cti is not None or (r.clock and not job.inputs[r.name].ends)
    )
    work = BucketRun(job.plan, job.readers, arrow_schema(job.tick_schema), steady, with_ctis)
    if job.cti is None:
        return rows.mapInArrow(Task(work), job.tick_schema)
    schema = job.tick_schema_with_cti
    if all(each.ends for each in job.inputs.values()):
        return append_end(rows.mapInArrow(Task(work), job.tick_schema), schema)
    results = rows.mapInArrow(Task(BucketCti(work, arrow_schema(schema))), schema)
    return results.repartition(1).mapInArrow(Task(LowestCti(arrow_schema(schema))), schema)


def _list_alike(job: Job) -> list[str]:
    """Return the columns that say nothing, since all rows are points, of one input, or no CTIs."""
    inputs = job.inputs.values()
    alike = {
        INPUT: len(job.readers) == 1,
        ENDS: all(each.end is None for each in inputs),
        CTI: all(each.cti is None and each.advance_time is None for each in inputs),
    }
    return [name for name, each in alike.items() if each]


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
    door = BoundedDoor(
        reader, given.advance_time, job.buckets, arrow_schema(schema), given.clock,
        given.synchronized,
    )  # fmt: skip
    in_order = rows.repartition(1).sortWithinPartitions(*order, STARTS, ENDS)
    return in_order.mapInArrow(Task(door), schema)


log = get_logger(__name__)


def run(
    query: Query, /, *, buckets: int | None = None, cti: str | None = None, **dataframes: Any
) -> DataFrame:
    """Return the results of a query over DataFrames as a DataFrame; Spark computes them lazily.

    ``query`` is a function of streams, the same as for ``from_polars(…)``; pass the DataFrames
    under the names of its parameters. Columns are named ``start_time`` and ``end_time``
    (without the latter rows are points), or as ``stream(df, start=…, end=…)`` says; the others are
    the payload. The result has ``start_time``, ``end_time`` (null: never ends) and the payload;
    its rows are in no order.

    Spark itself computes simple filters and selections right after an input; ``explain`` names
    them. A hash of the fields that the plan can be split by assigns rows to ``buckets``, and each
    bucket runs the whole query over its rows. By default there are as many as
    ``spark.sql.shuffle.partitions``, of streams a multiple of them, at least 32. A plan that cannot
    be split runs in one bucket; a warning is logged, and ``explain`` says why.

    Spark sorts a bucket by start; its task holds only the query's state. An operator whose
    functions alter lifetimes (``alter_event_…``) holds its whole bucket in memory.

    Streaming DataFrames give a streaming one, in append mode, whose rows are final. CTIs go to
    every bucket. Workers keep the state in memory, up to 1 GiB each, and Spark stores the rows
    of each micro-batch and from time to time the whole state; after a function of the user's, which
    may give something else for the same rows, the whole state each time. A checkpoint belongs to
    one query and number of buckets; others are refused with a ``CheckpointError``. It also keeps
    its number of partitions, which ``repartition`` changes. A row that breaks the CTI of an earlier
    micro-batch ends the query.

    An error of the query comes up in Spark's own error, whose text begins with the sentence that
    this process would raise. DataFrames of Spark Connect are accepted, too.

    ``cti`` names one more column of the result, for its CTIs: where it is not null the row is not
    an event, its other columns are null, and no row of a later micro-batch starts before it.
    ``stream(df, cti=…)`` reads it, so that one run can feed another, directly or through a table. A
    CTI is the lowest of all buckets'. It follows the rows of its micro-batch, only if time has
    advanced, and never goes back; all results pass through one task for it. A bounded result has
    one CTI, the end of time, or an earlier one if an input's time ends earlier; then rows also pass
    through one task.
    """
    job = Job.compose(query, dataframes, buckets, cti)
    if job.split.reason is not None:
        log.warning("spark.one_bucket", reason=job.split.reason)
    return job.name_columns(run_streaming(job) if job.is_streaming else run_bounded(job))


def repartition(
    checkpoint: str | os.PathLike[str], partitions: int, session: SparkSession | None = None
) -> None:
    """Change the number of partitions in the checkpoint of a streaming query that is not running.

    Spark computes a query over as many partitions as it began with, and each bucket is in one of
    them: more partitions than buckets are of no use. All state is read and written once. The next
    run continues with it; ``spark.sql.shuffle.partitions`` plays no part in that. Spark's own file
    sinks, such as ``format("parquet")``, miss a micro-batch afterwards and fail; ``foreachBatch``
    and tables do not.

    ``session`` is the running session unless it is given. ``ArgumentError`` for a number that is
    not positive; ``CheckpointError`` if Spark refuses, which is also the case if the last
    micro-batch has not been completed, or if there are as many partitions already.
    """
    if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
        raise ArgumentError(f"partitions is a positive int, got {partitions!r}")
    from rxtemporal.spark.jvm.session import open_session

    running = open_session(session)
    try:
        running._streamingCheckpointManager.repartition(os.fspath(checkpoint), partitions)
    except Exception as error:
        said = _find_reason(error)
        hint = "run the query until it has completed its last micro-batch, and stop it."
        if "SHUFFLE_PARTITIONS_ALREADY_MATCH" in said:
            hint = "nothing is to be done; or give another number."
        raise CheckpointError(
            f"the checkpoint {os.fspath(checkpoint)!r} cannot be repartitioned: {said} Hint: {hint}"
        ) from error


def _find_reason(error: Exception) -> str:
    """Return the first line of what Spark says; py4j puts a line about its own call before it."""
    lines = str(error).splitlines()
    if type(error).__module__.startswith("py4j") and len(lines) > 1:
        return lines[1].removeprefix(": ").partition(": ")[2] or lines[1]
    return lines[0] if lines else repr(error)


def explain(query: Query, /, *, buckets: int | None = None, **dataframes: Any) -> str:
    """Return the plan of a query as text, with the columns that split its inputs, if any do."""
    return Job.compose(query, dataframes, buckets).explain()
