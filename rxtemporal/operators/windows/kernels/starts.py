"""Windows of rows by their starts: sessions and counts of distinct starts; overlaps with windows.

State arrays are ``int64[keys]`` (``queued`` ``bool[keys]``), updated in place. They describe each
key's last session: its ``first`` and ``last`` start, ``cap`` and ``end``, and its rows as a list
from ``head`` to ``tail`` along ``link`` ``int64[rows]``. Sessions whose rows are not held have
numbers instead: ``head`` is that of the session, and ``link`` that of each row's session. ``count``
is the number of rows, 0 once the session is closed; the caller then sets ``first``. ``queued`` is
True while the key is in the caller's queue, to be checked for the end of its session.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit

_MAX = MAX_TIME
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@jit
def _find_cap(start: int, grid: int, continues: bool) -> int:
    """Return the latest time at which a session that begins at ``start`` may end.

    ``grid`` is the longest duration, 0 for none. With c the greatest multiple of it that is not
    above the start, the cap is c + grid if the start is c, or if the session ``continues`` one that
    was closed by its cap, which it does less than the timeout after the last start of that one;
    else c + 2 * grid.
    """
    if grid == 0:
        return _MAX
    boundary = start - start % grid
    spans = 1 if start == boundary or continues else 2
    return min(boundary + spans * grid, _MAX)


@jit
def gather_sessions(
    due: Ints,
    start: Ints,
    key: Ints,
    link: Ints,
    number: int,
    timeout: int,
    grid: int,
    first: Ints,
    last: Ints,
    cap: Ints,
    end: Ints,
    head: Ints,
    tail: Ints,
    count: Ints,
    queued: Bools,
) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints]:
    """Put rows into sessions; return the sessions closed by later rows, and those that began.

    ``due`` ``int64[n]``: numbers of rows in order of ``start``; ``start``, ``key`` ``int64[rows]``.
    ``number``: sessions that begin are numbered from it on; -1: rows are linked. ``timeout`` and
    ``grid`` ticks, small enough that no sum leaves int64.

    Returns, for the closed sessions, ``first, end, key, head, count`` ``int64[c]``; the keys to be
    queued now, ``int64[q]``; and the rows that began a session, in order of start, ``int64[b]``.
    O(n).
    """
    n = len(due)
    out_first = np.empty(n, np.int64)
    out_end = np.empty(n, np.int64)
    out_key = np.empty(n, np.int64)
    out_head = np.empty(n, np.int64)
    out_count = np.empty(n, np.int64)
    asking = np.empty(n, np.int64)
    began = np.empty(n, np.int64)
    c = q = b = 0
    for i in range(n):
        r = due[i]
        k = key[r]
        s = start[r]
        if count[k] > 0 and s >= end[k]:
            out_first[c] = first[k]
            out_end[c] = end[k]
            out_key[c] = k
            out_head[c] = head[k]
            out_count[c] = count[k]
            c += 1
            count[k] = 0
        if count[k] == 0:
            cap[k] = _find_cap(s, grid, cap[k] <= s < last[k] + timeout)
            first[k] = s
            head[k] = r if number < 0 else number + b
            began[b] = r
            b += 1
            if not queued[k]:
                queued[k] = True
                asking[q] = k
                q += 1
        elif number < 0:
            link[tail[k]] = r
        if number >= 0:
            link[r] = head[k]
        tail[k] = r
        count[k] += 1
        last[k] = s
        end[k] = min(s + timeout, cap[k])
    return (
        out_first[:c],
        out_end[:c],
        out_key[:c],
        out_head[:c],
        out_count[:c],
        asking[:q],
        began[:b],
    )


@jit
def expire_sessions(
    asked: Ints, cti: int, end: Ints, count: Ints, queued: Bools
) -> tuple[Ints, Ints]:
    """Return the keys whose session has ended by the CTI, and those whose session continues.

    ``asked`` ``int64[n]``: distinct keys that are ``queued``; only those whose session continues
    stay ``queued``. O(n).
    """
    closed = np.empty(len(asked), np.int64)
    goes_on = np.empty(len(asked), np.int64)
    c = g = 0
    for i in range(len(asked)):
        k = asked[i]
        queued[k] = False
        if count[k] > 0 and end[k] <= cti:
            closed[c] = k
            c += 1
        elif count[k] > 0:
            queued[k] = True
            goes_on[g] = k
            g += 1
    return closed[:c], goes_on[:g]


@jit
def follow_links(head: Ints, count: Ints, link: Ints) -> tuple[Ints, Ints]:
    """Follow linked lists of rows; return pairs (number of the list, number of the row), in order.

    ``head``, ``count`` ``int64[w]``: the first row of each list, and how many rows to follow;
    ``link`` ``int64[rows]``: the row after each. ``int64[p]`` each; O(p).
    """
    pairs = 0
    for w in range(len(head)):
        pairs += count[w]
    out_list = np.empty(pairs, np.int64)
    out_row = np.empty(pairs, np.int64)
    p = 0
    for w in range(len(head)):
        r = head[w]
        for _ in range(count[w]):
            out_list[p] = w
            out_row[p] = r
            r = link[r]
            p += 1
    return out_list, out_row


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
    least: int,
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
    begins with the distinct start after that window's first. Windows of at least ``least`` starts
    come before the first of n.

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
            if distinct[k] >= least:
                window[k] = w
                out_first[w] = since[k]
                out_last[w] = s
                out_key[w] = k
                out_head[w] = head[k]
                w += 1
        if distinct[k] >= least:
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


@jit
def measure_cover(window: Ints, start: Ints, end: Ints) -> Ints:
    """Return for how many ticks each row is alive in its window while no row before it is.

    ``int64[n]`` each: the number of the window, and the part of the row's lifetime that lies in it,
    in order of window and start. The sum over a window is the time in which any row is alive. O(n).
    """
    n = len(window)
    cover = np.empty(n, np.int64)
    upto = 0
    for i in range(n):
        if i == 0 or window[i] != window[i - 1]:
            upto = start[i]
        cover[i] = max(end[i] - max(start[i], upto), 0)
        upto = max(upto, end[i])
    return cover
