"""Windows of n consecutive distinct start times of a key, and the oldest time that keys wait for.

State arrays are ``int64[keys]``, updated in place. For each key they describe the rows of its last
distinct starts, a list from ``head`` to ``tail`` along ``link`` ``int64[rows]``: ``count`` is the
number of rows, ``distinct`` the number of distinct starts, and ``since`` the oldest start (the end
of time if there is none).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_MAX = MAX_TIME

Ints = npt.NDArray[np.int64]


@jit
def _drop(k: int, start: Ints, link: Ints, head: Ints, count: Ints, since: Ints) -> int:
    """Remove the rows of key ``k``'s oldest start from its list and return their number."""
    dropped = 0
    while count[k] > 0 and start[head[k]] == since[k]:
        head[k] = link[head[k]]
        count[k] -= 1
        dropped += 1
    since[k] = start[head[k]] if count[k] > 0 else _MAX
    return dropped


@jit
def slide_windows(
    due: Ints,
    start: Ints,
    key: Ints,
    link: Ints,
    n: int,
    head: Ints,
    tail: Ints,
    count: Ints,
    distinct: Ints,
    since: Ints,
    window: Ints,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    """Slide windows over rows; return those completed, and the rows that no later window holds.

    ``due`` ``int64[d]``: numbers of rows in order of ``start``; rows of one start come in one call.
    ``start``, ``key`` ``int64[rows]``. ``window`` ``int64[keys]``: scratch.

    Definition: with its n-th distinct start a key completes a window over its last n; the next one
    begins with the distinct start after that window's first.

    Returns, for the windows, the ``first`` and ``last`` start, ``key``, ``head`` and ``count``
    (``int64[w]`` in order of ``last``; their rows along ``link``); for the rows removed from the
    lists, which stay linked, ``head`` and ``count`` of lists; and the first row of each distinct
    start, in order. O(d + rows removed).
    """
    out_first = np.empty(len(due), np.int64)
    out_last = np.empty(len(due), np.int64)
    out_key = np.empty(len(due), np.int64)
    out_head = np.empty(len(due), np.int64)
    out_count = np.empty(len(due), np.int64)
    gone = np.empty(2 * len(due), np.int64)
    gone_count = np.empty(2 * len(due), np.int64)
    began = np.empty(len(due), np.int64)
    w = g = b = 0
    for i in range(len(due)):
        r = due[i]
        k = key[r]
        s = start[r]
        again = count[k] > 0 and start[tail[k]] == s
        if not again and distinct[k] == n:
            gone[g] = head[k]
            gone_count[g] = _drop(k, start, link, head, count, since)
            distinct[k] -= 1
            g += 1
        if count[k] == 0:
            head[k] = r
            since[k] = s
        else:
            link[tail[k]] = r
        tail[k] = r
        count[k] += 1
        if not again:
            began[b] = r
            b += 1
            distinct[k] += 1
            if distinct[k] == n:
                window[k] = w
                out_first[w] = since[k]
                out_last[w] = s
                out_key[w] = k
                out_head[w] = head[k]
                w += 1
        if distinct[k] == n:
            out_count[window[k]] = count[k]
    for i in range(w):
        k = out_key[i]
        if distinct[k] == n:
            gone[g] = head[k]
            gone_count[g] = _drop(k, start, link, head, count, since)
            distinct[k] -= 1
            g += 1
    return (
        out_first[:w],
        out_last[:w],
        out_key[:w],
        out_head[:w],
        out_count[:w],
        gone[:g],
        gone_count[:g],
        began[:b],
    )


@jit
def find_oldest(time: Ints, key: Ints, begin: int, end: int, since: Ints) -> int:
    """Return the number of the first entry for which its key still waits, or ``end``.

    ``time``, ``key`` ``int64[>= end]``: the times at which keys began to wait, in order; only
    entries ``begin … end - 1`` are read. ``since`` ``int64[keys]``: a key waits for nothing older
    than this.
    """
    i = begin
    while i < end and time[i] < since[key[i]]:
        i += 1
    return i
