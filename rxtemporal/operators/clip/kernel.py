"""Clipping: a row ends where the next row of its key begins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.operators.join.kernel import link, take_off

Ints = npt.NDArray[np.int64]


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
