"""Work of a Spark task on bounded data: a door over one input, a query over one bucket.

Arrow in, Arrow out, without pyspark. A bucket's rows come in order of start, so its time advances
with them and its state stays small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.columns import time_series
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.operators.plan import Node
from rxtemporal.run.stepper import Stepwise
from rxtemporal.spark.query.columns import BUCKET, CTI, ENDS, INPUT, STARTS
from rxtemporal.spark.query.reader import InputReader

if TYPE_CHECKING:
    import pyarrow as pa

    from rxtemporal.ingress.clock_settings import ClockSettings
    from rxtemporal.operators.synchronize.plan import Synchronize

# rows of one batch; Spark sends a few thousand at a time
BATCH_ROWS = 65_536


@dataclasses.dataclass(frozen=True)
class BucketRun:
    """One run of a plan over the rows of one bucket, in order of start.

    ``steady``: time advances with the rows. Otherwise nothing is final before the end, as in a
    frame without advance-time settings. ``with_ctis`` are the inputs that have CTIs among their
    rows and are final only up to the last of them, or up to those of their devices.
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
        clocked = [reader for reader in self.readers if reader.clock]
        told: dict[int, list[pl.DataFrame]] = {reader.number: [] for reader in clocked}
        for rows in map(self._complete, read_frames(batches)):
            is_cti = rows[CTI].is_not_null()
            for reader in clocked:
                told[reader.number].append(rows.filter(is_cti, pl.col(INPUT) == reader.number))
            # they come in their order, as rows do
            for_all = ~pl.col(INPUT).is_in([*told])
            last |= dict(rows.filter(is_cti, for_all).select(INPUT, CTI).iter_rows())
            reached = int(rows[STARTS].max() or MIN_TIME) if self.steady else MIN_TIME  # type: ignore[arg-type]
            rows = rows.filter(~is_cti)
            for reader in self.readers:
                mine = rows.filter(pl.col(INPUT) == reader.number)
                batch = reader.batch(mine, min(reached, last[reader.number]))
                yield from run.push(reader.name, batch)
        for reader in self.readers:
            empty = EventBatch.empty(reader.schema, last[reader.number])
            if clocks := told.get(reader.number):
                empty = empty.replace(clocks=reader.read_clocks(pl.concat(clocks)))
            yield from run.push(reader.name, empty)
        yield from run.complete()

    def _complete(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return rows with the columns that Spark does not send, since they are alike in all."""
        alike = {
            INPUT: pl.lit(self.readers[0].number, pl.Int32),
            ENDS: pl.col(STARTS) + TICK,
            CTI: pl.lit(None, pl.Int64),
        }
        missing = {name: value for name, value in alike.items() if name not in rows.columns}
        return rows.with_columns(**missing)


class PlanRun:
    """Run of a plan step by step, with results in interval shape, as Arrow.

    ``cti`` is the CTI after the results so far: no later row starts before it. Where each device
    has its own time there is none, and lanes give results their shape.
    """

    def __init__(self, plan: Node, written: pa.Schema) -> None:
        self._in_lanes = plan.clock is not None
        make = partial(make_shape_step, EventShape.INTERVAL, by_device=self._in_lanes)
        self.steps = Stepwise(plan, lambda first: make())
        self.shape = make()
        self.cti = MIN_TIME
        self._written = written

    def resume(self, cti: int) -> None:
        """Go on from the CTI after earlier results."""
        self.cti = cti

    def push(self, name: str, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        """Push a batch of an input, and yield final results."""
        yield from self._shape(self.steps.push(name, batch))

    def complete(self) -> Iterator[pa.RecordBatch]:
        """End all inputs, and yield what is final by the times of the devices."""
        yield from self._shape(self.steps.complete())

    def _shape(self, results: list[EventBatch]) -> Iterator[pa.RecordBatch]:
        for result in results:
            shaped = result if self._in_lanes else self.shape.on_batch(result)
            self.cti = self.cti if self._in_lanes else max(self.cti, shaped.cti)
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

    Its last CTI follows them to every bucket, unless it is the end of time; that of a device to the
    bucket of its rows.
    """

    reader: InputReader
    settings: AdvanceTimeSettings
    buckets: int
    written: pa.Schema
    clock: ClockSettings | None = None
    synchronized: Synchronize | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the accepted rows, with their adjusted starts."""
        if self.clock is not None:
            yield from self._judge_by_device(self.clock, batches)
            return
        door = Door(self.settings, self.reader.name)
        for rows in read_frames(batches):
            yield from self._to_arrow(admit_rows(door, self.reader, rows))
        if door.finish() < MAX_TIME:
            yield from self._to_arrow(self._ctis(door.finish()))

    def _judge_by_device(
        self, clock: ClockSettings, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        from rxtemporal.spark.query.device_door import DeviceDoor

        door = DeviceDoor(self.reader, self.settings, clock, self.synchronized)
        for rows in read_frames(batches):
            admitted = door.admit(rows)
            if CTI in admitted:  # told at the end
                admitted = admitted.filter(pl.col(CTI).is_null())
            yield from self._to_arrow(admitted)
        last = door.finish()
        if last is not None and self.synchronized is not None:
            yield from self._to_arrow(self._ctis(door.cti))
        elif last is not None:
            number = pl.lit(self.reader.number, pl.Int32).alias(INPUT)
            yield from self._to_arrow(last.with_columns(number))

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
