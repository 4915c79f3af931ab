"""Rows of each window, one by one, for results that running aggregates cannot compute."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@jit
def list_rows(
    what: Ints,
    key: Ints,
    at: Ints,
    of: Ints,
    wanted: Bools,
    head: Ints,
    after: Ints,
    before: Ints,
) -> tuple[Ints, Ints]:
    """Return the rows that each window holds, as pairs (number of the window, number of the row).

    ``what`` ``int64[n]``: the changes; row ``what >> 3`` begins, or where ``what & 1`` ends.
    ``key`` ``int64[rows]``. Windows: ``at`` ``int64[w]`` rising, ``of`` ``int64[w]`` keys; only
    those ``wanted`` are listed. Each key's rows alive are a list from ``head`` ``int64[keys]``
    along ``after`` and ``before`` ``int64[rows]`` (-1: none), updated in place. Cost O(n + pairs).
    """
    room = 2 * len(at) + 64
    out_window = np.empty(room, np.int64)
    out_row = np.empty(room, np.int64)
    r = 0
    w = 0
    for i in range(len(what) + 1):
        while w < len(at) and at[w] == i:
            row = head[of[w]] if wanted[w] else -1
            while row >= 0:
                if r == room:
                    room *= 2
                    out_window = _lengthen(out_window, room)
                    out_row = _lengthen(out_row, room)
                out_window[r] = w
                out_row[r] = row
                r += 1
                row = after[row]
            w += 1
        if i == len(what):
            continue
        row = what[i] >> 3
        k = key[row]
        if what[i] & 1:
            if before[row] >= 0:
                after[before[row]] = after[row]
            else:
                head[k] = after[row]
            if after[row] >= 0:
                before[after[row]] = before[row]
        else:
            before[row] = -1
            after[row] = head[k]
            if head[k] >= 0:
                before[head[k]] = row
            head[k] = row
    return out_window[:r], out_row[:r]


@jit
def _lengthen(array: Ints, size: int) -> Ints:
    longer = np.empty(size, np.int64)
    longer[: len(array)] = array
    return longer
