"""Row events: one frozen object for each event.

An event keeps the times it was given, as ``start_time`` and ``end_time`` (an ISO 8601 text as a
datetime), and the same times as ticks, as ``start`` and ``end``; code that computes reads the
ticks. Payloads are never looked into.
Source of the shapes and constructors: the StreamInsight documents on event shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    NoReturn,
    TypeAlias,
    TypeGuard,
    TypeVar,
    final,
)

from rxtemporal.core.ticks import (
    MAX_TIME,
    MIN_TIME,
    TICK,
    Time,
    TimeLike,
    describe,
    match_form,
    parse_time,
    time_ticks,
)
from rxtemporal.errors import EventError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Times = TypeVar("Times", int, "npt.NDArray[np.int64]")


class EventKind(Enum):
    """Kind of an event: it inserts a row, or it advances time."""

    INSERT = "insert"
    CTI = "cti"


class EventShape(Enum):
    """Shape of an event: the part of its lifetime that is known when it arrives."""

    POINT = "point"
    INTERVAL = "interval"
    EDGE = "edge"


class WindowOutput(Enum):
    """Lifetime of a window's result: that of the window, or a point at the window's end."""

    WINDOW = "window"
    POINT_AT_END = "point at end"


class EdgeType(Enum):
    """Type of an edge event: the start or the end of its row's lifetime."""

    START = "start"
    END = "end"


class RowEvent:
    """Base class of point, interval and edge events; use one of those."""

    __slots__ = ("end", "payload", "start", "start_time")

    start: int
    end: int
    payload: Any
    start_time: Time

    event_kind: ClassVar[EventKind] = EventKind.INSERT
    shape: ClassVar[EventShape]

    @staticmethod
    def create_cti(time: TimeLike) -> Cti:
        """Return ``Cti(time)``: in a stream of any shape time advances in the same way."""
        return Cti(time)

    @property
    def end_time(self) -> Time:
        """The end of the lifetime, in the form in which the start was given."""
        return match_form(self.end, self.start_time)

    def with_lifetime(self, start: int, end: int) -> RowEvent:
        """Return this event with another lifetime (in ticks) and the same payload object."""
        raise NotImplementedError

    if not TYPE_CHECKING:  # for a type checker an event has no other attributes and no items

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(_explain_attribute(self, name), name=name, obj=self)

        def __getitem__(self, name: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__!r} object is not subscriptable. Hint: the fields of an "
                f"event are in its payload: event.payload[{name!r}]."
            )

    def _key(self) -> tuple[Any, ...]:
        return (self.start, self.end, self.payload)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), *self._key()))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"events are immutable: cannot set {name!r} of {self!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"events are immutable: cannot delete {name!r} of {self!r}")


# An event is frozen for everybody but its constructor, which writes its slots through these.
_set_start: Final = RowEvent.__dict__["start"].__set__
_set_end: Final = RowEvent.__dict__["end"].__set__
_set_payload: Final = RowEvent.__dict__["payload"].__set__
_set_start_time: Final = RowEvent.__dict__["start_time"].__set__


def _plain(time: TimeLike) -> Time:
    return parse_time(time) if isinstance(time, str) else time


def _start_ticks(time: Time) -> int:
    start = time_ticks(time)
    if start >= MAX_TIME:
        raise EventError("an event cannot start at the end of time: its last tick is reserved")
    return start


def _text(time: Time) -> str:
    return time.isoformat().replace("+00:00", "Z") if isinstance(time, datetime) else str(time)


_TIME_NAMES: Final = frozenset(("time", "timestamp", "ts", "start_at", "datetime"))


def _explain_attribute(event: RowEvent | Cti, name: str) -> str:
    """Return the message for an attribute that an event does not have."""
    message = f"{type(event).__name__!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return message
    if name in _TIME_NAMES:
        return f"{message}. Hint: its time is event.start_time."
    if isinstance(event, Cti):
        return message
    payload = event.payload
    if isinstance(payload, Mapping):
        return (
            f"{message}. Hint: the fields of an event are in its payload: event.payload[{name!r}]."
        )
    return f"{message}. Hint: what the event carries is event.payload."


def _end_ticks(start_time: Time, start: int, end_time: Time) -> int:
    end = time_ticks(end_time)
    if end <= start:
        raise EventError(
            f"an event ends after it starts, got start {_text(start_time)} and end "
            f"{_text(end_time)}. Hint: a lifetime is half-open; for an instant use PointEvent."
        )
    return end


@final
class PointEvent(RowEvent):
    """An event at one instant: its lifetime is ``[start_time, start_time + 1 tick)``.

    >>> PointEvent(5, {"speed": 1.0})
    PointEvent(5, {'speed': 1.0})
    """

    __slots__ = ()
    shape = EventShape.POINT

    def __init__(self, start_time: TimeLike, payload: Any) -> None:
        # the common case without a call: programs make one for each event that they push
        if type(start_time) is int and MIN_TIME <= start_time < MAX_TIME:
            time: Time = start_time
            start = start_time
        else:
            time = _plain(start_time)
            start = _start_ticks(time)
        _set_start_time(self, time)
        _set_start(self, start)
        _set_end(self, start + TICK)
        _set_payload(self, payload)

    @classmethod
    def create_insert(cls, start_time: TimeLike, payload: Any) -> PointEvent:
        """Return the point event; the documents' name for the constructor."""
        return cls(start_time, payload)

    def with_lifetime(self, start: int, end: int) -> PointEvent:
        """Return the same payload at another instant; a point's end follows its start."""
        return PointEvent(match_form(start, self.start_time), self.payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return (PointEvent, (self.start_time, self.payload))

    def __repr__(self) -> str:
        return f"PointEvent({_text(self.start_time)}, {self.payload!r})"


@final
class IntervalEvent(RowEvent):
    """An event whose lifetime ``[start_time, end_time)`` is known when it arrives.

    >>> IntervalEvent(5, 9, "a").end_time
    9
    """

    __slots__ = ()
    shape = EventShape.INTERVAL

    def __init__(self, start_time: TimeLike, end_time: TimeLike, payload: Any) -> None:
        # the common case without a call, as for a point
        if (
            type(start_time) is int
            and type(end_time) is int
            and MIN_TIME <= start_time < end_time <= MAX_TIME
        ):
            time: Time = start_time
            start, end = start_time, end_time
        else:
            time = _plain(start_time)
            start = _start_ticks(time)
            end = _end_ticks(time, start, _plain(end_time))
        _set_start_time(self, time)
        _set_start(self, start)
        _set_end(self, end)
        _set_payload(self, payload)

    @classmethod
    def create_insert(cls, start_time: TimeLike, end_time: TimeLike, payload: Any) -> IntervalEvent:
        """Return the interval event; the documents' name for the constructor."""
        return cls(start_time, end_time, payload)

    def with_lifetime(self, start: int, end: int) -> IntervalEvent:
        """Return the same payload with another lifetime, in ticks."""
        like = self.start_time
        return IntervalEvent(match_form(start, like), match_form(end, like), self.payload)

    def __reduce__(self) -> tuple[Any, ...]:
        return (IntervalEvent, (self.start_time, self.end_time, self.payload))

    def __repr__(self) -> str:
        return f"IntervalEvent({_text(self.start_time)}, {_text(self.end_time)}, {self.payload!r})"


@final
class EdgeEvent(RowEvent):
    """One end of a row's lifetime: a start edge, or the end edge that closes it later.

    A start edge has the lifetime ``[start_time, MAX_TIME)``. Its end edge has the same start and
    payload and the real end. Make them with ``create_start`` and ``create_end``.

    >>> EdgeEvent.create_end(5, 9, "a")
    EdgeEvent.create_end(5, 9, 'a')
    """

    __slots__ = ("edge_type",)
    shape = EventShape.EDGE

    edge_type: EdgeType

    def __init__(
        self, edge_type: EdgeType, start_time: TimeLike, end_time: TimeLike, payload: Any
    ) -> None:
        time = _plain(start_time)
        start = _start_ticks(time)
        _set_start_time(self, time)
        _set_start(self, start)
        _set_end(self, _end_ticks(time, start, _plain(end_time)))
        _set_payload(self, payload)
        _set_edge_type(self, edge_type)

    @classmethod
    def create_start(cls, start_time: TimeLike, payload: Any) -> EdgeEvent:
        """Return the start edge of a row whose end is not known yet."""
        return cls(EdgeType.START, start_time, MAX_TIME, payload)

    @classmethod
    def create_insert(cls, start_time: TimeLike, payload: Any) -> EdgeEvent:
        """Return a start edge: it is what inserts an edge event's row."""
        return cls.create_start(start_time, payload)

    @classmethod
    def create_end(cls, start_time: TimeLike, end_time: TimeLike, payload: Any) -> EdgeEvent:
        """Return the end edge of the row that a start edge opened with this start and payload."""
        return cls(EdgeType.END, start_time, end_time, payload)

    def with_lifetime(self, start: int, end: int) -> EdgeEvent:
        """Return the same edge and payload with another lifetime, in ticks."""
        like = self.start_time
        return EdgeEvent(
            self.edge_type, match_form(start, like), match_form(end, like), self.payload
        )

    def _key(self) -> tuple[Any, ...]:
        return (self.edge_type, *super()._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return (EdgeEvent, (self.edge_type, self.start_time, self.end_time, self.payload))

    def __repr__(self) -> str:
        if self.edge_type is EdgeType.START:
            return f"EdgeEvent.create_start({_text(self.start_time)}, {self.payload!r})"
        return (
            f"EdgeEvent.create_end({_text(self.start_time)}, {_text(self.end_time)}, "
            f"{self.payload!r})"
        )


_set_edge_type: Final = EdgeEvent.__dict__["edge_type"].__set__


def ends_row(event: object) -> TypeGuard[EdgeEvent]:
    """Return True if an event is an end edge."""
    return isinstance(event, EdgeEvent) and event.edge_type is EdgeType.END


def get_judged_time(event: RowEvent | Cti) -> int:
    """Return the time that a CTI limits: of an end edge its end, of other events the start."""
    return event.end if ends_row(event) else event.start


def find_late_bound(cti: Times) -> Times:
    """Return the time below which a start is late at a CTI, or at each of several.

    Every check for late starts uses this function, for single events and for columns: doors,
    subjects, and the check of a batch. A row that starts at the CTI is in time: the CTI promises
    only that no later row starts before it.

    >>> find_late_bound(5)
    5
    """
    return cti


@final
class Cti:
    """A current time increment: nothing before ``start_time`` changes any more.

    Every later point, interval or start edge has ``start >= start_time``; every later end edge has
    ``end >= start_time``. With ``device`` this holds for the rows of one device, in a stream in
    which each device has its own time; of several fields that name a device, it is a tuple.

    >>> Cti(5).start_time
    5
    >>> Cti(5, device="a")
    Cti(5, device='a')
    """

    __slots__ = ("device", "start", "start_time")

    start: int
    start_time: Time
    device: Any

    event_kind: ClassVar[EventKind] = EventKind.CTI

    def __init__(self, time: TimeLike, device: Any = None) -> None:
        if isinstance(time, str):
            time = parse_time(time)
        _set_cti_time(self, time)
        _set_cti_start(self, time_ticks(time))
        _set_cti_device(self, device)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cti):
            return NotImplemented
        return self.start == other.start and bool(self.device == other.device)

    def __hash__(self) -> int:
        return hash((Cti, self.start, self.device))

    __setattr__ = RowEvent.__setattr__
    __delattr__ = RowEvent.__delattr__

    def __reduce__(self) -> tuple[Any, ...]:
        return (Cti, (self.start_time, self.device))

    if not TYPE_CHECKING:  # for a type checker a CTI has no other attributes

        def __getattr__(self, name: str) -> NoReturn:
            message = _explain_attribute(self, name)
            if name in ("payload", "end", "end_time"):
                message = (
                    f"{self!r} has no {name}: it is not a row, but says that time has advanced. "
                    "Hint: to_observable(ctis=False) and pipe(…) leave CTIs out; else filter by "
                    "event.event_kind is rxt.EventKind.INSERT first."
                )
            raise AttributeError(message, name=name, obj=self)

    def __repr__(self) -> str:
        whose = "" if self.device is None else f", device={self.device!r}"
        if self.start in (MIN_TIME, MAX_TIME):
            return f"Cti({describe(self.start)}{whose})"
        return f"Cti({_text(self.start_time)}{whose})"


_set_cti_device: Final = Cti.__dict__["device"].__set__
_set_cti_start: Final = Cti.__dict__["start"].__set__
_set_cti_time: Final = Cti.__dict__["start_time"].__set__

Event: TypeAlias = PointEvent | IntervalEvent | EdgeEvent | Cti
# start and end in ticks, and payload of a complete row for which no event has been made
PlainRow: TypeAlias = tuple[int, int, Any]
