"""Diagnostics as plain values, which ``json.dumps`` takes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from rxtemporal.core.batch import TimeForm
from rxtemporal.core.ticks import MIN_TIME, TICKS_PER_SECOND, to_datetime

# the fields that are ticks: instants, and spans
TIMES = frozenset({"cti", "next_due"})
SPANS = frozenset({"largest_lateness", "total_lateness", "lag", "clock_offset"})


def to_plain(value: Any, form: TimeForm, field: str = "") -> Any:
    """Return a value of a field as str, int, float, bool, None, or a list or dict of such.

    An instant becomes an ISO string, a span a number of seconds; both stay ticks if that is the
    form of the sources' times. The beginning of time, which means that there was none yet, becomes
    None. An Enum becomes its value, also as a key.
    """
    if dataclasses.is_dataclass(value):
        each = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
        return {name: to_plain(part, form, name) for name, part in each.items()}
    if isinstance(value, Mapping):
        return {_key(key): to_plain(part, form) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(part, form) for part in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Enum):
        return value.value
    if value is not None and field in TIMES:
        return _to_time(int(value), form)
    if value is not None and field in SPANS:
        return int(value) if form == "ticks" else int(value) / TICKS_PER_SECOND
    return value


def _key(key: Any) -> str:
    return str(key.value if isinstance(key, Enum) else key)


def _to_time(time: int, form: TimeForm) -> str | int | None:
    if time <= MIN_TIME:
        return None
    return time if form == "ticks" else to_datetime(time).isoformat().replace("+00:00", "Z")
