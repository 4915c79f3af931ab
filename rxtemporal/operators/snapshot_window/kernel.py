"""Snapshot sweep: for each key, the stretches of time in which the rows alive do not change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_END = MAX_TIME
# in place of the id of a start edge: the key's snapshot has changed
_CHANGED = -1

Ints = npt.NDArray[np.int64]


@jit
def find_snapshots(
    time: Ints,
    what: Ints,
    key: Ints,
    state: Ints,
    late: Ints,
    cti: int,
    next_edge: int,
    opens: bool,
) -> tuple[Ints, Ints, Ints, int]:
    """Return the snapshots that the changes open and close, and the edge id to use next.

    ``time``, ``what`` ``int64[n]``: the changes in order of time; ``what >> 3`` is the number of
    the row that changes, and where ``what & 1`` it ends. ``key`` ``int64[rows]``: each row's key.
    ``state`` ``int64[keys, 3]``, updated in place: the number of a key's rows alive, the time of
    its last change, and the id of the start edge that was returned for the current snapshot (0:
    none yet).

    Definition: at each time at which something changes for a key, the snapshot since its last
    change ends, if any row was alive. If ``opens``, the snapshot after the last change is returned
    as a start edge, provided that this change is before the ``cti``: of the changes at the CTI
    itself only the ends are known. ``late`` ``int64[m]``: the keys that the last call omitted for
    this reason.

    Returns ``start, end, edge, alive`` of the results, ``int64[4, r]``, and their ``key, at``,
    ``int64[2, r]``, in order of ``at``: a snapshot holds the rows alive before change number
    ``at``. Then the next ``late``, and the edge id to use next. Cost O(n + m), however many rows
    are alive and keys there are.
    """
    # numbers of rows and keys as unsigned: a signed index is tested for being negative each time
    n = len(time)
    room = n + min(n, len(state)) + len(late)
    times = np.empty((4, room), np.int64)
    found = np.empty((2, room), np.int64)
    start, end, edge, alive = times[0], times[1], times[2], times[3]
    of, at = found[0], found[1]
    keys = np.empty(n + len(late), np.int64)
    r = m = w = np.uint64(0)
    for i in range(n):
        k = np.uint64(key[np.uint64(what[i] >> 3)])
        held, since, mark = state[k, 0], state[k, 1], state[k, 2]
        # always written, and counted only if it is one: a branch would be unpredictable
        start[r], end[r], edge[r], alive[r] = since, time[i], max(mark, 0), held
        of[r], at[r] = k, i
        r += np.uint64(held > 0 and since < time[i])
        keys[m] = k
        m += np.uint64(mark != _CHANGED)
        state[k, 0], state[k, 1], state[k, 2] = held + 1 - 2 * (what[i] & 1), time[i], _CHANGED
    for j in range(m + np.uint64(len(late))):
        k = np.uint64(keys[j] if j < m else late[j - m])
        if j < m:
            state[k, 2] = 0
        if not opens or state[k, 0] == 0 or state[k, 2] != 0:
            continue
        if state[k, 1] >= cti:
            keys[w] = k
            w += np.uint64(1)
            state[k, 2] = _CHANGED  # noted once
            continue
        start[r], end[r], edge[r], alive[r] = state[k, 1], _END, next_edge, state[k, 0]
        of[r], at[r] = k, n
        r += np.uint64(1)
        state[k, 2] = next_edge
        next_edge += 1
    for j in range(w):
        state[np.uint64(keys[j]), 2] = 0
    return times[:, :r], found[:, :r], keys[:w], next_edge
