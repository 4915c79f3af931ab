"""Clipping: a row ends where the next row of its key begins, of another stream or of its own."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.core.ticks import MAX_TIME
from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.join.kernel import link, take_off

Ints = npt.NDArray[np.int64]

# numbers of rows that are not kept: those that end, and those that never do
ENDED, ENDLESS = -1, -2
_NONE, _MAX = -1, MAX_TIME


@jit
def clip(
    time: Ints,
    what: Ints,
    key: Ints,
    start: Ints,
    end: Ints,
    after: Ints,
    before: Ints,
    head: Ints,
    last: Ints,
) -> Ints:
    """End the rows that others clip, and return their numbers.

    ``time``, ``what`` ``int64[n]`` in order of time: where ``what & 1`` a clipping row of key
    ``what >> 1`` begins, else row ``what >> 1`` does. ``key, start, end, after, before``
    ``int64[rows]`` by row number; ``head`` ``int64[keys]``: for each key a list of the rows that
    may still be clipped, updated in place, as is ``end``. A row of key -1 is never clipped.

    Definition: a clipping row ends each row of its key that began strictly earlier and ends later.
    ``last`` ``int64[keys]``: the time at which a row of the key last clipped; a second one at the
    same time has nothing to do. O(n + rows clipped or found ended).
    """
    out = np.empty(len(after), np.int64)
    c = 0
    for i in range(len(time)):
        if not what[i] & 1:
            row = what[i] >> 1
            if key[row] >= 0:
                link(row, key[row], after, before, head)
            continue
        k = what[i] >> 1
        if last[k] == time[i]:
            continue
        last[k] = time[i]
        row = head[k]
        while row >= 0:
            following = after[row]
            if start[row] < time[i]:
                take_off(row, k, after, before, head)
                if end[row] > time[i]:
                    end[row] = time[i]
                    out[c] = row
                    c += 1
            row = following
    return out[:c]


@jit
def follow(
    order: Ints,
    start: Ints,
    key: Ints,
    end: Ints,
    number: Ints,
    cti: int,
    first: int,
    head: Ints,
    after: Ints,
) -> tuple[Ints, Ints, Ints, Ints]:
    """End each row where the next row of its key begins; list the rows that are open at ``cti``.

    ``order`` ``int64[n]``: the numbers of rows that begin, in order of their starts; ``start, key,
    end`` ``int64[n]``. Rows that are kept from before began earlier. ``head`` ``int64[keys]``,
    ``after`` ``int64[kept]``: for each key a list of the rows kept that are open, which began
    together; updated in place, as is ``end``. ``number`` ``int64[n]``: the number of a row that is
    kept from before, else negative; updated to that of each row that is kept now, ``ENDED`` or
    ``ENDLESS``. New rows to be kept are numbered from ``first`` on.

    Returns the new rows to be kept, in order of their numbers, with what ``after`` has for them;
    and the numbers of rows kept from before that end here, with their ends. A row of key -1 follows
    none and has no followers. O(n + rows that end).
    """
    n = len(order)
    # of the rows that begin together, the one before; in ``head`` a row that begins is -2 less it
    beside = np.empty(n, np.int64)
    over, over_at = np.empty(len(after), np.int64), np.empty(len(after), np.int64)
    c = 0
    for i in range(n):
        row = np.uint64(order[np.uint64(i)])
        time = start[row]
        beside[row] = _NONE
        if key[row] < 0:
            continue
        k = np.uint64(key[row])
        last = head[k]
        head[k] = -2 - np.int64(row)
        if last >= 0:
            while last >= 0:
                over[c], over_at[c] = last, time
                c += 1
                last = after[np.uint64(last)]
            continue
        if last == _NONE:
            continue
        last = -2 - last
        if start[np.uint64(last)] == time:
            beside[row] = last
            continue
        while last >= 0:
            end[np.uint64(last)] = min(end[np.uint64(last)], time)
            last = beside[np.uint64(last)]
    fresh, fresh_after = np.empty(n, np.int64), np.empty(n, np.int64)
    m = 0
    for i in range(n):
        row = np.uint64(order[np.uint64(i)])
        k = key[row]
        if end[row] <= cti and end[row] < _MAX:
            number[row] = ENDED
            if k >= 0 and head[np.uint64(k)] == -2 - np.int64(row):
                head[np.uint64(k)] = _NONE
            continue
        if k < 0 and end[row] == _MAX:
            number[row] = ENDLESS
            continue
        following = number[np.uint64(beside[row])] if beside[row] >= 0 else _NONE
        if number[row] >= 0:
            after[np.uint64(number[row])] = following
        else:
            number[row] = first + m
            fresh[m], fresh_after[m] = row, following
            m += 1
        if k >= 0:
            head[np.uint64(k)] = number[row]
    return fresh[:m], fresh_after[:m], over[:c], over_at[:c]
