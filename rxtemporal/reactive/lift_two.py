"""Steps of two inputs as observables."""

from __future__ import annotations

from collections.abc import Callable

from reactivex import Observable, abc
from reactivex.disposable import CompositeDisposable

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.engine.codec import Captured, loads
from rxtemporal.engine.step import TwoInputStep, find_earliest_due
from rxtemporal.errors import blame
from rxtemporal.reactive.lift import BatchOperator, Lifted, attach, make_batch_error
from rxtemporal.reactive.meters import Gauge, Tap


def lift_two(
    make: Callable[[EventBatch, EventBatch], TwoInputStep],
    place: str,
    absent: Callable[[int, EventBatch], EventBatch],
) -> BatchOperator:
    """Return the Rx operator that runs a step of two inputs, as ``lift`` does for one.

    ``make`` gets a batch of each input, for their schemas. Until both are known batches wait. An
    input that ends before its schema is known gets the one that ``absent`` derives from the other.
    The output completes when both inputs have, and fails when one does.
    """

    def operator(
        left: Observable[EventBatch], right: Observable[EventBatch], gauge: Gauge | None = None
    ) -> Observable[EventBatch]:
        def subscribe(
            observer: abc.ObserverBase[EventBatch], scheduler: abc.SchedulerBase | None = None
        ) -> abc.DisposableBase:
            lifted = _MergingObserver(make, place, absent, observer, gauge or Gauge())
            inputs = [
                attach(_SideObserver(lifted, side), source, scheduler)
                for side, source in enumerate((left, right))
            ]
            return CompositeDisposable(*inputs)

        return Lifted(subscribe)

    return operator


class _SideObserver(abc.ObserverBase[EventBatch]):
    """Observer of one of the two inputs."""

    __slots__ = ("_lifted", "_side")

    def __init__(self, lifted: _MergingObserver, side: int) -> None:
        self._lifted, self._side = lifted, side

    def on_next(self, batch: EventBatch) -> None:
        self._lifted.on_next(self._side, batch)

    def on_error(self, error: Exception) -> None:
        self._lifted.on_error(error)

    def on_completed(self) -> None:
        self._lifted.on_completed(self._side)


class _MergingObserver:
    """Observer of two inputs that runs one operator's step in one subscription."""

    __slots__ = (
        "_absent", "_completed", "_count_out", "_cti", "_ended", "_make", "_meter", "_observer",
        "_place", "_seen", "_step", "_waiting",
    )  # fmt: skip

    def __init__(
        self,
        make: Callable[[EventBatch, EventBatch], TwoInputStep],
        place: str,
        absent: Callable[[int, EventBatch], EventBatch],
        observer: abc.ObserverBase[EventBatch],
        gauge: Gauge,
    ) -> None:
        self._meter = gauge.output
        self._count_out = self._meter.tap(None)
        gauge.step = self
        self._make = make
        self._place = place
        self._absent = absent
        self._observer = observer
        self._step: TwoInputStep | None = None
        self._cti = MIN_TIME
        # batches from before both schemas were known, in order of arrival
        self._waiting: list[tuple[int, EventBatch]] = []
        self._seen: list[EventBatch | None] = [None, None]
        self._completed = [False, False]
        self._ended = False

    @property
    def rows(self) -> int:
        waiting = sum(len(batch) for _, batch in list(self._waiting))
        return waiting + (0 if self._step is None else self._step.rows)

    @property
    def next_due(self) -> int | None:
        return find_earliest_due([self._step, *(batch for _, batch in list(self._waiting))])

    @property
    def missing(self) -> int | None:
        left, right = self._seen
        if self._step is not None or (left is None) == (right is None):
            return None
        return 0 if left is None else 1

    def capture(self) -> Captured:
        seen = [None if batch is None else batch.none(MIN_TIME) for batch in self._seen]
        step = None if self._step is None else self._step.capture()
        return Captured("operator", [self._cti, seen, self._waiting, step])

    def load(self, data: bytes) -> None:
        self._cti, self._seen, self._waiting, step = loads("operator", data)
        left, right = self._seen
        if step is not None and left is not None and right is not None:
            self._step = self._make(left, right)
            self._step.load(step)

    def watch(self, tap: Tap | None) -> None:
        self._count_out = self._meter.tap(tap)

    def on_next(self, side: int, batch: EventBatch) -> None:
        if self._ended:
            return
        if type(batch) is not EventBatch:
            self.on_error(blame(make_batch_error(batch), self._place))
            return
        if self._step is None:
            self._waiting.append((side, batch))
            if batch.schema or len(batch):
                self._seen[side] = self._seen[side] or batch
            self._start()
        else:
            self._take(side, batch)

    def _start(self) -> None:
        """Make the step once both schemas are known, and give it the batches that have waited."""
        for side, completed in enumerate(self._completed):
            other = self._seen[1 - side]
            if completed and self._seen[side] is None and other is not None:
                self._seen[side] = self._absent(side, other)
        left, right = self._seen
        if left is None or right is None:
            return
        try:
            self._step = self._make(left, right)
        except Exception as error:
            self.on_error(blame(error, self._place))
            return
        waiting, self._waiting = self._waiting, []
        schemas = left.schema, right.schema
        for side, batch in waiting:
            if not batch.schema and schemas[side]:  # time alone, from before the first event
                batch = self._seen_none(side, batch.cti)
            self._take(side, batch)

    def _seen_none(self, side: int, cti: int) -> EventBatch:
        seen = self._seen[side]
        assert seen is not None
        return seen.none(cti)

    def _take(self, side: int, batch: EventBatch) -> None:
        if self._ended or self._step is None:
            return
        try:
            take = self._step.on_right if side else self._step.on_left
            result = take(batch)
        except Exception as error:
            self.on_error(blame(error, self._place))
            return
        if len(result.start) or result.cti > self._cti:
            self._cti = result.cti
            self._count_out(result)
            self._observer.on_next(result)

    def on_error(self, error: Exception) -> None:
        if not self._ended:
            self._ended = True
            self._observer.on_error(error)

    def on_completed(self, side: int) -> None:
        self._completed[side] = True
        if self._ended:
            return
        if self._step is None and self._seen[side] is None:
            self._start()
        if all(self._completed) and not self._ended:
            self._ended = True
            self._observer.on_completed()
