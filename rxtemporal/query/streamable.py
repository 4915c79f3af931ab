"""Streams: a query is a chain of methods on a ``Streamable``."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal import operators as ops
from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.core.ticks import Span
from rxtemporal.errors import AdvanceTimeError, BindingError
from rxtemporal.operators.plan import Node
from rxtemporal.operators.stream import Stream
from rxtemporal.query.method import method, window_method
from rxtemporal.sinks import Sink, as_sink

if TYPE_CHECKING:
    from reactivex import Observable, abc

    from rxtemporal.reactive.subscriber import OnCompleted, OnError
    from rxtemporal.runtime.process import Process

# the log says why nothing comes out after so long
WARN_AFTER = timedelta(seconds=30)


class Streamable(Stream):
    """A temporal stream, and what is to be computed from it.

    Nothing runs until a result is asked for (``to_polars``, ``subscribe``, ``run`` …); each request
    is a run of its own, with its own state. Fields, types and arguments are checked when a method
    is called, and an error names the line that called it; where a source's fields are not known
    before its first event, they are checked then.

    Make one with ``from_polars``, ``from_events``, ``from_observable``, ``read_parquet``,
    ``read_csv``.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> readings = rxt.from_events(
    ...     [rxt.IntervalEvent(0, 10, {"temp": 20}), rxt.IntervalEvent(4, 6, {"temp": 24})]
    ... )
    >>> for event in readings.snapshot_window().aggregate(warmest=agg.max("temp")).to_events():
    ...     print(event)
    IntervalEvent(0, 4, {'warmest': 20})
    IntervalEvent(4, 6, {'warmest': 24})
    IntervalEvent(6, 10, {'warmest': 20})
    """

    # Relational operators: payloads change and lifetimes stay.
    where = method(ops.where)
    select = method(ops.select)
    with_columns = method(ops.with_columns)
    drop = method(ops.drop)
    explode = method(ops.explode)
    distinct = method(ops.distinct)
    # Groups and branches.
    group_by = method(ops.group_by)
    ungroup = method(ops.ungroup)
    apply = method(ops.apply)
    multicast = method(ops.multicast)
    # Two streams.
    union = method(ops.union)
    join = method(ops.join)
    cross_join = method(ops.cross_join)
    left_anti_join = method(ops.left_anti_join)
    left_outer_join = method(ops.left_outer_join)
    full_outer_join = method(ops.full_outer_join)
    # Lifetimes: payloads and groups stay.
    shift_event_time = method(ops.shift_event_time)
    extend_lifetime = method(ops.extend_lifetime)
    clip_event_duration = method(ops.clip_event_duration)
    to_point_events = method(ops.to_point_events)
    point_at_end = method(ops.point_at_end)
    chop = method(ops.chop)
    to_signal = method(ops.to_signal)
    session_lifetimes = method(ops.session_lifetimes)
    snap_to_window_intervals = method(ops.snap_to_window_intervals)
    alter_event_duration = method(ops.alter_event_duration)
    alter_event_start_time = method(ops.alter_event_start_time)
    alter_event_lifetime = method(ops.alter_event_lifetime)
    # Rows of a key as they follow each other.
    scan = method(ops.scan)
    stitch = method(ops.stitch)
    # Windows: aggregate, top_k or apply says what is made of each.
    snapshot_window = window_method(ops.snapshot_window)
    hopping_window = window_method(ops.hopping_window)
    tumbling_window = window_method(ops.tumbling_window)
    hopping_window2 = window_method(ops.hopping_window2)
    session_window = window_method(ops.session_window)
    count_window = window_method(ops.count_window)

    def __repr__(self) -> str:
        fields = "unknown fields" if self.schema is None else ", ".join(self.schema)
        return f"Streamable({fields})"

    def late_events(self, *, suffix: str = "") -> Streamable:
        """Return what comes too late on this input stream, as a stream of its own.

        Each is a point at the CTI that it broke, with the fields ``source``, ``reason`` (the values
        of ``LateReason``), ``by`` (a duration: 0 for an end edge without an open row), its own
        ``start`` and ``end`` (null: never ends, datetimes), and then the payload's. ``suffix`` is
        for those of the payload that have one of these names. CTIs are those of the input stream,
        which is read once for both. What comes after the end of time is counted only.

        >>> import rxtemporal as rxt
        >>> events = [rxt.PointEvent(7, "a"), rxt.PointEvent(5, "b")]
        >>> stream = rxt.from_events(events, advance_time=rxt.INCREASING_START_TIME)
        >>> stream.late_events().select("reason", "payload").to_events()
        [IntervalEvent(7, 8, {'reason': 'dropped', 'payload': 'b'})]
        """
        from rxtemporal.ingress.late_source import LateSource

        source = self._node.source
        if source is None or isinstance(source, LateSource):
            raise BindingError(
                "late events are those of an input stream, and this one is computed. "
                "Hint: ask the stream that from_events, from_polars … gave."
            )
        if source.settings is None:
            raise AdvanceTimeError(
                f"nothing is late on {source.name!r}, which has no advance_time settings: an event "
                "that breaks a CTI is an error there. Hint: a subject has its own `late`."
            )
        late = LateSource(source, suffix)
        return Streamable(Node(late.schema, (), source=late))

    # What comes out -----------------------------------------------------------------------------

    def subscribe(
        self,
        on_next: abc.ObserverBase[Event] | Callable[[Event], None] | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        shape: EventShape = EventShape.INTERVAL,
        ctis: bool = False,
    ) -> abc.DisposableBase:
        """Run the query and hand its results over as events, when the time has come.

        A source that has to be asked (file, frame, iterable) is read to its end before this
        returns; one that pushes is followed until the result is disposed. In interval shape a row
        comes when its end is known and everything before it is; in edge shape its start comes at
        once and its end later; in point shape only starts come. With ``ctis`` CTIs come as well.

        An error of the query goes to ``on_error``. Without one it is raised here where the source
        is read here, and logged where it is pushed. What ``on_next`` raises is logged.
        """
        from rxtemporal.query import runs

        events = self.to_observable(shape, ctis)
        return runs.subscribe(events, on_next, on_error, on_completed)

    def to_observable(
        self,
        shape: EventShape = EventShape.INTERVAL,
        ctis: bool = True,
        *,
        time: TimeForm | None = None,
    ) -> Observable[Event]:
        """Return an observable of events; each subscription is a run of its own, as ``subscribe``.

        Times come as the source gave them, or as ``time`` says.
        """
        from rxtemporal.query import runs

        return runs.observe(self, shape, ctis, time)

    def to_batches(self, shape: EventShape = EventShape.EDGE) -> Iterator[EventBatch]:
        """Run the query to the end of its source, and yield its results as they become known.

        Batches come in the stream's own form, edges included, unless a shape is asked for. A source
        that pushes is waited for until it completes.
        """
        from rxtemporal.query import runs

        return runs.iterate(runs.execute(self, shape))

    def to_events(
        self,
        shape: EventShape = EventShape.INTERVAL,
        *,
        ctis: bool = False,
        time: TimeForm | None = None,
    ) -> list[Event]:
        """Run the query to the end of its source, and return its results as events."""
        from rxtemporal.query import runs

        return runs.collect_events(self, shape, ctis, time)

    def to_async(
        self,
        shape: EventShape = EventShape.INTERVAL,
        *,
        ctis: bool = False,
        time: TimeForm | None = None,
    ) -> AsyncIterator[Event]:
        """Return the results as an async iterator; each is a run of its own.

        The query runs in a thread, so the event loop is not blocked, and a source that has to be
        asked is read as fast as results are taken: a few batches may wait. One that pushes is not
        held back. Iteration that ends early stops the run (at once with ``contextlib.aclosing``).
        """
        from rxtemporal.query import runs

        return runs.iterate_async(self, shape, ctis, time)

    def to_polars(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Run the query to the end of its source, and return its results as one frame.

        Columns: ``start_time``, ``end_time`` (null: never ends), then the payload; rows in order of
        start. Times are datetimes in UTC if the source gave datetimes, else ticks.
        """
        from rxtemporal.query import runs

        return runs.collect_frame(self, time)

    def run(
        self,
        sink: Sink | Callable[[EventBatch], Any],
        *,
        name: str | None = None,
        record: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        warn_after: Span | None = WARN_AFTER,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Process:
        """Run the query into a sink and return the running process, a context manager.

        ``sink`` is a ``Collect``, ``Print``, ``File`` or ``SparkSink``, one of your own, or a
        function that is called with each ``EventBatch``.
        ``name`` is the query's, under which a sink keeps what it has done; by default ``query``.
        ``record`` is a folder, new or empty, for what the query's streams bring: ``replay`` gives
        the same results from it, late events included.
        ``log`` is the folder of an event log, new or of an earlier run of the same query. The run
        replays the log first, exactly as the events came; from then on each event is on disk before
        it is acknowledged and before any result of it reaches the sink. So no acknowledged event is
        lost if this process dies. ``run`` returns when the log has been replayed.
        ``resume`` is a folder for checkpoints: the next run of the same query with the same folder
        continues where this one stopped, however it stopped. Sources that can be read again from a
        position are; events that are pushed, and iterables, go through an event log in the folder,
        as with ``log``, which has the events since the last checkpoint. Their results come again,
        to the sink as well; a ``SparkSink`` knows which it has. A run that has completed is not
        repeated.
        When neither rows nor time have come out for ``warn_after`` (a timedelta or ticks of the
        wall; None: never), one line in the log says which input the query waits for and what helps.
        ``scheduler`` stands in for the clock on the wall, in tests.
        """
        from rxtemporal.query import runs

        name = name or "query"
        return runs.start_process(
            name,
            {name: (self, as_sink(sink))},
            {},
            record=record,
            log=log,
            resume=resume,
            warn_after=warn_after,
            scheduler=scheduler,
        )
