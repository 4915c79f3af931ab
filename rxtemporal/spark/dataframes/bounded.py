"""A DataFrame as a stream on the Rx side, read in order and a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import START
from rxtemporal.core.time_forms import Unit
from rxtemporal.engine.codec import load_frame
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError
from rxtemporal.ingress.settings import AdvanceTime, AdvanceTimeSettings, read_advance_time
from rxtemporal.ingress.sources import FrameSource
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable
from rxtemporal.spark.dataframes.streaming import AGAIN, AVAILABLE, MicroBatches
from rxtemporal.spark.jvm.liveness import report_java_exit
from rxtemporal.spark.query.inputs import DataFrameInput, stream
from rxtemporal.spark.query.packing import dump_batches
from rxtemporal.spark.schema import quote_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

BATCH_ROWS = 65_536
_DATA = "data"


def from_dataframe(
    frame: DataFrame,
    *,
    start: str = START,
    end: str | None = None,
    advance_time: AdvanceTime | None = None,
    order_by: str | Sequence[str] = (),
    cti: str | None = None,
    batch_rows: int = BATCH_ROWS,
    name: str = "dataframe",
    trigger: str | None = None,
    unit: Unit | None = None,
) -> Streamable:
    """Make a stream of a DataFrame's rows, in order of start, or of other columns.

    Columns are read as ``stream`` reads them, numbers of a ``unit`` too; those in ``order_by`` are
    no part of the payload. Otherwise as ``from_polars``: ``advance_time`` judges rows in the order
    in which they come, and without it everything is final at the end. Each run has Spark sort the
    rows, and fetches them as Arrow, ``batch_rows`` at a time: this process holds a sorted partition
    or two of them, and never all.

    A streaming DataFrame is read micro-batch by micro-batch, each as a whole and in order. Since
    it has no end, it needs ``advance_time``, or a column ``cti``, which ``stream`` describes and
    ``run(…, cti=…)`` adds. Results that its last CTI does not make final are not delivered, and a
    row that breaks a CTI ends the run. ``trigger`` is the pause between micro-batches
    (``"1 second"``), or ``"availableNow"``: then the stream completes when all available rows have
    been read. Each run has its own Spark query, which ends with it; it starts at the beginning, or
    with ``run(…, resume=folder)`` where the previous run stopped. Batches are pushed on one of
    Spark's threads.
    """
    settings = read_advance_time(advance_time)
    judged: dict[str, Any] = {"advance_time": settings, "order_by": order_by}
    options = {} if cti is None else judged
    given = stream(frame, start=start, end=end, cti=cti, unit=unit, **options)
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    if order:  # the same checks, of the columns as well
        given = DataFrameInput(given.frame, given.start, given.end, settings, order)
        frame.select(*map(quote_name, order))
    if batch_rows < 1:
        raise ArgumentError(f"batch_rows must be positive, got {batch_rows}")
    times = [given.start] if given.end is None else [given.start, given.end]
    kind = pl.Int64() if given.ticks else pl.Datetime("us", "UTC")
    schema = pl.Schema({**dict.fromkeys(times, kind), **given.schema})
    if cti is not None and not frame.isStreaming:
        raise AdvanceTimeError(
            f"a bounded DataFrame is final as a whole here, so it accepts no CTIs ({cti!r}). "
            "Hint: run(query, …=stream(df, cti=…)) reads them; or leave out the rows that are CTIs."
        )
    if frame.isStreaming:
        source = _make_micro_batches(given, schema, settings, name, batch_rows, trigger)
        return Streamable(Node(source.schema, (), source=source))
    if trigger is not None:
        raise ArgumentError(
            f"trigger= is for a streaming DataFrame, but this one is bounded; got {trigger!r}"
        )

    def frames() -> Iterator[pl.DataFrame]:
        yield from _fetch(given, [*times, *given.schema], schema, batch_rows)

    read = FrameSource(
        frames, schema, start=given.start, end=given.end, settings=settings, name=name
    )
    return Streamable(Node(read.schema, (), source=read))


def _make_micro_batches(
    given: DataFrameInput,
    schema: pl.Schema,
    settings: AdvanceTimeSettings | None,
    name: str,
    batch_rows: int,
    trigger: str | None,
) -> MicroBatches:
    trigger = "1 second" if trigger is None else trigger
    if not isinstance(trigger, str) or not trigger.strip():
        raise ArgumentError(
            f"trigger is an interval such as '1 second', or '{AVAILABLE}', got {trigger!r}"
        )
    if settings is None and given.cti is None:
        raise AdvanceTimeError(
            f"time does not advance on {name!r}, so no result would ever be final. "
            "Hint: advance_time=… generates CTIs from the rows, in the order of order_by=; or "
            "cti=… names a column of CTIs."
        )
    if type(given.frame).__module__.startswith("pyspark.sql.connect"):
        raise BindingError(
            "a streaming DataFrame of Spark Connect runs its functions on another machine, where "
            "they cannot reach this process. Hint: use a classic session."
        )
    return MicroBatches(given, schema, settings, name, batch_rows=batch_rows, trigger=trigger)


def _fetch(
    given: DataFrameInput, columns: list[str], schema: pl.Schema, batch_rows: int
) -> Iterator[pl.DataFrame]:
    """Yield the rows in order, as frames; a partition is fetched when the one before is used up."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _in_frames(batches, batch_rows)

    with report_java_exit(AGAIN):
        rows = given.frame.orderBy(*map(quote_name, given.in_order))
        rows = rows.select(*map(quote_name, columns))
        # Spark's local iterator yields single rows, so each row here is a whole frame
        packed = rows.mapInArrow(pack, f"{_DATA} binary")
        for row in packed.toLocalIterator(prefetchPartitions=True):
            frame = load_frame(bytes(row[_DATA]))
            yield frame.rename(dict(zip(frame.columns, columns, strict=True))).cast(dict(schema))  # type: ignore[arg-type]


def _in_frames(batches: Iterator[pa.RecordBatch], batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield rows of one binary column, each an Arrow stream of up to ``batch_rows`` rows."""

    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(each.num_rows for each in waiting) >= batch_rows:
            yield _as_row(waiting)
            waiting = []
    if waiting:
        yield _as_row(waiting)


def _as_row(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    data = pa.array([dump_batches(batches, batches[0].schema)], pa.binary())
    return pa.RecordBatch.from_arrays([data], [_DATA])
