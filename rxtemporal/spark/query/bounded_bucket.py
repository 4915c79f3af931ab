"""What runs in a Spark worker on bounded data: a door over one input, a query over one bucket.

Arrow in, Arrow out; knows nothing of pyspark. A bucket's rows come in order of start, so its time
advances with them and what is held stays small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rxtemporal.core.batch import EventBatch, time_column, time_series
from rxtemporal.core.events import EventShape
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.steps.shape import make_shape_step
from rxtemporal.errors import blame
from rxtemporal.ingress.door import Door
from rxtemporal.ingress.settings import AdvanceTimeSettings
from rxtemporal.operators.plan import Node
from rxtemporal.runtime.stepper import Stepwise
from rxtemporal.spark.query.columns import BUCKET, CTI, ENDS, INPUT, STARTS, field

if TYPE_CHECKING:
    import pyarrow as pa

# rows that are taken as one batch: what Spark sends are a few thousand
BATCH_ROWS = 65_536


@dataclasses.dataclass(frozen=True)
class Reader:
    """How an input's rows are read from the carrier."""

    name: str
    number: int
    schema: pl.Schema

    def batch(self, rows: pl.DataFrame, cti: int) -> EventBatch:
        """Return rows of this input as a batch; its CTIs have been taken out."""
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
            raise blame(error, f"of {self.name}") from error.__cause__


@dataclasses.dataclass(frozen=True)
class BucketRun:
    """One run of a plan over the rows of one bucket, in order of start.

    ``steady``: time advances with the rows. Otherwise nothing is final before the end, as in a
    frame that is read without advance-time settings. ``told``: the inputs that are final only as
    far as the CTIs among their rows say.
    """

    plan: Node
    readers: tuple[Reader, ...]
    written: pa.Schema
    steady: bool
    told: frozenset[int] = frozenset()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results, complete rows, for a bucket's rows."""
        yield from self.through(Results(self.plan, self.written), batches)

    def through(self, run: Results, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Push a bucket's rows through the steps, and yield the results."""
        # the end of each input's time, where that is not the end of time
        last = {r.number: MIN_TIME if r.number in self.told else MAX_TIME for r in self.readers}
        for rows in frames(batches):
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


class Results:
    """A plan run step by step, its results in interval shape and as Arrow.

    ``cti`` is the promise after what has come out: no later row starts before it.
    """

    def __init__(self, plan: Node, written: pa.Schema) -> None:
        self.steps = Stepwise(plan)
        self.shape = make_shape_step(EventShape.INTERVAL)
        self.cti = MIN_TIME
        self._written = written

    def push(self, name: str, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        """Take a batch of an input, and yield what is final by it."""
        for made in self.steps.push(name, batch):
            shaped = self.shape.on_batch(made)
            self.cti = max(self.cti, shaped.cti)
            if len(shaped):
                yield from self._arrow(shaped)

    def _arrow(self, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        columns = [
            time_series("s", batch.start, "ticks"),
            time_series("e", batch.end, "ticks", endless=True),
            *(c.alias(f"f{i}") for i, c in enumerate(batch.payload.get_columns())),
        ]
        table = pl.DataFrame(columns).to_arrow(compat_level=pl.CompatLevel.oldest())
        yield from table.rename_columns(self._written.names).cast(self._written).to_batches()


def admitted(door: Door, reader: Reader, rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that a door lets in, with the starts that they have from now on."""
    batch = reader.batch(rows, MIN_TIME)
    numbers = pl.DataFrame({"row": np.arange(len(batch))})
    going_on, _ = door.accept_batch(batch.replace(payload=numbers))
    kept = rows[going_on.payload["row"].to_numpy()]
    return kept.with_columns(pl.Series(STARTS, going_on.start, pl.Int64))


@dataclasses.dataclass(frozen=True)
class Judge:
    """The door of one input: its rows in order, the late ones dropped or adjusted.

    Its last CTI follows them into every bucket, if that is not the end of time.
    """

    reader: Reader
    settings: AdvanceTimeSettings
    buckets: int
    written: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows that are let in, with the starts that they have from now on."""
        door = Door(self.settings, self.reader.name)
        for rows in frames(batches):
            yield from self._arrow(admitted(door, self.reader, rows))
        if door.finish() < MAX_TIME:
            yield from self._arrow(self._ctis(door.finish()))

    def _ctis(self, cti: int) -> pl.DataFrame:
        everywhere = pl.Series(BUCKET, range(self.buckets), pl.Int32)
        said = {INPUT: self.reader.number, STARTS: cti, CTI: cti}
        return pl.DataFrame([everywhere]).with_columns(
            pl.lit(value).alias(name) for name, value in said.items()
        )

    def _arrow(self, rows: pl.DataFrame) -> Iterator[pa.RecordBatch]:
        missing = [name for name in self.written.names if name not in rows.columns]
        rows = rows.with_columns(pl.lit(None).alias(name) for name in missing)
        table = rows.select(self.written.names).to_arrow(compat_level=pl.CompatLevel.oldest())
        yield from table.cast(self.written).to_batches()


def frames(batches: Iterator[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of a good size."""

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
