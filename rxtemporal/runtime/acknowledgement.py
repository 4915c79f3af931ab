"""An observer that acknowledges an event once it is durable in the event log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable

from rxtemporal.reactive.subscriber import RunObserver
from rxtemporal.runtime.refusal import Refusal, release
from rxtemporal.runtime.run_end import RunEnd
from rxtemporal.storage.event_log.log import Tape


class Acknowledger(RunObserver):
    """Observer whose ``on_next`` returns once the event is durable in the event log.

    Producers wait outside of the run's lock, so those of several streams share a commit. ``failed``
    is called with the error if an event cannot be logged; the producer gets it, too. ``safe`` is
    called when events have become durable. If ``subject`` is what producers push into, they get
    ``ProcessEndedError`` after the run's end, until another run subscribes to it.
    """

    def __init__(
        self,
        observer: abc.ObserverBase[Any],
        tape: Tape,
        failed: Callable[[BaseException], None],
        safe: Callable[[], object],
        run_end: RunEnd,
        subject: Any = None,
    ) -> None:
        self._observer = observer
        self._tape = tape
        self._failed = failed
        self._on_safe = safe
        self._subject = subject
        self._refusal = None if subject is None else Refusal(subject, tape.facts.name, run_end)

    def subscribe(
        self, connect: Callable[[Acknowledger], abc.DisposableBase]
    ) -> abc.DisposableBase:
        """Connect to the source; return the subscription, which refuses once it is disposed."""
        if self._subject is not None:
            release(self._subject)
        return CompositeDisposable(Disposable(self._refuse), connect(self))

    def _refuse(self) -> None:
        if self._refusal is not None:
            self._refusal.begin()

    def on_next(self, item: Any) -> None:
        """Push an event or a batch; it is durable afterwards, or else an error is raised."""
        try:
            # before any lock, which a thread of the parent may have held
            self._tape.refuse_fork()
            self._observer.on_next(item)
            self._make_durable()
        except BaseException:
            self._refuse()  # an observer that raises is detached
            raise

    def on_error(self, error: Exception) -> None:
        """Fail the source; this is not logged, since the source may work in the next run."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the source; its end is durable afterwards."""
        self._observer.on_completed()
        self._make_durable()

    def _make_durable(self) -> None:
        try:
            self._tape.flush()
            self._on_safe()
        except BaseException as error:
            self._failed(error)
            raise
