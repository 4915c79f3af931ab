"""CloudEvents 1.0 as rows: the source is the input, the id the number, the time the start.

Source: *CloudEvents - Version 1.0.2*, and its JSON event format; the extension *sequence*.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from rxtemporal.core.safe_text import brief
from rxtemporal.errors import EventError

# every event has them, as texts that are not empty
REQUIRED = ("specversion", "id", "source", "type")
_MOST_NUMBER = 2**63
# no number has more digits; Python refuses to read one of some thousands
_MOST_DIGITS = 19


class CloudEvent(NamedTuple):
    """A row, its input, and its number if it has one."""

    row: dict[str, Any]
    source: str
    number: int | None


def decode_event(payload: bytes, attributes: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the event that a message is: whole, or its data if ``attributes`` has the others.

    None if it is no CloudEvent, or no JSON.

    >>> decode_event(b'{"x": 1}', {"specversion": "1.0", "id": "4"})
    {'specversion': '1.0', 'id': '4', 'data': {'x': 1}}
    """
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if "specversion" in attributes:
        return {**attributes, "data": value}
    return value if isinstance(value, dict) and "specversion" in value else None


def read_cloud_event(event: Any, start: str | None, seq: str | None) -> CloudEvent:
    """Return an event as a row; ``start`` and ``seq`` name its fields for time and number.

    The row has the members of ``data``. ``time``, if it is there, is the start, unless rows have
    none (``start=None``: they start when they arrive). The number is the
    extension ``sequence`` if that is a whole number, else ``id`` if that is one; an event with
    neither has no number, so a repeated one is not recognized.

    ``EventError`` names the attribute that is missing or wrong.

    >>> event = {"specversion": "1.0", "type": "reading", "source": "/attic", "id": "7"}
    >>> read_cloud_event({**event, "time": "2026-05-01T12:00:00Z", "data": {"x": 1}}, "t", None)
    CloudEvent(row={'x': 1, 't': '2026-05-01T12:00:00Z'}, source='/attic', number=7)
    """
    if not isinstance(event, dict):
        raise EventError(f"an event is a JSON object, got {brief(event)}")
    _check(event)
    row = dict(event["data"])
    if start is not None and event.get("time") is not None:
        row[start] = event["time"]
    number = _find_number(event)
    if seq is not None and number is not None:
        row.setdefault(seq, number)
    return CloudEvent(row, event["source"], number)


def _check(event: Mapping[str, Any]) -> None:
    for name in REQUIRED:
        value = event.get(name)
        if not isinstance(value, str) or not value:
            got = "it is missing" if value is None else f"got {brief(value)}"
            raise EventError(
                f"attribute {name!r} of a CloudEvent is a text that is not empty, and {got}. "
                f"Hint: each event has {', '.join(REQUIRED)}."
            )
    if event["specversion"] != "1.0":
        raise EventError(
            f"specversion is {brief(event['specversion'])}. Hint: CloudEvents 1.0 are accepted."
        )
    if not isinstance(event.get("data"), dict):
        got = "data_base64" if "data_base64" in event else brief(event.get("data"))
        raise EventError(
            f"data of a CloudEvent is a JSON object with the fields of a row, got {got}. "
            "Hint: send datacontenttype application/json."
        )


def _find_number(event: Mapping[str, Any]) -> int | None:
    for name in ("sequence", "id"):
        value = event.get(name, "")
        text = value if isinstance(value, str) else str(value) if type(value) is int else ""
        if len(text) <= _MOST_DIGITS and text.isascii() and text.isdigit():
            number = int(text)
            if number < _MOST_NUMBER:
                return number
    return None
