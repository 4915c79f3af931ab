"""Rejected rows of a source that is pushed into, as an observable and as a stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from reactivex import Observable, abc

from rxtemporal.ingress.reject_source import RejectSource
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.source import StreamSource
from rxtemporal.operators.plan import Node
from rxtemporal.query.streamable import Streamable
from rxtemporal.reactive.subjects import TransformSubject
from rxtemporal.reactive.synchronize import synchronize


class RejectFeed(Observable[Rejected]):
    """The rejected rows of a source, as they happen: an observable, and a stream for queries.

    Each has the name of the source, that of the input, and the time of arrival. The observable
    calls on the thread that pushes the row; a subscriber that raises is logged, and neither the
    push nor the other subscribers notice. It completes when the source is closed.
    """

    def __init__(self, source: StreamSource) -> None:
        super().__init__(self._connect)
        self._subject: TransformSubject[Rejected, Rejected] = TransformSubject(synchronize())
        self._source = RejectSource(source)
        self._stream = Streamable(Node(self._source.schema, (), source=self._source))

    @property
    def stream(self) -> Streamable:
        """The rejected rows as a stream, for a query of the run that takes the source's rows.

        Each is a point at the CTI that the source had when it came, with the fields ``source``,
        ``input``, ``index`` (its number in the push), ``reason``, ``row`` (the row as JSON text)
        and ``arrived``. The CTIs are those of the source, so a row comes out once the source's time
        has passed it. Rejected rows are not logged: a run that is resumed after a crash lacks
        those since its last checkpoint.
        """
        return self._stream

    @property
    def is_heard(self) -> bool:
        """True if somebody has subscribed, or a query of the run reads the stream."""
        return self._source.listener is not None or self._subject.has_subscribers

    def push(self, rejected: Sequence[Rejected], input: str = "") -> None:
        """Publish rejected rows; called by the source, outside of its locks."""
        if not self.is_heard:
            return
        arrived = datetime.now(UTC)
        named = [
            dataclasses.replace(each, source=self._source.origin.name, input=input, arrived=arrived)
            for each in rejected
        ]
        if self._source.listener is not None:
            self._source.listener.take(named)
        for each in named:
            self._subject.on_next(each)

    def end(self) -> None:
        """Complete the observable; called by the source when it is closed."""
        self._subject.on_completed()

    def _connect(
        self, observer: abc.ObserverBase[Rejected], scheduler: Any = None
    ) -> abc.DisposableBase:
        return self._subject.subscribe(observer)
