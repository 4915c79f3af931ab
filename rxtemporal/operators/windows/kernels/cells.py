"""Cells: rows of one key that the same windows hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rxtemporal.engine.kernels.compiled import jit
from rxtemporal.engine.kernels.hash_table import find_home

Ints = npt.NDArray[np.int64]


@jit
def number_cells(key: Ints, begin: Ints, until: Ints) -> tuple[Ints, int]:
    """Return the number of each row's cell, ``int64[n]``, and the number of cells.

    Rows of a cell have the same key and the same places. O(n) expected; a row in the cell of the
    one before it costs no search.
    """
    n = len(key)
    size = 64
    while size < 2 * n:
        size *= 2
    mask, one = np.uint64(size - 1), np.uint64(1)
    slots = np.full(size, -1, np.int64)
    first, cell = np.empty(n, np.int64), np.empty(n, np.int64)
    count = 0
    for i in range(n):
        j = i - 1
        if i and key[i] == key[j] and begin[i] == begin[j] and until[i] == until[j]:
            cell[i] = cell[j]
            continue
        mixed = find_home(find_home(key[i], -1) ^ begin[i], -1) ^ until[i]
        at = np.uint64(find_home(mixed, size - 1))
        c = slots[at]
        while c >= 0:
            j = first[c]
            if key[i] == key[j] and begin[i] == begin[j] and until[i] == until[j]:
                break
            at = (at + one) & mask
            c = slots[at]
        if c < 0:
            c = slots[at] = count
            first[c] = i
            count += 1
        cell[i] = c
    return cell, count
