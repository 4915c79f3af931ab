"""Observer of rows as programs have them, in front of a stream's own."""

from __future__ import annotations

from typing import Any

from reactivex import abc

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.events import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.errors import SchemaError
from rxtemporal.ingress.rejected import Rejected
from rxtemporal.ingress.row_reader import RowReader

_EVENTS = frozenset({PointEvent, IntervalEvent, EdgeEvent, Cti, EventBatch})


class RowObserver(abc.ObserverBase[Any]):
    """Observer that passes rows on as events, and lists and frames of them as batches.

    Events, CTIs and batches pass as they are. A row that cannot be read fails the stream.
    """

    def __init__(self, observer: abc.ObserverBase[Any], rows: RowReader) -> None:
        self._observer, self._rows = observer, rows
        self._push, self._read_one = observer.on_next, rows.read_one

    def on_next(self, value: Any) -> None:
        """Pass an item on."""
        kind = type(value)
        if kind in _EVENTS:
            self._push(value)
        elif kind is dict:
            event, _ = self._read_one(value)
            if type(event) is Rejected:
                self._refuse(event, 1)
            else:
                self._push(event)
        else:
            self._push_many(value)

    def _push_many(self, value: Any) -> None:
        read = self._rows.read(value)
        if read.rejected:
            self._refuse(read.rejected[0], read.rows)
            return
        items = read.items
        if isinstance(items, EventBatch):
            items.time = read.time
            items = [items] if len(items) else []  # type: ignore[list-item]
        for item in items:
            self._push(item)

    def _refuse(self, rejected: Rejected, rows: int) -> None:
        count = "an item" if rows == 1 else f"row {rejected.index} of {rows}"
        self.on_error(
            SchemaError(
                f"{count} of stream {self._rows.name!r} cannot be read: {rejected.reason}. "
                "Hint: rxt.PushSource accepts the other rows, and gives a verdict on each."
            )
        )

    def on_error(self, error: Exception) -> None:
        """Fail the stream."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the stream."""
        self._observer.on_completed()
