"""What keeps a stream's time going while its source is silent: a heartbeat, or being idle."""

from __future__ import annotations

import dataclasses
from typing import Any

from rxtemporal.advance_time import AdvanceTimeSettings
from rxtemporal.core.ticks import Span, describe_span, span
from rxtemporal.errors import AdvanceTimeError, ArgumentError


@dataclasses.dataclass(frozen=True, slots=True)
class Heartbeat:
    """While a source is silent, its stream's CTI follows the clock on the wall.

    When nothing has come for ``every``, and again each ``every`` until something comes, the CTI is
    advanced to the wall clock's time less ``delay``. So application time has to *be* the time on
    the wall: for recorded streams it means nothing. What comes later and starts before that CTI is
    late, and the stream's policy decides.

    >>> from datetime import timedelta
    >>> print(Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2)))
    the wall clock less 2 s, after 5 s of silence and each 5 s of it
    """

    every: Span
    delay: Span

    def __post_init__(self) -> None:
        span(self.every, "every", least=1)
        span(self.delay, "delay", least=0)

    def __str__(self) -> str:
        """Return it in words."""
        every, delay = (describe_span(span(each, "")) for each in (self.every, self.delay))
        return f"the wall clock less {delay}, after {every} of silence and each {every} of it"


@dataclasses.dataclass(frozen=True, slots=True)
class Liveliness:
    """What a source has asked for: a heartbeat, a time-out after which it is idle, or both."""

    heartbeat: Heartbeat | None
    idle_after: int | None

    @classmethod
    def checked(
        cls, heartbeat: Any, idle_after: Any, settings: AdvanceTimeSettings | None
    ) -> Liveliness | None:
        """Return it if anything is asked for; refuse what is no such thing or has no policy."""
        if heartbeat is None and idle_after is None:
            return None
        if not isinstance(heartbeat, Heartbeat | None):
            raise ArgumentError(
                f"heartbeat is a Heartbeat, got {heartbeat!r}. "
                "Hint: heartbeat=Heartbeat(every=timedelta(seconds=5), delay=timedelta(seconds=2))"
            )
        after = None if idle_after is None else span(idle_after, "idle_after", least=1)
        if settings is None:
            raise needs_policy("heartbeat=" if heartbeat else "idle_after=")
        return cls(heartbeat, after)


def needs_policy(what: str) -> AdvanceTimeError:
    """Return the error that says why something cannot be had without settings."""
    return AdvanceTimeError(
        f"{what} advances a stream while its source is silent, and events that come afterwards may "
        "be late: it needs a policy. Hint: advance_time=AdvanceTimeSettings(…, "
        "policy=AdvanceTimePolicy.DROP) where the stream is made."
    )
