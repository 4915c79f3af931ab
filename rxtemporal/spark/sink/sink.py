"""The sink that carries a query's results into Spark: exactly once, or as soon as can be."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME, describe
from rxtemporal.engine.codec import dumps, loads
from rxtemporal.errors import ArgumentError, BindingError, CheckpointError, SpoolError
from rxtemporal.sinks import Sink
from rxtemporal.spark.sink.direct import Direct
from rxtemporal.spark.sink.options import (
    check_mode,
    check_names,
    check_pace,
    check_room,
    check_session,
    check_target,
)
from rxtemporal.spark.sink.settled_rows import Settling, settling
from rxtemporal.spark.sink.spooled import Spooled
from rxtemporal.spark.sink.worker import Job
from rxtemporal.spark.targets.target import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class SparkSinkStats:
    """What a sink has done since it was opened."""

    segments: int
    rows: int
    rows_known: int
    """Rows that a run before had written already, and that were therefore left out."""
    micro_batches: int
    start_seconds: float
    batch_seconds: float
    restarts: int = 0
    """How many times Spark was started anew."""
    last_error: str | None = None
    """What ended Spark the last time; None if nothing did."""


class SparkSink(Sink):
    """Carries a query's rows into ``target`` by way of Spark.

    ``target`` is a ``ParquetTable``, a ``DatabaseTable``, a ``Console``, or a function
    ``(df, batch_id)`` that Spark calls for each micro-batch, once or, after a failure, again.
    ``df`` has ``start_time`` and ``end_time`` (timestamps; null: never ends), the payload's fields,
    and ``_segment``. Exactly once needs ``_segment``, not ``batch_id``: after a lost checkpoint the
    segments are grouped anew. Execute ``df`` even if there is nothing to do. ``cti(batch_id)``
    tells what is complete.

    ``shape``: *interval* (a row comes when it is complete), *point* (when it begins), or *edge*
    (a row comes when it begins, with a null end and ``_state`` = ``'open'``, and again when it
    ends, ``'closed'``; ``_edge`` is its number, the key to update by). In each of them a row comes
    when the CTI has passed its start, and its end when the CTI has passed that.

    ``mode="spooled"`` writes into a spool on disk first: exactly once. Spark runs in a child
    process, or in this one for a function, a ``Console`` and a ``session`` that is given; where it
    dies it is started again, after a pause that grows, and meanwhile rows wait in the spool.
    ``mode="direct"`` hands rows over in memory, for the lowest latency: it is neither durable nor
    supervised, and an error of Spark's ends the query.

    ``path`` is a folder that belongs to this query alone, for its spool and Spark's checkpoint.
    After a crash, run the same query over the same source with the same ``path``: what has been
    written is recognised by its CTI and left out, the rest goes on. That needs a source that
    gives the same events again, in the same order. In edge shape one that gives only a part of
    them again is refused, for rows are updated by their number. On a cluster ``path`` has to be on
    storage that driver and executors share, and this package installed on both.

    ``trigger`` is the pause between micro-batches (``"0 seconds"``: none), and their size is
    ``max_segments_per_batch``; ``session`` is a Spark session that is there already, or settings
    for one of the sink's own. ``spool_limit`` is how many bytes may wait for Spark, up to the last
    segment; when they do, or the disk is full, ``when_full`` says whether ``write`` waits
    (``"block"``) or raises a ``SpoolError``, which ends the query (``"refuse"``).

    >>> sink = SparkSink(print, path="late_flights")
    >>> sink.stats().rows
    0
    """

    def __init__(
        self,
        target: Target | Callable[[DataFrame, int], Any],
        *,
        path: str | os.PathLike[str],
        mode: Literal["spooled", "direct"] = "spooled",
        shape: EventShape = EventShape.INTERVAL,
        session: SparkSession | Mapping[str, Any] | None = None,
        trigger: str = "1 second",
        max_segments_per_batch: int = 256,
        spool_limit: int | None = None,
        when_full: Literal["block", "refuse"] = "refuse",
    ) -> None:
        check_target(target, shape)
        check_mode(mode)
        check_session(session)
        check_pace(trigger, max_segments_per_batch)
        check_room(spool_limit, when_full)
        self.shape = shape
        place = Path(path).absolute()
        self._job = Job(place, target, "", pl.Schema(), session, trigger, max_segments_per_batch)
        self._mode = mode
        self._limit, self._when_full = spool_limit, when_full
        self._way: Spooled | Direct | None = None
        self._settling: Settling | None = None
        self._is_open = False
        self._broken: BaseException | None = None
        self._rows = 0
        self._state: tuple[int, bytes] | None = None

    def open(self, name: str, schema: pl.Schema) -> None:
        """Take up the spool of this query, undo what was half done, start Spark behind the scenes.

        ``SpoolError``: the path is in use, damaged, not writable, or belongs to another query or
        schema. ``SchemaError``: names that Spark, which ignores case, cannot tell apart. That
        Spark does not start is said by the next ``write`` or by ``close``.
        """
        if self._way is not None:
            raise BindingError("a sink is opened once. Hint: make one SparkSink for each run.")
        check_names(schema, self.shape)
        carried = settling(self.shape, schema, MIN_TIME).schema
        job = dataclasses.replace(self._job, query=name, schema=carried)
        if self._mode == "direct":
            self._way = Direct(job)
        else:
            self._way = Spooled(job, self.shape, self._limit, self._when_full)
        self._settling = settling(self.shape, schema, self._way.reached, self._way.begun)
        self._is_open = True
        if self._state is not None:
            self._go_on(*self._state)

    def write(self, batch: EventBatch) -> None:
        """Take a batch: what of it is settled and new goes into the spool, and is on disk then.

        A batch without new rows costs nothing: the next segment's CTI covers it. What has stopped
        Spark for good is raised here, after the rows are safe. What is raised ends the run: a later
        batch would be taken for all that is missing.
        """
        way, rows = self._opened()
        if self._broken is not None:
            raise self._broken
        try:
            fresh = rows.on_batch(batch)
            way.write(fresh)
        except BaseException as error:
            self._broken = error
            raise
        self._rows += len(fresh)

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target (without ``error``), stop the Spark query.

        With an error Spark is stopped where it is; the spool keeps the rest for the next run.
        """
        if not self._is_open:
            return
        way, _ = self._opened()
        self._is_open = False
        way.close(error or self._broken)
        if error is None and self._broken is not None:
            raise self._broken
        stats = dataclasses.asdict(self.stats())
        log.info("spark_sink.closed", error=error and repr(error), **stats)

    def save(self) -> bytes:
        """Return what has not been written because its time has not come; of a run that is kept."""
        if self._way is None or self._settling is None:
            return b""
        return dumps("sink", [self._way.reached, self._settling.save()])

    def load(self, state: bytes) -> None:
        """Have ``open`` go on from what ``save`` returned: what was written later is left out."""
        reached, held = loads("sink", state)
        self._state = reached, held

    def _go_on(self, reached: int, held: bytes) -> None:
        assert self._way is not None
        assert self._settling is not None
        if self._mode == "spooled" and self._way.reached < reached:
            self.close(SpoolError("the sink lacks rows"))
            raise CheckpointError(
                f"the run goes on from a state by which all before {describe(reached)} had been "
                f"written into {self._job.path}, and there all before "
                f"{describe(self._way.reached)} is. Hint: give the sink the folder that it had, or "
                "begin with new ones."
            )
        self._settling.load(held)

    def cancel(self, error: BaseException) -> None:
        """Have a ``write`` or ``close`` that waits for Spark raise this error; from any thread."""
        if self._way is not None:
            self._way.runs.cancel(error)

    def in_callback(self) -> bool:
        """Return True if the target is being called in this thread."""
        return self._way is not None and self._way.runs.in_callback()

    def cti(self, batch_id: int) -> int:
        """Return the CTI reached with a micro-batch: all rows that start before it have come.

        For the batches of this run, and for those of earlier ones whose segments are still there.
        """
        try:
            if self._way is not None:
                return self._way.cti(batch_id)
        except SpoolError as error:
            cause: SpoolError | None = error
        else:
            cause = None
        raise ArgumentError(
            f"nothing is known of micro-batch {batch_id!r}: it was not of this run. "
            "Hint: ask inside the function that gets it."
        ) from cause

    def stats(self) -> SparkSinkStats:
        """Return what was done since the sink was opened; from any thread."""
        way, rows = self._way, self._settling
        if way is None or rows is None:
            return SparkSinkStats(0, 0, 0, 0, 0.0, 0.0)
        runs = way.runs
        return SparkSinkStats(
            segments=way.segments,
            rows=self._rows,
            rows_known=rows.known,
            micro_batches=runs.batches,
            start_seconds=runs.start_seconds,
            batch_seconds=runs.batch_seconds,
            restarts=runs.restarts,
            last_error=runs.last_error,
        )

    def _opened(self) -> tuple[Spooled | Direct, Settling]:
        if self._way is None or self._settling is None or not self._is_open:
            raise BindingError(
                "this sink is not open. Hint: give it to run(), which opens, writes and closes it."
            )
        return self._way, self._settling
