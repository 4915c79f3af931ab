"""Lifting of an operator's step to an Rx operator."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable, abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.engine.step import Step, find_earliest_due
from rxtemporal.errors import BindingError, blame
from rxtemporal.reactive.direct_subject import DirectSubject
from rxtemporal.reactive.meters import Gauge, Meter, Tap

BatchOperator = Callable[..., Observable[EventBatch]]


class Entry(DirectSubject[EventBatch], Meter):
    """Subject through which the batches of one source enter a run, and their meter."""

    def __init__(self, clock: Callable[[], float]) -> None:
        DirectSubject.__init__(self)
        Meter.__init__(self, clock)
        self._count = self.tap(None)

    def on_next(self, value: EventBatch) -> None:
        """Count a batch and deliver it."""
        self._count(value)
        DirectSubject.on_next(self, value)  # super() takes longer

    def watch(self, tap: Tap | None) -> None:
        """Call ``tap`` with each batch that enters; None: nobody looks any more."""
        self._count = self.tap(tap)


def make_batch_error(item: object) -> BindingError:
    """Return the error for an item of an observable that is no batch."""
    return BindingError(
        f"an operator of rxtemporal in a pipe takes event batches, got {brief(item)}. "
        "Hint: make a stream of the events, whose methods are the operators: "
        "rxt.from_observable(events).where(…)."
    )


def lift(
    make: Callable[[EventBatch], Step], place: str, *, passes_time: bool = True
) -> BatchOperator:
    """Return the Rx operator that runs a step: one for each subscription, made at its first batch.

    ``make`` gets the first batch, for its schema. An exception that it or the step raises goes to
    ``on_error`` with ``place``, where the operator was composed. A batch that brings neither rows
    nor time is not passed on. ``passes_time`` is True if, before the schema is known, the output
    CTI equals the input CTI. A ``gauge`` given with the source counts batches.
    """

    def operator(
        source: Observable[EventBatch], gauge: Gauge | None = None
    ) -> Observable[EventBatch]:
        def subscribe(
            observer: abc.ObserverBase[EventBatch], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            lifted = _StepObserver(make, place, observer, passes_time, gauge or Gauge())
            return attach(lifted, source, scheduler)

        return Lifted(subscribe)

    return operator


class Lifted(Observable[EventBatch]):
    """Batches that leave a step."""

    def attach(self, observer: abc.ObserverBase[EventBatch]) -> abc.DisposableBase:
        """Subscribe the next step as it is, without the wrapper of ``subscribe``.

        The wrapper around the last observer stops all of them.
        """
        return self._subscribe_core(observer)


def attach(
    observer: abc.ObserverBase[EventBatch],
    source: Observable[EventBatch],
    scheduler: abc.SchedulerBase | None,
) -> abc.DisposableBase:
    """Subscribe a step's observer, without the wrapper of ``subscribe`` where it needs none."""
    if isinstance(source, Lifted | DirectSubject):  # one call less for each batch
        return source.attach(observer)
    return source.subscribe(observer, scheduler=scheduler)


class _StepObserver(abc.ObserverBase[EventBatch]):
    """Observer that runs one operator's step in one subscription."""

    __slots__ = (
        "_count_out", "_cti", "_first", "_make", "_meter", "_observer", "_passes_time", "_place",
        "_step",
    )  # fmt: skip

    def __init__(
        self,
        make: Callable[[EventBatch], Step],
        place: str,
        observer: abc.ObserverBase[EventBatch],
        passes_time: bool,
        gauge: Gauge,
    ) -> None:
        self._meter = gauge.output
        self._count_out = self._meter.tap(None)
        gauge.step = self
        self._passes_time = passes_time
        self._make = make
        self._place = place
        self._observer = observer
        self._step: Step | None = None
        # the fields that the step was made for
        self._first: EventBatch | None = None
        self._cti = MIN_TIME

    @property
    def rows(self) -> int:
        return 0 if self._step is None else self._step.rows

    @property
    def next_due(self) -> int | None:
        return None if self._step is None else find_earliest_due(self._step)

    @property
    def missing(self) -> int | None:
        return None

    def watch(self, tap: Tap | None) -> None:
        self._count_out = self._meter.tap(tap)

    def on_next(self, batch: EventBatch) -> None:
        if type(batch) is not EventBatch:
            self._observer.on_error(blame(make_batch_error(batch), self._place))
            return
        step, result = self._step, batch
        # if the fields are not known yet only time passes, and not where the operator would alter
        # it; the end of time is the same everywhere
        if step is not None or batch.columns.height or batch.schema:
            try:
                result = (self._begin(batch) if step is None else step).on_batch(batch)
            except Exception as error:
                self._observer.on_error(blame(error, self._place))
                return
        elif not self._passes_time and batch.cti != MAX_TIME:
            return
        if result.cti > self._cti or len(result.start):
            self._cti = result.cti
            self._count_out(result)
            self._observer.on_next(result)

    def on_error(self, error: Exception) -> None:
        self._observer.on_error(error)

    def on_completed(self) -> None:
        self._observer.on_completed()

    def _begin(self, first: EventBatch) -> Step:
        self._step, self._first = self._make(first), first.none(MIN_TIME)
        return self._step

    def capture(self) -> Captured:
        step = None if self._step is None else self._step.capture()
        return Captured("operator", [self._cti, self._first, step])

    def load(self, data: bytes) -> None:
        self._cti, first, step = loads("operator", data)
        if first is not None:
            self._begin(first).load(step)
