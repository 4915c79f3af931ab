"""Isolated subscribers: an exception in one of them does not affect the others.

In reactivex an exception in one subscriber propagates into the producer's call, and the other
subscribers miss the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from reactivex import abc

from rxtemporal.core.log import get_logger
from rxtemporal.core.safe_text import show

if TYPE_CHECKING:
    from rxtemporal.reactive.inbox import Inbox

OnNext: TypeAlias = Callable[[Any], None]
OnError: TypeAlias = Callable[[Exception], None]
OnCompleted: TypeAlias = Callable[[], None]

_log = get_logger(__name__)


class RunObserver(abc.ObserverBase[Any]):
    """Observer of a run with an event log, whose producers have to know that it takes their events.

    A subject that isolates its subscribers passes on to the producer what this one raises, once
    all others have had the event.
    """


class HandOffObserver(abc.ObserverBase[Any]):
    """Observer that may have a hand-off behind it: then events may wait in front of it.

    A subject of which it is the only subscriber puts points or intervals and CTIs into the inbox,
    and gives it those that pass when they are judged.
    """

    @property
    def inbox(self) -> Inbox | None:
        """The inbox for events that wait; None if none may."""
        return None

    def accept_waiting(self, item: Any) -> None:
        """Accept an event or an ``EventRun`` out of the inbox, whose lock the caller holds."""


class Subscriber:
    """The three callbacks of one subscriber, whose exceptions do not propagate.

    An exception in ``on_next`` is logged and counted by ``count_failure``; the subscriber stays
    subscribed and gets the next events. An error without a handler is logged.
    """

    __slots__ = ("_count_failure", "_on_completed", "_on_error", "receive", "waiter")

    def __init__(
        self,
        count_failure: Callable[[], None],
        on_next: abc.ObserverBase[Any] | OnNext | None,
        on_error: OnError | None = None,
        on_completed: OnCompleted | None = None,
    ) -> None:
        # the observer itself, if events may wait in front of it
        self.waiter = on_next if isinstance(on_next, HandOffObserver) else None
        if on_next is not None and hasattr(on_next, "on_next"):
            observer: Any = on_next
            on_next, on_error = observer.on_next, observer.on_error
            on_completed = observer.on_completed
        self._count_failure = count_failure
        self.receive = cast("OnNext | None", on_next)
        self._on_error = on_error
        self._on_completed = on_completed

    def on_next(self, value: Any) -> None:
        """Deliver one value."""
        if self.receive is None:
            return
        try:
            self.receive(value)
        except Exception:
            self._report("on_next")

    def on_error(self, error: Exception) -> None:
        """Deliver the error that ended the stream."""
        if self._on_error is None:
            log_unhandled(error)
            return
        try:
            self._on_error(error)
        except Exception:
            self._report("on_error")

    def on_completed(self) -> None:
        """Report the end of the stream."""
        if self._on_completed is None:
            return
        try:
            self._on_completed()
        except Exception:
            self._report("on_completed")

    def _report(self, channel: str) -> None:
        self._count_failure()
        log_failure(channel)


class RaiseOrLog:
    """Default ``on_error``: keeps an error for ``raise_error``; logs it after that was called."""

    __slots__ = ("_error", "_logs")

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._logs = False

    def __call__(self, error: Exception) -> None:
        """Keep the error that ended the stream, or log it."""
        if self._logs:
            log_unhandled(error)
        else:
            self._error = error

    def raise_error(self) -> None:
        """Raise the kept error, if any; log errors from now on."""
        self._logs = True
        if self._error is not None:
            raise self._error


def log_unhandled(error: Exception) -> None:
    """Log an error that ended a stream and that nobody handles."""
    _log.error("stream failed and nobody handles it", error=show(error), exc_info=error)


def log_failure(channel: str) -> None:
    """Log the exception that a subscriber has just raised."""
    _log.exception("a subscriber raised; the others are not affected", channel=channel)
