"""Plain rows of a stream in which each row makes a CTI: judged in a few steps, as doors do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rxtemporal.core.ticks import MIN_TIME

if TYPE_CHECKING:
    from rxtemporal.ingress.door import Door


def follows_rows(door: Door) -> bool:
    """Return True if each row of a stream makes a CTI, at its start or earlier."""
    return door.due.every == 1 and door.due.delay >= 0


def pass_row(door: Door, start: int) -> bool:
    """Accept a complete row that starts in time, where the CTI ``follows_rows``.

    False, with nothing changed, for a late row.

    >>> from rxtemporal import INCREASING_START_TIME
    >>> from rxtemporal.ingress.door import Door
    >>> door = Door(INCREASING_START_TIME, "a")
    >>> pass_row(door, 7), pass_row(door, 5), door.cti
    (True, False, 7)
    """
    # this runs once for each row that is pushed
    if start < door.cti:
        return False
    door.events += 1
    due, high = door.due, door.high
    due.count += 1
    due.last = start
    if start > high:
        door.high = start
        cti = start - due.delay
        if cti < MIN_TIME:
            cti = MIN_TIME
        if cti > door.own:
            door.own = cti
        if cti > door.cti:
            door.cti = cti
    elif high - start > door.largest_lateness:
        # the CTI has followed the highest start
        door.largest_lateness = high - start
    return True
