"""Delivery to runs with an event log: items with their senders, and errors for the producer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.ingress.source import Sent, SentRows
from rxtemporal.reactive.subjects.accumulator import Accumulator
from rxtemporal.reactive.subscriber import RunObserver


class RunFeed(abc.ObserverBase[Any]):
    """Subscriber that stands for a run with an event log.

    The run gets each item with the name of its input. What it raises is kept for the producer, by
    the thread that delivers, until all subscribers have had the item.
    """

    # its producers ask at once
    waiter = None

    def __init__(
        self, observer: RunObserver, accumulator: Accumulator, failures: dict[int, Exception]
    ) -> None:
        self._observer = observer
        self._accumulator = accumulator
        self._failures = failures
        self.receive = self.on_next

    def on_next(self, item: Any) -> None:
        """Deliver an item with its sender."""
        accumulator = self._accumulator
        name = accumulator.source.name
        if isinstance(item, EventBatch):
            rows = SentRows(item, name, ahead=accumulator.rows_ahead)
            self._call(self._observer.on_next, rows)
        else:
            ahead, named_start = accumulator.ahead, accumulator.named_start
            sent = Sent(item, name, ahead=ahead, named_start=named_start)
            self._call(self._observer.on_next, sent)

    def on_error(self, error: Exception) -> None:
        """Deliver the error that ended the stream."""
        self._call(self._observer.on_error, error)

    def on_completed(self) -> None:
        """Report the end of the stream."""
        self._call(self._observer.on_completed)

    def _call(self, method: Callable[..., None], *arguments: Any) -> None:
        try:
            method(*arguments)
        except Exception as error:
            self._failures.setdefault(threading.get_ident(), error)
