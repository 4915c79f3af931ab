"""A query over one bucket of streaming DataFrames, with its state between micro-batches.

This module does not import pyspark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dumps, load_frame, loads
from rxtemporal.errors import CheckpointError, blame
from rxtemporal.operators.fingerprint import refuse_changes
from rxtemporal.operators.plan import Node
from rxtemporal.spark.query.bounded_bucket import InputReader, PlanRun
from rxtemporal.spark.query.cti_column import AFTER, BEFORE
from rxtemporal.spark.query.packing import dump_batches

if TYPE_CHECKING:
    import pyarrow as pa

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
        before = self._ctis[reader.number]
        batch = reader.batch(pl.concat(rows), before if cti == MIN_TIME else cti)
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
        # by name: the order of the inputs, and so their numbers, is no part of a query
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
