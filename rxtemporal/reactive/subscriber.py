"""Subscribers kept apart: what one of them raises reaches nobody else.

In reactivex an exception in one subscriber travels into the producer's call and past every other
subscriber.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from reactivex import abc

from rxtemporal.core.log import get_logger

OnNext: TypeAlias = Callable[[Any], None]
OnError: TypeAlias = Callable[[Exception], None]
OnCompleted: TypeAlias = Callable[[], None]

_log = get_logger(__name__)


class Subscriber:
    """One subscriber's three callbacks, none of which can hurt anybody else.

    What ``on_next`` raises is logged and counted by ``failed``, and the subscriber stays
    subscribed: one bad event does not cost it the rest. An error nobody handles is logged.
    """

    __slots__ = ("_failed", "_on_completed", "_on_error", "receive")

    def __init__(
        self,
        failed: Callable[[], None],
        on_next: abc.ObserverBase[Any] | OnNext | None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
    ) -> None:
        if on_next is not None and hasattr(on_next, "on_next"):
            observer: Any = on_next
            on_next, on_error = observer.on_next, observer.on_error
            on_completed = observer.on_completed
        self._failed = failed
        self.receive = cast("OnNext | None", on_next)
        self._on_error = on_error
        self._on_completed = on_completed

    def on_next(self, value: Any) -> None:
        """Hand over one value."""
        if self.receive is None:
            return
        try:
            self.receive(value)
        except Exception:
            self._count_failure("on_next")

    def on_error(self, error: Exception) -> None:
        """Hand over the error that ended the stream."""
        if self._on_error is None:
            log_unhandled(error)
            return
        try:
            self._on_error(error)
        except Exception:
            self._count_failure("on_error")

    def on_completed(self) -> None:
        """Say that the stream has ended."""
        if self._on_completed is None:
            return
        try:
            self._on_completed()
        except Exception:
            self._count_failure("on_completed")

    def _count_failure(self, channel: str) -> None:
        self._failed()
        log_failure(channel)


class RaiseOrLog:
    """Stands in for an ``on_error`` that nobody gave: raises where it can, and logs otherwise."""

    __slots__ = ("_error", "_returned")

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._returned = False

    def __call__(self, error: Exception) -> None:
        """Keep the error that ended the stream, or log it if it is too late to raise it."""
        if self._returned:
            log_unhandled(error)
        else:
            self._error = error

    def raise_error(self) -> None:
        """Raise what has been kept; from now on errors are logged."""
        self._returned = True
        if self._error is not None:
            raise self._error


def log_unhandled(error: Exception) -> None:
    """Log an error that ended a stream and that nobody handles."""
    _log.error("stream failed and nobody handles it", error=repr(error))


def log_failure(channel: str) -> None:
    """Log the exception of a subscriber that is being handled."""
    _log.exception("a subscriber raised; the others are not affected", channel=channel)
