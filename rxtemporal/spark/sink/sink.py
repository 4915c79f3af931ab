"""The sink that writes a query's results to a target through Spark."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from rxtemporal.core.batch import END, START, EventBatch
from rxtemporal.core.events import EventShape
from rxtemporal.core.log import get_logger
from rxtemporal.core.ticks import MIN_TIME, describe
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.errors import ArgumentError, BindingError, CheckpointError, SchemaError, SpoolError
from rxtemporal.sinks.sink import Sink
from rxtemporal.spark.jvm.session import (
    is_connect,
    is_session,
    require_classic,
    require_pyspark,
)
from rxtemporal.spark.sink.direct import DirectDelivery
from rxtemporal.spark.sink.settled_rows import SettledRows, make_settled_rows
from rxtemporal.spark.sink.spooled import SpooledDelivery
from rxtemporal.spark.sink.worker import SinkJob
from rxtemporal.spark.targets.target import EDGE, STATE, Target
from rxtemporal.storage.segments import SEGMENT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_target(target: Any, shape: Any) -> None:
    """Raise if the object is not a target, or the target does not take the shape."""
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}")
    if isinstance(target, Target) and not isinstance(target, type):
        if shape not in target.shapes:
            raise ArgumentError(target.shape_error)
    elif not callable(target) or isinstance(target, type):
        raise ArgumentError(
            "a target is a ParquetTable, a DatabaseTable, a Console or a function (df, batch_id), "
            f"got {target!r} ({type(target).__name__})"
        )


def check_mode(mode: Any) -> None:
    """Refuse an unknown mode."""
    if mode not in ("spooled", "direct"):
        raise ArgumentError(
            f"mode is 'spooled' (durable, exactly once) or 'direct' (lowest latency), got {mode!r}"
        )


def check_names(schema: pl.Schema, shape: EventShape) -> None:
    """Raise if Spark, which ignores case, would confuse a field with another column."""
    ours = (START, END, SEGMENT, *((EDGE, STATE) if shape is EventShape.EDGE else ()))
    seen = {name: name for name in ours}
    for name in schema:
        if seen.setdefault(name.lower(), name) is name:
            continue
        raise SchemaError(
            f"Spark, which ignores case, confuses the field {name!r} with {seen[name.lower()]!r}. "
            "Hint: rename one of them with select()."
        )


def check_session(session: Any, mode: str = "spooled", target: Any = None) -> None:
    """Refuse an object that is not a session, and Spark Connect where the sink cannot use it."""
    if is_connect(session):
        if mode != "direct":
            raise BindingError(
                "a Spark Connect session gives micro-batches to functions on its server, which "
                "cannot reach this sink. Hint: mode='direct' calls a function here for each "
                "micro-batch; or use a classic session."
            )
        if isinstance(target, Target):
            raise BindingError(
                f"{type(target).__name__} writes from this process and from Spark to one place, "
                "and a Spark Connect session may be on another machine. Hint: a function "
                "(df, batch_id) as the target, or a classic session."
            )
        return
    if session is None or isinstance(session, Mapping) or hasattr(session, "sparkContext"):
        return
    raise ArgumentError(
        "session is a Spark session, or Spark's settings for a session of the sink's own as in "
        f'{{"spark.driver.memory": "2g"}}, got {session!r}'
    )


def check_pace(trigger: Any, max_segments: Any) -> None:
    """Raise for a trigger or size of micro-batches that Spark does not accept."""
    if not isinstance(trigger, str) or not trigger.strip():
        raise ArgumentError(f"trigger is an interval such as '1 second', got {trigger!r}")
    if isinstance(max_segments, bool) or not isinstance(max_segments, int) or max_segments < 1:
        raise ArgumentError(f"max_segments_per_batch is an int of 1 or more, got {max_segments!r}")


def check_limit(spool_limit: Any, when_full: Any) -> None:
    """Refuse a limit that is not a size, and an unknown policy."""
    whole = isinstance(spool_limit, int) and not isinstance(spool_limit, bool)
    if spool_limit is not None and not (whole and spool_limit > 0):
        raise ArgumentError(f"spool_limit is a number of bytes, or None, got {spool_limit!r}")
    if when_full not in ("block", "refuse"):
        raise ArgumentError(
            f"when_full is 'block' (the producer waits) or 'refuse' (an error), got {when_full!r}"
        )


log = get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class SparkSinkStats:
    """Counters of a sink since it was opened."""

    segments: int
    rows: int
    rows_known: int
    """Rows skipped because an earlier run had written them."""
    micro_batches: int
    start_seconds: float
    batch_seconds: float
    restarts: int = 0
    """Number of times that Spark was restarted."""
    last_error: str | None = None
    """The error that ended Spark the last time; None if none did."""


class SparkSink(Sink):
    """Sink that writes a query's rows to ``target`` through Spark.

    ``target`` is a ``ParquetTable``, a ``DatabaseTable``, a ``Console``, or a function
    ``(df, batch_id)`` that Spark calls for each micro-batch, once or, after a failure, again.
    ``df`` has ``start_time`` and ``end_time`` (timestamps; null: never ends), the payload's fields,
    and ``_segment``. Exactly once needs ``_segment``, not ``batch_id``: after a lost checkpoint the
    segments are grouped anew. Execute ``df`` even if there is nothing to do. ``cti(batch_id)``
    is the time before which the results are complete.

    ``shape``: *interval* (a row comes when it is complete), *point* (when it begins), or *edge*
    (a row comes when it begins, with a null end and ``_state`` = ``'open'``, and again when it
    ends, ``'closed'``; ``_edge`` is its number, the key to update by). In all shapes a row comes
    when the CTI has passed its start, and its end when the CTI has passed its end.

    ``mode="spooled"`` writes to a spool on disk first: exactly once. A worker runs Spark: a child
    process, or this process for a function, a ``Console`` and a session of yours. If Spark dies it
    is restarted after a growing pause, unless the session is yours, and rows wait in the spool.
    ``mode="direct"`` passes rows on in memory, for the lowest latency: it is neither durable nor
    supervised, and an error of Spark ends the query. It also takes a Spark Connect ``session``,
    with a function as the target.

    ``path`` is a folder that belongs to this query alone, for its spool and Spark's checkpoint.
    After a crash, run the same query over the same source with the same ``path``: rows that have
    been written are recognised by the spool's CTI and skipped. That needs a source that gives the
    same events again, in the same order. In edge shape a source that repeats only a part of them
    is refused, because rows are updated by their number. On a cluster ``path`` must be on storage
    that driver and executors share, and this package must be installed on both.

    ``trigger`` is the pause between micro-batches (``"0 seconds"``: none), and their size is
    ``max_segments_per_batch``. ``session`` is a running Spark session, or settings for a session
    that the sink starts; without it, the session that runs in this process or that
    ``spark-submit`` gives is used, and if there is none the sink starts its own. ``spool_limit`` is
    how many bytes may wait for Spark; it may be exceeded by one segment. When it is reached, or the
    disk is full, producers wait (``when_full="block"``) or a ``SpoolError`` ends the query
    (``"refuse"``).

    >>> sink = SparkSink(print, path="late_flights")
    >>> sink.stats().rows
    0
    """

    by_position = True

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
        check_session(session, mode, target)
        check_pace(trigger, max_segments_per_batch)
        check_limit(spool_limit, when_full)
        self.shape = shape
        place = Path(path).absolute()
        self._job = SinkJob(
            place, target, "", pl.Schema(), session, trigger, max_segments_per_batch
        )
        self._mode = mode
        self._limit, self._when_full = spool_limit, when_full
        self._delivery: SpooledDelivery | DirectDelivery | None = None
        self._settled: SettledRows | None = None
        self._is_open = False
        self._broken: BaseException | None = None
        self._rows = 0
        self._state: tuple[int, bytes] | None = None

    def __repr__(self) -> str:
        state = "open" if self._is_open else "not open"
        return f"SparkSink({str(self._job.path)!r}, {self.shape.value} shape, {state})"

    def open(self, name: str, schema: pl.Schema) -> None:
        """Open the spool of this query, undo unfinished work, start Spark in the background.

        ``SpoolError``: the path is in use, damaged, not writable, or belongs to another query or
        schema. ``SchemaError``: Spark, which ignores case, cannot distinguish two names.
        ``BindingError``: pyspark is missing. If Spark does not start, the next ``write`` or
        ``close`` raises.
        """
        if self._delivery is not None:
            raise BindingError("a sink is opened once. Hint: make one SparkSink for each run.")
        if self.numbered and self.shape is not EventShape.INTERVAL:
            raise ArgumentError(
                f"SparkSink takes {self.shape.name.lower()}s of streams with one time, and in this "
                "one each device has its own. Hint: shape=EventShape.INTERVAL, the default; or "
                ".synchronize('1h') at the end of the query."
            )
        require_pyspark()
        if not is_session(self._job.session):
            require_classic()
        check_names(schema, self.shape)
        carried = make_settled_rows(self.shape, schema, MIN_TIME).schema
        job = dataclasses.replace(self._job, query=name, schema=carried)
        if self._mode == "direct":
            self._delivery = DirectDelivery(job)
        else:
            self._delivery = SpooledDelivery(job, self.shape, self._limit, self._when_full)
        reached = self._delivery.reached
        self._settled = make_settled_rows(
            self.shape, schema, reached, self._delivery.numbered, by_number=self.numbered
        )
        self._is_open = True
        if self.numbered and self._state is None and reached > MIN_TIME:
            self.close(SpoolError("the run is another one"))
            raise CheckpointError(
                f"{self._job.path} has results of another run, in which each device has its own "
                "time. Hint: continue that with resume= and its folder, or give the sink a new one."
            )
        if self._state is not None:
            self._resume(*self._state)

    def write(self, batch: EventBatch) -> None:
        """Queue the batch's settled new rows for the spool.

        They are on disk a few milliseconds later, and before a checkpoint of the run has them as
        delivered: batches that arrive while a segment is synced are the next segment together. A
        batch without new rows costs nothing: the next segment's CTI covers it. An error of the
        spool, or one that has stopped Spark for good, is raised by the next call. Any error ends
        the run: a later segment's CTI would cover the missing rows.
        """
        delivery, rows = self._open_parts()
        if self._broken is not None:
            raise self._broken
        try:
            fresh = rows.on_batch(batch)
            delivery.write(fresh)
        except BaseException as error:
            self._broken = error
            raise
        self._rows += len(fresh)

    def close(self, error: BaseException | None) -> None:
        """Wait until everything is in the target, then stop Spark.

        With an ``error`` Spark is stopped at once; the spool keeps the rest for the next run.
        """
        if not self._is_open:
            return
        delivery, _ = self._open_parts()
        self._is_open = False
        delivery.close(error or self._broken)
        if error is None and self._broken is not None:
            raise self._broken
        stats = dataclasses.asdict(self.stats())
        log.info("spark_sink.closed", error=error and repr(error), **stats)

    def save(self) -> bytes | Callable[[], bytes]:
        """Return the rows that are not settled yet, for a checkpoint of the run.

        The function that it returns waits until the other rows are on disk.
        """
        if self._delivery is None or self._settled is None:
            return b""
        state = Captured("sink", [self._delivery.reached, self._settled.capture()])
        flushed = self._delivery.flush()

        def dump() -> bytes:
            flushed()
            return state.dumps()

        return dump

    def load(self, state: bytes) -> None:
        """Let ``open`` continue from a saved state; rows that were written later are skipped."""
        reached, held = loads("sink", state)
        self._state = reached, held

    def _resume(self, reached: int, held: bytes) -> None:
        assert self._delivery is not None
        assert self._settled is not None
        if self._mode == "spooled" and self._delivery.reached < reached:
            self.close(SpoolError("the sink lacks rows"))
            raise CheckpointError(
                f"the run resumes from a state that has all rows before {describe(reached)} in "
                f"{self._job.path}, but there are only those before "
                f"{describe(self._delivery.reached)}. Hint: give the sink the folder that it had, "
                "or begin with new folders."
            )
        self._settled.load(held)

    def cancel(self, error: BaseException) -> None:
        """Raise this error in a ``write`` or ``close`` that waits for Spark; from any thread."""
        if self._delivery is not None:
            self._delivery.cancel(error)

    def in_callback(self) -> bool:
        """Return True if the target is being called in this thread."""
        return self._delivery is not None and self._delivery.in_callback()

    def cti(self, batch_id: int) -> int:
        """Return the CTI after a micro-batch: all rows that start before it have been delivered.

        It is known for this run's batches, and for earlier ones whose segments still exist.
        """
        try:
            if self._delivery is not None:
                return self._delivery.cti(batch_id)
        except SpoolError as error:
            cause: SpoolError | None = error
        else:
            cause = None
        raise ArgumentError(
            f"the CTI of micro-batch {batch_id!r} is unknown: this run did not have it. "
            "Hint: ask inside the function that gets it."
        ) from cause

    @property
    def restarts(self) -> int:  # type: ignore[override]
        """The number of times that Spark was restarted."""
        return self.stats().restarts

    def stats(self) -> SparkSinkStats:
        """Return the counters since the sink was opened; from any thread."""
        delivery, rows = self._delivery, self._settled
        if delivery is None or rows is None:
            return SparkSinkStats(0, 0, 0, 0, 0.0, 0.0)
        progress = delivery.progress
        return SparkSinkStats(
            segments=delivery.segments,
            rows=self._rows,
            rows_known=rows.known,
            micro_batches=progress.batches,
            start_seconds=progress.start_seconds,
            batch_seconds=progress.batch_seconds,
            restarts=progress.restarts,
            last_error=progress.last_error,
        )

    def _open_parts(self) -> tuple[SpooledDelivery | DirectDelivery, SettledRows]:
        if self._delivery is None or self._settled is None or not self._is_open:
            raise BindingError(
                "this sink is not open. Hint: give it to run(), which opens, writes and closes it."
            )
        return self._delivery, self._settled
