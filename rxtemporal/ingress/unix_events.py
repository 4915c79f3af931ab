"""Events whose times are Unix times: numbers of a unit become datetimes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from reactivex import abc

from rxtemporal.core.events import Cti, EdgeEvent, IntervalEvent, PointEvent
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.core.time_forms import Unit, read_number


def read_units(items: Iterable[Any], unit: Unit | None) -> Iterable[Any]:
    """Return items in whose events numbers have been Unix times; others are as they are."""
    if unit in (None, "ticks"):
        return items
    return map(partial(_read_item, unit), items)


def _read_item(unit: Unit, item: Any) -> Any:
    kind = type(item)
    if kind not in (PointEvent, IntervalEvent, EdgeEvent, Cti) or type(item.start_time) is not int:
        return item
    start = _read_time(item.start, unit)
    if kind is Cti:
        return Cti(start)
    if kind is PointEvent:
        return PointEvent(start, item.payload)
    end = _read_time(item.end, unit)
    if kind is IntervalEvent:
        return IntervalEvent(start, end, item.payload)
    return EdgeEvent(item.edge_type, start, end, item.payload)


def _read_time(time: int, unit: Unit) -> Time:
    # the ends of time have no unit
    return time if time in (MIN_TIME, MAX_TIME) else to_datetime(read_number(time, unit))


class UnixObserver(abc.ObserverBase[Any]):
    """Observer in front of another one, to which numbers come as datetimes."""

    def __init__(self, observer: abc.ObserverBase[Any], unit: Unit) -> None:
        self._observer, self._unit = observer, unit

    def on_next(self, value: Any) -> None:
        """Pass an item on."""
        try:
            item = _read_item(self._unit, value)
        except Exception as error:
            self._observer.on_error(error)
            return
        self._observer.on_next(item)

    def on_error(self, error: Exception) -> None:
        """Fail the stream."""
        self._observer.on_error(error)

    def on_completed(self) -> None:
        """End the stream."""
        self._observer.on_completed()
