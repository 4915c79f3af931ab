"""Streams: a query is a chain of methods on a ``Streamable``."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, overload

from rxtemporal import operators as ops
from rxtemporal.core.batch import EventBatch
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import TimeLike
from rxtemporal.errors import AdvanceTimeError, ArgumentError, BindingError, explain_calls
from rxtemporal.operators.evolution import name_operator
from rxtemporal.operators.plan import Node
from rxtemporal.operators.stream import Composed
from rxtemporal.query.method import make_unknown_method_error, method, window_method
from rxtemporal.query.runnable_stream import WARN_AFTER, RunnableStream
from rxtemporal.sinks.sink import Sink, as_sink

if TYPE_CHECKING:
    from reactivex import Observable, abc

    from rxtemporal.core.events import EventShape
    from rxtemporal.run.process import Process

RxOperator: TypeAlias = "Callable[[Observable[Any]], Any]"


class Streamable(RunnableStream):
    """A temporal stream: a source, or a query over sources.

    Nothing runs until you request a result (``to_polars``, ``subscribe``, ``run`` …); each request
    is a new run with its own state. Fields, types and arguments are checked when a method is
    called, and an error names the line that called it. If a source's fields are unknown before its
    first event, they are checked then.

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
    relate = method(ops.relate)
    # Lifetimes: payloads and groups stay.
    shift_event_time = method(ops.shift_event_time)
    extend_lifetime = method(ops.extend_lifetime)
    clip_event_duration = method(ops.clip_event_duration)
    to_point_events = method(ops.to_point_events)
    point_at_end = method(ops.point_at_end)
    never_ends = method(ops.never_ends)
    chop = method(ops.chop)
    sample = method(ops.sample)
    to_signal = method(ops.to_signal)
    session_lifetimes = method(ops.session_lifetimes)
    snap_to_window_intervals = method(ops.snap_to_window_intervals)
    alter_event_duration = method(ops.alter_event_duration)
    alter_event_start_time = method(ops.alter_event_start_time)
    alter_event_lifetime = method(ops.alter_event_lifetime)
    # From a time for each device to one for all.
    synchronize = method(ops.synchronize)
    # Consecutive rows of a key.
    scan = method(ops.scan)
    deadband = method(ops.deadband)
    detect = method(ops.detect)
    previous = method(ops.previous)
    stitch = method(ops.stitch)
    # Windows: follow with aggregate, top_k or apply.
    snapshot_window = window_method(ops.snapshot_window)
    hopping_window = window_method(ops.hopping_window)
    tumbling_window = window_method(ops.tumbling_window)
    whole_window = window_method(ops.whole_window)
    hopping_window2 = window_method(ops.hopping_window2)
    session_window = window_method(ops.session_window)
    count_window = window_method(ops.count_window)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise an error that names the method that was probably meant."""
            if name.startswith("_"):
                raise AttributeError(name)
            raise make_unknown_method_error(name, dir(self))

    def __repr__(self) -> str:
        from rxtemporal.operators.explain import name_plan

        return f"Streamable({name_plan(self._node)})"

    def _repr_html_(self) -> str:
        """Return the plan as a picture, for notebooks; nothing runs."""
        from rxtemporal.operators.explain import draw_plan

        return draw_plan(self._node)

    def named(self, name: str) -> Self:
        """Return the same stream, whose last operator has a name by which its state is found.

        After a change of the query, ``run(…, evolve=True)`` continues an operator with its state if
        all before it is the same. One with a name is also continued if it is itself the same, and
        only operators that take each row alone (``where``, ``select`` …) have come before it or
        gone. The name is that of the last operator that has state; each is used once in a query.

        >>> import rxtemporal as rxt
        >>> rxt.from_events([rxt.PointEvent(4, 2)]).to_signal().named("hot").to_events()
        [IntervalEvent(4, 253402300799999999, 2)]
        """
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"the name of an operator is a non-empty string, got {name!r}")
        return type(self)(name_operator(self._node, name))

    def late_events(self, *, suffix: str = "") -> Streamable:
        """Return the late events of this input stream as a stream.

        Each late event is a point at the CTI that it broke, with the fields ``source``, ``reason``
        (a value of ``LateReason``), ``by`` (how late it was, a duration; 0 for an end edge without
        an open row that came in time), ``start`` and ``end`` (its own times as datetimes; null:
        never ends), and the fields of the payload. ``suffix`` is appended to payload fields that
        have one of these names. The CTIs are those of the input stream, which is read once for
        both. Events after the end of time are only counted.

        >>> import rxtemporal as rxt
        >>> events = [rxt.PointEvent(7, "a"), rxt.PointEvent(5, "b")]
        >>> stream = rxt.from_events(events, advance_time=rxt.INCREASING_START_TIME)
        >>> stream.late_events().select("reason", "payload").to_events()
        [IntervalEvent(7, 8, {'reason': 'dropped', 'payload': 'b'})]
        """
        from rxtemporal.ingress.side_source import LateSource, SideSource

        source = self._node.source
        if source is None or isinstance(source, SideSource):
            raise BindingError(
                "only an input stream has late events, and this stream is computed. "
                "Hint: call late_events() on the stream that from_events, from_polars … returned."
            )
        if source.settings is None:
            raise AdvanceTimeError(
                f"{source.name!r} has no late events, since it has no advance_time settings: an "
                "event that breaks a CTI is an error there. Hint: advance_time='5m' where the "
                "stream is made; a subject has its own `late`."
            )
        late = LateSource(source, suffix)
        return Streamable(Node(late.schema, (), source=late))

    @overload
    def pipe(self, *operators: Composed) -> Self: ...  # type: ignore[overload-overlap]
    @overload
    def pipe(self, *operators: Composed | RxOperator) -> Observable[Any]: ...
    def pipe(self, *operators: Composed | RxOperator) -> Self | Observable[Any]:
        """Apply operators of ``rxtemporal.operators``, then operators of Rx, from left to right.

        With temporal operators alone the result is a stream, as from the methods of these names.
        From the first operator of Rx on it is an observable: of the results as events in interval
        shape, each when it is final. CTIs stay behind: they would meet every ``map`` and
        ``filter``. ``to_observable()`` keeps them. Each subscription to the observable is a new
        run, which delivers on the thread that reads or pushes, as ``subscribe`` does.

        A temporal operator behind an operator of Rx is an ``ArgumentError``: where there are no
        CTIs nothing is final.

        >>> from reactivex import operators as rx_ops
        >>> import rxtemporal as rxt
        >>> from rxtemporal import agg, operators as ops
        >>> readings = rxt.from_events([rxt.PointEvent(time, {"x": time}) for time in range(6)])
        >>> sums = readings.pipe(ops.tumbling_window(2).aggregate(x=agg.sum("x")))
        >>> sums.pipe(rx_ops.map(lambda event: event.payload["x"]), rx_ops.to_list()).run()
        [1, 5, 9]
        """
        from rxtemporal.query.rx_pipe import pipe

        return pipe(self, operators)  # type: ignore[no-any-return]

    def debug(
        self,
        path: str | os.PathLike[str],
        *,
        recording: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Run the query to the end of its source, write its event-flow page, and return its path.

        The page is one HTML file with the plan, a timeline of all rows, the causes and effects of
        each row, the late events, and what holds back. It loads nothing from elsewhere, so it can
        be sent to others; it contains the rows. Of a run with more than 100,000 events it shows a
        sample. ``recording`` is the folder of ``run(…, record=folder)``: each source is replaced by
        the recorded stream of the same name, so that the page shows that run.

        An error that ends the run does not raise: the page shows it. ``BindingError``: a source
        has no end or pushes its events, or the recording lacks its stream. The cost is that of a
        run event by event, and all rows of all operators are in memory.

        >>> import tempfile
        >>> import polars as pl
        >>> import rxtemporal as rxt
        >>> events = [rxt.PointEvent(4, {"temp": 20}), rxt.PointEvent(7, {"temp": 25})]
        >>> readings = rxt.from_events(events, name="readings")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = readings.where(pl.col("temp") > 22).debug(f"{folder}/warm.html")
        ...     page.name, page.stat().st_size > 10_000
        ('warm.html', True)
        """
        from rxtemporal.query.event_flow import write_event_flow

        return write_event_flow(self._node, path, recording=recording).path

    @explain_calls(
        "run(rxt.Collect()) keeps the results, run(rxt.File('out.csv')) writes them into a file"
    )
    def run(
        self,
        sink: Sink | Callable[[EventBatch], Any],
        *,
        shape: EventShape | None = None,
        name: str | None = None,
        record: str | os.PathLike[str] | None = None,
        log: str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
        evolve: bool = False,
        partial: bool = False,
        replay_from: TimeLike | None = None,
        keep_history: Span | None = None,
        warn_after: Span | None = WARN_AFTER,
        scheduler: abc.SchedulerBase | None = None,
    ) -> Process:
        """Run the query into a sink and return the running process, a context manager.

        ``sink`` is a ``Collect``, ``Print``, ``File`` or ``SparkSink``, a sink of your own, or a
        function that is called with each ``EventBatch``. ``shape`` is the shape in which a
        function gets its rows, by default ``EventShape.INTERVAL``; a sink has its own.
        ``name`` is the name of the query, under which a sink stores its progress; by default
        ``query``.
        ``record`` is a folder, new or empty, in which the query's input is recorded: ``replay``
        gives the same results from it, late events included.
        ``log`` is the folder of an event log, new or of an earlier run of the same query. The run
        first replays the log, exactly as the events came; then each event is on disk before it is
        acknowledged and before any of its results reaches the sink. So no acknowledged event is
        lost if this process dies. ``run`` returns when the log has been replayed.
        ``resume`` is a folder for checkpoints: the next run of the same query with the same folder
        continues where this one stopped, however it stopped. Sources that can be opened at a
        position are read from there; events that are pushed, and iterables, go through an event log
        in the folder, as with ``log``, which holds the events since the last checkpoint. Their
        results are delivered to the sink again; a ``SparkSink`` skips those that it has. A run that
        has completed is not repeated.
        ``evolve`` continues a folder of ``resume`` with a changed query. An operator continues with
        its state if it and all before it are the same, or if it has the same ``named`` name; each
        other one begins at the last checkpoint with the rows that are open there. Windows of
        theirs that contain that time lack rows, and are not given; with ``partial`` they are.
        Without ``evolve`` a changed query is a ``CheckpointError``.
        ``keep_history`` (a timedelta, a text such as ``"7d"``, or ticks) keeps the events of so
        much time in the folder of ``resume``, with about nine checkpoints. Then ``replay_from``, a
        time, has what is new in a changed query begin at the last of them before that time, and
        computes all results from there; a sink is given those that it does not have.
        ``warn_after`` (a timedelta or ticks of wall time; None: never) is the time without rows or
        CTIs after which the log says, in one line, which input the query waits for and what helps.
        ``scheduler`` replaces the wall clock, in tests.
        """
        from rxtemporal.query import runs
        from rxtemporal.run.checkpoint import make_resumption

        name = name or "query"
        return runs.start_process(
            name,
            {name: (self, as_sink(sink, shape))},
            {},
            record=record,
            log=log,
            resumption=make_resumption(
                resume,
                evolve=evolve,
                partial=partial,
                replay_from=replay_from,
                keep_history=keep_history,
            ),
            warn_after=warn_after,
            scheduler=scheduler,
        )
