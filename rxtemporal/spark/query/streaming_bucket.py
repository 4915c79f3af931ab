"""A query over one bucket of streaming DataFrames: what it keeps from one micro-batch to the next.

Knows nothing of pyspark.
"""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.steps.run_state import joined, parted, refuse_changes
from rxtemporal.errors import CheckpointError, blame
from rxtemporal.operators.plan import Node
from rxtemporal.spark.query.bounded_bucket import Reader, Results
from rxtemporal.spark.query.cti_column import AFTER, BEFORE
from rxtemporal.spark.query.packing import as_frame

if TYPE_CHECKING:
    import pyarrow as pa

_MAGIC, _VERSION = b"RXTB", 1
_HEAD = struct.Struct("<4sHI")  # magic, version, length of the header
# what a bucket makes of a micro-batch: one row, whether or not it has results
MADE = f"data binary, {BEFORE} bigint, {AFTER} bigint"
ANEW = "or begin with a new checkpointLocation, which computes everything anew"

Received = Iterable[tuple[int, int, bytes]]
"""The number of an input, a CTI, and rows as an Arrow stream."""


@dataclasses.dataclass(frozen=True)
class Kept:
    """What saved a state, as text that is the same in another process."""

    steps: tuple[str, ...]
    inputs: Mapping[str, str]
    buckets: int

    def told(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"steps": [*self.steps], "inputs": dict(self.inputs), "buckets": self.buckets}

    def expect(self, saved: Mapping[str, Any]) -> None:
        """Refuse what saved a state if it is anything else, and say what has changed."""
        if saved["buckets"] != self.buckets:
            raise CheckpointError(
                f"the state in this checkpoint is of {saved['buckets']} buckets, and here there "
                f"are {self.buckets}. Hint: buckets={saved['buckets']} goes on with it, {ANEW}."
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
    readers: tuple[Reader, ...]
    written: pa.Schema
    kept: Kept

    def __call__(self, saved: bytes | None, received: Received) -> tuple[bytes, dict[str, Any]]:
        """Return the new state; and what is final by a micro-batch, with the CTIs around it."""
        run = StreamRun(self.plan, self.readers, self.written, self.kept)
        if saved is not None:
            run.load(saved)
        before = run.cti
        data = run.take(received)
        return run.save(), {"data": [data], BEFORE: [before], AFTER: [run.cti]}


class StreamRun:
    """The steps of a query over one bucket, from one micro-batch to the next.

    The rows of a micro-batch are in no order and need none: they come before its CTI, the highest
    of those among them, as a run of rows that was cut there. What they break is the CTI of an
    earlier micro-batch.
    """

    def __init__(
        self, plan: Node, readers: tuple[Reader, ...], written: pa.Schema, kept: Kept
    ) -> None:
        self._results = Results(plan, written)
        self._readers = readers
        self._written = written
        self._ctis = {reader.number: MIN_TIME for reader in readers}
        self._kept = kept

    @property
    def cti(self) -> int:
        """The promise after what has come out; ``MIN_TIME``, which promises nothing, at first."""
        return self._results.cti

    def take(self, received: Received) -> bytes:
        """Take a micro-batch of this bucket's rows; return the results as an Arrow stream.

        It is of no bytes where there are none.
        """
        chunks: dict[int, list[tuple[int, bytes]]] = {n: [] for n in self._ctis}
        for number, cti, data in received:
            chunks[number].append((cti, data))
        made: list[pa.RecordBatch] = []
        for reader in self._readers:
            mine = chunks[reader.number]
            if mine:
                made += self._taken(reader, [as_frame(data) for _, data in mine], max(mine)[0])
        return _stream(made, self._written) if made else b""

    def _taken(
        self, reader: Reader, rows: list[pl.DataFrame], cti: int
    ) -> Iterator[pa.RecordBatch]:
        before = self._ctis[reader.number]
        batch = reader.batch(pl.concat(rows), before if cti == MIN_TIME else cti)
        try:
            batch.check(before)
        except Exception as error:
            raise blame(error, f"of {reader.name}") from error.__cause__
        self._ctis[reader.number] = batch.cti
        yield from self._results.push(reader.name, batch)

    @property
    def rows(self) -> int:
        """How many rows are held."""
        return self._results.steps.rows + self._results.shape.rows

    def save(self) -> bytes:
        """Return what is held."""
        # by name: in which order inputs are given, and so their numbers, is no part of a query
        ctis = {reader.name: self._ctis[reader.number] for reader in self._readers}
        reached = {"ctis": ctis, "cti": self.cti}
        header = json.dumps({**self._kept.told(), **reached}).encode()
        parts = [*self._results.steps.save(), self._results.shape.save()]
        return _HEAD.pack(_MAGIC, _VERSION, len(header)) + header + joined(parts)

    def load(self, data: bytes) -> None:
        """Go on from what ``save`` of the same query returned."""
        header, parts = _parts(data)
        self._kept.expect(header)
        *steps, shape = parts
        self._results.steps.load(steps)
        self._results.shape.load(shape)
        self._ctis = {reader.number: header["ctis"][reader.name] for reader in self._readers}
        # checkpoints of earlier releases do not have it: then it comes with the next micro-batch
        self._results.cti = header.get("cti", MIN_TIME)


def _parts(data: bytes) -> tuple[Any, list[bytes]]:
    magic, version, length = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != _VERSION:
        raise CheckpointError(
            f"the state in this checkpoint is of version {version}, and this release knows version "
            f"{_VERSION}. Hint: go on with the release that saved it, {ANEW}."
        )
    at = _HEAD.size + length
    header = json.loads(data[_HEAD.size : at])
    return header, parted(data[at:])


def _stream(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    import pyarrow as pa

    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = buffer.getvalue().to_pybytes()
    return data
