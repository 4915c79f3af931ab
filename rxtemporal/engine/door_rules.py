"""Rules of advancing time as functions of integers, shared by single events and whole batches.

Each is short and calls nothing; kernels that judge a batch compile it as it stands.
Source: *Advancing Application Time*, and for edges the rules in ``rxtemporal.ingress.lateness``.
"""

from __future__ import annotations

from rxtemporal.core.events import find_late_bound
from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK

# kinds of items in a run
ROW, START_EDGE, END_EDGE, CTI = range(4)
# added to the kind of an item that is ahead of the wall clock and so makes no CTI; items with the
# second one are dropped as well
KEEP_AHEAD, DROP_AHEAD = 4, 8
# verdicts; 0: in time
DROPPED, ADJUSTED, END_MOVED, NO_OPEN_ROW, AHEAD, BEHIND, SILENT = range(1, 8)

# stands for no start: the last tick of time is reserved, so no row starts there
NOWHERE = MAX_TIME
# stands for the start that made the last CTI due while there is none
NEVER = MIN_TIME - 1
# stands for a span without limit
NO_LIMIT = -1
# added to the moment of the wall clock at which a device was last heard, where that counts: above
# all times of a fleet; and stands for a device of which nothing has been heard yet
HEARD, NOT_HEARD = 1 << 61, 1 << 62


def passes_in_order(delay: int) -> bool:
    """Return True if no row is late by the CTI of another one that starts with it, or earlier.

    >>> passes_in_order(0), passes_in_order(-1)
    (True, False)
    """
    return find_late_bound(-delay) <= 0


def admit_start(start: int, end: int, bound: int, adjust: bool) -> int:
    """Return the start with which ``[start, end)`` passes a door; NOWHERE if it is dropped.

    A start below ``bound`` is late.

    >>> admit_start(3, 9, 5, True), admit_start(5, 6, 5, False)
    (5, 5)
    >>> admit_start(3, 5, 5, True) == NOWHERE
    True
    """
    if start >= bound:
        return start
    if adjust and end > bound:
        return bound
    return NOWHERE


def admit_end(end: int, cti: int, start: int) -> int:
    """Return the end with which an end edge passes a door at ``cti``, for its row's ``start``.

    >>> admit_end(9, 5, 3), admit_end(4, 5, 3), admit_end(4, 5, 5)
    (9, 5, 6)
    """
    return max(end, cti, start + TICK)


def is_due(start: int, count: int, every: int, span: int, last: int) -> bool:
    """Return True if event number ``count`` (from 1) with this ``start`` makes a CTI due.

    A CTI is due with every N-th event (``every``) or, if ``every`` is 0, with a start at least
    ``span`` ticks after the start ``last`` that made one due. If both are 0, none ever is.

    >>> is_due(7, 4, 2, 0, NEVER), is_due(7, 4, 0, 5, NEVER), is_due(7, 4, 0, 5, 3)
    (True, True, False)
    """
    if every > 0:
        return every == 1 or count % every == 0  # most often it is: a division costs more
    # nothing can be added to the beginning of time
    return span > 0 and (last <= MIN_TIME or start >= last + span)


def make_cti(start: int, delay: int) -> int:
    """Return the CTI that an event makes, from its start as the source sent it.

    >>> make_cti(7, 2), make_cti(7, -1), make_cti(MIN_TIME, 2) == MIN_TIME
    (5, 8, True)
    """
    if start == MIN_TIME or start < MIN_TIME + delay:
        return MIN_TIME  # nothing is added to the beginning of time, either
    cti = start - delay
    return cti if cti < MAX_TIME else MAX_TIME


def make_sent_cti(time: int, delay: int) -> int:
    """Return the CTI that counts where a source has sent one for ``time``; the end of time stays.

    >>> make_sent_cti(7, 2), make_sent_cti(7, 0), make_sent_cti(MAX_TIME, 2) == MAX_TIME
    (5, 7, True)
    """
    if time >= MAX_TIME or delay == 0:
        return time
    return max(time - delay, MIN_TIME)


def find_lifted_cti(cti: int, fleet: int, seen: int, behind: int, silent: int) -> tuple[int, int]:
    """Return the CTI to which the others lift a device, and the reason; 0 if it stays at ``cti``.

    ``fleet`` is the time of the fleet, NEVER while it has none, and ``seen`` the one that it had
    when the device last sent something, NEVER before. A device is never further back than
    ``behind`` the fleet, nor further than ``silent`` once it has sent nothing for so long. Where
    the wall clock says who is silent, ``seen`` is NEVER for these, and HEARD or more for others.

    >>> find_lifted_cti(50, 200, 190, 100, NO_LIMIT) == (100, BEHIND)
    True
    >>> find_lifted_cti(50, 200, 150, NO_LIMIT, 60), find_lifted_cti(50, 200, 130, NO_LIMIT, 60)
    ((50, 0), (140, 7))
    >>> find_lifted_cti(50, 200, HEARD, NO_LIMIT, 60), find_lifted_cti(50, 200, NEVER, NO_LIMIT, 60)
    ((50, 0), (140, 7))
    """
    reason = 0
    if fleet < MIN_TIME:
        return cti, reason
    if behind >= 0 and max(fleet - behind, MIN_TIME) > cti:
        cti, reason = max(fleet - behind, MIN_TIME), BEHIND
    is_silent = silent >= 0 and (seen < MIN_TIME or fleet - seen >= silent)
    if is_silent and max(fleet - silent, MIN_TIME) > cti:
        cti, reason = max(fleet - silent, MIN_TIME), SILENT
    return cti, reason


def find_sight(heard: int, fleet: int, time: int) -> int:
    """Return what tells later when a device last sent something: ``seen`` above.

    ``heard`` is HEARD and the moment, or NEVER where the time of the ``fleet`` counts; while that
    has none, the ``time`` that the device has sent does.

    >>> find_sight(HEARD + 5, 90, 80) == HEARD + 5, find_sight(NEVER, 90, 80)
    (True, 90)
    """
    if heard > NEVER:
        return heard
    return fleet if fleet > NEVER else time
