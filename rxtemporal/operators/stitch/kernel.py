"""Stitch sweep: for each value, chains of rows that touch.

Rows of one value and start differ only in their ends. So they share their chains, a *stretch* of
consecutive chain numbers, oldest first: the row that ends first takes the last chain. A row refers
to the first chain of its stretch, and ``left`` of that chain is the number of chains not yet taken.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

# a change of row ``what >> 2``: it ends; it starts and will or may end; it starts and never ends
ENDS, STARTS, STAYS = 0, 1, 2

_MAX = MAX_TIME

Ints = npt.NDArray[np.int64]


@jit
def _link_by_value(what: Ints, value: Ints, latest: Ints) -> tuple[Ints, Ints]:
    """Return the values that occur, and for each change the next one of the same value, or -1.

    ``latest`` ``int64[values]``, all -1: set to the first change of each value that occurs.
    """
    after = np.empty(len(what), np.int64)
    touched = np.empty(len(what), np.int64)
    n = 0
    for i in range(len(what) - 1, -1, -1):
        v = value[what[i] >> 2]
        after[i] = latest[v]
        if latest[v] < 0:
            touched[n] = v
            n += 1
        latest[v] = i
    return touched[:n], after


@jit
def join_chains(
    time: Ints,
    what: Ints,
    value: Ints,
    stretch: Ints,
    began: Ints,
    edge: Ints,
    left: Ints,
    free: int,
    next_edge: int,
    latest: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, int]:
    """Join rows into chains; return chains that begin and end, unused chains, the next edge id.

    ``time``, ``what`` ``int64[n]``: the changes in order of time. ``value`` ``int64[rows]``: the
    code of each row's payload. ``stretch`` ``int64[rows]``: the first chain of each row's stretch,
    set when the row starts. For each chain: ``began``, its start; ``edge``, the id of the start
    edge that was returned for it (0: none yet); ``left``, the number of chains not yet taken of the
    stretch that begins with it. New chains are written from ``free`` on, where there is room for
    one for each row that starts. ``latest`` ``int64[values]``: scratch, all -1 before and after.

    Definition: at each boundary of a value n rows start and m chains end; the oldest min(m, n)
    chains continue, the others end there, and the remaining rows begin chains of their own.

    Returns ``start, end, edge`` of result rows as in a batch, and ``row``, a row with the chain's
    payload, ``int64[r]``; the chains whose rows have ended, ``int64[e]``; and the edge id to use
    next. O(n), and the sorting of the chains that end at one boundary.
    """
    n = len(what)
    out_start = np.empty(n, np.int64)
    out_end = np.empty(n, np.int64)
    out_edge = np.empty(n, np.int64)
    out_row = np.empty(n, np.int64)
    used = np.empty(n, np.int64)
    ended = np.empty(n, np.int64)
    starting = np.empty(n, np.int64)
    first_new = free
    first_of = np.empty(n, np.int64)
    row_of = np.empty(n, np.int64)
    r = e = 0
    values, after = _link_by_value(what, value, latest)
    for v in values:
        i = latest[v]
        latest[v] = -1
        while i >= 0:
            t = time[i]
            row = what[i] >> 2
            m = a = z = 0  # chains that end here; rows that start here and may end, or never do
            while i >= 0 and time[i] == t:
                row = what[i] >> 2
                kind = what[i] & 3
                if kind == ENDS:
                    lo = stretch[row]
                    left[lo] -= 1
                    ended[m] = lo + left[lo]
                    used[e] = ended[m]
                    m += 1
                    e += 1
                elif kind == STARTS:
                    starting[a] = row
                    a += 1
                else:
                    z += 1
                i = after[i]
            oldest = ended[:m]
            if m > 1:
                oldest = ended[:m][np.argsort(began[ended[:m]], kind="mergesort")]
            # surplus chains end here; the oldest of the others continue in rows that never end
            for c in range(min(m, a + z), m):
                out_start[r] = began[oldest[c]]
                out_end[r] = t
                out_edge[r] = edge[oldest[c]]
                out_row[r] = row
                r += 1
            lo = free
            for c in range(a + z):
                since = began[oldest[c]] if c < m else t
                known = edge[oldest[c]] if c < m else 0
                if c >= z:
                    began[free] = since
                    edge[free] = known
                    left[free] = 0
                    first_of[free - first_new] = lo
                    row_of[free - first_new] = row
                    free += 1
                elif known == 0:
                    out_start[r] = since
                    out_end[r] = _MAX
                    out_edge[r] = 0
                    out_row[r] = row
                    r += 1
            if a > 0:
                left[lo] = a
                for c in range(a):
                    stretch[starting[c]] = lo
    for c in range(first_new, free):
        lo = first_of[c - first_new]
        if edge[c] == 0 and c < lo + left[lo]:
            edge[c] = next_edge
            out_start[r] = began[c]
            out_end[r] = _MAX
            out_edge[r] = next_edge
            out_row[r] = row_of[c - first_new]
            next_edge += 1
            r += 1
    return out_start[:r], out_end[:r], out_edge[:r], out_row[:r], used[:e], next_edge
