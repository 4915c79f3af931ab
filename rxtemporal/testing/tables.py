"""Event tables: streams written as lines of text, and events printed as such lines."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import Any

from rxtemporal.core.events import (
    Cti,
    EdgeEvent,
    EdgeType,
    Event,
    IntervalEvent,
    PointEvent,
    RowEvent,
)
from rxtemporal.core.schema import to_fields
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, Time, to_datetime
from rxtemporal.errors import ArgumentError, RxTemporalError
from rxtemporal.text.plain_text import align

_KINDS = ("point", "interval", "start", "end", "cti")
_NAMED_TIMES = {"min": MIN_TIME, "max": MAX_TIME, "": MAX_TIME}
_NAMED_VALUES: dict[str, Any] = {
    "null": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
}
_FIELD = re.compile(r"""(\w+)=(b?'(?:[^'\\]|\\.)*'|b?"(?:[^"\\]|\\.)*"|\S+)(?:\s+|$)""")
_BARE = re.compile(r"[A-Za-z_][\w.-]*")
# numbers of ticks beyond the first day of 1970 are hard to read
_READABLE = 86_400_000_000


def table(text: str) -> list[Event]:
    """Return the events of a table, one for each line, in order.

    A line is a kind, a time, and the payload's fields as ``name=value``. Without a kind a time is a
    point and ``start..end`` an interval; ``start..`` never ends. Times are ticks or ISO 8601 with
    an offset; ``min`` and ``max`` are the ends of time. Values are Python's literals, ``null``,
    ISO dates and datetimes, and plain words; a value without a name is a bare payload, and a
    payload may be written as a dict. Empty lines and comments, from ``#`` on, are ignored.

    >>> for event in table('''
    ...     point     5      x=2 k=a
    ...     interval  0..10  x=1 k='two words'
    ...     start     3      x=1 k=null
    ...     end       3..8   x=1 k=null        # closes the row above
    ...     cti       12
    ... '''):
    ...     print(event)
    PointEvent(5, {'x': 2, 'k': 'a'})
    IntervalEvent(0, 10, {'x': 1, 'k': 'two words'})
    EdgeEvent.create_start(3, {'x': 1, 'k': None})
    EdgeEvent.create_end(3, 8, {'x': 1, 'k': None})
    Cti(12)
    """
    events = []
    for number, line in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*", "", line).strip()
        if line:
            events.append(_parse_line(line, number))
    return events


def _parse_line(line: str, number: int) -> Event:
    try:
        return _parse_event(line)
    except (ValueError, SyntaxError, RxTemporalError) as error:
        raise ArgumentError(
            f"line {number} of the table, {line!r}, is not an event: {error}. Hint: write "
            "'point 5 x=2', 'interval 0..10 x=1 k=a', 'start 3 x=1', 'end 3..8 x=1' or 'cti 12'."
        ) from error


def _parse_event(line: str) -> Event:
    first, _, rest = line.partition(" ")
    if first in _KINDS:
        kind, (when, _, rest) = first, rest.strip().partition(" ")
    else:
        kind, when = "interval" if ".." in first else "point", first
    begin, dots, finish = when.partition("..")
    if bool(dots) != (kind in ("interval", "end")):
        raise ValueError(f"the time of {kind} is {'start..end' if not dots else 'one time'}")
    start = _parse_time(begin)
    if kind == "cti":
        if rest.strip():
            raise ValueError("a CTI has no payload")
        return Cti(start)
    payload = _parse_payload(rest.strip())
    if kind == "interval":
        return IntervalEvent(start, _parse_time(finish), payload)
    if kind == "end":
        return EdgeEvent.create_end(start, _parse_time(finish), payload)
    return PointEvent(start, payload) if kind == "point" else EdgeEvent.create_start(start, payload)


def _parse_time(text: str) -> Time:
    if text in _NAMED_TIMES:
        return _NAMED_TIMES[text]
    return int(text) if re.fullmatch(r"-?[\d_]+", text) else datetime.fromisoformat(text)


def _parse_payload(text: str) -> Any:
    if text.startswith("{"):
        return ast.literal_eval(text)
    if text and "=" not in text:
        return _parse_value(text)
    fields: dict[str, Any] = {}
    at = 0
    while at < len(text):
        match = _FIELD.match(text, at)
        if match is None:
            raise ValueError(f"{text[at:]!r} is not name=value")
        if match[1] in fields:
            raise ValueError(f"field {match[1]!r} occurs twice")
        fields[match[1]] = _parse_value(match[2])
        at = match.end()
    return fields


def _parse_value(text: str) -> Any:
    if text in _NAMED_VALUES:
        return _NAMED_VALUES[text]
    if re.match(r"\d{4}-\d\d-\d\d", text):
        return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def show_events(events: Iterable[Event]) -> str:
    """Return events as a table, in the same order: the inverse of ``table``.

    >>> print(show_events([PointEvent(5, {"x": 2}), IntervalEvent(0, 10, {"x": 1}), Cti(12)]))
    point     5      x=2
    interval  0..10  x=1
    cti       12
    """
    listed = list(events)
    at = iter(format_times([t for each in listed for t in _lifetime(each)]))
    cells = []
    for event in listed:
        begin, finish = next(at), next(at)
        if isinstance(event, Cti):
            cells.append(["cti", begin])
            continue
        kind = _kind_of(event)
        when = format_lifetime(begin, finish) if kind in ("interval", "end") else begin
        cells.append([kind, when, *format_payload(event.payload)])
    return "\n".join(align(cells))


def _lifetime(event: Event) -> tuple[int, int]:
    return (event.start, event.start if isinstance(event, Cti) else event.end)


def _kind_of(event: RowEvent) -> str:
    if isinstance(event, EdgeEvent):
        return "start" if event.edge_type is EdgeType.START else "end"
    return event.shape.value


def format_times(times: Sequence[int]) -> list[str]:
    """Return times as text: ticks if all are small, else ISO 8601; the ends of time by name."""
    finite = [t for t in times if MIN_TIME < t < MAX_TIME]
    readable = all(abs(t) < _READABLE for t in finite)
    return [_format_time(t, readable) for t in times]


def _format_time(time: int, as_ticks: bool) -> str:
    if time in (MIN_TIME, MAX_TIME):
        return "min" if time == MIN_TIME else "max"
    return str(time) if as_ticks else to_datetime(time).isoformat().replace("+00:00", "Z")


def format_lifetime(begin: str, finish: str) -> str:
    """Return a lifetime as text; one that never ends has no end."""
    return f"{begin}..{'' if finish == 'max' else finish}"


def format_payload(payload: Any) -> list[str]:
    """Return a payload as text, one cell for each field."""
    fields = to_fields(payload)
    if fields is not payload and list(fields) == ["payload"]:
        return [_format_value(payload)]
    if not all(isinstance(name, str) and re.fullmatch(r"\w+", name) for name in fields):
        return [repr(fields)]
    return [f"{name}={_format_value(value)}" for name, value in fields.items()]


def _format_value(value: Any) -> str:
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, str) and _BARE.fullmatch(value) and _parse_value(value) is value:
        return value
    return repr(value)
