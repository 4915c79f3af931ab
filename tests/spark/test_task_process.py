"""Python processes of Spark's tasks: what their collections of garbage go through."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pytest

from rxtemporal.spark.tasks import spare_collections

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


def test_other_processes_collect_as_before() -> None:
    """Outside a task nothing is left out."""
    before = gc.get_freeze_count()
    spare_collections()
    assert gc.get_freeze_count() == before


@pytest.mark.java
def test_a_task_spares_what_is_imported(spark: SparkSession) -> None:
    """After the first task a collection has few objects to go through; the next changes nothing."""
    from rxtemporal.spark.tasks import Task

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import gc

        import pyarrow as pa

        for batch in batches:
            counts = [gc.get_freeze_count(), len(gc.get_objects())]
            yield pa.record_batch([[each] * batch.num_rows for each in counts], ["spared", "left"])

    rows = spark.range(1).repartition(1).mapInArrow(Task(count), "spared long, left long")
    (_, second, third) = (rows.collect()[0] for _ in range(3))
    assert second.spared > 10 * second.left
    assert third.spared == second.spared
