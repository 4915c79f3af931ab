"""Streams, fluently: a query is a chain of methods on a ``Streamable``."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import polars as pl
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler import CurrentThreadScheduler

from rxtemporal import operators as ops
from rxtemporal.agg import Aggregate
from rxtemporal.batch import EventBatch, TimeForm
from rxtemporal.errors import ArgumentError
from rxtemporal.events import Event, EventShape
from rxtemporal.execution import Execution, Node
from rxtemporal.operators.operator import Chain, Operator
from rxtemporal.operators.windows import Window
from rxtemporal.process import INTERRUPTIBLE, Process
from rxtemporal.seam import OnCompleted, OnError, Subscriber, Unhandled, lift
from rxtemporal.sinks import Sink
from rxtemporal.steps.shaping import shaping
from rxtemporal.ticks import MIN_TIME, Span, Time
from rxtemporal.unpacking import unpacked

__all__ = ["Streamable", "Windowed"]

Result = TypeVar("Result")


class Streamable:
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

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def schema(self) -> pl.Schema | None:
        """The payload's fields and types; None where only the first event will tell."""
        return self._node.schema

    @property
    def keys(self) -> tuple[str, ...]:
        """The fields that the stream is grouped by."""
        return self._node.keys

    def __repr__(self) -> str:
        fields = "unknown fields" if self.schema is None else ", ".join(self.schema)
        return f"Streamable({fields})"

    def _then(self, operator: Operator | Chain) -> Streamable:
        node = self._node
        for each in operator.operators if isinstance(operator, Chain) else (operator,):
            schema = None if node.schema is None else each.checked(node.schema, node.keys)
            node = Node(schema, each.keys_after(node.keys), operator=each, above=node)
        return Streamable(node)

    # What is computed ---------------------------------------------------------------------------

    def where(self, *predicates: pl.Expr | Callable[[dict[str, Any]], Any]) -> Streamable:
        """Keep the rows whose payload satisfies every predicate; null is false.

        Rows and lifetimes pass unchanged and at once; so does the CTI. Nothing is held. A predicate
        is a polars expression computed row by row (aggregations, windows and shifts are refused),
        or a Python function of the payload as a dict, which costs about a microsecond a row.
        Of an edge row the start edge's verdict counts.
        """
        return self._then(ops.where(*predicates))

    def select(self, *expressions: str | pl.Expr, **named: Any) -> Streamable:
        """Give every row a new payload, as polars' ``select``; lifetimes and CTIs pass unchanged.

        A grouped stream keeps its keys. Nothing is held.
        """
        return self._then(ops.select(*expressions, **named))

    def with_columns(self, *expressions: str | pl.Expr, **named: Any) -> Streamable:
        """Add fields to the payload, or replace some; otherwise as ``select``."""
        return self._then(ops.with_columns(*expressions, **named))

    def drop(self, *fields: str) -> Streamable:
        """Take fields out of the payload; otherwise as ``select``."""
        return self._then(ops.drop(*fields))

    def group_by(self, *keys: str) -> Streamable:
        """Group the stream by fields: everything after it is computed for each key.

        Rows, lifetimes and CTIs pass unchanged. Null is a key like any other, NaN equals NaN.
        ``aggregate`` ends the grouping and puts the keys first in the payload. Every key seen is
        held.
        """
        return self._then(ops.group_by(*keys))

    def snap_to_window_intervals(
        self, duration: Span, period: Span, alignment: Time = 0
    ) -> Streamable:
        """Alter lifetimes to cover the assigned interval of every hopping window they touch.

        The windows are ``[a + np, a + np + d)`` for every integer n, and the interval assigned to
        one is ``[end, end + p)``. A row that touches no window (where p > d) vanishes. The CTI is
        altered as a start is. Only open rows in a gap are held, until the CTI decides.
        Source: *Taming Hopping Windows*, ``SnapToWindowIntervals``.
        """
        return self._then(ops.snap_to_window_intervals(duration, period, alignment))

    def snapshot_window(self) -> Windowed:
        """One window for each maximal stretch of time in which the set of rows alive is the same.

        None where nothing is alive. Follow it with ``aggregate``. The CTI passes unchanged: a
        snapshot that has begun and not ended leaves as a start edge.
        """
        return Windowed(self, ops.snapshot_window())

    def hopping_window2(self, duration: Span, period: Span, alignment: Time = 0) -> Windowed:
        """Hopping windows that give output only where the input changes.

        ``snap_to_window_intervals``, then ``snapshot_window``: each result lives for the interval
        assigned to its window, which begins at the window's end, and equal neighbours that nothing
        separates are one row, so a row that never ends gives a finite result. The default
        alignment is 1970-01-01T00:00:00Z. Source: *Taming Hopping Windows*, ``HoppingWindow2``.
        """
        return Windowed(self, ops.hopping_window2(duration, period, alignment))

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
        unhandled = Unhandled()
        observer = Subscriber(lambda: None, on_next, on_error or unhandled, on_completed)
        subscription = self.to_observable(shape, ctis).subscribe(observer)  # type: ignore[arg-type]
        unhandled.raise_now()
        return subscription

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
        _checked(shape)

        def subscribe(
            observer: abc.ObserverBase[Event], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            run = self._execution(shape)
            emit = unpacked(observer.on_next, shape, ctis, lambda: time or run.time)
            run.start(emit, observer.on_error, observer.on_completed)
            # in turn, when whoever subscribes has the means to stop it (take, for one, does)
            CurrentThreadScheduler.singleton().schedule(lambda *_: run.drain())
            return Disposable(run.dispose)

        return Observable(subscribe)

    def to_batches(self, shape: EventShape = EventShape.EDGE) -> Iterator[EventBatch]:
        """Run the query to the end of its source, and yield its results as they become known.

        Batches come in the stream's own form, edges included, unless a shape is asked for. A source
        that pushes is waited for until it completes.
        """
        return self._to_batches(self._execution(shape))

    def _to_batches(self, run: Execution) -> Iterator[EventBatch]:
        results: SimpleQueue[EventBatch | Exception | None] = SimpleQueue()
        run.start(results.put, results.put, lambda: results.put(None))
        try:
            while True:
                # a source that has to be asked is asked for more when all that it gave is gone
                while run.pulls and results.empty() and run.advance():
                    pass
                result = _interruptibly(results)
                if result is None:
                    return
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            run.dispose()

    def to_events(
        self,
        shape: EventShape = EventShape.INTERVAL,
        *,
        ctis: bool = False,
        time: TimeForm | None = None,
    ) -> list[Event]:
        """Run the query to the end of its source, and return its results as events."""
        events: list[Event] = []
        run = self._execution(shape)
        emit = unpacked(events.append, shape, ctis, lambda: time or run.time)
        for batch in self._to_batches(run):
            emit(batch)
        return events

    def to_polars(self, *, time: TimeForm | None = None) -> pl.DataFrame:
        """Run the query to the end of its source, and return its results as one frame.

        Columns: ``start_time``, ``end_time`` (null: never ends), then the payload; rows in order of
        start. Times are datetimes in UTC if the source gave datetimes, else ticks.
        """
        run = self._execution(EventShape.INTERVAL)
        batches = list(self._to_batches(run))
        if not batches:
            batches = [EventBatch.empty(self.schema or pl.Schema(), MIN_TIME)]
        return EventBatch.concat(batches).to_polars(time or run.time)

    def run(self, sink: Sink, *, name: str | None = None) -> Process:
        """Run the query into a sink and return the running process, a context manager.

        ``name`` is the query's, under which a sink keeps what it has done; by default ``query``.
        """
        if not isinstance(sink, Sink):
            raise ArgumentError(
                f"run takes a sink, with shape, open, write and close, got {sink!r}"
            )
        return Process(name or "query", self._execution(sink.shape), sink, self.schema).start()

    def _execution(self, shape: EventShape) -> Execution:
        _checked(shape)
        return Execution(self._node, lift(lambda _: shaping(shape), "on the way out"))


class Windowed:
    """A stream cut into windows; ``aggregate`` says what to compute over each."""

    def __init__(self, stream: Streamable, window: Window) -> None:
        self._stream = stream
        self._window = window

    def aggregate(self, **aggregates: Aggregate) -> Streamable:
        """Return one row for each window, and key: the keys, then the named aggregates.

        Held: the rows' ends (and starts) that lie ahead of the CTI, and for each key its running
        aggregates. Cost: of what is new, whatever is alive. An integer sum that overflows is an
        error.
        """
        return self._stream._then(self._window.aggregate(**aggregates))


def _checked(shape: Any) -> None:
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}")


def _interruptibly(results: SimpleQueue[Result]) -> Result:
    """Return the next result, waiting in short slices so that Ctrl-C has a chance."""
    while True:
        with contextlib.suppress(Empty):
            return results.get(timeout=INTERRUPTIBLE)
