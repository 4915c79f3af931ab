"""Rules of advancing time as functions of integers, shared by single events and whole batches.

Each is short and calls nothing; kernels that judge a batch compile it as it stands.
Source: *Advancing Application Time*, and for edges the rules in ``rxtemporal.ingress.lateness``.
"""

from __future__ import annotations

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME, TICK

# what an item of a run is
ROW, START_EDGE, END_EDGE, CTI = range(4)
# what became of it; 0: it was in time
DROPPED, ADJUSTED, END_MOVED, NO_OPEN_ROW = range(1, 5)

# No row starts at the end of time, whose last tick is reserved: so a start there is none.
NOWHERE = MAX_TIME
# the start that made the last CTI due, before any has
NEVER = MIN_TIME - 1


def landing(start: int, end: int, cti: int, adjust: bool) -> int:
    """Return the start with which ``[start, end)`` goes on after ``cti``; NOWHERE if dropped.

    >>> landing(3, 9, 5, True), landing(3, 5, 5, True) == NOWHERE, landing(5, 6, 5, False)
    (5, True, 5)
    """
    if start >= cti:
        return start
    if adjust and end > cti:
        return cti
    return NOWHERE


def closing(end: int, cti: int, start: int) -> int:
    """Return the end with which an end edge goes on after ``cti``, for its row's ``start``.

    >>> closing(9, 5, 3), closing(4, 5, 3), closing(4, 5, 5)
    (9, 5, 6)
    """
    return max(end, cti, start + TICK)


def is_due(start: int, count: int, every: int, span: int, last: int) -> bool:
    """Return True if event number ``count`` (from 1) with this ``start`` makes a CTI due.

    ``every`` N or, where that is 0, ``span`` T after the start ``last`` that made one due; both 0:
    none ever is.

    >>> is_due(7, 4, 2, 0, NEVER), is_due(7, 4, 0, 5, NEVER), is_due(7, 4, 0, 5, 3)
    (True, True, False)
    """
    if every > 0:
        return count % every == 0
    # the beginning of time stays where it is whatever is added to it
    return span > 0 and (last <= MIN_TIME or start >= last + span)


def made(start: int, delay: int) -> int:
    """Return the CTI that is made of an event's start as the source sent it.

    >>> made(7, 2), made(7, -1), made(MIN_TIME, 2) == MIN_TIME
    (5, 8, True)
    """
    if start == MIN_TIME:
        return start
    return min(max(start - delay, MIN_TIME), MAX_TIME)
