"""Counters of a source that merges several inputs, and of each input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from rxtemporal.core.safe_text import brief, encodable
from rxtemporal.core.ticks import Time
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.lateness import LateReason


@dataclasses.dataclass(frozen=True, slots=True)
class SourceStats:
    """Counters of one input. Times and spans are ticks.

    ``largest_lateness`` is the smallest delay with which none of its events would have been late.
    ``lag`` is how far the highest time seen from it (of an event or a CTI, those ahead of the wall
    clock excepted) is behind the highest seen from any input; None before its first event.

    ``ahead`` counts the events and CTIs that the clock guard found ahead of the wall clock.
    ``clock_offset`` estimates how far the input's clock is ahead of this machine's; negative, it is
    behind, or its events are slow to come: the maximum over the last five to ten minutes of a time
    that it sent, less the wall clock when that came. It tells which device has a wrong clock; it
    makes no CTI and no verdict. Compared with the clock is each time that the guard finds ahead;
    besides, of a subject some CTIs of the source, and of a ``PushSource`` the latest row of a push
    of many and some of the rows that are pushed one by one. None if nothing has been compared since
    the start. ``skipped`` counts messages without a value, which are no rows (Kafka's tombstones).
    ``unsure`` counts the rows that were taken although their sequence numbers may have come before.
    """

    name: str
    open: bool
    events: int
    late: int
    late_by_reason: dict[LateReason, int]
    largest_lateness: int
    lag: int | None
    open_rows: int
    failed: str | None
    duplicates: int = 0
    rejected: int = 0
    ahead: int = 0
    skipped: int = 0
    unsure: int = 0
    # it depends on when the events came, and so it is not compared
    clock_offset: int | None = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class PushStats:
    """Counters of a ``PushSource``: the sums over its inputs, and each of these.

    ``cti`` is in the form of the source's times, None before the first; spans are ticks.
    ``ignored`` counts the fields that the schema does not have, by name, since the start;
    ``unsure`` the rows that were taken although their numbers may have come before.
    """

    accepted: int
    duplicates: int
    late: int
    rejected: int
    largest_lateness: int
    open_rows: int
    cti: Time | None
    ignored: Mapping[str, int]
    inputs: Mapping[str, SourceStats]
    unsure: int = 0


def check_name(name: Any, what: str = "an input's name") -> str:
    """Return a name; raise if it is none that a log can hold."""
    if type(name) is str and name and name.isascii():
        return name
    if not isinstance(name, str) or not name or name != encodable(name):
        raise ArgumentError(f"{what} is a non-empty str of valid Unicode, got {brief(name)}")
    return name
