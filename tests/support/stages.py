"""A run over streaming frames without Spark: what its workers do, a micro-batch at a time.

Rows go to buckets by a hash of their own, buckets move between workers that may fail, and what the
buckets make comes together in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
from bucket_store import ShakyBucket

from rxtemporal.core.batch import END, START
from rxtemporal.operators.partition import find_partition
from rxtemporal.run.stepper import Stepwise
from rxtemporal.spark.query.columns import BUCKET, CTI, ENDS, INPUT, STARTS, field
from rxtemporal.spark.query.cti_column import MicroBatchCti
from rxtemporal.spark.query.job import Query, compose_plan
from rxtemporal.spark.query.packing import BucketPacker
from rxtemporal.spark.query.reader import InputReader
from rxtemporal.spark.query.streaming import BucketWork, QueryFingerprint

TIMES = {START: pl.Int64, END: pl.Int64, "cti": pl.Int64}


class Stage:
    """A query over one stream of these fields, in buckets; the rows have the columns of ``TIMES``.

    ``out`` are its result's columns, CTIs among them, in the same form.
    """

    def __init__(self, query: Query, schema: Mapping[str, Any], buckets: int, random: Random):
        plan = compose_plan(lambda rows: query(rows), {"rows": pl.Schema(schema)})
        split = find_partition(plan)
        source = next(node for node in plan.list_nodes() if node.source is not None)
        self.schema, self.split_by = pl.Schema(schema), split.get_fields(source)
        self.buckets = 1 if split.reason is not None else buckets
        self.out = pl.Schema({**(plan.schema or {}), "cti": pl.Int64})
        fields = {f"f{i}": dtype for i, dtype in enumerate((plan.schema or {}).values())}
        written = _arrow(pl.DataFrame(schema={"s": pl.Int64, "e": pl.Int64, **fields})).schema
        kept = QueryFingerprint(Stepwise(plan).fingerprints, {}, self.buckets)
        work = BucketWork(plan, (InputReader("rows", 0, self.schema),), written, kept)
        self._buckets = [ShakyBucket(work, random) for _ in range(self.buckets)]
        self.gathered = MicroBatchCti(written.append(pa.field("c", pa.int64())), self.buckets)
        self.random = random

    def take(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return what is final by a micro-batch, and the CTI after it if time has advanced."""
        packed = [row for batch in BucketPacker(0, self.buckets)(self._carried(rows))
                  for row in batch.to_pylist()]  # fmt: skip
        made = []
        for bucket in {row["bucket"] for row in packed}:
            mine = [(r["input"], r["cti"], r["data"]) for r in packed if r["bucket"] == bucket]
            made.append(pa.record_batch(self._buckets[bucket].take(mine)))
        self.random.shuffle(made)
        tables = [pl.DataFrame(schema={**TIMES, **self.out})]
        for batch in self.gathered(iter(made)):
            found = pl.from_arrow(pa.Table.from_batches([batch]))
            named = dict(zip(found.columns, [START, END, *self.out], strict=True))
            tables.append(found.rename(named).select(tables[0].columns).cast(tables[0].schema))
        return pl.concat(tables)

    def _carried(self, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        keys = [rows[name] for name in self.split_by] or [rows[START].fill_null(rows["cti"])]
        frame = pl.DataFrame(
            {
                BUCKET: (pl.DataFrame(keys).hash_rows(seed=7) % self.buckets).cast(pl.Int32),
                INPUT: pl.Series([0] * rows.height, dtype=pl.Int32),
                STARTS: rows[START].fill_null(rows["cti"]),
                ENDS: rows[END],
                CTI: rows["cti"],
                **{field(0, i): rows[name] for i, name in enumerate(self.schema)},
            }
        )
        at = self.random.randrange(rows.height + 1)  # two tasks read it
        for part in (frame[:at], frame[at:]):
            yield from _arrow(part).to_batches()


def _arrow(frame: pl.DataFrame) -> pa.Table:
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())
