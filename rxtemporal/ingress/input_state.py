"""State of one input of a stream: its time, what became of its events, and its clocks."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.ingress.clock_guard import ClockOffset
from rxtemporal.ingress.lateness import NO_CTI, LateReason

# so many of the devices that are furthest behind are named
MOST_FURTHEST = 10


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceClock:
    """The clock of one device: its CTI, and how far it is behind the fleet, in ticks."""

    device: Any
    cti: int
    distance: int


@dataclasses.dataclass(frozen=True, slots=True)
class ClockStats:
    """State of the clocks of a stream in which each device has its own time.

    ``fleet`` is the time of the fleet, in ticks. Of the ``devices`` some are ``silent``: they have
    sent nothing for as long as ``silent_after=`` or ``forget_after=`` says, by the wall clock where
    rows are pushed. Of the ``live`` ones
    ``behind`` are further behind the fleet than the delay. ``furthest`` has those of the live ones
    that are furthest behind, ten at most. ``distances`` has for 0.5, 0.9, 0.99 and 1 how far this
    part of the live devices is behind at most, in ticks: with ``behind=`` of so much the rest would
    lose rows.
    """

    devices: int
    live: int
    behind: int
    silent: int
    fleet: int = MIN_TIME
    furthest: tuple[DeviceClock, ...] = ()
    distances: tuple[int, ...] = ()


# the parts of the devices of which ``ClockStats.distances`` tells
QUANTILES = (0.5, 0.9, 0.99, 1.0)


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
    the start. ``skipped`` counts messages without a value, which are not rows (Kafka's tombstones).
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
    failed: str | None = None
    duplicates: int = 0
    rejected: int = 0
    ahead: int = 0
    skipped: int = 0
    unsure: int = 0
    # it depends on when the events came, and so it is not compared
    clock_offset: int | None = dataclasses.field(default=None, compare=False)


class InputState:
    """Counters of one input, and the highest time that has come from it.

    It outlives the handles that are opened on the input. Its owner serialises calls.
    """

    __slots__ = ("ahead", "largest_lateness", "late", "name", "offset", "reached")

    def __init__(self, name: str) -> None:
        self.name = name
        self.late: Counter[LateReason] = Counter()
        # the smallest delay with which none of its events would have been late, in ticks
        self.largest_lateness = 0
        # how many of its events and CTIs were ahead of the wall clock
        self.ahead = 0
        # the highest time that has come from it, of an event or a CTI, unless that was ahead
        self.reached = NO_CTI
        self.offset = ClockOffset()

    def note_ahead(self, time: int, now: int) -> None:
        """Count an event or a CTI that is ahead of the wall clock."""
        self.ahead += 1
        self.offset.note(time, now)

    def count_ahead(self, events: int) -> None:
        """Count events that are ahead of the wall clock."""
        self.ahead += events

    def reach(self, time: int) -> None:
        """Note a time that has come from it."""
        if time > self.reached:
            self.reached = time

    def note_behind(self, distance: int) -> None:
        """Note how far one of its events was behind the highest time of the stream."""
        if distance > self.largest_lateness:
            self.largest_lateness = distance

    def make_stats(
        self, events: int, most_advanced: int, *, is_open: bool, open_rows: int, **more: Any
    ) -> SourceStats:
        """Return the counters; ``most_advanced`` is the highest time of any input."""
        return SourceStats(
            name=self.name,
            open=is_open,
            events=events,
            late=self.late.total(),
            late_by_reason={reason: count for reason, count in self.late.items() if count},
            largest_lateness=self.largest_lateness,
            lag=None if self.reached == NO_CTI else most_advanced - self.reached,
            open_rows=open_rows,
            ahead=self.ahead,
            clock_offset=self.offset.ticks,
            **more,
        )
