"""Events and settings as the reference documents write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rxtemporal as rxt

Cti, Point, Interval = rxt.Cti, rxt.PointEvent, rxt.IntervalEvent


start, end = rxt.EdgeEvent.create_start, rxt.EdgeEvent.create_end


END_OF_TIME = Cti(rxt.MAX_TIME)


class Unsized:
    """Return events of unknown number, so that each CTI is answered at once."""

    def __init__(self, *events: Any) -> None:
        self._events = events

    def __iter__(self) -> Iterator[Any]:
        return iter(self._events)


def generated(
    frequency: Any, delay: int, to_infinity: bool = True, policy: str = "DROP"
) -> rxt.AdvanceTimeSettings:
    """Settings as the document constructs them."""
    generation = rxt.AdvanceTimeGenerationSettings(frequency, delay, to_infinity)
    return rxt.AdvanceTimeSettings(generation, None, policy=rxt.AdvanceTimePolicy[policy])
