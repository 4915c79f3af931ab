"""Work of a Spark task on bounded data: a door over one input, a query over one bucket.

Arrow in, Arrow out, without pyspark. A bucket's rows come in order of start, so its time advances
with them and its state stays small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import time_column, time_series
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.errors import blame
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.operators.plan import Node
from rxtemporal.run.stepper import Stepwise
from rxtemporal.spark.query.columns import BUCKET, CTI, ENDS, INPUT, STARTS, field

if TYPE_CHECKING:
    import pyarrow as pa

# rows of one batch; Spark sends a few thousand at a time
BATCH_ROWS = 65_536


@dataclasses.dataclass(frozen=True)
class InputReader:
    """Reader of one input's rows from the DataFrame of all inputs."""

    name: str
    number: int
    schema: pl.Schema

    def batch(self, rows: pl.DataFrame, cti: int) -> EventBatch:
        """Return rows of this input, without its CTIs, as a batch."""
        fields = {field(self.number, i): name for i, name in enumerate(self.schema)}
        payload = rows.select(pl.col(old).alias(new) for old, new in fields.items())
        if not fields:
            payload = pl.DataFrame(height=rows.height)
        try:
            starts = time_column(rows[STARTS].alias("start"))
            ends = time_column(rows[ENDS].alias("end"), null=MAX_TIME)
            batch = EventBatch.of_rows(starts, ends, payload.cast(dict(self.schema)), cti)  # type: ignore[arg-type]
            return batch.check()
        except Exception as error:
            blamed = blame(error, f"of {self.name}")
            raise blamed from blamed.__cause__


@dataclasses.dataclass(frozen=True)
class BucketRun:
    """One run of a plan over the rows of one bucket, in order of start.

    ``steady``: time advances with the rows. Otherwise nothing is final before the end, as in a
    frame without advance-time settings. ``with_ctis`` are the inputs that have CTIs among their
    rows and are final only up to the last of them.
    """

    plan: Node
    readers: tuple[InputReader, ...]
    written: pa.Schema
    steady: bool
    with_ctis: frozenset[int] = frozenset()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results, complete rows, for a bucket's rows."""
        yield from self.push_rows(PlanRun(self.plan, self.written), batches)

    def push_rows(
        self, run: PlanRun, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        """Push a bucket's rows through a plan, and yield the results."""
        # the end of each input's time, where that is not the end of time
        last = {
            r.number: MIN_TIME if r.number in self.with_ctis else MAX_TIME for r in self.readers
        }
        for rows in read_frames(batches):
            is_cti = rows[CTI].is_not_null()
            # they come in their order, as rows do
            last |= dict(rows.filter(is_cti).select(INPUT, CTI).iter_rows())
            reached = int(rows[STARTS].max() or MIN_TIME) if self.steady else MIN_TIME  # type: ignore[arg-type]
            rows = rows.filter(~is_cti)
            for reader in self.readers:
                mine = rows.filter(pl.col(INPUT) == reader.number)
                batch = reader.batch(mine, min(reached, last[reader.number]))
                yield from run.push(reader.name, batch)
        for reader in self.readers:
            empty = EventBatch.empty(reader.schema, last[reader.number])
            yield from run.push(reader.name, empty)


class PlanRun:
    """Run of a plan step by step, with results in interval shape, as Arrow.

    ``cti`` is the CTI after the results so far: no later row starts before it.
    """

    def __init__(self, plan: Node, written: pa.Schema) -> None:
        self.steps = Stepwise(plan)
        self.shape = make_shape_step(EventShape.INTERVAL)
        self.cti = MIN_TIME
        self._written = written

    def push(self, name: str, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        """Push a batch of an input, and yield final results."""
        for result in self.steps.push(name, batch):
            shaped = self.shape.on_batch(result)
            self.cti = max(self.cti, shaped.cti)
            if len(shaped):
                yield from self._to_arrow(shaped)

    def _to_arrow(self, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        columns = [
            time_series("s", batch.start, "ticks"),
            time_series("e", batch.end, "ticks", endless=True),
            *(c.alias(f"f{i}") for i, c in enumerate(batch.payload.get_columns())),
        ]
        table = pl.DataFrame(columns).to_arrow(compat_level=pl.CompatLevel.oldest())
        yield from table.rename_columns(self._written.names).cast(self._written).to_batches()


def admit_rows(door: Door, reader: InputReader, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that a door accepts, with their adjusted starts."""
    batch = reader.batch(rows, MIN_TIME)
    numbers = pl.DataFrame({"row": np.arange(len(batch))})
    accepted, _ = door.accept_batch(batch.replace(payload=numbers))
    rows = rows[accepted.payload["row"].to_numpy()]
    return rows.with_columns(pl.Series(STARTS, accepted.start, pl.Int64))


@dataclasses.dataclass(frozen=True)
class BoundedDoor:
    """Door over one input: its rows in order, late ones dropped or adjusted.

    Its last CTI follows them to every bucket, unless it is the end of time.
    """

    reader: InputReader
    settings: AdvanceTimeSettings
    buckets: int
    written: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the accepted rows, with their adjusted starts."""
        door = Door(self.settings, self.reader.name)
        for rows in read_frames(batches):
            yield from self._to_arrow(admit_rows(door, self.reader, rows))
        if door.finish() < MAX_TIME:
            yield from self._to_arrow(self._ctis(door.finish()))

    def _ctis(self, cti: int) -> pl.DataFrame:
        buckets = pl.Series(BUCKET, range(self.buckets), pl.Int32)
        values = {INPUT: self.reader.number, STARTS: cti, CTI: cti}
        return pl.DataFrame([buckets]).with_columns(
            pl.lit(value).alias(name) for name, value in values.items()
        )

    def _to_arrow(self, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        missing = [name for name in self.written.names if name not in rows.columns]
        rows = rows.with_columns(pl.lit(None).alias(name) for name in missing)
        table = rows.select(self.written.names).to_arrow(compat_level=pl.CompatLevel.oldest())
        yield from table.cast(self.written).to_batches()


def read_frames(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of about ``BATCH_ROWS``."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= BATCH_ROWS:
            yield _frame(waiting)
            waiting = []
    if waiting:
        yield _frame(waiting)


def _frame(batches: list[pa.RecordBatch]) -> pl.DataFrame:
    import pyarrow as pa

    frame = pl.from_arrow(pa.Table.from_batches(batches))
    assert isinstance(frame, pl.DataFrame)
    return frame
