"""Subject whose input passes through a function of observables, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from reactivex import Observable, abc
from reactivex import operators as rx
from reactivex.disposable import CompositeDisposable
from reactivex.internal import DisposedException
from reactivex.subject import Subject

from rxtemporal.errors import ArgumentError
from rxtemporal.reactive.subscriber import OnCompleted, OnError, OnNext, Subscriber
from rxtemporal.text.plain_text import count_noun

T = TypeVar("T")


class DirectSubject(Subject[T]):
    """Subject of reactivex whose ``on_next`` is one call and takes no lock.

    reactivex's takes its lock twice for each value to copy the list of observers, and delivers
    outside of it. Copying a list is atomic, so the order of deliveries is no less certain here.
    """

    def on_next(self, value: T) -> None:
        """Deliver a value to all observers."""
        if self.is_disposed:
            raise DisposedException
        if not self.is_stopped:
            for observer in self.observers.copy():
                observer.on_next(value)

    def attach(self, observer: abc.ObserverBase[T]) -> abc.DisposableBase:
        """Subscribe an observer as it is, without the wrapper that ``subscribe`` puts around it.

        The wrapper would stop an observer that is disposed during a delivery.
        """
        return self._subscribe_core(observer)


In = TypeVar("In")
Out = TypeVar("Out")


class TransformSubject(Observable[Out], Generic[In, Out]):
    """Observer of one type and observable of another, with a transformation between them.

    Each value passes through ``transform(observable)`` once, and the results are published to all
    subscribers. ``dispose`` releases both the input and the output connection; pushing afterwards
    raises reactivex's ``DisposedException``.

    An exception in one subscriber reaches neither the producer nor the other subscribers: it is
    logged and counted in ``subscriber_errors``. An exception in ``transform`` goes to ``on_error``.

    Threads: ``subscribe`` and ``dispose`` from any; ``on_next`` from any if ``transform`` begins
    with ``synchronize()``, else from one at a time.

    Source: *CTI Synchronizing Subject*, section "Transform Subject".

    >>> from reactivex import operators
    >>> subject = TransformSubject.create(lambda xs: xs.pipe(operators.map(lambda x: x + 1)))
    >>> subscription = subject.subscribe(print)
    >>> subject.on_next(1)
    2
    """

    def __init__(self, transform: Callable[[Observable[In]], Observable[Out]]) -> None:
        super().__init__()
        if not callable(transform):
            raise ArgumentError(
                f"transform is a function from an observable to an observable, got {transform!r}"
            )
        self._input: DirectSubject[In] = DirectSubject()
        self._output: DirectSubject[Out] = DirectSubject()
        # publish, with a subject of ours
        connection = transform(self._input).pipe(rx.multicast(self._output)).connect()
        assert connection is not None
        self._subscription = CompositeDisposable(self._input, connection)
        self.subscriber_errors = 0
        # the input's own method: one call less for each event
        self.on_next = self._input.on_next  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"TransformSubject({count_noun(len(self._output.observers), 'subscriber')})"

    @staticmethod
    def create(
        transform: Callable[[Observable[Any]], Observable[Any]],
    ) -> TransformSubject[Any, Any]:
        """Return a subject whose output is ``transform`` of its input."""
        return TransformSubject(transform)

    def on_next(self, value: In) -> None:
        """Push a value in."""
        self._input.on_next(value)

    def on_error(self, error: Exception) -> None:
        """Fail the stream: subscribers get the error, and nothing after it."""
        self._input.on_error(error)

    def on_completed(self) -> None:
        """End the stream."""
        self._input.on_completed()

    @property
    def has_subscribers(self) -> bool:
        """True if somebody gets the results."""
        return bool(self._output.observers)

    def subscribe(
        self,
        on_next: abc.ObserverBase[Out] | OnNext | None = None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
        *,
        scheduler: abc.SchedulerBase | None = None,
    ) -> abc.DisposableBase:
        """Deliver all values from now on; dispose the result to stop."""
        self._input.check_disposed()
        guarded = Subscriber(self._count_failure, on_next, on_error, on_completed)
        return self._output.subscribe(
            guarded.on_next, guarded.on_error, guarded.on_completed, scheduler=scheduler
        )

    def attach(self, observer: abc.ObserverBase[Out]) -> abc.DisposableBase:
        """Subscribe an observer that does not raise, as it is."""
        self._input.check_disposed()
        return self._output.attach(observer)

    def dispose(self) -> None:
        """Release the input and the output connection."""
        self._subscription.dispose()

    def _count_failure(self) -> None:
        self.subscriber_errors += 1
