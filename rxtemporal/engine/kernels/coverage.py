"""Coverage: the time during which a key has rows alive, and the parts of a row left uncovered."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_END = MAX_TIME
# stands for no time
NONE = -(1 << 63)

Ints = npt.NDArray[np.int64]


@jit
def find_stretches(
    time: Ints, what: Ints, alive: Ints, since: Ints, until: Ints, edge: Ints, next_edge: int
) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Return the maximal stretches of time in which a key has any row alive.

    ``time``, ``what`` ``int64[n]``: changes in order of time; a row of key ``what >> 1`` begins, or
    where ``what & 1`` ends. State ``int64[keys]``, updated in place: the number of rows ``alive``;
    ``since``, the start of the current stretch; ``until``, the time at which the last row ended (a
    row that begins at that time continues the stretch); and ``edge``, the id of the start edge that
    was returned for the stretch (0: none yet).

    Returns ``start, end, edge, key`` of the stretches that have ended, of those that have begun
    and not ended as start edges, and the edge id to use next. O(n).
    """
    n = len(time)
    out = np.empty((4, 2 * n), np.int64)
    r = 0
    for i in range(n):
        k = what[i] >> 1
        if what[i] & 1:
            alive[k] -= 1
            if alive[k] == 0:
                until[k] = time[i]
            continue
        if alive[k] == 0 and (since[k] == NONE or until[k] < time[i]):
            if since[k] != NONE:
                r = _write(out, r, since[k], until[k], edge[k], k)
            since[k] = time[i]
            edge[k] = 0
        alive[k] += 1
    for i in range(n):
        k = what[i] >> 1
        if alive[k] == 0 and since[k] != NONE:
            r = _write(out, r, since[k], until[k], edge[k], k)
            since[k] = NONE
            edge[k] = 0
        elif alive[k] > 0 and edge[k] == 0:
            edge[k] = next_edge
            next_edge += 1
            r = _write(out, r, since[k], _END, edge[k], k)
    return out[0, :r], out[1, :r], out[2, :r], out[3, :r], next_edge


@jit
def _write(out: Ints, r: int, start: int, end: int, edge: int, of: int) -> int:
    """Write one result unless it is empty; return the number of results then."""
    if start == end:
        return r
    out[0, r] = start
    out[1, r] = end
    out[2, r] = edge
    out[3, r] = of
    return r + 1


@jit
def find_uncovered(
    time: Ints, what: Ints, alive: Ints, cover: Ints, since: Ints, edge: Ints, next_edge: int
) -> tuple[Ints, Ints, Ints, Ints, int]:
    """Return the pieces of rows during which nothing covers them.

    ``time``, ``what`` ``int64[n]``: in order of time, row ``what >> 2`` begins (``what & 3`` is 0),
    is covered once more (1) or once less (2), or ends (3). State ``int64[rows]``, updated in place:
    ``alive``, 1 while the row is; ``cover``, the number of rows that cover it; ``since``, the start
    of the current uncovered piece; and ``edge``, the id of the start edge that was returned for the
    piece (0: none yet).

    Returns ``start, end, edge, row`` of the pieces that have ended, of those that have begun and
    not ended as start edges, and the edge id to use next. O(n).
    """
    n = len(time)
    out = np.empty((4, 2 * n), np.int64)
    r = 0
    for i in range(n):
        row = what[i] >> 2
        kind = what[i] & 3
        if kind == 0:
            alive[row] = 1
        elif kind == 1:
            cover[row] += 1
        elif kind == 2:
            cover[row] -= 1
        else:
            alive[row] = 0
        bare = alive[row] == 1 and cover[row] == 0
        if bare and since[row] == NONE:
            since[row] = time[i]
        elif not bare and since[row] != NONE:
            r = _write(out, r, since[row], time[i], edge[row], row)
            since[row] = NONE
            edge[row] = 0
    for i in range(n):
        row = what[i] >> 2
        if since[row] != NONE and edge[row] == 0:
            edge[row] = next_edge
            next_edge += 1
            r = _write(out, r, since[row], _END, edge[row], row)
    return out[0, :r], out[1, :r], out[2, :r], out[3, :r], next_edge
