"""A query over one bucket of streaming DataFrames: what it keeps from one micro-batch to the next.

Knows nothing of pyspark.
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
from rxtemporal.spark.query.bounded_bucket import Reader, Results
from rxtemporal.spark.query.cti_column import AFTER, BEFORE
from rxtemporal.spark.query.packing import dump_batches

if TYPE_CHECKING:
    import pyarrow as pa

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
                made += self._taken(reader, [load_frame(data) for _, data in mine], max(mine)[0])
        return dump_batches(made, self._written) if made else b""

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
        held = {"held": self._results.steps.save(), "shape": self._results.shape.save()}
        return dumps("bucket", {**self._kept.told(), **reached, **held})

    def load(self, data: bytes) -> None:
        """Go on from what ``save`` of the same query returned."""
        saved = loads("bucket", data, "the state in this checkpoint", ANEW)
        self._kept.expect(saved)
        self._results.steps.load(saved["held"])
        self._results.shape.load(saved["shape"])
        self._ctis = {reader.number: saved["ctis"][reader.name] for reader in self._readers}
        self._results.cti = saved["cti"]
