"""The argument ``advance_time=`` of a stream: settings, or only the delay of its late events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeAlias

from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import Span, span
from rxtemporal.errors import AdvanceTimeError, ArgumentError
from rxtemporal.ingress.settings import (
    AdvanceTimeGenerationSettings,
    AdvanceTimePolicy,
    AdvanceTimeSettings,
)

AdvanceTime: TypeAlias = AdvanceTimeSettings | Span


def read_advance_time(advance_time: Any) -> AdvanceTimeSettings | None:
    """Return the settings of a stream; a span is the delay after which late events are dropped.

    A span stands for a CTI after each event, this span before its start, and for ``DROP``.

    >>> settings = read_advance_time("5m")
    >>> settings.generation.frequency, settings.generation.delay_ticks, settings.policy.name
    (1, 300000000, 'DROP')
    """
    if advance_time is None or isinstance(advance_time, AdvanceTimeSettings):
        return advance_time
    if isinstance(advance_time, AdvanceTimeGenerationSettings):
        raise ArgumentError(
            "advance_time has no policy for late events. Hint: AdvanceTimeSettings(generation, "
            "policy=AdvanceTimePolicy.DROP)."
        )
    if isinstance(advance_time, bool) or not isinstance(advance_time, (int, timedelta, str)):
        raise ArgumentError(
            "advance_time is an AdvanceTimeSettings, or how late an event may be (a timedelta, a "
            f"text such as '5m', or ticks), got {brief(advance_time)}"
        )
    return _make_delay(advance_time)


def _make_delay(delay: Span) -> AdvanceTimeSettings:
    if span(delay, "advance_time") < 0:
        raise AdvanceTimeError(
            f"advance_time={delay!r} is negative: it is how late an event may be. "
            "Hint: STRICTLY_INCREASING_START_TIME makes points final as they arrive."
        )
    generation = AdvanceTimeGenerationSettings(1, delay)
    return AdvanceTimeSettings(generation, policy=AdvanceTimePolicy.DROP)
