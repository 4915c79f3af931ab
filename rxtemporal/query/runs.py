"""Runs of a query, started by the methods of a stream that return results.

Only this module imports the runtime, so that composing a query does not load it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import polars as pl
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.scheduler import CurrentThreadScheduler

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.core.log import get_logger
from rxtemporal.core.row_text import format_frame, get_width
from rxtemporal.core.safe_text import brief
from rxtemporal.core.schema import refuse_lists
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME, TimeLike
from rxtemporal.core.time_forms import check_time_form
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.engine.step import Step
from rxtemporal.errors import ArgumentError, BindingError
from rxtemporal.ingress.unpacker import Unpacker, make_unpacker
from rxtemporal.operators.fingerprint import Fingerprints
from rxtemporal.operators.stream import Stream
from rxtemporal.query.async_bridge import iterate_results
from rxtemporal.reactive.clock import Clock
from rxtemporal.reactive.subscriber import OnCompleted, OnError, RaiseOrLog, Subscriber
from rxtemporal.run import checkpoint
from rxtemporal.run.checkpoint import Resumption, make_checkpointer
from rxtemporal.run.evolution import Evolution
from rxtemporal.run.execution import Execution, Output
from rxtemporal.run.outlet import Outlet
from rxtemporal.run.process import Process
from rxtemporal.run.recovery import make_log
from rxtemporal.run.run_end import INTERRUPT_PERIOD
from rxtemporal.run.stalls import StallWatch
from rxtemporal.run.time_flow import find_imported
from rxtemporal.sinks.sink import Sink
from rxtemporal.storage.event_log.recorder import RunRecorder

# seconds after which a call that waits for the end of its sources says so
PATIENCE = 5.0
_DELIVER = "subscribe(on_next) or run(sink) deliver results as they come"
_log = get_logger(__name__)


def refuse_endless(stream: Stream, call: str) -> None:
    """Raise an error if a call waits for the end of a source that has none."""
    for node in stream._node.list_nodes():
        if node.source is not None and getattr(node.source, "endless", False):
            raise BindingError(
                f"{call} returns when its sources have ended, and {node.source.name!r} never "
                f"ends. Hint: {_DELIVER}; head(n) returns the first n rows."
            )


def start_notice(run: Execution, call: str) -> abc.DisposableBase:
    """Log, once, which sources a call waits for, if it waits for ``PATIENCE`` seconds.

    Only sources that are not known to end are waited for in this way.
    """
    if all(reader.source.bounded for reader in run.readers):
        return Disposable()
    return run.clock.schedule(PATIENCE, lambda: _tell(run, call))


def _tell(run: Execution, call: str) -> None:
    waited = [reader for reader in run.readers if not reader.ended]
    if run.ended or not waited:
        return
    names = ", ".join(repr(reader.name) for reader in waited)
    rows = sum(reader.meter.rows_out for reader in run.readers)
    ended = "has" if len(waited) == 1 else "have"
    _log.warning(
        f"{call} is still waiting: {names} {ended} not ended, after {rows:,} rows in. "
        f"Hint: a source that pushes ends with on_completed() or close(); {_DELIVER}."
    )


class _Results:
    """The results of a subscription, as the watch over stalls sees them."""

    name, sink = "query", None

    def __init__(self, run: Execution) -> None:
        self._run, self._meter = run, run.wiring.leaves[0][1]
        self._seen, self._wrote = (0, 0), run.clock.elapsed()

    @property
    def cti(self) -> int:
        """The CTI of the results."""
        return self._meter.cti

    @property
    def wrote(self) -> float:
        """Seconds of the wall clock when a row or a CTI was last seen to come out."""
        if (seen := (self._meter.rows_out, self._meter.cti)) != self._seen:
            self._seen, self._wrote = seen, self._run.clock.elapsed()
        return self._wrote


def watch_results(run: Execution, warn_after: Span | None) -> StallWatch:
    """Return a watch that warns when a subscription gets neither rows nor CTIs; not started."""
    return StallWatch("subscribe", run, [_Results(run)], warn_after, _log)


def may_wait(run: Execution) -> bool:
    """Return True if a run may wait for a source: it pushes, or its end is not known."""
    return run.may_block or not run.pulls


def collect_head(stream: Stream, n: int, time: TimeForm | None) -> pl.DataFrame:
    """Run a query until its first ``n`` rows are known, stop it, and return them as a frame."""
    _check_count(n)
    run = execute(stream, EventShape.INTERVAL)
    batches: list[EventBatch] = []
    missing = n
    with contextlib.closing(iterate(run, "head()")) as results:
        while missing and (batch := next(results, None)) is not None:
            batches.append(batch.slice(0, missing))
            missing -= len(batches[-1])
    if not batches:
        batches = [EventBatch.empty(stream.schema or pl.Schema(), MIN_TIME)]
    return EventBatch.concat(batches).to_polars(time or run.time)


def print_head(stream: Stream, n: int, time: TimeForm | None) -> None:
    """Print the first ``n`` rows of a query as a table that says if there are more."""
    _check_count(n)
    print(format_frame(collect_head(stream, n + 1, time), n, get_width()))


def _check_count(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ArgumentError(
            f"n is a number of rows, 0 or more, got {n!r}. Hint: select(…) chooses fields."
        )


Result = TypeVar("Result")
Path = str | os.PathLike[str] | None


def shape_output(stream: Stream, shape: EventShape) -> Output:
    """Return a stream as an output of an execution, with its events in a shape."""
    check_shape(shape)
    if stream.schema is not None:
        refuse_lists(stream.schema)
    return stream._node, partial(_shape, shape, stream._node.clock is not None)


def _shape(shape: EventShape, by_device: bool, first: EventBatch) -> Step:
    refuse_lists(first.schema)
    step = make_shape_step(shape, by_device=by_device)
    step.identify(f"{shape.name.lower()} shape")
    return step


def check_shape(shape: Any) -> None:
    """Raise an error if this is not an ``EventShape``."""
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}. Hint: rxt.EventShape.POINT.")


def execute(stream: Stream, shape: EventShape) -> Execution:
    """Return a new execution of a query."""
    return Execution(shape_output(stream, shape), others=find_imported([stream._node], {}))


def observe(
    stream: Stream,
    shape: EventShape,
    ctis: bool,
    time: TimeForm | None,
    warn_after: Span | None = None,
) -> Observable[Event]:
    """Return an observable of a query's results; each subscription is a run of its own."""
    check_shape(shape)

    def subscribe(
        observer: abc.ObserverBase[Event], scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        run = execute(stream, shape)
        emit = make_unpacker(observer.on_next, shape, ctis, lambda: time or run.time)
        watch = watch_results(run, warn_after)

        def fail(error: Exception) -> None:
            watch.dispose()
            observer.on_error(error)

        def complete() -> None:
            watch.dispose()
            observer.on_completed()

        def deliver(batch: EventBatch) -> None:
            try:
                emit(batch)
            except Exception as error:  # of whoever gets the results
                run.dispose(error)
                fail(error)

        run.start(deliver, fail, complete)
        if may_wait(run) and not run.ended:
            watch.start()
        # scheduled, so that the subscriber can already dispose of it (as take does)
        CurrentThreadScheduler.singleton().schedule(lambda *_: run.drain())
        return CompositeDisposable(watch, Disposable(run.release))

    return Observable(subscribe)


def subscribe(
    events: Observable[Event],
    on_next: abc.ObserverBase[Event] | Callable[[Event], None] | None,
    on_error: OnError | None,
    on_completed: OnCompleted | None,
) -> abc.DisposableBase:
    """Subscribe to results; raise an error without a handler, or log it if it comes later.

    An exception in ``on_next`` ends the run, and is its error.
    """
    if not (on_next is None or callable(on_next) or hasattr(on_next, "on_next")):
        raise ArgumentError(
            f"on_next is a function of an event, or an observer, got {brief(on_next)}"
        )
    default = RaiseOrLog()
    guarded = Subscriber(lambda: None, on_next, on_error or default, on_completed)
    subscription = events.subscribe(guarded.receive, guarded.on_error, guarded.on_completed)
    default.raise_error()
    return subscription


def iterate(run: Execution, call: str = "to_batches()") -> Generator[EventBatch, None, None]:
    """Run to the end of the sources, and yield results as they become known.

    ``call`` is what waits for the results, for the log.
    """
    waiting: SimpleQueue[EventBatch | Exception | None] = SimpleQueue()
    run.start(waiting.put, waiting.put, lambda: waiting.put(None))
    notice = start_notice(run, call)
    try:
        pulls = run.pulls
        while True:
            # read more only when all results so far have been consumed
            while pulls and waiting.empty() and run.advance():
                pass
            result = _get_interruptibly(waiting) if waiting.empty() else waiting.get()
            if result is None:
                return
            if isinstance(result, Exception):
                raise result
            yield result
    finally:
        notice.dispose()
        run.release()


def _get_interruptibly(waiting: SimpleQueue[Result]) -> Result:
    """Wait for the next result and return it; wait in short slices so that Ctrl-C works."""
    while True:
        with contextlib.suppress(Empty):
            return waiting.get(timeout=INTERRUPT_PERIOD)


def iterate_async(
    stream: Stream, shape: EventShape, ctis: bool, time: TimeForm | None
) -> AsyncIterator[Event]:
    """Return an async iterator over the results of a new run of a query."""
    check_shape(shape)

    def unpack(run: Execution) -> Callable[[EventBatch], list[Event]]:
        return Unpacker(shape, ctis, lambda: time or run.time).list_events

    return iterate_results(partial(execute, stream, shape), unpack)


def iterate_rows_async(stream: Stream) -> AsyncIterator[dict[str, Any]]:
    """Return an async iterator over the rows of a new run of a query, as dicts."""

    def unpack(run: Execution) -> Callable[[EventBatch], list[dict[str, Any]]]:
        return lambda batch: batch.to_dicts(run.time)

    return iterate_results(partial(execute, stream, EventShape.INTERVAL), unpack)


def collect_events(
    stream: Stream, shape: EventShape, ctis: bool, time: TimeForm | None
) -> list[Event]:
    """Run a query to the end of its source, and return its results as events."""
    events: list[Event] = []
    check_time_form(time)
    refuse_endless(stream, "to_events()")
    run = execute(stream, shape)
    unpacker = Unpacker(shape, ctis, lambda: time or run.time)
    for batch in iterate(run, "to_events()"):
        unpacker.add_events(batch, events)
    return events


def collect_frame(stream: Stream, time: TimeForm | None) -> pl.DataFrame:
    """Run a query to the end of its source, and return its results as one frame."""
    check_time_form(time)
    refuse_endless(stream, "to_polars()")
    run = execute(stream, EventShape.INTERVAL)
    batches = list(iterate(run, "to_polars()"))
    if not batches:
        batches = [EventBatch.empty(stream.schema or pl.Schema(), MIN_TIME)]
    return EventBatch.concat(batches).to_polars(time or run.time)


def start_process(
    name: str,
    queries: Mapping[str, tuple[Stream, Sink]],
    named: Mapping[str, Stream],
    *,
    record: Path,
    log: Path,
    resumption: Resumption | None,
    warn_after: Span | None,
    scheduler: abc.SchedulerBase | None,
) -> Process:
    """Start queries and their sinks as one process; ``named`` are the input streams."""
    outlets = [
        Outlet(
            each,
            sink,
            stream.schema,
            stream._node.list_device_fields(),
            "; ".join(Fingerprints(n for n in stream._node.list_nodes() if n.operator).lines),
        )
        for each, (stream, sink) in queries.items()
    ]
    outputs = [shape_output(stream, sink.shape) for stream, sink in queries.values()]
    checkpointer = make_checkpointer(resumption, record, log, name)
    recorder = None if record is None else RunRecorder(record, name)
    event_log = None if log is None else make_log(log, name)
    execution = _make_execution(outputs, named, Clock(scheduler))
    return Process(name, execution, outlets, warn_after, recorder, checkpointer, event_log).start()


def plan_change(
    path: str | os.PathLike[str],
    queries: Mapping[str, Stream],
    named: Mapping[str, Stream],
    replay_from: TimeLike | None = None,
) -> Evolution:
    """Return what queries would keep of a folder of ``resume=``, which no run has; nothing runs."""
    outputs = [shape_output(stream, EventShape.EDGE) for stream in queries.values()]
    execution = _make_execution(outputs, named, Clock())
    return checkpoint.plan_change(pathlib.Path(path), execution, [*queries], replay_from)


def _make_execution(
    outputs: Sequence[Output], named: Mapping[str, Stream], clock: Clock
) -> Execution:
    others = find_imported(
        [node for node, _ in outputs], {each: stream._node for each, stream in named.items()}
    )
    names = {id(stream._node.source): each for each, stream in named.items()}
    return Execution(*outputs, names=names, others=others, clock=clock)
