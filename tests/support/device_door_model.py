"""A model of the door of a stream in which each device has its own clock, in plain Python.

It is an oracle: it is written from the rules alone and it shares no code with the library. It goes
through the items one by one and keeps everything that it knows in plain numbers. A time that is
not yet known is None, and None is below all times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME


class ModelSettings(NamedTuple):
    """What the user has asked of the door."""

    delay: int = 0  # how far the CTI that a row makes is before the row's start; may be negative
    every: int = 1  # a CTI is due with every N-th row of a device; 0: by `span` instead
    span: int = 0  # how far a start has to be after the one that last made a CTI due
    adjusts: bool = False  # a late row that has not ended passes from the CTI on
    cti_delay: int = 0  # how far a CTI that the source sends is set back
    behind: int | None = None  # no device's clock is more than this behind the fleet
    silent: int | None = None  # as `behind`, for a device that has sent nothing for as long
    by_wall: bool = False  # one device alone moves the fleet
    own_ahead: bool = False  # there is a limit for rows ahead of the wall clock
    silent_by_wall: bool = False  # the owner of the door says who is silent


class Row(NamedTuple):
    """A row of a device; `ahead` if it is ahead of the wall clock."""

    device: Hashable
    start: int
    end: int
    ahead: bool = False


class Sent(NamedTuple):
    """A CTI that the source sends, for one device or for all of them."""

    time: int
    device: Hashable | None = None


class Advance(NamedTuple):
    """A CTI that is taken as it is: `cti_delay` does not set it back."""

    time: int
    device: Hashable | None = None


class Silent(NamedTuple):
    """The owner of the door says that a device is silent from now on, or that all were."""

    device: Hashable | None = None


class Verdict(NamedTuple):
    """What became of a late row. It is equal to the plain tuple of its three parts."""

    reason: str  # "dropped", "adjusted", "behind" or "silent"
    start: int | None  # where the row starts when it has passed; None if it was dropped
    cti: int  # the CTI by which it was judged


class ModelResult(NamedTuple):
    """What the door has said of each item, and the CTIs after all of them."""

    verdicts: list[Verdict | None]
    ctis: dict[Hashable, int | None]
    floor: int | None


@dataclass
class _Device:
    """What the door knows of one device."""

    cti: int | None = None
    own: int | None = None  # what `cti` would be by the device's own rows and CTIs alone
    count: int = 0
    last: int | None = None  # the start that last made a CTI due
    counted: int | None = None  # how far the device has come, for the time of the fleet
    seen: int | None = None  # the time of the fleet when the device last sent something
    why: str | None = None  # what last lifted the clock over the device's own rows
    said_to_be_silent: bool = False  # by the owner of the door, since it last sent something


def judge(settings: ModelSettings, items: Iterable[Row | Sent | Advance | Silent]) -> ModelResult:
    """Send the items through the door, in this order."""
    door = _Door(settings)
    verdicts = [door.take(item) for item in items]
    ctis = {name: _later(device.cti, door.floor) for name, device in door.devices.items()}
    return ModelResult(verdicts, ctis, door.floor)


class _Door:
    """The door between two items."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.devices: dict[Hashable, _Device] = {}
        self.floor: int | None = None
        self.fleet: int | None = None

    def take(self, item: Row | Sent | Advance | Silent) -> Verdict | None:
        """Take one item; the verdict is None unless it is a row that is late."""
        if isinstance(item, Silent):
            self._note_silence(item)
            return None
        if not isinstance(item, Row) and item.device is None:
            self.floor = _later(self.floor, self._made_by_cti(item))
            return None
        device = self.devices.setdefault(item.device, _Device())
        self._lift(device)
        verdict = None
        if isinstance(item, Row):
            verdict = self._judged(device, item)
            if not (item.ahead and self.settings.own_ahead):
                self._count_row(device, item)
        else:
            _raise_clock(device, self._made_by_cti(item))
            if item.time < MAX_TIME:
                device.counted = _later(device.counted, item.time)
        self._move_fleet()
        own_time = item.start if isinstance(item, Row) else item.time
        device.seen = own_time if self.fleet is None else self.fleet
        device.said_to_be_silent = False
        return verdict

    def _note_silence(self, item: Silent) -> None:
        """Let one device follow the fleet from now on, or lift all once, which then do not."""
        chosen = [*self.devices] if item.device is None else [item.device]
        for device in (self.devices[name] for name in chosen):
            device.said_to_be_silent = True
            if item.device is None:
                self._lift(device)
                device.said_to_be_silent = False

    def _is_silent(self, device: _Device) -> bool:
        if self.settings.silent_by_wall:
            return device.said_to_be_silent
        assert self.fleet is not None
        assert self.settings.silent is not None
        return device.seen is None or self.fleet - device.seen >= self.settings.silent

    def _lift(self, device: _Device) -> None:
        """Bring the clock of the device up to the floor and to the limits behind the fleet."""
        device.cti = _later(device.cti, self.floor)
        if self.fleet is None:
            return
        behind, silent = self.settings.behind, self.settings.silent
        if behind is not None:
            _lift_to(device, self.fleet - behind, "behind")
        if silent is not None and self._is_silent(device):
            _lift_to(device, self.fleet - silent, "silent")

    def _judged(self, device: _Device, row: Row) -> Verdict | None:
        """Say whether the row is late by the clock of its device, and what becomes of it."""
        cti = device.cti
        if cti is None or row.start >= cti:
            return None
        if self.settings.adjusts and row.end > cti:
            return Verdict("adjusted", cti, cti)
        by_own_clock = device.own is not None and row.start < device.own
        if by_own_clock or device.why is None:
            return Verdict("dropped", None, cti)
        return Verdict(device.why, None, cti)

    def _count_row(self, device: _Device, row: Row) -> None:
        """Count the row, late or not, and make the CTI that is due with it."""
        device.count += 1
        if not self._is_due(device, row.start):
            return
        device.last = row.start
        _raise_clock(device, _set_back(row.start, self.settings.delay))
        if not row.ahead:
            device.counted = _later(device.counted, row.start)

    def _is_due(self, device: _Device, start: int) -> bool:
        if self.settings.every:
            return device.count % self.settings.every == 0
        return device.last is None or start - device.last >= self.settings.span

    def _made_by_cti(self, item: Sent | Advance) -> int:
        """Return the time that a CTI of the source stands for."""
        if isinstance(item, Advance) or item.time >= MAX_TIME:
            return item.time
        return max(item.time - self.settings.cti_delay, MIN_TIME)

    def _move_fleet(self) -> None:
        """Bring the time of the fleet up to the device that now decides it."""
        known = (device.counted for device in self.devices.values())
        counted = sorted((time for time in known if time is not None), reverse=True)
        place = 0 if self.settings.by_wall else 1  # the highest one, or the second-highest
        if len(counted) > place:
            self.fleet = _later(self.fleet, counted[place])


def _lift_to(device: _Device, time: int, why: str) -> None:
    """Lift the clock of the device to a time, never below MIN_TIME, and remember why."""
    time = max(time, MIN_TIME)
    if device.cti is None or time > device.cti:
        device.cti = time
        device.why = why


def _raise_clock(device: _Device, made: int) -> None:
    """Raise the clock of the device by something that the device itself has sent."""
    device.own = _later(device.own, made)
    device.cti = _later(device.cti, made)


def _set_back(start: int, delay: int) -> int:
    """Return the CTI of a row: `delay` before its start, and always a time that exists."""
    if start == MIN_TIME:
        return MIN_TIME
    return min(max(start - delay, MIN_TIME), MAX_TIME)


def _later(one: int | None, other: int | None) -> int | None:
    """Return the later of two times, of which None is below all others."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
