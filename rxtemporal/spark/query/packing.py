"""Rows on their way to a bucket, packed: a few rows of bytes instead of many rows of fields.

====== ====== ====================================================================================
bucket int    the bucket
input  int    the number of the input
cti    long   the highest CTI that came with these rows; ``MIN_TIME``, which promises nothing
data   binary the rows of this bucket as an Arrow stream; empty if there are none
====== ====== ====================================================================================

Stateful operators take and return Python objects, one for each value, or pandas, which turns
integers with nulls into floats and has no timestamps for the ends of time; bytes pass unchanged.

Every bucket gets a row for each batch of rows, so that all of them have the time, and a state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import polars as pl

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import dump_frame
from rxtemporal.spark.query.bounded_bucket import read_frames
from rxtemporal.spark.query.columns import BUCKET, CTI, INPUT

if TYPE_CHECKING:
    import pyarrow as pa

PACKED = "bucket int, input int, cti bigint, data binary"
_TYPES = {"bucket": pl.Int32, "input": pl.Int32, "cti": pl.Int64, "data": pl.Binary}


def pack_buckets(number: int, rows: pl.DataFrame, cti: int, buckets: int) -> pl.DataFrame:
    """Return the rows of one input, packed: one row for each bucket."""
    parts = rows.partition_by(BUCKET, as_dict=True, include_key=False)
    found = [parts.get((bucket,)) for bucket in range(buckets)]
    data = [b"" if part is None else dump_frame(part) for part in found]
    return pl.DataFrame([range(buckets), [number] * buckets, [cti] * buckets, data], schema=_TYPES)


@dataclasses.dataclass(frozen=True)
class BucketPacker:
    """Packer of one input's rows; CTIs among them go to every bucket.

    ``whole``: the rows stay together, for a door that has to see all of them.
    """

    number: int
    buckets: int
    whole: bool = False

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packed rows."""
        for rows in read_frames(batches):
            ctis = rows[CTI].drop_nulls()
            cti = MIN_TIME if ctis.is_empty() else int(ctis.max())  # type: ignore[arg-type]
            events = rows.filter(pl.col(CTI).is_null()).drop(CTI, INPUT)
            if self.whole:
                whole = [[0], [self.number], [cti], [dump_frame(events)]]
                packed = pl.DataFrame(whole, schema=_TYPES)
            else:
                packed = pack_buckets(self.number, events, cti, self.buckets)
            yield from packed.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the results that the first column holds as Arrow streams."""
    import pyarrow as pa

    for batch in batches:
        for data in batch.column(0):
            if not data.as_buffer().size:
                continue  # a bucket without results
            with pa.ipc.open_stream(data.as_buffer()) as stream:
                yield from stream


def dump_batches(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Return record batches as one Arrow stream."""
    import pyarrow as pa

    buffer = pa.BufferOutputStream()
    with pa.ipc.new_stream(buffer, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = buffer.getvalue().to_pybytes()
    return data
