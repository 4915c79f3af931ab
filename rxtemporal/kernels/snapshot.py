"""The snapshot sweep: for each key, the stretches of time in which the rows alive do not change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.kernels.compiled import compiled
from rxtemporal.ticks import MAX_TIME

__all__ = ["sweep"]

_END = MAX_TIME

Ints = npt.NDArray[np.int64]


@compiled
def sweep(
    time: Ints,
    key: Ints,
    sign: Ints,
    alive: Ints,
    last: Ints,
    edge: Ints,
    next_edge: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, int]:
    """Return the snapshots that the changes open and close, and the edge id to use next.

    ``time``, ``key``, ``sign`` ``int64[n]``: the changes in order of time; +1 a row of this key
    begins, -1 one ends. ``alive``, ``last``, ``edge`` ``int64[keys]``, updated in place: how many
    rows are alive, since when, and the id under which that snapshot has left as a start edge (0 if
    it has not).

    Definition: at each time at which something changes for a key, the snapshot since its last
    change ends, if anything was alive; and what is alive after the last change has begun.

    Returns ``start, end, edge, key, at, alive`` of the result rows, ``int64[r]``, in order of
    ``at``: the snapshot's contents are those before change number ``at``. Cost O(n), whatever is
    alive and however many keys there are.
    """
    n = len(time)
    out_start = np.empty(2 * n, np.int64)
    out_end = np.empty(2 * n, np.int64)
    out_edge = np.empty(2 * n, np.int64)
    out_key = np.empty(2 * n, np.int64)
    out_at = np.empty(2 * n, np.int64)
    out_alive = np.empty(2 * n, np.int64)
    r = 0
    for i in range(n):
        k = key[i]
        t = time[i]
        if alive[k] > 0 and last[k] < t:
            out_start[r] = last[k]
            out_end[r] = t
            out_edge[r] = edge[k]
            out_key[r] = k
            out_at[r] = i
            out_alive[r] = alive[k]
            r += 1
            edge[k] = 0
        last[k] = t
        alive[k] += sign[i]
    for i in range(n):
        k = key[i]
        if alive[k] > 0 and edge[k] == 0:
            edge[k] = next_edge
            out_start[r] = last[k]
            out_end[r] = _END
            out_edge[r] = next_edge
            out_key[r] = k
            out_at[r] = n
            out_alive[r] = alive[k]
            r += 1
            next_edge += 1
    return (
        out_start[:r],
        out_end[:r],
        out_edge[:r],
        out_key[:r],
        out_at[:r],
        out_alive[:r],
        next_edge,
    )
