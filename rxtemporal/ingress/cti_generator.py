"""Moments at which the events of a stream make CTIs, as its settings say."""

from __future__ import annotations

from datetime import timedelta

from rxtemporal.core.spans import span
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.door_rules import NEVER, is_due
from rxtemporal.ingress.settings import AdvanceTimeGenerationSettings

_REACH = MAX_TIME - MIN_TIME


class CtiGenerator:
    """The next CTI to generate: after every N-th event, or at a start T or more after the last."""

    __slots__ = ("count", "delay", "every", "last", "span")

    def __init__(self, generation: AdvanceTimeGenerationSettings | None) -> None:
        frequency = 0 if generation is None else generation.frequency
        by_span = isinstance(frequency, timedelta)
        # larger values make no difference, for time is bounded; these fit 64 bits
        self.every = min(frequency, _REACH) if isinstance(frequency, int) else 0
        self.span = min(span(frequency, "frequency"), _REACH) if by_span else 0
        delay = 0 if generation is None else generation.delay_ticks
        self.delay = min(max(delay, -_REACH), _REACH)
        self.count = 0
        self.last = NEVER

    @property
    def follows_rows(self) -> bool:
        """True if each row makes a CTI, at its start or earlier."""
        return self.every == 1 and self.delay >= 0

    def after(self, start: int) -> bool:
        """Return True if the event with this start makes a CTI due."""
        self.count += 1
        due = is_due(start, self.count, self.every, self.span, self.last)
        if due:
            self.last = start
        return due
