"""Counters of the clocks of a stream's devices."""

from __future__ import annotations

import dataclasses
from typing import Any

from rxtemporal.core.ticks import MIN_TIME

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
