"""Snapshot sweep: for each key, the stretches of time in which the rows alive do not change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_END = MAX_TIME

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
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, int]:
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

    Returns ``start, end, edge, key, at, alive`` of the results, ``int64[r]``, in order of ``at``:
    a snapshot holds the rows alive before change number ``at``. Then the next ``late``, and the
    edge id to use next. Cost O(n + m), however many rows are alive and keys there are.
    """
    # numbers of rows and keys as unsigned: a signed index is tested for being negative each time
    n = len(time)
    room = 2 * n + len(late)
    start = np.empty(room, np.int64)
    end = np.empty(room, np.int64)
    edge = np.empty(room, np.int64)
    of = np.empty(room, np.int64)
    at = np.empty(room, np.int64)
    alive = np.empty(room, np.int64)
    r = 0
    for i in range(n):
        k = np.uint64(key[np.uint64(what[i] >> 3)])
        t = time[i]
        held = state[k, 0]
        since = state[k, 1]
        if held > 0 and since < t:
            start[r] = since
            end[r] = t
            edge[r] = state[k, 2]
            of[r] = k
            at[r] = i
            alive[r] = held
            r += 1
            state[k, 2] = 0
        state[k, 1] = t
        state[k, 0] = held + 1 - 2 * (what[i] & 1)
    again = np.empty(n + len(late), np.int64)
    m = 0
    if opens:
        for j in range(n + len(late)):
            k = np.uint64(key[np.uint64(what[j] >> 3)] if j < n else late[j - n])
            if state[k, 0] == 0 or state[k, 2] != 0:
                continue
            if state[k, 1] >= cti:
                again[m] = k
                m += 1
                state[k, 2] = -1  # noted once
                continue
            state[k, 2] = next_edge
            start[r] = state[k, 1]
            end[r] = _END
            edge[r] = next_edge
            of[r] = k
            at[r] = n
            alive[r] = state[k, 0]
            r += 1
            next_edge += 1
        for j in range(m):
            state[np.uint64(again[j]), 2] = 0
    return start[:r], end[:r], edge[:r], of[:r], at[:r], alive[:r], again[:m], next_edge
