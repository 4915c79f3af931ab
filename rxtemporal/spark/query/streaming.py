"""A query over streaming DataFrames, whose result is another; Spark stores each bucket's state.

The rows of each input are packed, pass the input's door if it has one, and go to their buckets,
which have the state. Final results are unpacked.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.errors import AdvanceTimeError, BindingError, CheckpointError, blame
from rxtemporal.operators.fingerprint import Fingerprints, refuse_changes
from rxtemporal.operators.operator import Keys, has_user_code
from rxtemporal.operators.plan import Node
from rxtemporal.run.stepper import Stepwise
from rxtemporal.spark.jvm.session import STATE_STORE
from rxtemporal.spark.query.bounded_bucket import PlanRun
from rxtemporal.spark.query.bucket_state import Columns, PackedInput
from rxtemporal.spark.query.columns import CTI, assign_buckets
from rxtemporal.spark.query.cti_column import AFTER, BEFORE, OBSERVED, MicroBatchCti
from rxtemporal.spark.query.inputs import DataFrameInput
from rxtemporal.spark.query.job import Job
from rxtemporal.spark.query.packing import PACKED, BucketPacker, dump_batches, unpack
from rxtemporal.spark.query.processor import process
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.query.stream_door import COUNTS, DoorWork
from rxtemporal.spark.schema import arrow_schema
from rxtemporal.spark.tasks import Task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

# the schema of a bucket's result: one row for each micro-batch, with or without results
RESULT = f"data binary, {BEFORE} bigint, {AFTER} bigint"
ANEW = "or begin with a new checkpointLocation, which computes everything anew"


@dataclasses.dataclass(frozen=True)
class QueryFingerprint:
    """Identity of the query that saved a state, as text that is the same in another process."""

    steps: tuple[str, ...]
    inputs: Mapping[str, str]
    buckets: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fingerprint as plain values."""
        return {"steps": [*self.steps], "inputs": dict(self.inputs), "buckets": self.buckets}

    def expect(self, saved: Mapping[str, Any]) -> None:
        """Raise for the state of another query, saying what has changed."""
        if saved["buckets"] != self.buckets:
            raise CheckpointError(
                f"the state in this checkpoint has {saved['buckets']} buckets, and this query has "
                f"{self.buckets}. Hint: buckets={saved['buckets']} continues it, {ANEW}."
            )
        refuse_changes(
            (saved["steps"], self.steps),
            (saved["inputs"], self.inputs),
            "this checkpoint was begun",
            ANEW,
        )


@dataclasses.dataclass(frozen=True)
class BucketWork:
    """A query over one bucket, a micro-batch at a time."""

    plan: Node
    readers: tuple[InputReader, ...]
    written: pa.Schema
    fingerprint: QueryFingerprint

    @cached_property
    def repeatable(self) -> bool:
        """False if the query has functions of the user."""
        return not any(has_user_code(node.operator) for node in self.plan.list_nodes())

    @property
    def joins(self) -> bool:
        """False if each device has a time of its own, which moves in the order of the rows."""
        return self.plan.clock is None

    def begin(self) -> StreamRun:
        """Return a run at its beginning."""
        return StreamRun(self.plan, self.readers, self.written, self.fingerprint)


class StreamRun:
    """The steps of a query over one bucket, from one micro-batch to the next.

    The rows of a micro-batch need no order: all of them come before its CTI, which is the highest
    among them. A row can only break the CTI of an earlier micro-batch.
    """

    def __init__(
        self,
        plan: Node,
        readers: tuple[InputReader, ...],
        written: pa.Schema,
        fingerprint: QueryFingerprint,
    ) -> None:
        self._plan = PlanRun(plan, written)
        self._readers = readers
        self._written = written
        self._ctis = {reader.number: MIN_TIME for reader in readers}
        self._fingerprint = fingerprint

    @property
    def cti(self) -> int:
        """The CTI after the results so far; ``MIN_TIME``, which promises nothing, at first."""
        return self._plan.cti

    def take(self, rows: Sequence[PackedInput]) -> Columns:
        """Process a micro-batch of this bucket's rows, given by input.

        Return the results as an Arrow stream, empty bytes if there are none, and the CTIs before
        and after them.
        """
        before, results = self.cti, list[Any]()
        mine = {each.number: each for each in rows}
        for reader in self._readers:
            if reader.number in mine:
                results += self._push(reader, mine[reader.number])
        data = dump_batches(results, self._written) if results else b""
        return {"data": [data], BEFORE: [before], AFTER: [self.cti]}

    def _push(self, reader: InputReader, rows: PackedInput) -> Iterator[pa.RecordBatch]:
        before = self._ctis[reader.number]
        batch = _read_batch(reader, rows.frame, before if rows.cti == MIN_TIME else rows.cti)
        try:
            batch.check(before)
        except Exception as error:
            blamed = blame(error, f"of {reader.name}")
            raise blamed from blamed.__cause__
        self._ctis[reader.number] = batch.cti
        yield from self._plan.push(reader.name, batch)

    @property
    def rows(self) -> int:
        """The number of rows held."""
        return self._plan.steps.rows + self._plan.shape.rows

    def save(self) -> bytes:
        """Return the state."""
        # by name: the order of the inputs, and so their numbers, is not part of a query
        ctis = {reader.name: self._ctis[reader.number] for reader in self._readers}
        reached = {"ctis": ctis, "cti": self.cti}
        held = {"held": self._plan.steps.save(), "shape": self._plan.shape.save()}
        return dumps("bucket", {**self._fingerprint.to_dict(), **reached, **held})

    def load(self, data: bytes) -> None:
        """Continue from a state that the same query saved."""
        saved = loads("bucket", data, "the state in this checkpoint", ANEW)
        self._fingerprint.expect(saved)
        self._plan.steps.load(saved["held"])
        self._plan.shape.load(saved["shape"])
        self._ctis = {reader.number: saved["ctis"][reader.name] for reader in self._readers}
        self._plan.resume(saved["cti"])


def _read_batch(reader: InputReader, frame: pl.DataFrame, cti: int) -> EventBatch:
    """Return the rows of an input, and the CTIs of devices that are among them."""
    if not frame.width:
        return EventBatch.empty(reader.schema, cti)
    if not reader.clock:
        return reader.batch(frame, cti)
    is_cti = pl.col(CTI).is_not_null()
    clocks = reader.read_clocks(frame.filter(is_cti))
    return reader.batch(frame.filter(~is_cti), cti).replace(clocks=clocks)


def run_streaming(job: Job) -> DataFrame:
    """Return the results of a job over streaming DataFrames, with times as ticks."""
    check_session(next(iter(job.inputs.values())).frame)
    # Spark's checkpoint knows sources and states by their order, which is not part of the query
    parts = [_pack_input(job, reader) for reader in sorted(job.readers, key=lambda each: each.name)]
    rows: Any = reduce(lambda one, other: one.unionByName(other), parts)
    schema = arrow_schema(job.tick_schema)
    work = BucketWork(job.plan, job.readers, schema, fingerprint_job(job))
    results = observe_cti(process(rows, work, job.buckets, RESULT), job)
    if job.cti is None:
        return results.mapInArrow(Task(unpack), job.tick_schema)
    with_cti = job.tick_schema_with_cti
    if job.buckets > 1:
        results = results.repartition(1)
    last = MicroBatchCti(arrow_schema(with_cti), job.buckets)
    return results.mapInArrow(Task(last), with_cti)


def observe_cti(results: DataFrame, job: Job) -> DataFrame:
    """Let the progress of a query have the lowest CTI of all buckets, null if some had no rows."""
    from pyspark.sql import functions as sf

    if job.plan.time == "ticks":
        return results
    lowest = sf.when(sf.count(AFTER) == job.buckets, sf.min(AFTER)).alias("cti")
    return results.observe(f"{OBSERVED}{uuid.uuid4().hex}", lowest)


def _pack_input(job: Job, reader: InputReader) -> DataFrame:
    from pyspark.sql import functions as sf

    given = job.inputs[reader.name]
    _check_time(reader.name, given)
    rows = assign_buckets(reader.number, given, job.split_by(reader.name), job.buckets)
    if given.advance_time is None:
        return rows.mapInArrow(Task(BucketPacker(reader.number, job.buckets)), PACKED)
    order = tuple(f"o{i}" for i in range(len(given.order_by)))
    door = DoorWork(reader, given.advance_time, order, job.buckets, given.clock, given.synchronized)
    packer = BucketPacker(reader.number, job.buckets, whole=True)
    whole = rows.mapInArrow(Task(packer), PACKED)
    counts = ", ".join(f"{name} bigint" for name in COUNTS)
    accepted = process(whole, door, 1, f"{PACKED}, {counts}")
    if given.late is not None:
        accepted = accepted.observe(given.late, *(sf.max(name).alias(name) for name in COUNTS))
    return accepted.drop(*COUNTS)


def fingerprint_job(job: Job) -> QueryFingerprint:
    """Return the fingerprint of a job: its steps, its inputs, and the operators pushed down."""
    inputs = {
        reader.name: "; ".join(
            [
                _fields(reader),
                *_columns(job.inputs[reader.name]),
                *(
                    f"Spark does {each}"
                    for each in Fingerprints(job.pushed_down[reader.name]).lines
                ),
                f"split by {_names(job.split_by(reader.name))}",
            ]
        )
        for reader in job.readers
    }
    return QueryFingerprint(Stepwise(job.plan).fingerprints, inputs, job.buckets)


def _fields(reader: InputReader) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in reader.schema.items()) or "no fields"


def _columns(given: DataFrameInput) -> Iterator[str]:
    """Yield the columns of a stream's times and order, which determine its events."""
    for name in ("start", "end", "cti", "order_by", "advance_time", "clock", "synchronized"):
        if value := getattr(given, name):
            yield f"{name}={value!r}"


def _names(keys: Keys) -> str:
    return ", ".join(keys) or "nothing"


def _check_time(name: str, given: DataFrameInput) -> None:
    if given.cti is None and given.advance_time is None:
        raise AdvanceTimeError(
            f"time does not advance on {name!r}, so no result would ever be final. "
            "Hint: stream(df, cti='…') names a column of CTIs; "
            "stream(df, advance_time=…, order_by='…') makes them out of the rows."
        )


def check_session(frame: DataFrame) -> None:
    """Raise if a session lacks what streaming queries need; it would fail later in a task."""
    name, wanted = STATE_STORE
    found = frame.sparkSession.conf.get(name)
    if "RocksDB" not in found:
        raise BindingError(
            f"a query over streaming DataFrames keeps its state in RocksDB, and this session has "
            f"{name} = {found}. Hint: call spark.conf.set({name!r}, {wanted!r}) first; or add the "
            f"line '{name} {wanted}' to spark-defaults.conf."
        )
    try:
        import google.protobuf  # noqa: F401
        import pandas  # noqa: F401
    except ImportError as error:
        raise BindingError(
            f"Spark's state needs protobuf and pandas: {error}. "
            "Hint: pip install 'rxtemporal[spark]' brings both."
        ) from error
