"""Refusal of pushes into a subject whose run with an event log has ended."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxtemporal.reactive.subscriber import RunObserver
from rxtemporal.runtime.run_end import RunEnd


class Refusal(RunObserver):
    """Observer that raises ``ProcessEndedError`` at each push, in place of a run that has ended.

    A subject cannot say that nobody accepts what is pushed into it, so its producers would go on as
    if all were well. It has one refusal at most, until another run with an event log subscribes.
    ``completed``: the stream had completed in an earlier run.
    """

    def __init__(
        self, subject: Observable[Any], stream: str, run_end: RunEnd, *, completed: bool = False
    ) -> None:
        self._subject = subject
        self._stream = stream
        self._run_end = run_end
        self._completed = completed
        self._subscription: abc.DisposableBase = Disposable()
        self._is_subscribing = False

    def begin(self) -> None:
        """Subscribe in place of the run, unless this was done before."""
        with _lock:
            before, _refusals[self._subject] = _refusals.get(self._subject), self
        if before is not self:
            if before is not None:
                before.end()
            self._subscribe()

    def _subscribe(self) -> None:
        self._is_subscribing = True
        try:
            subscription = self._subject.subscribe(self)
        finally:
            self._is_subscribing = False
        # several threads may be here: each disposes the subscription that it replaces
        with _lock:
            before, self._subscription = self._subscription, subscription
        before.dispose()

    def end(self) -> None:
        """Accept that another run takes what is pushed."""
        self._subscription.dispose()

    def on_next(self, item: Any) -> None:
        """Raise the error of the run that has ended."""
        if self._is_subscribing:  # a subject that repeats its last items
            return
        # reactivex detaches an observer that raises
        self._subscribe()
        raise self._run_end.refuse(self._stream, completed=self._completed)

    def on_error(self, error: Exception) -> None:
        """Ignore the error: nobody listens any more."""

    def on_completed(self) -> None:
        """Ignore the end: nobody listens any more."""


_lock = threading.Lock()
_refusals: WeakKeyDictionary[Observable[Any], Refusal] = WeakKeyDictionary()


def release(subject: Observable[Any]) -> None:
    """Remove the refusal from a subject to which a run subscribes."""
    with _lock:
        refusal = _refusals.pop(subject, None)
    if refusal is not None:
        refusal.end()
