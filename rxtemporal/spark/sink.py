"""The sink that carries a query's results into Spark, exactly once."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.batch import END, START, EventBatch
from rxtemporal.errors import ArgumentError, BindingError, EventError, SchemaError, SpoolError
from rxtemporal.events import EventShape
from rxtemporal.log import get_logger
from rxtemporal.segments import SEGMENT, Spool
from rxtemporal.spark.checkpoint import committed_segment, last_segment
from rxtemporal.spark.runner import Runner, Settings
from rxtemporal.spark.tables import Origin, ParquetTable, writer_for
from rxtemporal.ticks import MAX_TIME, MIN_TIME, describe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkSink", "SparkSinkStats"]

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


class SparkSink:
    """Writes a query's rows into a durable spool, which Spark carries on into ``target``.

    ``target`` is a ``ParquetTable``, or a function ``(df, batch_id)`` that Spark calls for each
    micro-batch, once or, after a failure, again. ``df`` has ``start_time`` and ``end_time``
    (timestamps; null: never ends), the payload's fields, and ``_segment``. Exactly once needs
    ``_segment``, not ``batch_id``: after a lost checkpoint the segments are grouped anew. Execute
    ``df`` even if there is nothing to do. ``cti(batch_id)`` tells what is complete.

    ``path`` is a folder that belongs to this query alone, for its spool and Spark's checkpoint.
    After a crash, run the same query over the same source with the same ``path``: what has been
    written is recognised by its CTI and left out, the rest goes on. That needs a source that
    gives the same events again, in the same order. On a cluster ``path`` has to be on storage
    that driver and executors share, and this package installed on both.

    ``trigger`` is the pause between micro-batches (``"0 seconds"``: none), and their size is
    ``max_segments_per_batch``; ``session`` is a Spark session that is there already. Spark starts
    in the background when the sink is opened; its session stays when the sink is closed.

    >>> sink = SparkSink(print, path="late_flights")
    >>> sink.stats().rows
    0
    """

    def __init__(
        self,
        target: ParquetTable | Callable[[DataFrame, int], Any],
        *,
        path: str | os.PathLike[str],
        mode: str = "spooled",
        shape: EventShape = EventShape.INTERVAL,
        session: SparkSession | None = None,
        trigger: str = "1 second",
        max_segments_per_batch: int = 64,
    ) -> None:
        _check_target(target)
        _check_mode(mode, shape, target)
        _check_session(session)
        _check_pace(trigger, max_segments_per_batch)
        self.shape = shape
        self._target = target
        self._settings = Settings(Path(path).absolute(), session, trigger, max_segments_per_batch)
        self._spool: Spool | None = None
        self._runner: Runner | None = None
        self._is_open = False
        self._first = 0
        self._rows = self._rows_known = 0
        self._reached = MIN_TIME
        self._promised = MIN_TIME

    def open(self, name: str, schema: pl.Schema) -> None:
        """Take up the spool of this query, undo what was half done, start Spark behind the scenes.

        ``SpoolError``: the path is in use, damaged, not writable, or belongs to another query or
        schema. ``SchemaError``: names that Spark, which ignores case, cannot tell apart. That
        Spark does not start is said by the next ``write`` or by ``close``.
        """
        if self._spool is not None:
            raise BindingError("a sink is opened once. Hint: make one SparkSink for each run.")
        _check_names(schema)
        spool = Spool.open(self._settings.path / "spool", name, schema)
        try:
            self._runner = self._prepare(spool, name)
        except BaseException:
            spool.close()
            raise
        self._spool, self._is_open = spool, True

    def write(self, batch: EventBatch) -> None:
        """Put the rows that are new into the spool; they are on disk when this returns.

        A batch without new rows costs nothing: the next segment's CTI covers it. What has stopped
        Spark is raised here, after the rows are safe.
        """
        spool, runner = self._opened()
        fresh = self._fresh(batch)
        finished = batch.cti == MAX_TIME > self._reached
        if len(fresh) or finished:
            self._append(spool, fresh)
            runner.start()
        self._promised = max(self._promised, batch.cti)
        runner.check()

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target (without ``error``), stop the Spark query.

        With an error Spark is stopped where it is; the spool keeps the rest for the next run.
        """
        if not self._is_open:
            return
        spool, runner = self._opened()
        self._is_open, complete = False, False
        try:
            if error is None:
                self._complete(spool, runner)
                complete = True
        finally:
            try:
                runner.stop()
                if complete:
                    spool.discard(spool.last)
            finally:
                spool.close()
        stats = dataclasses.asdict(self.stats())
        log.info("spark_sink.closed", error=error and repr(error), **stats)

    def cti(self, batch_id: int) -> int:
        """Return the CTI reached with a micro-batch: all rows that start before it have come.

        For the batches of this run, and for those of earlier ones whose segments are still there.
        """
        known = self._runner.cti(batch_id) if self._runner else None
        if known is not None:
            return known
        try:
            spool, _ = self._opened()
            return spool.describe(last_segment(self._settings.checkpoint, batch_id)).cti
        except (SpoolError, BindingError) as error:
            raise ArgumentError(
                f"nothing is known of micro-batch {batch_id!r}: it was not of this run. "
                "Hint: ask inside the function that gets it."
            ) from error

    def stats(self) -> SparkSinkStats:
        """Return what was done since the sink was opened; from any thread."""
        spool, runner = self._spool, self._runner
        return SparkSinkStats(
            segments=spool.last - self._first if spool else 0,
            rows=self._rows,
            rows_known=self._rows_known,
            micro_batches=runner.batches if runner else 0,
            start_seconds=runner.start_seconds if runner else 0.0,
            batch_seconds=runner.batch_seconds if runner else 0.0,
        )

    def _prepare(self, spool: Spool, name: str) -> Runner:
        discarded, noted = spool.bounds()[0], committed_segment(self._settings.checkpoint)
        committed = max(discarded, noted)
        if 0 < noted < discarded:
            raise SpoolError(
                f"Spark's checkpoint ends at segment {noted} of {spool.path}, where all up to "
                f"{discarded} are published and gone: it is an older one. Hint: delete "
                f"{self._settings.checkpoint}; what is not published yet is read from the spool."
            )
        if committed > spool.last:
            raise SpoolError(
                f"Spark's checkpoint has read up to segment {committed} of {spool.path}, which "
                f"ends at {spool.last}: they do not belong together. Hint: delete "
                f"{self._settings.checkpoint}."
            )
        origin = Origin(name, spool.header()["id"], spool.schema, committed)
        runner = Runner(self._settings, spool, writer_for(self._target, origin), committed)
        self._first = spool.last
        self._reached = MIN_TIME if spool.cti is None else spool.cti
        if self._reached == MAX_TIME:
            log.info("spark_sink.finished_before", query=name, path=str(self._settings.path))
        if self._reached < MAX_TIME or committed < spool.last:
            runner.start()
        return runner

    def _opened(self) -> tuple[Spool, Runner]:
        if self._spool is None or self._runner is None or not self._is_open:
            raise BindingError(
                "this sink is not open. Hint: give it to run(), which opens, writes and closes it."
            )
        return self._spool, self._runner

    def _fresh(self, batch: EventBatch) -> EventBatch:
        """Return the rows that no run before has written: those that start at the spool's CTI."""
        if len(batch) and int(batch.start.max()) >= batch.cti:
            raise EventError(
                f"a row starts at {describe(int(batch.start.max()))}, and the CTI of its batch is "
                f"{describe(batch.cti)}: only finished rows go into a sink"
            )
        if len(batch) and int(batch.start.min()) < self._promised:
            raise EventError(
                f"a row starts at {describe(int(batch.start.min()))}, before the CTI "
                f"{describe(self._promised)} of an earlier batch of this run"
            )
        if batch.edge.any():
            raise EventError("an edge came into a sink of interval shape; a row has to be complete")
        fresh = batch.take(batch.start >= self._reached) if len(batch) else batch
        self._rows_known += len(batch) - len(fresh)
        return fresh

    def _append(self, spool: Spool, batch: EventBatch) -> None:
        spool.append(batch)
        self._reached = batch.cti
        self._rows += len(batch)

    def _complete(self, spool: Spool, runner: Runner) -> None:
        """Make the last CTI durable, and wait for Spark."""
        if self._promised > self._reached:
            self._append(spool, EventBatch.empty(spool.schema, self._promised))
            runner.start()
        runner.wait(spool.last)


def _check_target(target: Any) -> None:
    if not isinstance(target, ParquetTable) and not callable(target):
        raise ArgumentError(
            "a target is a ParquetTable or a function (df, batch_id), got "
            f"{target!r} ({type(target).__name__})"
        )


def _check_mode(mode: str, shape: EventShape, target: Any) -> None:
    if mode != "spooled":
        hint = "leave mode out: the spooled way is the durable one"
        raise ArgumentError(f"mode is 'spooled' in this version, got {mode!r}. Hint: {hint}.")
    if shape is EventShape.INTERVAL:
        return
    if shape is EventShape.EDGE and isinstance(target, ParquetTable):
        raise ArgumentError(
            "a ParquetTable takes no edges: an end edge changes a row that is written, and files "
            "cannot be updated. Hint: leave shape out: rows then come when they are complete."
        )
    raise ArgumentError(
        f"shape is EventShape.INTERVAL in this version, got {shape!r}. Hint: leave it out."
    )


def _check_names(schema: pl.Schema) -> None:
    seen = {name: name for name in (START, END, SEGMENT)}
    for name in schema:
        if seen.setdefault(name.lower(), name) is name:
            continue
        raise SchemaError(
            f"Spark does not tell the field {name!r} from {seen[name.lower()]!r}. "
            "Hint: rename one of them with select()."
        )


def _check_session(session: Any) -> None:
    if session is not None and type(session).__module__.startswith("pyspark.sql.connect"):
        raise BindingError(
            "a Spark Connect session runs its functions on another machine, where they cannot "
            "reach this sink. Hint: use a classic session, or leave session out."
        )


def _check_pace(trigger: str, max_segments: int) -> None:
    if not isinstance(trigger, str) or not trigger.strip():
        raise ArgumentError(f"trigger is an interval such as '1 second', got {trigger!r}")
    if isinstance(max_segments, bool) or not isinstance(max_segments, int) or max_segments < 1:
        raise ArgumentError(f"max_segments_per_batch is an int of 1 or more, got {max_segments!r}")
