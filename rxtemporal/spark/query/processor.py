"""Spark's processor of packed rows: a ``StatefulWork`` on each bucket, whose state Spark stores."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, Row, StructField, StructType

from rxtemporal.spark.jvm.session import is_connect
from rxtemporal.spark.query.bucket_keys import make_bucket_key
from rxtemporal.spark.query.bucket_state import BucketState, StatefulWork, StateHead
from rxtemporal.spark.tasks import report_task_errors, spare_collections

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OWN_WORKERS = "RXTEMPORAL_STATE"
# schemas as objects: Spark would be asked to read each text
_NUMBER = StructType([StructField("number", LongType())])
_DATA = StructType([StructField("data", BinaryType())])
HEAD = 0


class SparkStore:
    """State of one group, in one variable; the current group is Spark's own affair.

    The head has the number 0, entries of the log have positive numbers and parts of the base have
    negative ones. Spark opens each variable anew in each task, which costs as much as several
    buckets do.
    """

    def __init__(self, handle: Any) -> None:
        # earlier releases have a single value in a variable of this name, so Spark refuses theirs
        self._data = handle.getMapState("state", _NUMBER, _DATA)

    def read_head(self) -> StateHead | None:
        """Return the head; None before the first micro-batch."""
        saved = self._get(HEAD)
        return None if saved is None else StateHead.loads(saved)

    def write_head(self, head: StateHead) -> None:
        """Replace the head."""
        self._data.updateValue((HEAD,), (head.dumps(),))

    def read(self, kind: str, number: int) -> bytes | None:
        """Return a part of the base or an entry of the log, if it is there."""
        return self._get(_find_place(kind, number))

    def write(self, kind: str, number: int, data: bytes) -> None:
        """Write one of them."""
        self._data.updateValue((_find_place(kind, number),), (data,))

    def remove(self, kind: str, number: int) -> None:
        """Remove one of them."""
        self._data.removeKey((_find_place(kind, number),))

    def _get(self, place: int) -> bytes | None:
        saved = self._data.getValue((place,))
        return None if saved is None else bytes(saved[0])


def _find_place(kind: str, number: int) -> int:
    return {"log": number, "base": -1 - number}[kind]


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]
    """Processor with the state of a ``StatefulWork``, pickled, for each bucket."""

    def __init__(self, work: bytes) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._store = SparkStore(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Yield one micro-batch's results for one bucket; the names are Spark's."""
        received = ((row.input, row.cti, bytes(row.data)) for row in rows)
        with report_task_errors():
            results = BucketState(self._store, self._work, pickle.loads).take(received)
        yield from (
            Row(**dict(zip(results, row, strict=True)))
            for row in zip(*results.values(), strict=True)
        )

    def close(self) -> None:
        """End a task."""
        spare_collections()


def process(rows: DataFrame, work: StatefulWork, buckets: int, schema: str) -> DataFrame:
    """Return the results of some work on packed rows, with a state for each bucket."""
    from pyspark import cloudpickle
    from pyspark.sql import functions as sf

    keys = sf.array(*(sf.lit(make_bucket_key(bucket)) for bucket in range(buckets)))
    keyed = rows.withColumn("bucket", sf.element_at(keys, sf.col("bucket") + 1))
    processor = BucketProcessor(cloudpickle.dumps(work))
    with _own_workers(rows):
        return keyed.groupBy("bucket").transformWithState(processor, schema, "Append", "None")


@contextlib.contextmanager
def _own_workers(frame: DataFrame) -> Iterator[None]:
    """Let functions that are made meanwhile have Python processes of their own.

    Spark gives a task any idle process with the same environment variables; so those that keep
    states are not used for other work, and fewer of them keep the same one. A Spark Connect session
    has no such variables: there the states are kept by whichever processes have the tasks.
    """
    if is_connect(frame):
        yield
        return
    variables = frame.sparkSession.sparkContext.environment
    variables[_OWN_WORKERS] = "1"
    try:
        yield
    finally:
        variables.pop(_OWN_WORKERS, None)
