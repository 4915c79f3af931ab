"""A query over streaming DataFrames, whose result is another; Spark stores each bucket's state.

The rows of each input are packed, pass the input's door if it has one, and go to their buckets,
which have the state. Final results are unpacked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
from pyspark.sql.streaming import StatefulProcessor

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, load_frame, loads
from rxtemporal.errors import AdvanceTimeError, BindingError, CheckpointError, blame
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.lateness import LateReason
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.operators.fingerprint import Fingerprints, refuse_changes
from rxtemporal.operators.operator import Keys
from rxtemporal.operators.plan import Node
from rxtemporal.run.stepper import Stepwise
from rxtemporal.spark.jvm.session import STATE_STORE
from rxtemporal.spark.query.bounded_bucket import PlanRun, admit_rows
from rxtemporal.spark.query.columns import CTI, ENDS, STARTS, assign_buckets
from rxtemporal.spark.query.cti_column import AFTER, BEFORE, MicroBatchCti
from rxtemporal.spark.query.inputs import DataFrameInput
from rxtemporal.spark.query.job import Job
from rxtemporal.spark.query.packing import PACKED, BucketPacker, dump_batches, pack_buckets, unpack
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from rxtemporal.ingress.clock_settings import ClockSettings
    from rxtemporal.operators.synchronize.plan import Synchronize

# the schema of a bucket's result: one row for each micro-batch, with or without results
RESULT = f"data binary, {BEFORE} bigint, {AFTER} bigint"
ANEW = "or begin with a new checkpointLocation, which computes everything anew"

Received = Iterable[tuple[int, int, bytes]]
"""The number of an input, a CTI, and rows as an Arrow stream."""


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

    def __call__(self, saved: bytes | None, received: Received) -> tuple[bytes, dict[str, Any]]:
        """Return the new state, and a micro-batch's results with the CTIs before and after it."""
        run = StreamRun(self.plan, self.readers, self.written, self.fingerprint)
        if saved is not None:
            run.load(saved)
        before = run.cti
        data = run.take(received)
        return run.save(), {"data": [data], BEFORE: [before], AFTER: [run.cti]}


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

    def take(self, received: Received) -> bytes:
        """Process a micro-batch of this bucket's rows; return the results as an Arrow stream.

        Without results it is empty bytes.
        """
        chunks: dict[int, list[tuple[int, bytes]]] = {n: [] for n in self._ctis}
        for number, cti, data in received:
            chunks[number].append((cti, data))
        results: list[pa.RecordBatch] = []
        for reader in self._readers:
            mine = chunks[reader.number]
            if mine:
                results += self._push(reader, [load_frame(data) for _, data in mine], max(mine)[0])
        return dump_batches(results, self._written) if results else b""

    def _push(
        self, reader: InputReader, rows: list[pl.DataFrame], cti: int
    ) -> Iterator[pa.RecordBatch]:
        before, frame, clocks = self._ctis[reader.number], pl.concat(rows), None
        if reader.clock:
            clocks = reader.read_clocks(frame.filter(pl.col(CTI).is_not_null()))
            frame = frame.filter(pl.col(CTI).is_null())
        batch = reader.batch(frame, before if cti == MIN_TIME else cti)
        batch.clocks = clocks
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
        self._plan.cti = saved["cti"]


_STATE = "data binary"


class BucketProcessor(StatefulProcessor):  # type: ignore[misc]
    """Processor with one value of bytes for each bucket.

    ``work``, pickled, is called with the bytes of the last micro-batch, or None, and with the new
    rows (the number of an input, a CTI, packed rows); it returns new bytes and columns by name.
    """

    def __init__(self, work: bytes) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        """Open the state."""
        self._state = handle.getValueState("state", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Yield one micro-batch's results for one bucket; the names are Spark's."""
        import pickle

        import pandas as pd

        saved = bytes(self._state.get()[0]) if self._state.exists() else None
        state, results = pickle.loads(self._work)(saved, _list_rows(rows))
        self._state.update((state,))
        yield pd.DataFrame(results)

    def close(self) -> None:
        """Do nothing; there is nothing to close."""


def _list_rows(frames: Iterator[Any]) -> Iterable[tuple[int, int, bytes]]:
    for frame in frames:
        yield from zip(frame["input"].tolist(), frame["cti"].tolist(), frame["data"], strict=True)


# the state of a door, the accepted rows, the CTI after them, and the counts so far
Judged: TypeAlias = tuple[bytes, pl.DataFrame, int, tuple[int, ...]]
# counts of accepted and late events in all micro-batches so far; lateness is in ticks
COUNTS = ("events", "dropped", "adjusted", "largest_lateness")


@dataclasses.dataclass(frozen=True)
class DoorWork:
    """Door over one input; rows of a micro-batch pass it in the order of some columns."""

    reader: InputReader
    settings: AdvanceTimeSettings
    order: tuple[str, ...]
    buckets: int
    clock: ClockSettings | None = None
    synchronized: Synchronize | None = None

    def __call__(self, saved: bytes | None, received: Received) -> tuple[bytes, dict[str, Any]]:
        """Return the new state, and the accepted rows, packed, with the CTI after them.

        Each packed row has the counts of late events since the start of the checkpoint.
        """
        rows = pl.concat([load_frame(data) for _, _, data in received])
        rows = rows.sort(*self.order, STARTS, ENDS)
        if self.clock is not None:
            state, accepted, cti, found = self._judge_by_device(self.clock, saved, rows)
        else:
            state, accepted, cti, found = self._judge(saved, rows)
        packed = pack_buckets(self.reader.number, accepted.drop(*self.order), cti, self.buckets)
        counts = zip(COUNTS, found, strict=True)
        counted = packed.with_columns(pl.lit(n, pl.Int64).alias(name) for name, n in counts)
        return state, counted.to_dict(as_series=False)

    def _judge(self, saved: bytes | None, rows: pl.DataFrame) -> Judged:
        door = Door(self.settings, self.reader.name)
        if saved is not None:
            door = load_door(door, saved)
        accepted = admit_rows(door, self.reader, rows)
        late = door.late[LateReason.DROPPED], door.late[LateReason.ADJUSTED]
        counts = door.events, *late, door.largest_lateness
        return save_door(door), accepted, max(door.cti, MIN_TIME), counts

    def _judge_by_device(
        self, clock: ClockSettings, saved: bytes | None, rows: pl.DataFrame
    ) -> Judged:
        from rxtemporal.spark.query.device_door import DeviceDoor

        door = DeviceDoor(self.reader, self.settings, clock, self.synchronized)
        settings = repr([self.settings, clock, self.synchronized])
        if saved is not None:
            before, state = loads("device door", saved, "the state in this checkpoint", ANEW)
            what = "advance_time=, clock= or synchronize()"
            _refuse_settings(what, self.reader.name, before, settings)
            door.load(state)
        accepted = door.admit(rows)
        return dumps("device door", [settings, door.save()]), accepted, door.cti, door.counts


def save_door(door: Door) -> bytes:
    """Return the state of a door without open rows, with its counts of late events."""
    return dumps("door", [repr(door.settings), door.save()])


def load_door(door: Door, data: bytes) -> Door:
    """Return a door that resumes from the result of ``save_door``, with the same settings."""
    settings, saved = loads("door", data, "the state in this checkpoint", ANEW)
    _refuse_settings("advance_time=", door.source, settings, repr(door.settings))
    door.load(saved)
    return door


def _refuse_settings(what: str, name: str, before: str, now: str) -> None:
    """Raise if the settings of a door have changed; ``what`` names them."""
    if before != now:
        raise CheckpointError(
            f"{what} of {name!r} has changed since this checkpoint was begun: it was "
            f"{before}, and here it is {now}. Hint: continue with the earlier settings, {ANEW}."
        )


def run_streaming(job: Job) -> DataFrame:
    """Return the results of a job over streaming DataFrames, with times as ticks."""
    check_session(next(iter(job.inputs.values())).frame)
    # Spark's checkpoint knows sources and states by their order, which is not part of the query
    parts = [_pack_input(job, reader) for reader in sorted(job.readers, key=lambda each: each.name)]
    rows: Any = reduce(lambda one, other: one.unionByName(other), parts)
    schema = arrow_schema(job.tick_schema)
    work = BucketWork(job.plan, job.readers, schema, fingerprint_job(job))
    results = _process(rows, work, RESULT)
    if job.cti is None:
        return results.mapInArrow(unpack, job.tick_schema)
    with_cti = job.tick_schema_with_cti
    if job.buckets > 1:
        results = results.repartition(1)
    return results.mapInArrow(MicroBatchCti(arrow_schema(with_cti), job.buckets), with_cti)


def _process(rows: DataFrame, work: Any, schema: str) -> DataFrame:
    """Return the results of some work on packed rows, with a state for each bucket."""
    from pyspark import cloudpickle

    processor = BucketProcessor(cloudpickle.dumps(work))
    return rows.groupBy("bucket").transformWithStateInPandas(processor, schema, "Append", "None")


def _pack_input(job: Job, reader: InputReader) -> DataFrame:
    from pyspark.sql import functions as sf

    given = job.inputs[reader.name]
    _check_time(reader.name, given)
    rows = assign_buckets(reader.number, given, job.split_by(reader.name), job.buckets)
    if given.advance_time is None:
        return rows.mapInArrow(BucketPacker(reader.number, job.buckets), PACKED)
    order = tuple(f"o{i}" for i in range(len(given.order_by)))
    door = DoorWork(reader, given.advance_time, order, job.buckets, given.clock, given.synchronized)
    whole = rows.mapInArrow(BucketPacker(reader.number, job.buckets, whole=True), PACKED)
    counts = ", ".join(f"{name} bigint" for name in COUNTS)
    accepted = _process(whole, door, f"{PACKED}, {counts}")
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
