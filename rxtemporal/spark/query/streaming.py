"""A query over streaming DataFrames, as one more of them: its state is Spark's, bucket by bucket.

The rows of each input are packed, judged by the input's door if it has one, and go to the buckets
that they belong to, which have the state; what is final comes out and is unpacked.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from rxtemporal.errors import AdvanceTimeError, BindingError
from rxtemporal.operators.fingerprint import Fingerprints
from rxtemporal.operators.operator import Keys
from rxtemporal.runtime.stepper import Stepwise
from rxtemporal.spark.query.bounded_bucket import Reader
from rxtemporal.spark.query.columns import carried_rows
from rxtemporal.spark.query.cti_column import Gathered
from rxtemporal.spark.query.inputs import Input
from rxtemporal.spark.query.packing import PACKED, Packing, unpacked
from rxtemporal.spark.query.streaming_bucket import MADE, BucketWork, Kept
from rxtemporal.spark.query.streaming_door import COUNTED, DoorWork

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rxtemporal.spark.query.run import Job

_STORE = "spark.sql.streaming.stateStore.providerClass"


def streamed(job: Job) -> DataFrame:
    """Return the results of a job over streaming DataFrames, as they are written."""
    check_session(next(iter(job.inputs.values())).frame)
    # Spark knows sources and states in its checkpoint by their order, which is no part of the query
    parts = [_packed(job, reader) for reader in sorted(job.readers, key=lambda each: each.name)]
    rows: Any = reduce(lambda one, other: one.unionByName(other), parts)
    work = BucketWork(job.plan, job.readers, job.written[1], _kept(job))
    made = _keeping(rows, work, MADE)
    if job.cti is None:
        return made.mapInArrow(unpacked, job.written[0])
    schema, written = job.given_out
    if job.buckets > 1:
        made = made.repartition(1)
    return made.mapInArrow(Gathered(written, job.buckets), schema)


def _keeping(rows: DataFrame, work: Any, schema: str) -> DataFrame:
    """Return what some work makes of packed rows, with a state for each bucket."""
    from pyspark import cloudpickle

    from rxtemporal.spark.query.stateful_processor import Keeper

    keeper = Keeper(cloudpickle.dumps(work))
    return rows.groupBy("bucket").transformWithStateInPandas(keeper, schema, "Append", "None")


def _packed(job: Job, reader: Reader) -> DataFrame:
    from pyspark.sql import functions as sf

    given = job.inputs[reader.name]
    _check_time(reader.name, given)
    rows = carried_rows(reader.number, given, job.split_by(reader.name), job.buckets)
    if given.advance_time is None:
        return rows.mapInArrow(Packing(reader.number, job.buckets), PACKED)
    order = tuple(f"o{i}" for i in range(len(given.order_by)))
    door = DoorWork(reader, given.advance_time, order, job.buckets)
    whole = rows.mapInArrow(Packing(reader.number, job.buckets, whole=True), PACKED)
    counts = ", ".join(f"{name} bigint" for name in COUNTED)
    judged = _keeping(whole, door, f"{PACKED}, {counts}")
    if given.late is not None:
        judged = judged.observe(given.late, *(sf.max(name).alias(name) for name in COUNTED))
    return judged.drop(*COUNTED)


def _kept(job: Job) -> Kept:
    inputs = {
        reader.name: "; ".join(
            [
                _told(reader),
                *_columns(job.inputs[reader.name]),
                *(f"Spark does {each}" for each in Fingerprints(job.handed[reader.name]).told),
                f"split by {_names(job.split_by(reader.name))}",
            ]
        )
        for reader in job.readers
    }
    return Kept(Stepwise(job.plan).fingerprints, inputs, job.buckets)


def _told(reader: Reader) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in reader.schema.items()) or "no fields"


def _columns(given: Input) -> Iterator[str]:
    """Yield from which columns a stream's times come, and its order: others are other events."""
    for name in ("start", "end", "cti", "order_by", "advance_time"):
        if told := getattr(given, name):
            yield f"{name}={told!r}"


def _names(keys: Keys) -> str:
    return ", ".join(keys) or "nothing"


def _check_time(name: str, given: Input) -> None:
    if given.cti is None and given.advance_time is None:
        raise AdvanceTimeError(
            f"nothing tells how time advances on {name!r}, so no result would ever be final. "
            "Hint: stream(df, cti='…') names a column of CTIs; "
            "stream(df, advance_time=…, order_by='…') makes them out of the rows."
        )


def check_session(frame: DataFrame) -> None:
    """Say what a session lacks before it fails in a worker without a word."""
    session = frame.sparkSession
    if "RocksDB" not in (session.conf.get(_STORE, "") or ""):
        raise BindingError(
            f"a query over streaming DataFrames keeps its state in RocksDB, and {_STORE} is "
            f"{session.conf.get(_STORE, 'unset')}. Hint: rxtemporal.spark.session() sets it."
        )
    try:
        import google.protobuf  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as error:
        raise BindingError(
            f"Spark's state needs protobuf and pandas: {error}. "
            "Hint: pip install 'rxtemporal[spark]' brings both."
        ) from error
