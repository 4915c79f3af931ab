"""Check that the events of a list have their times in one form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.events import RowEvent
from rxtemporal.core.safe_text import brief
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.errors import EventError
from rxtemporal.ingress.pending_events import find_form

MOST_CHECKED = 1_000


def check_forms(events: Sequence[Any], name: str) -> None:
    """Raise an error if some of the first events have starts in ticks and others datetimes."""
    found: dict[TimeForm, Any] = {}
    for event in events[:MOST_CHECKED]:
        if isinstance(event, RowEvent) and event.start_time not in (MIN_TIME, MAX_TIME):
            found.setdefault(find_form(event), event)
    if len(found) > 1:
        raise EventError(
            f"stream {name!r} has times in ticks and datetimes: {brief(found['ticks'])} and "
            f"{brief(found['datetime'])}. As a datetime tick 0 is 1970-01-01T00:00:00Z, and a tick "
            "is a microsecond. Hint: give all times as datetimes, or all as numbers."
        )
