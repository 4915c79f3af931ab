"""Runs of a query, started by the methods of a stream that return results.

Only this module imports the runtime, so that composing a query does not load it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

import polars as pl
from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable, Disposable
from reactivex.scheduler import CurrentThreadScheduler

from rxtemporal.core.batch import EventBatch, TimeForm
from rxtemporal.core.events import Event, EventShape
from rxtemporal.core.safe_text import brief
from rxtemporal.core.schema import refuse_lists
from rxtemporal.core.spans import Span
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.shape import make_shape_step
from rxtemporal.engine.step import Step
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.unpacker import Unpacker, make_unpacker
from rxtemporal.operators.stream import Stream
from rxtemporal.query.async_bridge import iterate_results
from rxtemporal.query.patience import may_wait, refuse_endless, start_notice, watch_results
from rxtemporal.reactive.clock import Clock
from rxtemporal.reactive.subscriber import OnCompleted, OnError, RaiseOrLog, Subscriber
from rxtemporal.runtime.checkpoint import make_checkpointer
from rxtemporal.runtime.execution import Execution, Output
from rxtemporal.runtime.listeners import INTERRUPT_PERIOD
from rxtemporal.runtime.outlet import Outlet
from rxtemporal.runtime.process import Process
from rxtemporal.runtime.recovery import make_log
from rxtemporal.runtime.time_flow import find_imported
from rxtemporal.sinks import Sink
from rxtemporal.storage.event_log.recorder import RunRecorder

Result = TypeVar("Result")
Path = str | os.PathLike[str] | None


def shape_output(stream: Stream, shape: EventShape) -> Output:
    """Return a stream as an output of an execution, with its events in a shape."""
    check_shape(shape)
    if stream.schema is not None:
        refuse_lists(stream.schema)
    return stream._node, partial(_shape, shape)


def _shape(shape: EventShape, first: EventBatch) -> Step:
    refuse_lists(first.schema)
    step = make_shape_step(shape)
    step.made_for = f"{shape.name.lower()} shape"
    return step


def check_shape(shape: Any) -> None:
    """Raise an error if this is not an ``EventShape``."""
    if not isinstance(shape, EventShape):
        raise ArgumentError(f"shape is an EventShape, got {shape!r}. Hint: rxt.EventShape.POINT.")


def check_time_form(time: Any) -> None:
    """Raise an error if this is no form of times."""
    if time not in (None, "ticks", "datetime"):
        raise ArgumentError(f"time is 'ticks' or 'datetime', got {brief(time)}")


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
        return CompositeDisposable(watch, Disposable(run.dispose))

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
        run.dispose()


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

    def form(emit: Callable[[Event], None], run: Execution) -> Callable[[EventBatch], None]:
        return make_unpacker(emit, shape, ctis, lambda: time or run.time)

    return iterate_results(partial(execute, stream, shape), form)


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
    resume: Path,
    warn_after: Span | None,
    scheduler: abc.SchedulerBase | None,
) -> Process:
    """Start queries and their sinks as one process; ``named`` are the input streams."""
    outlets = [Outlet(each, sink, stream.schema) for each, (stream, sink) in queries.items()]
    outputs = [shape_output(stream, sink.shape) for stream, sink in queries.values()]
    others = find_imported(
        [node for node, _ in outputs], {each: stream._node for each, stream in named.items()}
    )
    checkpointer = make_checkpointer(resume, record, log, name)
    recorder = None if record is None else RunRecorder(record, name)
    event_log = None if log is None else make_log(log, name)
    execution = Execution(
        *outputs,
        names={id(stream._node.source): each for each, stream in named.items()},
        others=others,
        clock=Clock(scheduler),
    )
    return Process(name, execution, outlets, warn_after, recorder, checkpointer, event_log).start()
