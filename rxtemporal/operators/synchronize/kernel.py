"""CTI of a fleet: the time of its most advanced device, and that of the device furthest behind."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME, MIN_TIME
from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]

# the columns of the state of a device: its CTI, the CTI of the fleet when it last sent something
# (by the wall clock: MIN_TIME if it is silent, else MAX_TIME), its state, and 1 if the others wait
# for it to come
WIDTH = 4
OWN, SEEN, STATE, AWAITED = range(WIDTH)
LIVE, IDLE, UNKNOWN = range(3)
# the state of all: how many are still to come, and how many are idle
TO_COME, IDLERS = range(2)


@jit
def make_tree(states: Ints, size: int) -> Ints:
    """Return a tree of minima over the live devices; ``int64[2 * size]``.

    Node n has the lowest value of its children 2 n and 2 n + 1; the leaves are the devices, from
    node ``size`` on, a power of two. O(size).
    """
    tree = np.full(2 * size, MAX_TIME)
    for d in range(len(states)):
        if states[d, STATE] == LIVE:
            tree[size + d] = states[d, OWN]
    for n in range(size - 1, 0, -1):
        tree[n] = min(tree[2 * n], tree[2 * n + 1])
    return tree


@jit
def _set_leaf(tree: Ints, device: int, value: int) -> None:
    """Set the value of a device. O(log size)."""
    n = len(tree) // 2 + device
    tree[n] = value
    while n > 1:
        n //= 2
        tree[n] = min(tree[2 * n], tree[2 * n + 1])


@jit
def _find_lowest(tree: Ints) -> int:
    """Return the device with the lowest value. O(log size)."""
    size, n = len(tree) // 2, 1
    while n < size:
        n = 2 * n if tree[2 * n] == tree[n] else 2 * n + 1
    return n - size


@jit
def find_fleet_ctis(
    device: Ints,
    cti: Ints,
    fleet: Ints,
    within: int,
    idle: int,
    silent: int,
    by_wall: bool,
    states: Ints,
    counts: Ints,
    tree: Ints,
) -> Ints:
    """Return the CTI that the devices allow after each of their moves; ``int64[m]``.

    ``device``, ``cti``, ``fleet`` ``int64[m]``: the device that has moved, -1 for all, its CTI, and
    the time of the fleet less the delay. The result is ``within`` behind the fleet or, once all
    devices have come that are awaited, the lowest CTI of a device if that is higher. A device is
    idle if it is ``idle`` or more behind the fleet, unless it has no CTI yet; or if it is further
    behind than ``silent``, and has sent nothing while the fleet has moved on by so much; -1 stands
    for no limit. With ``by_wall`` it is silent after a move of -2 less its number, until it moves.
    One that is idle is not waited for; but the result is not above the fleet's time less
    ``silent``, where that is less than ``idle``, since the device may begin there again.

    ``states`` ``int64[devices, WIDTH]``, ``counts`` ``int64[2]`` and ``tree`` are updated in place.
    O(m log devices).
    """
    found = np.empty(len(device), np.int64)
    for i in range(len(device)):
        now = fleet[i]
        if device[i] >= 0:
            own = states[device[i]]
            counts[TO_COME] -= own[AWAITED]
            counts[IDLERS] -= own[STATE] == IDLE
            own[AWAITED], own[STATE] = 0, LIVE
            own[OWN] = max(own[OWN], cti[i])
            own[SEEN] = now if now > MIN_TIME else own[OWN]  # the fleet has no time yet
            if by_wall:
                own[SEEN] = MAX_TIME
            _set_leaf(tree, device[i], own[OWN])
        elif device[i] < -1:
            states[-2 - device[i], SEEN] = MIN_TIME
        found[i] = now - within if now > MIN_TIME else MIN_TIME
        if counts[TO_COME] > 0:
            continue
        while tree[1] < MAX_TIME and now > MIN_TIME:
            d = _find_lowest(tree)
            is_silent = silent >= 0 and tree[1] < now - silent and states[d, SEEN] <= now - silent
            if not is_silent and not (idle >= 0 and MIN_TIME < tree[1] <= now - idle):
                break
            states[d, STATE] = IDLE
            counts[IDLERS] += 1
            _set_leaf(tree, d, MAX_TIME)
        lowest = tree[1]
        if counts[IDLERS] > 0 and silent >= 0 and (idle < 0 or silent < idle):
            lowest = min(lowest, now - silent)
        if lowest < MAX_TIME:
            found[i] = max(found[i], lowest)
    return found


@jit
def find_ctis_before(after: Ints, ctis: Ints, cti: int, rows: int) -> Ints:
    """Return the CTI before each of so many rows; ``int64[rows]``.

    After ``after`` rows, ``int64[m]`` in order, the CTI is ``ctis``; before them it is ``cti``.
    CTIs never go back. O(rows + m).
    """
    before = np.empty(rows, np.int64)
    at = 0
    for i in range(rows):
        while at < len(after) and after[at] <= i:
            cti = max(cti, ctis[at])
            at += 1
        before[i] = cti
    return before
