"""Reference rows: of the rows of a key that have begun, the one with the latest start is valid."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit

Ints = npt.NDArray[np.int64]

# the end of a row that was never valid
VOID = -(1 << 62)


@jit
def replace_rows(due: Ints, start: Ints, since: Ints, key: Ints, end: Ints, valid: Ints) -> Ints:
    """Let rows replace the valid rows of their keys, and return the rows that are over.

    ``due`` ``int64[n]``: numbers of rows, in order of ``start``. ``start``, ``since``, ``key`` and
    ``end`` ``int64[rows]`` by row number; numbers rise in the order in which rows were told.
    ``valid`` ``int64[keys]``: for each key the number of its valid row, or -1. ``end`` and
    ``valid`` are updated in place: an end is ``VOID`` if the row was valid at no time.

    Definition: of the rows of a key that have started, the one with the greatest
    ``(since, start, number)`` is valid. O(n).
    """
    over = np.empty(2 * len(due), np.int64)
    count = 0
    for i in range(len(due)):
        row = due[i]
        other = valid[key[row]]
        gone = other
        if other >= 0 and _is_before(row, other, start, since):
            gone = row
            end[row] = VOID
        else:
            valid[key[row]] = row
            if other >= 0:
                end[other] = start[row] if start[other] < start[row] else VOID
        if gone >= 0:
            over[count] = gone
            count += 1
    return over[:count]


@jit
def _is_before(row: int, other: int, start: Ints, since: Ints) -> bool:
    if since[row] != since[other]:
        return bool(since[row] < since[other])
    if start[row] != start[other]:
        return bool(start[row] < start[other])
    return row < other
